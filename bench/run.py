#!/usr/bin/env python3
"""The benchmarks (`make bench`): Ebbtide beside what one would use without it, on the same machine, in one table.

    bench/run.py training     step times of whole models: stock, a third of the peak, kernel swap, room for everything
    bench/run.py operators    microseconds that announcing adds to one operator
    bench/run.py              both

Contenders take turns by rounds (A B C A B C …), each round a process of its own, so that a machine that slows down
slows all of them. Reported are medians over all rounds without the first two steps of each, and ratios of medians.
How each number is measured: docs/benchmarks.md.
"""

import argparse
import datetime
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import contenders  # noqa: E402
from children import ChildError, ebb_binary, flash_directory  # noqa: E402
from machine import describe_machine  # noqa: E402
from output import print_table, progress_line, save  # noqa: E402

MODELS = ("gpt2", "resnet152", "mlp", "mlp_fused")  # as in training/models.py, which needs torch to be imported


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("benchmark", nargs="?", choices=("training", "operators", "all"), default="all")
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated, of " + ", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=3, help="turns of every contender (default 3)")
    parser.add_argument("--steps", type=int, default=6, help="steps a turn, the first two of which do not count")
    parser.add_argument("--share", type=float, default=1 / 3, help="of the peak for the managed run (default 1/3)")
    parser.add_argument("--flash", help="directory for flash and for the swap file")
    parser.add_argument("--quick", action="store_true", help="tiny models and one round, to see that it works")
    parser.add_argument("--with-swap", action="store_true",
                        help="also stock PyTorch on kernel swap; makes and removes a swap file, needs root")
    parser.add_argument("--with-guide", action="store_true",
                        help="also the managed run with a guide for its first two steps (ebb run --guide)")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of tables")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.models = arguments.models.split(",")
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"--models {unknown[0]}: choose from {', '.join(MODELS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1")
    if arguments.steps <= contenders.WARM_UP_STEPS:
        parser.error(f"--steps {arguments.steps}: at least {contenders.WARM_UP_STEPS + 1}")
    if not 0.05 <= arguments.share <= 1:
        parser.error(f"--share {arguments.share:g}: give a part of the peak between 0.05 and 1")
    if arguments.quick:
        arguments.rounds = 1
    return arguments


def measure(arguments, results):
    progress = progress_line(arguments.json)
    if arguments.benchmark in ("training", "all"):
        results["training"] = []
        for name in arguments.models:
            result = contenders.training(name, arguments, progress)
            results["training"].append(result)
            progress("")
            if not arguments.json:
                print(contenders.training_title(result))
                print_table(contenders.training_table(result))
                for note in result["notes"]:
                    print(f"  {note}")
                print()
    if arguments.benchmark in ("operators", "all"):
        results["operators"] = contenders.operators(arguments, progress)
        progress("")
        if not arguments.json:
            print_table(contenders.operators_table(results["operators"]))


def main():
    arguments = parse_arguments()
    results = {"date": datetime.date.today().isoformat(), "machine": describe_machine(), "rounds": arguments.rounds,
               "steps": arguments.steps, "quick": arguments.quick}
    try:
        arguments.flash = flash_directory(arguments.flash)
        ebb_binary()  # says what to do if it is missing, before minutes of stock runs
        if not arguments.json:
            print(f"{results['machine']}; {results['date']}\n")
        measure(arguments, results)
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(results, indent=1))
    if arguments.save:
        print(f"saved {save(results, arguments.benchmark)}", file=sys.stderr)
    different = [result["model"] for result in results.get("training", []) if not result["losses_equal"]]
    if different:
        print(f"bench: the losses of {', '.join(different)} differ between contenders", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
