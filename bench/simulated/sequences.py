#!/usr/bin/env python3
"""Programs whose iterations are not alike, simulated: `foresight` beside `window` and beside who knows all that comes.

Twelve programs (bench/sequences/programs.py) are recorded, 16 iterations in a row each. `ebb sim` replays each sequence
as it was, in 1/2 to 1/8 of its peak and on a disk of 2.52 GB/s for reads, 3.76 for writes and 3.45 for both, with the
two policies, which learn in the first quarter; reported are the others. The bound is that of the whole sequence, known
beforehand (docs/design/0005-lower-bound.md). Times are simulated and depend on no other program, but for the recorded
durations of kernels; with --recordings DIR recordings are kept there, and used again. Exit code 1 if a policy is faster
than the bound, for then one of the two is wrong.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training"), str(HERE / "sequences")]

import contenders  # noqa: E402
import possible  # noqa: E402
import recordings  # noqa: E402
from children import ChildError, ebb_binary, flash_directory  # noqa: E402
from output import print_table, progress_line, report, sitting  # noqa: E402
from reports.sequences import POLICIES, summary_table, table  # noqa: E402

PROGRAMS = ("experts_top1", "experts_top2_capacity", "lengths_random", "lengths_in_buckets", "packed_lstm",
            "generation", "training_and_evaluation", "early_exit", "accumulation", "image_sizes", "neighbours",
            "recommender")
SHARES = {"1/2": 2, "1/3": 3, "1/4": 4, "1/8": 8}
DISK = ["--host-memory", "0", "--pcie", "1000000GB/s", "--flash-read", "2.52GB/s", "--flash-write", "3.76GB/s",
        "--flash-total", "3.45GB/s"]
TIMEOUT_S = 3600


def simulate(program, file, peak, share, block):
    budget = peak // SHARES[share]
    found = possible.ask("sim", file, "--policy", ",".join(POLICIES), "--device-memory", budget, "--block", block,
                         *DISK, timeout=TIMEOUT_S)
    results = {result["policy"]: result for result in found["results"]}
    seconds = {policy: results[policy]["total_ns"] / 1e9 for policy in POLICIES}
    bound = results["window"]["bound_ns"]
    return {"program": program, "share": share, "peak_bytes": peak, "budget_bytes": budget,
            "iterations": found["iterations"] - found["warm_up"], "ideal_s": results["window"]["ideal_ns"] / 1e9,
            "seconds": seconds, "bound_s": bound and bound / 1e9, "bound_note": found["bound_note"],
            "bytes_in": {policy: results[policy]["lanes"]["flash_in"]["bytes"] for policy in POLICIES},
            "bytes_out": {policy: results[policy]["lanes"]["flash_out"]["bytes"] for policy in POLICIES}}


def simulate_all(files, arguments):
    rows, show = [], progress_line(arguments.json)
    peaks = {program: possible.ask("trace", file)["peak_bytes"] for program, file in files.items()}
    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:  # each waits for a process
        waiting = [pool.submit(simulate, program, file, peaks[program], share, "64KiB" if arguments.quick else "2MiB")
                   for program, file in files.items() for share in SHARES]
        for count, future in enumerate(waiting, 1):
            rows.append(future.result())
            show(f"{count} of {len(waiting)} simulations")
    show("")
    return rows


def summarize(rows):
    """Of all points together, and for each share of the peak: medians and the worst point."""
    def summary(some):
        found = {}
        for policy in POLICIES:
            shares = sorted((row["bound_s"] / row["seconds"][policy], row["program"]) for row in some if row["bound_s"])
            found[policy] = {"points": len(shares), "median": statistics.median(share for share, _ in shares),
                             "worst": shares[0]} if shares else None
        ratios = sorted((row["seconds"]["foresight"] / row["seconds"]["window"], row["program"]) for row in some)
        return {"of_bound": found, "foresight_by_window": {"median": statistics.median(ratio for ratio, _ in ratios),
                                                           "best": ratios[0], "worst": ratios[-1]}}

    return {"all": summary(rows), **{share: summary([row for row in rows if row["share"] == share])
                                     for share in SHARES}}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, of " + ", ".join(PROGRAMS))
    parser.add_argument("--recordings", type=pathlib.Path,
                        help="a folder for the recordings; those that are there already are used")
    parser.add_argument("--runs", type=int, default=2,
                        help="recordings of each program, of which a launch's shortest duration counts (default 2)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="simulations at once (default: processors)")
    parser.add_argument("--flash", help="directory for flash while recording, where nothing has to leave")
    parser.add_argument("--quick", action="store_true", help="tiny programs and one run, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of tables")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.split(",")
    unknown = [name for name in arguments.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"--programs {unknown[0]}: choose from {', '.join(PROGRAMS)}")
    for option in ("runs", "jobs"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} {getattr(arguments, option)}: at least 1")
    if arguments.quick:
        arguments.runs = 1
    return arguments


def measure(arguments, folder, results):
    show, files = progress_line(arguments.json), {}
    for program in arguments.programs:
        show(f"recording {program}")
        files[program] = recordings.make(program, folder, runs=arguments.runs, memory=contenders.memory_for_all(),
                                         flash=arguments.flash, quick=arguments.quick)
        results["recordings"][program] = hashlib.sha256(files[program].read_bytes()).hexdigest()
    return simulate_all(files, arguments)


def main():
    arguments = parse_arguments()
    results = {**sitting(), "quick": arguments.quick, "runs": arguments.runs, "disk": DISK,
               "recordings": {}}
    try:
        ebb_binary()
        arguments.flash = flash_directory(arguments.flash)
        with tempfile.TemporaryDirectory(prefix="ebb-sequences-") as scratch:
            folder = arguments.recordings or pathlib.Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            rows = measure(arguments, folder, results)
    except (ChildError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    results.update(summary=summarize(rows), rows=rows)
    report(results, table(rows), "sequences", arguments)
    if not arguments.json:
        print_table(summary_table(results["summary"]))
    impossible = [row for row in rows if row["bound_s"] and min(row["seconds"].values()) < row["bound_s"]]
    for row in impossible:
        print(f"bench: {row['program']} in {row['share']} is faster than its bound", file=sys.stderr)
    return 1 if impossible else 0


if __name__ == "__main__":
    sys.exit(main())
