#!/usr/bin/env python3
"""Prediction beside reality: what `ebb plan` says a step will take, what it then takes, and what `ebb sim` says of it.

Out of sample: for each model the machine is calibrated, `ebb plan -- PROGRAM` foretells the step of every budget from
fake tensors, and only then the program runs, by rounds in turns, under `ebb run --record`. The results have the time of
the forecast and that of each turn. A step is the median of a turn without the first three steps.

`ebb sim` runs the trace of a turn in virtual time. Kernel times and disk are those of that very turn, so beside it
the simulator is tested and nothing foretold; beside the other turns, which it has not seen, it is a forecast. Both
are said. The bound (docs/design/0005) is that of the trace of a run with room for everything on the disk as it was
calibrated.
Exit code 1 if a prediction is off by more than 25 %, or the simulation of other turns by more than 10 %.
"""

import argparse
import datetime
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
import contenders  # noqa: E402
import possible  # noqa: E402
from children import ChildError, ebb_binary, flash_directory  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.prediction import off, table  # noqa: E402

SHARES = (2, 3, 4, 8)
MODELS = ("resnet152", "mlp", "gpt2")
SIMULATED_MAX, PREDICTED_MAX = 0.10, 0.25  # how far off a step time may be
WARM_UP_STEPS = 3
TIMEOUT_S = 1800


def now():
    return datetime.datetime.now().astimezone().isoformat(timespec="microseconds")


def predict(name, arguments, progress):
    """A row for each budget with what is foretold of it. Nothing of the program has run by then."""
    script = contenders.script_of(name, arguments.steps, arguments.quick)
    progress(f"{name}: calibrating")
    disk = possible.calibrate(arguments.flash)
    progress(f"{name}: predicting")
    peak = possible.ask("plan", "--flash", arguments.flash, "--", *script)["peak_bytes"]
    budgets = {share: contenders.budget_of(peak, share) for share in arguments.shares}
    planned = possible.ask("plan", "--memory", ",".join(map(str, budgets.values())), "--flash", arguments.flash, "--",
                           *script)["budgets"]
    if problem := next((each["problem"] for each in planned if "problem" in each), None):
        raise ChildError(f"ebb plan has no forecast for {name}: {problem}")
    rows = [{"model": name, "share": share, "budget_bytes": budget, "predicted_s": each["step_ns"] * 1e-9, "turns": []}
            for (share, budget), each in zip(budgets.items(), planned)]
    return rows, {"model": name, "peak_bytes": peak, "disk": disk, "predicted_at": now()}


def run(row, arguments, folder):
    """One turn: its steps, and what `ebb sim` makes of its trace."""
    trace = os.path.join(folder, "trace.jsonl")
    script = contenders.script_of(row["model"], arguments.steps, arguments.quick)
    started = now()
    child, summary = children.ebb_run(script, memory=row["budget_bytes"], flash=arguments.flash, record=trace,
                                      env=children.environment(), timeout=TIMEOUT_S)
    simulated = possible.ask("sim", trace, "--policy", "foresight")
    row["turns"].append({
        "started_at": started, "seconds": child.all("seconds"),
        "step_s": statistics.median(child.all("seconds")[WARM_UP_STEPS:]),
        "simulated_s": simulated["results"][0]["iteration_ns"] * 1e-9, "recorded_on": simulated["machine"],
        "moved_bytes_a_step": (summary["fetched_bytes"] + summary["evicted_bytes"]) / max(summary["steps"], 1)})


def measure(arguments, progress):
    models, rows = [], []
    for name in arguments.models:
        with tempfile.TemporaryDirectory(prefix="ebb-prediction-") as folder:
            found, model = predict(name, arguments, progress)
            for turn in range(arguments.rounds):
                for row in found:
                    progress(f"{name}: round {turn + 1} of {arguments.rounds}, 1/{row['share']}")
                    run(row, arguments, folder)
            progress(f"{name}: the bound")
            trace = os.path.join(folder, "all.jsonl")
            contenders.peak_bytes(name, arguments, trace, contenders.RECORD_STEPS)
            for row in found:
                row["bound_s"] = possible.bound(trace, row["budget_bytes"], model["disk"])["seconds"]
        models.append(model)
        rows += found
    progress("")
    return models, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", default=",".join(MODELS), help=f"comma-separated ({','.join(MODELS)})")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every budget (default 3)")
    parser.add_argument("--steps", type=int, default=9, help="steps a turn, of which the first three do not count")
    parser.add_argument("--flash", help="directory for flash")
    parser.add_argument("--quick", action="store_true", 
                        help="a tiny model, one budget and two rounds, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    if arguments.steps <= WARM_UP_STEPS or arguments.rounds < 1:
        parser.error(f"at least {WARM_UP_STEPS + 1} steps and one round")
    arguments.models, arguments.shares = arguments.models.split(","), SHARES
    if arguments.quick:
        arguments.models, arguments.shares, arguments.rounds = arguments.models[1:2] or arguments.models, (3,), 2
    results = {**sitting(), "quick": arguments.quick, "rounds": arguments.rounds, "steps": arguments.steps}
    try:
        ebb_binary()
        arguments.flash = flash_directory(arguments.flash)
        results["models"], results["rows"] = measure(arguments, progress_line(arguments.json))
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    report(results, table(results), "prediction", arguments)
    return 1 if any(abs(off(row, "predicted")) > PREDICTED_MAX or abs(off(row, "simulated") or 0) > SIMULATED_MAX
                    for row in results["rows"]) and not arguments.quick else 0


if __name__ == "__main__":
    sys.exit(main())
