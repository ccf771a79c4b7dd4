#!/usr/bin/env python3
"""The tables of README.md and docs/, made of bench/results: no number in them is written by hand.

    bench/tables.py                    rewrites what stands between `<!-- table: NAME -->` and `<!-- end -->`
    bench/tables.py --show training    prints a table without any marks
    bench/tables.py --check            names the tables that differ from their results; exits with 1 if there are any

A table is made of one file, the newest DATE-NAME.json, so all its cells come from one sitting. It says what was run, on
what, when, and from which commit; how its numbers come about is in bench/reports, one module for each kind of results.
"""

import argparse
import importlib
import json
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(HERE / "training")]

from output import markdown  # noqa: E402

# Name of a table: (name of the results, module in reports, function there that makes heading and rows).
TABLES = {
    "training": ("training", "training", "document"),
    "training-details": ("training", "training", "document_details"),
    "varying": ("varying", "training", "document_details"),
    "operators": ("operators", "training", "document_operators"),
    "inference": ("inference", "inference", "document"),
    "llama": ("llama", "inference", "document"),
    "pipeline": ("pipeline", "inference", "document"),
    "adapter": ("adapter", "inference", "document"),
    "streams": ("streams", "streams", "document"),
    "flash": ("flash", "streams", "document_flash"),
    "arrays": ("arrays", "arrays", "document"),
    "arrays-combined": ("arrays", "arrays", "document_combination"),
    "allocators": ("allocators", "allocators", "document"),
    "mirror": ("mirror", "devices", "document"),
    "opencl": ("opencl", "devices", "document"),
    "prediction": ("prediction", "prediction", "document"),
    "loops": ("loops", "loops", "document"),
    "sequences": ("sequences", "sequences", "document"),
    "ablation": ("ablation", "simulated.ablation", "document"),
    "shares": ("shares", "jobs.shares", "document"),
    "ranks": ("ranks", "simulated.ranks", "document"),
    "scale": ("scale", "simulated.scale", "document"),
    "scale-generation": ("scale", "simulated.scale", "document_generation"),
    "scale-reads": ("scale", "simulated.scale", "document_synchronisations"),
    "scale-published": ("scale", "simulated.scale", "document_published"),
    "scale-check": ("scale", "simulated.scale", "document_check"),
    "reliability": ("reliability", "reliability", "document"),
    "mutations": ("mutations", "reliability", "document_mutations"),
    "faults": ("faults", "reliability", "document_faults"),
    "soak": ("soak", "reliability", "document_soak"),
    "inputs": ("inputs", "reliability", "document_inputs"),
    "error-branches": ("coverage", "reliability", "document_coverage"),
    "matrix": ("matrix", "matrix", "document"),
    "g10": ("g10", "g10", "document"),
    "g10-distribution": ("g10", "g10", "document_distribution"),
    "g10-batches": ("g10", "g10", "document_batches"),
}
MARKED = re.compile(r"(<!-- table: ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
DATED = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
COLUMNS = 120


class TableError(Exception):
    """A table that cannot be made; the message says which, and what to do."""


def newest(kind, folder=HERE / "results"):
    """The file with the latest date."""
    found = sorted(folder.glob(f"{DATED}-{kind}.json"))
    if not found:
        raise TableError(f"there are no results for '{kind}': run its benchmark with --save")
    return found[-1]


def conditions(results, path):
    """On what, when and by which command."""
    what = [results["machine"]]
    if results.get("versions"):
        what.append(", ".join(f"{name} {version}" for name, version in results["versions"].items()))
    what.append(f"{results['date']}, commit {results['commit']}" if results.get("commit") else results["date"])
    if results.get("command"):
        what.append(f"`{results['command']}`")
    return "; ".join([*what, f"`bench/results/{path.name}`"])


def make(name, folder=HERE / "results"):
    """The text between the marks."""
    if name not in TABLES:
        raise TableError(f"there is no table '{name}'; there are {', '.join(TABLES)}")
    kind, module, function = TABLES[name]
    path = newest(kind, folder)
    results = json.loads(path.read_text(encoding="utf-8"))
    heading, rows = getattr(importlib.import_module(f"reports.{module}"), function)(results)
    text = textwrap.fill(f"{heading}. {conditions(results, path)}:", COLUMNS, break_long_words=False,
                         break_on_hyphens=False)
    return f"{text}\n\n{markdown(rows)}\n"


def documents():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rewrite(text, folder=HERE / "results"):
    """The text with all its tables made again, and the names of those that have changed."""
    changed = []

    def replace(mark):
        new = f"{mark[1]}{make(mark[2], folder)}{mark[3]}"
        if new != mark[0]:
            changed.append(mark[2])
        return new

    return MARKED.sub(replace, text), changed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a table differs")
    parser.add_argument("--show", metavar="NAME", help="print a table: " + ", ".join(TABLES))
    arguments = parser.parse_args()
    if arguments.show:
        try:
            print(make(arguments.show))
        except TableError as error:
            print(f"tables: {error}", file=sys.stderr)
            return 2
        return 0
    differ = []
    for path in documents():
        old = path.read_text(encoding="utf-8")
        try:
            new, changed = rewrite(old)
        except TableError as error:
            print(f"tables: {path.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 2
        differ += [f"{path.relative_to(ROOT)}: {name}" for name in changed]
        if changed and not arguments.check:
            path.write_text(new, encoding="utf-8")
    for name in differ:
        print(f"{name} {'differs from its results: run bench/tables.py' if arguments.check else 'is written'}")
    return 1 if differ and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
