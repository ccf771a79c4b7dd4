#!/usr/bin/env python3
"""Prediction beside reality: what `ebb sim` and `ebb plan` say a step takes, and what it takes under `ebb run`.

For every model and budget one turn of `ebb run --record` gives the step time, the median without the first three
steps, and a trace. `ebb sim` then runs that trace on the machine that the trace names, whose disk is as fast as it
was in that turn; `ebb plan --` predicts the same step without running it, from fake tensors and what `ebb calibrate`
has measured of kernels and disk. The bound (docs/design/0005) is that of the recorded trace on the disk as `ebb
calibrate` finds it with nothing beside it. Exit code 1 if a simulated step is off by more than 10 %, or a predicted
one by more than 25 %.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
import contenders  # noqa: E402
from children import ChildError, ebb_binary, flash_directory, format_size  # noqa: E402
from machine import describe_machine  # noqa: E402
from output import report  # noqa: E402

SHARES = {"1/2": 1 / 2, "1/3": 1 / 3, "1/4": 1 / 4, "1/8": 1 / 8}
SIMULATED_MAX, PREDICTED_MAX = 0.10, 0.25  # how far off a step time may be
TIMEOUT_S = 1800


def ask(command, *words):
    """The JSON object that a command of `ebb` prints."""
    environment = {**children.environment(), "EBB_PYTHON": sys.executable}
    child = children.run([ebb_binary(), command, "--json", *words], env=environment, timeout=TIMEOUT_S).check()
    return json.loads(child.stdout)


def flash_options(flash):
    """The disk as the options of `ebb plan` name it, with nothing beside it."""
    speeds = ask("calibrate", "--flash", flash)["flash"]
    together = speeds["read_mixed_bps"] + speeds["write_mixed_bps"]
    total = together if together < speeds["read_bps"] + speeds["write_bps"] else 0
    return ["--flash-read", f"{speeds['read_bps']:.0f}", "--flash-write", f"{speeds['write_bps']:.0f}",
            "--flash-total", f"{total:.0f}"]


def measure(script, budget, arguments, trace):
    child, summary = children.ebb_run(script, memory=budget, flash=arguments.flash, record=trace,
                                      env=children.environment(), timeout=TIMEOUT_S)
    steps = child.all("seconds")[3:]
    return statistics.median(steps), summary


def compare(name, share, peak, speeds, arguments):
    budget = max(int(peak * SHARES[share]) // contenders.BLOCK_BYTES, contenders.BLOCKS_MIN) * contenders.BLOCK_BYTES
    script = contenders.script_of(name, arguments.steps, arguments.quick)
    with tempfile.TemporaryDirectory(prefix="ebb-prediction-") as folder:
        trace = os.path.join(folder, "trace.jsonl")
        measured, summary = measure(script, budget, arguments, trace)
        recorded = ask("sim", trace, "--policy", "foresight")
        bound = ask("plan", trace, *speeds)["bound"]["clean_copies_kept"]
    planned = ask("plan", "--memory", budget, "--flash", arguments.flash, "--", *script)["budgets"][0]
    simulated = recorded["results"][0]
    return {"model": name, "share": share, "budget_bytes": budget, "measured_s": measured,
            "simulated_s": simulated["iteration_ns"] * 1e-9, "bound_s": bound["total_ns"] * 1e-9,
            "predicted_s": planned["step_ns"] * 1e-9, "flash": speeds[1::2], "recorded_on": recorded["machine"],
            "moved_bytes_a_step": (summary["fetched_bytes"] + summary["evicted_bytes"]) / max(summary["steps"], 1)}


def table(rows):
    lines = [["model", "memory", "measured", "ebb sim", "off by", "ebb plan", "off by", "bound", "of bound"]]
    for row in rows:
        off = [f"{row[key] / row['measured_s'] - 1:+.0%}" for key in ("simulated_s", "predicted_s")]
        memory = f"{row['share']} ({format_size(row['budget_bytes'])})"
        lines.append([row["model"], memory, f"{row['measured_s']:.2f} s",
                      f"{row['simulated_s']:.2f} s", off[0], f"{row['predicted_s']:.2f} s", off[1],
                      f"{row['bound_s']:.2f} s", f"{row['bound_s'] / row['measured_s']:.0%}"])
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", default="resnet152,mlp,gpt2", help="comma-separated (resnet152,mlp,gpt2)")
    parser.add_argument("--steps", type=int, default=9, help="steps a turn, of which the first three do not count")
    parser.add_argument("--flash", help="directory for flash")
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    if arguments.steps < 4:
        parser.error(f"--steps {arguments.steps}: at least 4")
    results = {"date": datetime.date.today().isoformat(), "machine": describe_machine(), "rows": []}
    try:
        arguments.flash = flash_directory(arguments.flash)
        for name in arguments.models.split(","):
            speeds = flash_options(arguments.flash)
            peak = contenders.peak_bytes(name, arguments)
            for share in SHARES:
                results["rows"].append(compare(name, share, peak, speeds, arguments))
                if sys.stderr.isatty():
                    print(f"{name} at {share}", file=sys.stderr)
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    report(results, table(results["rows"]), "prediction", arguments)
    off = [row for row in results["rows"] if abs(row["simulated_s"] / row["measured_s"] - 1) > SIMULATED_MAX
           or abs(row["predicted_s"] / row["measured_s"] - 1) > PREDICTED_MAX]
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
