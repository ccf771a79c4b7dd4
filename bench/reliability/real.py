#!/usr/bin/env python3
"""What becomes of a training under `ebb run` when something goes wrong on the real kernel and disk.

    bench/reliability/real.py --times 3     each fault so often, as root and where it differs as an ordinary user
    bench/reliability/real.py --only SIGKILL --times 20 --json

The faults are those of the tests (python/tests/support/faults.py). Exit code 1 if a run had other losses than stock's,
ended without a word or not at all, or left something behind; what it was is in the results.
"""

import argparse
import contextlib
import json
import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training"), str(HERE.parent / "python/tests/support")]

import children  # noqa: E402
import faulted_run  # noqa: E402
import faults  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.reliability import ENDS, table_of_faults  # noqa: E402

KILLS = 20  # of the program, at random moments: each of them is another
KILLED = f"SIGKILL of {faults.Killed.WHOM[0]}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--times", type=int, default=3, help="of each fault [3]; the program is killed 20 times")
    parser.add_argument("--only", metavar="TEXT", nargs="*", default=[""], help="faults with this in their names")
    parser.add_argument("--add", type=pathlib.Path, nargs="*", default=[], metavar="FILE", help="results of other runs")
    parser.add_argument("--json", action="store_true", help="print the results")
    parser.add_argument("--save", action="store_true", help="write them to bench/results/")
    return parser.parse_args()


def count(place, fault, times, show):
    """A row of the results."""
    row = {"name": fault.name, "happens": fault.happens, "users": len(fault.users), "runs": 0, "wrong": [],
           **dict.fromkeys(ENDS, 0)}
    if why := fault.why_not():
        return {**row, "not_here": why}
    for user in fault.users:
        for _ in range(max(times, KILLS) if fault.name == KILLED else times):
            show(f"{fault.name}, {fault.happens}: {row['runs']} runs")
            row["runs"] += 1
            try:
                row[place.run(fault, user)[0]] += 1
            except faulted_run.Wrong as wrong:
                row["wrong"].append(str(wrong))
    return row


def count_all(place, chosen, times, show):
    """A row for each; Ctrl-C and SIGTERM end it with those that there are."""
    rows = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        for fault in chosen:
            rows.append(count(place, fault, times, show))
    return rows


def add_up(rows):
    """One row for each fault, in the order of the catalogue."""
    found = {(fault.name, fault.happens): None for fault in faults.catalogue()}
    for row in rows:
        before = found.get((row["name"], row["happens"]))
        if before is None or "not_here" in before:
            found[row["name"], row["happens"]] = row
        elif "not_here" not in row:
            for key in ("runs", "wrong", *ENDS):
                before[key] += row[key]
    return [row for row in found.values() if row is not None]


def main():
    arguments = parse_arguments()
    results = sitting(packages=("torch",))
    show = progress_line(arguments.json)
    with tempfile.TemporaryDirectory(prefix="ebb-faults-", dir=children.flash_directory()) as folder:
        place = faulted_run.Place(folder)
        chosen = [fault for fault in faults.catalogue() if any(text in fault.name for text in arguments.only)]
        rows = count_all(place, chosen, arguments.times, show)
    others = [json.loads(path.read_text(encoding="utf-8"))["faults"] for path in arguments.add]
    results["faults"] = add_up([*rows, *(row for other in others for row in other)])
    show("")
    report(results, table_of_faults(results), "faults", arguments)
    wrong = [f"{row['name']}: {text}" for row in results["faults"] for text in row["wrong"]]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
