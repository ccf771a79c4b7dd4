#!/usr/bin/env python3
"""Trains and generates under `ebb run` for an hour while budgets change, and children come and go; then the same stock.

    bench/reliability/soak.py --minutes 60             what is printed last is the table
    bench/reliability/soak.py --minutes 2 --size small --json

Exit code 1, with the reason, if any bit of any round differs from stock's, or if memory outside the budget,
descriptors, threads or mappings have grown from an early part of the run to its end. The rounds: soak_program.py.
Stock, as many rounds take time of their own.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training")]

import children  # noqa: E402
from children import ebb_binary, flash_directory  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.reliability import table_of_soak  # noqa: E402

PROGRAM = HERE / "reliability/soak_program.py"
BUDGETS = {"small": "12MiB", "usual": "96MiB"}
BLOCKS = {"small": "64KiB", "usual": "256KiB"}
MANAGED_MIN = "16KiB"
EARLY, LATE = (0.2, 0.4), (0.8, 1.0)  # which parts of the rounds are compared
ROUNDS_MIN = 15
# More than these is a leak: Python and the C library keep pieces of what they had at a peak.
GROWTH_MAX = {"memory": 16 * 2**20, "descriptors": 0, "threads": 0, "mappings": 40}
EXTRA_S = 900  # for the last round, and a machine that does something else


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60, help="under ebb run [60]")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="[from the time]")
    parser.add_argument("--size", choices=BUDGETS, default="usual", help="of the model [usual]")
    parser.add_argument("--flash", help="a directory on a disk [a temporary one]")
    parser.add_argument("--json", action="store_true", help="print the results")
    parser.add_argument("--save", action="store_true", help="write them to bench/results/")
    return parser.parse_args()


def run(command, limit_s, show, label):
    """The rounds, the samples and the end that a program prints."""
    rounds = []
    began = time.monotonic()

    def on_record(record):
        if "round" in record:
            rounds.append(record)
            show(f"{label}: {len(rounds)} rounds in {time.monotonic() - began:.0f} s")

    child = children.run(command, timeout=limit_s, on_record=on_record, env=children.environment(with_adapter=True))
    child.check()
    return {"rounds": rounds, "samples": child.all("sample"), "seconds": child.seconds, **child.records[-1]}


def medians(samples, kind):
    """Of an early and of a late part."""
    found = []
    for part in (EARLY, LATE):
        first, last = (int(share * len(samples)) for share in part)
        found.append(statistics.median(sample[kind] for sample in samples[first:last]))
    return found


def problems(stock, managed):
    """What is wrong with the managed run, beside stock's."""
    found = []
    if len(managed["rounds"]) < ROUNDS_MIN:
        found.append(f"{len(managed['rounds'])} rounds are too few to tell anything: give it more --minutes")
    for expected, got in zip(stock["rounds"], managed["rounds"], strict=True):
        if expected != got:
            found.append(f"round {got['round']} ({got['what']}) is not stock's: {got}, not {expected}")
            break
    if stock["model"] != managed["model"]:
        found.append(f"the model is not stock's in the end: {managed['model']}, not {stock['model']}")
    if managed["stats"] is None or not managed["stats"]["fetched_bytes"] or not managed["changes"]:
        found.append("nothing was managed, or nothing moved, or no budget changed: the run shows nothing")
    elif managed["stats"]["corrupt_blocks"]:
        found.append(f"{managed['stats']['corrupt_blocks']} blocks came back with other bytes")
    if found:
        return found
    for kind, most in GROWTH_MAX.items():
        (early, late), (stock_early, stock_late) = (medians(each["samples"], kind) for each in (managed, stock))
        if late - early > most + max(0, stock_late - stock_early):
            found.append(f"{kind} grew from {early:,.0f} to {late:,.0f}, and stock's from {stock_early:,.0f} to "
                         f"{stock_late:,.0f}")
    return found


def summary(run_):
    """What is kept of a run: how many rounds of each kind, and what it had early and late."""
    kinds = sorted({each["what"] for each in run_["rounds"]})
    return {"seconds": run_["seconds"], "stats": run_["stats"], "changes": run_["changes"], "refused": run_["refused"],
            "rounds": {kind: sum(each["what"] == kind for each in run_["rounds"]) for kind in kinds},
            "early_late": {kind: medians(run_["samples"], kind) for kind in GROWTH_MAX} if run_["samples"] else {}}


def soak(arguments, flash, show):
    words = [sys.executable, PROGRAM, "--seed", arguments.seed, "--size", arguments.size]
    under = [ebb_binary(), "run", "--quiet", "--strict", "--memory", BUDGETS[arguments.size], "--block",
             BLOCKS[arguments.size], "--managed-min", MANAGED_MIN, "--flash", flash, "--"]
    seconds = 60 * arguments.minutes
    managed = run([*under, *words, "--seconds", seconds], seconds + EXTRA_S, show, "ebb run")
    stock = run([*words, "--rounds", len(managed["rounds"])], seconds + EXTRA_S, show, "stock")
    different = sum(a != b for a, b in zip(stock["rounds"], managed["rounds"]))
    return {"seed": arguments.seed, "size": arguments.size, "budget": BUDGETS[arguments.size],
            "managed": summary(managed), "stock": summary(stock), "different": different,
            "problems": problems(stock, managed)}


def main():
    arguments = parse_arguments()
    results = sitting(packages=("torch",))
    show = progress_line(arguments.json)
    with tempfile.TemporaryDirectory(prefix="ebb-soak-", dir=flash_directory(arguments.flash)) as flash:
        try:
            results |= soak(arguments, flash, show)
        except children.ChildError as error:
            print(f"soak: seed {arguments.seed}: {error}", file=sys.stderr)
            return 1
    show("")
    report(results, table_of_soak(results), "soak", arguments)
    for problem in results["problems"]:
        print(f"soak: seed {arguments.seed}: {problem}", file=sys.stderr)
    return 1 if results["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
