#!/usr/bin/env python3
"""What the core makes of faults in simulation: `ebb fuzz` from a fresh seed, and what it injected and found.

    bench/simulated/reliability.py --minutes 3
    bench/simulated/reliability.py --add RUN.json ... --mutations FILE --save

With --add the results of other runs of `ebb fuzz --json` are counted too; with --mutations those of `tools/mutate
--json` are kept, as results of their own. A run that failed is counted as it is: its failures are in the results. Exit
code 1 if there are any.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training")]

from children import ebb_binary  # noqa: E402
from output import report, sitting  # noqa: E402
from reports.reliability import document_mutations, table  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=3, help="of fuzzing [3]")
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1_000_000, help="the first one [from the time]")
    parser.add_argument("--add", type=pathlib.Path, nargs="*", default=[], metavar="FILE", help="other runs")
    parser.add_argument("--mutations", type=pathlib.Path, metavar="FILE", help="results of tools/mutate --json")
    parser.add_argument("--json", action="store_true", help="print the results")
    parser.add_argument("--save", action="store_true", help="write them to bench/results/")
    return parser.parse_args()


def fuzz(minutes, seed):
    done = subprocess.run([ebb_binary(), "fuzz", "--minutes", str(minutes), "--seed", str(seed), "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def add_up(runs):
    """One run of all: sums, but for rates and seeds."""
    total = {"runs": len(runs), "failures": [failure for run in runs for failure in run["failures"]]}
    for name in ("seeds", "operations", "seconds", "virtual_seconds"):
        total[name] = sum(run[name] for run in runs)
    total["operations_per_second"] = total["operations"] / total["seconds"]
    for group in ("faults", "reached"):
        total[group] = {}
        for name, value in runs[0][group].items():
            total[group][name] = ({key: sum(run[group][name][key] for run in runs) for key in value}
                                  if isinstance(value, dict) else sum(run[group][name] for run in runs))
    return total


def main():
    arguments = parse_arguments()
    results = sitting(packages=())
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.add]
    runs.append(fuzz(arguments.minutes, arguments.seed))
    if arguments.mutations:
        mutations = {**results, "mutations": json.loads(arguments.mutations.read_text(encoding="utf-8"))}
        report(mutations, document_mutations(mutations)[1], "mutations", arguments)
    results["fuzz"] = add_up(runs)
    report(results, table(results), "reliability", arguments)
    return 1 if results["fuzz"]["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
