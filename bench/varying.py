#!/usr/bin/env python3
"""Programs whose iterations vary, under `foresight` beside `window`: what it costs to plan for what then does not come.

Random sequence lengths, a mixture of experts, training and evaluation in turns (training/vary.py), each in a third of
its peak. Contenders take turns by rounds; reported is the time of all steps after the first six, the median over
rounds, and losses must agree bit for bit with stock PyTorch. Exit code 1 if they do not, or if `foresight` is slower
than `window` by more than 3 %.
"""

import argparse
import datetime
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
import contenders  # noqa: E402
from children import ChildError, ebb_binary, flash_directory, format_size  # noqa: E402
from machine import describe_machine  # noqa: E402
from output import report  # noqa: E402

PROGRAMS = ("lengths", "experts", "phases")
POLICIES = ("foresight", "window")
WARM_UP_STEPS = 6
SLOWER_MAX = 1.03
TIMEOUT_S = 1800


def measure(program, arguments):
    script = [sys.executable, HERE / "training" / "vary.py", "--program", program, "--steps", arguments.steps,
              *(["--quick"] if arguments.quick else [])]
    options = {"flash": arguments.flash, "env": children.environment(), "timeout": TIMEOUT_S}
    _, summary = children.ebb_run(script, memory=contenders.memory_for_all(), **options)
    peak = summary["peak_live_bytes"] + summary["small_bytes"]
    budget = max(int(peak / 3) // contenders.BLOCK_BYTES, contenders.BLOCKS_MIN) * contenders.BLOCK_BYTES
    seconds = {name: [] for name in ("stock", *POLICIES)}
    bits = set()
    for _ in range(arguments.rounds):
        turns = {"stock": children.run(script, env=children.environment(), timeout=TIMEOUT_S).check()}
        for policy in POLICIES:
            turns[policy], _ = children.ebb_run(script, memory=budget, policy=policy, **options)
        for name, child in turns.items():
            seconds[name].append(sum(child.all("seconds")[WARM_UP_STEPS:]))
            bits.add(tuple(child.all("bits")))
    return {"program": program, "peak_bytes": peak, "budget_bytes": budget, "seconds": seconds,
            "losses_equal": len(bits) == 1}


def table(results):
    lines = [["program", "memory", "stock", *POLICIES, "foresight / window", "losses"]]
    for result in results:
        median = {name: statistics.median(turns) for name, turns in result["seconds"].items()}
        memory = f"{format_size(result['budget_bytes'])} of {format_size(result['peak_bytes'])}"
        lines.append([result["program"], memory,
                      *(f"{median[name]:.2f} s" for name in ("stock", *POLICIES)),
                      f"{median['foresight'] / median['window']:.2f}",
                      "equal bit for bit" if result["losses_equal"] else "NOT equal"])
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, of " + ", ".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3, help="turns of every contender (default 3)")
    parser.add_argument("--steps", type=int, default=24, help="steps a turn, of which the first six do not count")
    parser.add_argument("--flash", help="directory for flash")
    parser.add_argument("--quick", action="store_true", help="tiny programs and one round, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    programs = arguments.programs.split(",")
    unknown = [name for name in programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"--programs {unknown[0]}: choose from {', '.join(PROGRAMS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1")
    if arguments.steps <= WARM_UP_STEPS:
        parser.error(f"--steps {arguments.steps}: more than {WARM_UP_STEPS}")
    if arguments.quick:
        arguments.rounds = 1
    results = {"date": datetime.date.today().isoformat(), "machine": describe_machine(), "rounds": arguments.rounds,
               "steps": arguments.steps, "programs": []}
    try:
        ebb_binary()
        arguments.flash = flash_directory(arguments.flash)
        for program in programs:
            results["programs"].append(measure(program, arguments))
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    report(results, table(results["programs"]), "varying", arguments)
    good = all(result["losses_equal"] and statistics.median(result["seconds"]["foresight"])
               <= SLOWER_MAX * statistics.median(result["seconds"]["window"]) for result in results["programs"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
