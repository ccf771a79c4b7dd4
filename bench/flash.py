#!/usr/bin/env python3
"""Out of core: what streams carry from and to flash, beside what fio measures on the same disk in the same run.

    bench/flash.py                         two programs on four times their memory; medians of five rounds
    bench/flash.py --rounds 3 --flash /nvme --json

    reductions     one array is read once: beside fio's sequential reads
    transform      y = f(x), one array is read and another one written: beside fio's reads and writes, half and half,
                   by two jobs at once

A program's bandwidth is the bytes that the runtime moved in its one iteration, the first, by the time that it took. fio
reads and writes the same bytes in blocks of 2 MiB, each job 16 at a time, past the page cache. Each takes its turn by
rounds. What is younger on a disk is faster to read where somebody below caches it; so fio's file is written anew before
each of its turns, as the program makes its data before its iteration.
"""

import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
import fio  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.streams import flash_table  # noqa: E402
from streams import BINARY, run_once  # noqa: E402

PROGRAMS = {"reductions": ("read",), "transform": ("read", "write")}  # to fio's jobs for it


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--memory-mib", type=int, default=256, help="the budget in MiB (default 256)")
    parser.add_argument("--factor", type=float, default=4, help="data, as a multiple of the budget (default 4)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contender (default 5)")
    parser.add_argument("--flash", help="directory for flash and for fio's file")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="bench_streams of another build")
    parser.add_argument("--quick", action="store_true", help="64 MiB and one round, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.memory_mib = 1, 64
    if arguments.rounds < 1 or arguments.memory_mib < 32 or not 2 <= arguments.factor <= 64:
        parser.error("at least 1 round, 32 MiB of memory, and data of 2 to 64 times that")
    if not arguments.binary.is_file():
        parser.error(f"{arguments.binary} is missing: build it with `make`, or name one with --binary")
    return arguments


def run_program(arguments, program):
    record = run_once(arguments, program, "window")
    return (record["fetched"] + record["evicted"]) / record["seconds"], record


def measure(arguments, progress):
    size = int(arguments.memory_mib * arguments.factor) * 2**20
    rows = {program: {"program": [], "fio": [], "records": []} for program in PROGRAMS}
    with tempfile.TemporaryDirectory(prefix="ebb-fio-", dir=arguments.flash) as folder:
        file = pathlib.Path(folder) / "data"
        for turn in range(arguments.rounds):
            for program, jobs in PROGRAMS.items():
                progress(f"round {turn + 1} of {arguments.rounds}: {program}")
                bandwidth, record = run_program(arguments, program)
                rows[program]["program"].append(bandwidth)
                rows[program]["records"].append(record)
                progress(f"round {turn + 1} of {arguments.rounds}: fio for {program}")
                fio.bandwidth(file, ("write",), size)
                rows[program]["fio"].append(fio.bandwidth(file, jobs, size))
    progress("")
    return rows


def main():
    arguments = parse_arguments()
    head = sitting(packages=())
    progress = progress_line(arguments.json)
    try:
        fio.find()
        arguments.flash = children.flash_directory(arguments.flash)
        rows = measure(arguments, progress)
    except children.ChildError as error:
        raise SystemExit(f"bench/flash.py: {error}") from None
    results = {**head, "quick": arguments.quick, "memory_mib": arguments.memory_mib,
               "factor": arguments.factor, "rounds": arguments.rounds, "runs": rows}
    report(results, flash_table(rows), "flash", arguments)


if __name__ == "__main__":
    main()
