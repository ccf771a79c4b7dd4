#!/usr/bin/env python3
"""Streams on data larger than memory: the launch window beside on-demand paging, mapped files, and memory for all.

    bench/streams.py                       four programs, one iteration each, the first; medians of five rounds
    bench/streams.py --rounds 3 --json

A network's training step, a chain of convolutions, streaming reductions and a step of PCA work on four times the
memory that they may use. Contenders are one and the same binary, with the same kernels, threads and compiler flags;
what differs is the memory under the arrays. They take turns by rounds, each time a process of its own that makes its
data first, so nothing can be known from an iteration before:

    window             the stream fetches what is queued ahead of its turn
    on_demand          the same stream without the window: a block comes when it is touched
    mapped             arrays in mapped files (mmap, shared), written back before the iteration: the kernel pages
    mapped_sequential  the same, and the kernel is told that they are read from front to back (MADV_SEQUENTIAL)
    memory             arrays in memory on huge pages: what one has with memory for everything

All but the last are in a cgroup of the budget and what the program itself takes. Digests of every block of every array,
of which each contender must have the same, are compared: exit code 1 if one differs.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
from machine import drop_caches  # noqa: E402
from output import print_table, progress_line, save, sitting  # noqa: E402
from reports.streams import summarize, table  # noqa: E402

PROGRAMS = ("network", "convolution", "reductions", "pca")
CONTENDERS = ("window", "on_demand", "mapped", "mapped_sequential", "memory")
BINARY = HERE.parent / "build" / "release" / "bench" / "bench_streams"
CHILD_LIMIT_S = 900
PROGRAM_BYTES = 96 * 2**20  # what the program takes of the cgroup beside its arrays: code, threads, queues of the disk


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, of " + ", ".join(PROGRAMS))
    parser.add_argument("--memory-mib", type=int, default=256, help="the budget in MiB (default 256)")
    parser.add_argument("--factor", type=float, default=4, help="data, as a multiple of the budget (default 4)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contender (default 5)")
    parser.add_argument("--flash", help="directory for flash and for mapped files")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="bench_streams of another build")
    parser.add_argument("--quick", action="store_true", help="64 MiB and one round, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.split(",")
    if arguments.quick:
        arguments.rounds, arguments.memory_mib = 1, 64
    unknown = [name for name in arguments.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"--programs {unknown[0]}: choose from {', '.join(PROGRAMS)}")
    if arguments.rounds < 1 or arguments.memory_mib < 32 or not 0.1 <= arguments.factor <= 64:
        parser.error("at least 1 round, 32 MiB of memory, and data of 0.1 to 64 times that")
    if not arguments.binary.is_file():
        parser.error(f"{arguments.binary} is missing: build it with `make`, or name one with --binary")
    return arguments


def run_once(arguments, program, contender, cgroup=None):
    size = int(arguments.memory_mib * arguments.factor) * 2**20
    child = children.run([arguments.binary, program, contender, f"{arguments.memory_mib}MiB", size, arguments.flash],
                         env=children.environment(), timeout=CHILD_LIMIT_S, cgroup=cgroup)
    return child.check().records[-1]


def run_in_budget(arguments, program, contender):
    with children.MemoryCgroup(arguments.memory_mib * 2**20 + PROGRAM_BYTES) as group:
        record = run_once(arguments, program, contender, group)
        return {**record, "cgroup_peak_bytes": group.peak_bytes()}


def contenders():
    """Those that can run here, and why the others cannot: without a cgroup, mapped files have all memory."""
    try:
        with children.MemoryCgroup(2**28):
            return CONTENDERS, []
    except children.ChildError as error:
        names = tuple(name for name in CONTENDERS if not name.startswith("mapped"))
        return names, [f"mapped files are left out, and nothing runs in a memory cgroup: {error}"]


def measure(arguments, names, progress):
    runs = {program: {name: [] for name in names} for program in arguments.programs}
    limited = "mapped" in names
    for turn in range(arguments.rounds):
        for program in arguments.programs:
            for name in names:
                progress(f"round {turn + 1} of {arguments.rounds}: {program}, {name}")
                if not arguments.quick:
                    drop_caches()
                run = run_in_budget if limited and name != "memory" else run_once
                runs[program][name].append(run(arguments, program, name))
    progress("")
    return runs


def differences(runs):
    """Who has other bytes at the end than the one with memory for all."""
    for program, by_name in runs.items():
        expected = by_name["memory"][0]["digest"]
        for name, records in by_name.items():
            if wrong := sum(record["digest"] != expected for record in records):
                yield f"{program}: {name} has computed something else in {wrong} of {len(records)} rounds"


def main():
    arguments = parse_arguments()
    head = sitting(packages=())
    try:
        arguments.flash = children.flash_directory(arguments.flash)
        names, notes = contenders()
        runs = measure(arguments, names, progress_line(arguments.json))
    except children.ChildError as error:
        print(f"bench/streams.py: {error}", file=sys.stderr)
        return 2
    wrong = list(differences(runs))
    results = {**head, "memory_mib": arguments.memory_mib, "factor": arguments.factor,
               "quick": arguments.quick, "rounds": arguments.rounds, "notes": notes, "digests_equal": not wrong,
               "summary": summarize(runs), "runs": runs}
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        print(f"One iteration, the first, on {arguments.factor:g} times {arguments.memory_mib} MiB; medians of "
              f"{arguments.rounds} rounds. {results['machine']}\n")
        print_table(table(results))
        for note in notes:
            print(note)
    if arguments.save:
        print(f"saved {save(results, 'streams')}", file=sys.stderr)
    for text in wrong:
        print(f"bench/streams.py: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
