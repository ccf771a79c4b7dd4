#!/usr/bin/env python3
"""The benchmarks (`make bench`): Ebbtide beside what one would use without it, on the same machine, in one sitting.

    bench/run.py training     step times of whole models: stock, stock tuned, all memory to an eighth, kernel swap
    bench/run.py operators    microseconds that announcing adds to one operator
    bench/run.py              both

Contenders take turns by rounds (A B C A B C …), each turn a process of its own, so that a machine that slows down slows
all of them. What may use a part of the memory runs in a cgroup of that part and of what the interpreter takes, whoever
it is. Reported are medians over rounds with the least and the most, beside stock PyTorch tuned as well as we know how,
and beside the proved bound on the disk as it was in this sitting. How each number is measured: docs/benchmarks.md.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import contenders  # noqa: E402
from children import ChildError, ebb_binary, flash_directory  # noqa: E402
from output import print_table, progress_line, save, sitting  # noqa: E402
from reports import training as report  # noqa: E402

MODELS = ("gpt2", "resnet152", "mlp", "mlp_fused", "experts", "lengths", "phases")  # as in training/models.py
SLOWER_MAX = 1.03  # of foresight, beside window, where iterations differ


def numbers(text):
    if not all(word.isdecimal() and int(word) > 0 for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}': numbers, as 2,3,4,8")
    return [int(word) for word in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("benchmark", nargs="?", choices=("training", "operators", "all"), default="all")
    parser.add_argument("--models", help=f"comma-separated, of {', '.join(MODELS)} (default all; --quick: mlp_fused)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contender (default 5)")
    parser.add_argument("--steps", type=int, default=6, help="steps a turn, the first two of which do not count; 24, "
                        "the first six, where iterations differ")
    parser.add_argument("--shares", type=numbers, help="of the peak: 3 is a third (default 2,3,4,8; --quick: 3)")
    parser.add_argument("--flash", help="directory for flash and for the swap file")
    parser.add_argument("--quick", action="store_true", help="a tiny model and one round, to see that it works")
    parser.add_argument("--with-swap", action="store_true",
                        help="also tuned stock on a swap file and on zram, where there are any; makes and removes them")
    parser.add_argument("--with-guide", action="store_true",
                        help="also the managed run with a guide for its first two steps (ebb run --guide)")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of tables")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.models = (arguments.models or ("mlp_fused" if arguments.quick else ",".join(MODELS))).split(",")
    arguments.shares = arguments.shares or ([3] if arguments.quick else [2, 3, 4, 8])
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"--models {unknown[0]}: choose from {', '.join(MODELS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1")
    if arguments.steps <= contenders.WARM_UP_STEPS:
        parser.error(f"--steps {arguments.steps}: at least {contenders.WARM_UP_STEPS + 1}")
    if arguments.quick:
        arguments.rounds = 1
    return arguments


def measure_training(arguments, progress, failed):
    """Each model in its turn, printed as it is done, for the whole takes hours. Yields their results; a model that does
    not run here is named in `failed`, and the others go on."""
    for name in arguments.models:
        try:
            result = contenders.Sitting(name, arguments, progress).measure()
        except ChildError as error:
            failed.append(f"{name} did not run: {error}")
            continue
        progress("")
        if not arguments.json:
            print(report.title(result))
            print_table(report.table(result))
            for note in result["notes"]:
                print(f"  {note}")
            print(flush=True)
        yield result


def problems(results):
    """What is wrong with what was measured."""
    for result in results:
        if not result["losses_equal"]:
            yield f"the losses of {result['model']} differ between contenders"
        for label, turns in result["contenders"].items():
            if label.startswith("ebb run") and not turns:
                yield f"{result['model']}: {label} did not run"
        window = next((label for label in result["contenders"] if "--policy window" in label), None)
        if window:
            planned = f"ebb run, {window.split(', ')[1]}"
            ours, theirs = (report.median_of(result, label) for label in (planned, window))
            if ours and theirs and ours > SLOWER_MAX * theirs:
                yield f"{result['model']}: foresight takes {ours / theirs:.2f} times as long as window"


def main():
    arguments = parse_arguments()
    progress = progress_line(arguments.json)
    head = {**sitting(), "rounds": arguments.rounds, "quick": arguments.quick}
    found, failed = [], []
    try:
        arguments.flash = flash_directory(arguments.flash)
        ebb_binary()  # says what to do if it is missing, before minutes of stock runs
        if not arguments.json:
            print(f"{head['machine']}; {head['date']}\n")
        whole = {**head}
        if arguments.benchmark in ("training", "all"):
            for result in measure_training(arguments, progress, failed):
                found.append(result)
                if arguments.save:  # after each, so that an end before the end costs one model
                    alike = [each for each in found if each["varies"] == result["varies"]]
                    name = "varying" if result["varies"] else "training"  # a table each
                    print(f"saved {save({**head, 'training': alike}, name)}", file=sys.stderr)
            whole["training"] = found
        if arguments.benchmark in ("operators", "all"):
            whole["operators"] = contenders.operators(arguments, progress)
            progress("")
            if not arguments.json:
                print_table(report.operators_table(whole["operators"]))
            if arguments.save:
                print(f"saved {save({**head, 'operators': whole['operators']}, 'operators')}", file=sys.stderr)
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(whole, indent=1))
    wrong = list(problems(found)) if not arguments.quick else [
        f"the losses of {result['model']} differ" for result in found if not result["losses_equal"]]
    for text in failed + wrong:
        print(f"bench: {text}", file=sys.stderr)
    return 1 if failed + wrong else 0


if __name__ == "__main__":
    sys.exit(main())
