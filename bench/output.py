"""What the benchmarks print and keep: tables of text, whose first row is the heading, and results as JSON.

Results begin with what they were measured on (`sitting`), so that a table made of them later can say so.
"""

import datetime
import importlib.metadata
import json
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

from machine import describe_machine  # noqa: E402

PACKAGES = ("torch", "numpy", "transformers", "torchvision", "accelerate", "airllm", "diffusers", "peft", "numexpr")


def sitting(packages=PACKAGES):
    """Date and time, machine, commit, versions and command line, of which paths are left out. Ask before measuring: a
    checkout may change meanwhile."""
    now = datetime.datetime.now().astimezone()
    words = [re.sub(r"^/.*", "PATH", word) for word in sys.argv[1:]]
    versions = {}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"date": now.date().isoformat(), "time": now.isoformat(timespec="seconds"), "machine": describe_machine(),
            "commit": _commit(), "versions": versions, "command": " ".join([_script(), *words])}


def _script():
    path = pathlib.Path(sys.argv[0]).resolve()
    return str(path.relative_to(HERE.parent) if path.is_relative_to(HERE.parent) else f"bench/{path.name}")


def _commit():
    """The commit that is checked out, with a + if files of it have changed; None outside a repository."""
    try:
        found = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
                               capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip() or None


def median_range(values, digits=2, unit=" s", scale=1.0):
    """As `0.55 s (0.50-0.63)`: the median, the least and the most."""
    low, middle, high = (f"{scale * value:.{digits}f}" for value in (min(values), statistics.median(values),
                                                                    max(values)))
    return f"{middle}{unit} ({low}-{high})" if len(values) > 1 else f"{middle}{unit}"


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for index, row in enumerate(rows):
        cells = [f"{row[0]:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:]))]
        print("  ".join(cells).rstrip())
        if index == 0:
            print("-" * (sum(widths) + 2 * len(widths) - 2))
    print(flush=True)


def markdown(rows):
    """The same table as Markdown has it."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def progress_line(quiet):
    """A function that shows what is going on: on a terminal one line that is written over; elsewhere it would stay."""
    def show(text):
        if not quiet and sys.stdout.isatty():
            print(f"\r\033[K{text}", end="", flush=True)

    return show


def report(results, rows, name, arguments):
    """The raw results if --json asks for them, else the table, headed by machine and date; kept if --save does."""
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        print(f"{results['machine']}; {results['date']}\n")
        print_table(rows)
    if arguments.save:
        print(f"saved {save(results, name)}", file=sys.stderr)


def save(results, name):
    """Into bench/results; what --quick has made is no measurement, and gets a name that no table is made of."""
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{results['date']}-{name}{'-quick' if results.get('quick') else ''}.json"
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return path.relative_to(HERE.parent)
