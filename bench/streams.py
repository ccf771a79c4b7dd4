#!/usr/bin/env python3
"""Streams on data larger than memory: the launch window beside on-demand paging and beside np.memmap.

    bench/streams.py                       four programs, one iteration each, the first; medians of five rounds
    bench/streams.py --rounds 3 --json

A network's training step, a chain of convolutions, streaming reductions and a step of PCA work on four times the
memory that they may use. Contenders take turns by rounds, each time a process of its own that makes its data first, so
nothing can be known from an iteration before:

    window      the stream fetches what is queued ahead of its turn
    on_demand   the same stream without the window: a block comes when it is touched
    memmap      the same program with NumPy over mapped files, in a cgroup with the same memory (and what Python takes)
"""

import argparse
import datetime
import json
import math
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
from machine import describe_machine  # noqa: E402
from output import print_table, progress_line, save  # noqa: E402

PROGRAMS = ("network", "convolution", "reductions", "pca")
CONTENDERS = ("window", "on_demand", "memmap")
BINARY = HERE.parent / "build" / "release" / "bench" / "bench_streams"
CHILD_LIMIT_S = 900
PYTHON_BYTES = 96 * 2**20  # what the interpreter and NumPy take of the cgroup
CLOSE = 1e-2  # rounding: sums in another order


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, of " + ", ".join(PROGRAMS))
    parser.add_argument("--memory-mib", type=int, default=256, help="the budget in MiB (default 256)")
    parser.add_argument("--factor", type=float, default=4, help="data, as a multiple of the budget (default 4)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contender (default 5)")
    parser.add_argument("--flash", help="directory for flash and for mapped files")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="bench_streams of another build")
    parser.add_argument("--no-memmap", action="store_true", help="leave NumPy out")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.split(",")
    unknown = [name for name in arguments.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"--programs {unknown[0]}: choose from {', '.join(PROGRAMS)}")
    if arguments.rounds < 1 or arguments.memory_mib < 32 or not 0.1 <= arguments.factor <= 64:
        parser.error("at least 1 round, 32 MiB of memory, and data of 0.1 to 64 times that")
    if not arguments.binary.is_file():
        parser.error(f"{arguments.binary} is missing: build it with `make`, or name one with --binary")
    return arguments


def run_once(arguments, program, contender):
    size = int(arguments.memory_mib * arguments.factor) * 2**20
    if contender == "memmap":
        with children.MemoryCgroup(arguments.memory_mib * 2**20 + PYTHON_BYTES) as group:
            child = children.run([sys.executable, HERE / "streams" / "memmap.py", program, size, arguments.flash],
                                 env=children.environment(), timeout=CHILD_LIMIT_S, cgroup=group)
    else:
        child = children.run([arguments.binary, program, contender, f"{arguments.memory_mib}MiB", size,
                              arguments.flash], env=children.environment(), timeout=CHILD_LIMIT_S)
    return child.check().records[-1]


def contenders(arguments):
    """Those that can run here, and why the others cannot."""
    if arguments.no_memmap:
        return CONTENDERS[:2], []
    try:
        import numpy  # noqa: F401
        with children.MemoryCgroup(2**28):
            return CONTENDERS, []
    except (ImportError, children.ChildError) as error:
        return CONTENDERS[:2], [f"memmap is left out: {error}"]


def measure(arguments, names, progress):
    runs = {program: {name: [] for name in names} for program in arguments.programs}
    for turn in range(arguments.rounds):
        for program in arguments.programs:
            for name in names:
                progress(f"round {turn + 1} of {arguments.rounds}: {program}, {name}")
                runs[program][name].append(run_once(arguments, program, name))
    progress("")
    return runs


def check_answers(runs):
    """What all contenders of a program computed must be the same, up to the order of additions."""
    for program, by_name in runs.items():
        expected = by_name["on_demand"][0]["answer"]
        for name, records in by_name.items():
            for record in records:
                if not math.isclose(record["answer"], expected, rel_tol=CLOSE, abs_tol=CLOSE):
                    raise SystemExit(f"{program}: {name} computed {record['answer']}, not {expected}")


def summarize(runs):
    rows = []
    for program, by_name in runs.items():
        medians = {name: statistics.median(record["seconds"] for record in records)
                   for name, records in by_name.items()}
        rows.append({"program": program, "seconds": medians,
                     "speedup": {name: medians[name] / medians["window"] for name in medians if name != "window"}})
    return rows


def table(rows, names):
    lines = [["program", *(f"{name} [s]" for name in names), *(f"window against {name}" for name in names[1:])]]
    for row in rows:
        lines.append([row["program"], *(f"{row['seconds'][name]:.2f}" for name in names),
                      *(f"{row['speedup'][name]:.2f}x" for name in names[1:])])
    if len(rows) > 1:
        means = [statistics.geometric_mean(row["speedup"][name] for row in rows) for name in names[1:]]
        lines.append(["geometric mean", *("" for _ in names), *(f"{mean:.2f}x" for mean in means)])
    return lines


def main():
    arguments = parse_arguments()
    try:
        arguments.flash = children.flash_directory(arguments.flash)
        names, notes = contenders(arguments)
        runs = measure(arguments, names, progress_line(arguments.json))
    except children.ChildError as error:
        raise SystemExit(f"bench/streams.py: {error}") from None
    check_answers(runs)
    rows = summarize(runs)
    results = {"date": datetime.date.today().isoformat(), "machine": describe_machine(),
               "memory_mib": arguments.memory_mib, "factor": arguments.factor, "rounds": arguments.rounds,
               "notes": notes, "summary": rows, "runs": runs}
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        print(f"One iteration, the first, on {arguments.factor:g} times {arguments.memory_mib} MiB; medians of "
              f"{arguments.rounds} rounds. {results['machine']}\n")
        print_table(table(rows, names))
        for note in notes:
            print(note)
    if arguments.save:
        print(f"written to {save(results, 'streams')}")


if __name__ == "__main__":
    main()
