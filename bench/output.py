"""What the benchmarks print and keep: tables of text, whose first row is the heading, and results as JSON."""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for index, row in enumerate(rows):
        cells = [f"{row[0]:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:]))]
        print("  ".join(cells).rstrip())
        if index == 0:
            print("-" * (sum(widths) + 2 * len(widths) - 2))
    print(flush=True)


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
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{results['date']}-{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return path.relative_to(HERE.parent)


def commit():
    """The commit that is checked out, with a + if files of it have changed; None outside a repository."""
    command = ["git", "-C", HERE, "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None
