#!/usr/bin/env python3
"""Training on a GPU with a part of the memory it needs: Ebbtide, on demand and ahead, beside save_on_cpu and no limit.

Each model needs so much GPU memory at its peak, which an unlimited run tells; then it trains with 1/2, 1/4 and 1/8 of
that. A contender whose losses are not stock's is marked. `--traces DIR` writes instead what `ebb run --record` says of
five models at four batch sizes, for `ebb plan` and `ebb sim`.
"""

import argparse
import pathlib
import statistics
import sys

from output import report, sitting

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
from children import ChildError, format_size  # noqa: E402

BATCHES = {"gpt2": 4, "vit": 32, "resnet152": 32}
TRACED = {"gpt2": (1, 2, 4, 8), "vit": (8, 16, 32, 64), "resnet152": (8, 16, 32, 64), "bert": (2, 4, 8, 16),
          "mlp": (16, 64, 256, 1024)}
FRACTIONS = "2,4,8"
ROOMY = 1.25  # times the peak: where all fits
WARM_UP_STEPS = 3
TIMEOUT_S = 3600


def script(name, batch, arguments, *more):
    return [sys.executable, HERE / "training" / "gpu_train.py", "--model", name, "--batch", batch, "--steps",
            arguments.steps, *(["--quick"] if arguments.quick else []), *more]


def stock(name, arguments, *more):
    return children.run(script(name, BATCHES[name], arguments, *more), env=children.environment(), timeout=TIMEOUT_S)


def ebbtide(name, batch, arguments, device_memory, **options):
    environment = children.environment({"EBB_DEVICE_MEMORY": str(device_memory)})
    return children.ebb_run(script(name, batch, arguments), memory=arguments.memory, flash=arguments.flash,
                            env=environment, timeout=TIMEOUT_S, **options)[0]


def measure(child):
    """Median seconds of a step and the losses; or why there are none."""
    if child.returncode != 0:
        text = child.tail(3)
        return {"failed": "out of memory" if "OutOfMemory" in text or "at once" in text else text}
    return {"seconds": statistics.median(child.all("seconds")[WARM_UP_STEPS:]), "bits": child.all("bits")}


def contender(what, progress, function):
    try:
        result = measure(function())
    except ChildError as error:
        result = {"failed": error.reason()}
    progress(f"  {what}: {result.get('failed') or format(result['seconds'], '.4f') + ' s a step'}")
    return result


def train(name, arguments, progress):
    progress(f"{name}: without a limit")
    unlimited = stock(name, arguments).check()
    peak, rows = unlimited.find("peak_bytes"), []

    def managed(what, memory, **options):
        return contender(what, progress, lambda: ebbtide(name, BATCHES[name], arguments, memory, **options))

    progress(f"  {measure(unlimited)['seconds']:.4f} s a step, {format_size(peak)}")
    roomy = managed("with room for all", int(peak * ROOMY))
    for fraction in map(int, arguments.fractions.split(",")):
        memory = peak // fraction
        progress(f"{name}: {format_size(memory)}")
        rows.append({
            "fraction": fraction, "memory_bytes": memory,
            "save_on_cpu": contender("save_on_cpu", progress,
                                     lambda: stock(name, arguments, "--memory", memory, "--save-on-cpu")),
            "on_demand": managed("on demand", memory, policy="window"), "ahead": managed("ahead", memory)})
    return {"model": name, "batch": BATCHES[name], "peak_bytes": peak, "unlimited": measure(unlimited),
            "roomy": roomy, "rows": rows}


def trace(arguments, progress):
    folder = pathlib.Path(arguments.traces)
    folder.mkdir(parents=True, exist_ok=True)
    for name, batches in TRACED.items():
        for batch in batches:
            progress(f"{name}, batch {batch}")
            try:
                ebbtide(name, batch, arguments, arguments.device_memory, record=folder / f"{name}-{batch}.jsonl.gz")
            except ChildError as error:
                progress(f"  {str(error).splitlines()[-1]}")


def cell(result, unlimited):
    if "failed" in result:
        return result["failed"][:24]
    mark = "" if result["bits"] == unlimited["bits"] else " differs"
    return f"{result['seconds'] / unlimited['seconds']:.2f}x{mark}"


def table(models):
    rows = [("model", "GPU memory", "save_on_cpu", "on demand", "ahead")]
    for model in models:
        rows.append((f"{model['model']} ({model['unlimited']['seconds']:.3f} s a step)",
                     format_size(model["peak_bytes"]), "", "", "1.00x"))
        rows.append(("  with room for all", "", "", "", cell(model["roomy"], model["unlimited"])))
        for row in model["rows"]:
            rows.append((f"  1/{row['fraction']}", format_size(row["memory_bytes"]),
                         *(cell(row[name], model["unlimited"]) for name in ("save_on_cpu", "on_demand", "ahead"))))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", default=",".join(BATCHES), help=f"comma-separated ({','.join(BATCHES)})")
    parser.add_argument("--steps", type=int, default=10, help=f"steps a run; the first {WARM_UP_STEPS} do not count")
    parser.add_argument("--fractions", default=FRACTIONS, help=f"of the memory that it needs, 1/N [{FRACTIONS}]")
    parser.add_argument("--memory", default="48GiB", help="host memory to pin [48GiB]")
    parser.add_argument("--flash", help="directory for flash")
    parser.add_argument("--traces", help="write traces into this directory instead")
    parser.add_argument("--device-memory", default="60GiB", help="for traces [60GiB]")
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()

    def progress(text):
        print(text, file=sys.stderr, flush=True)

    if arguments.steps <= WARM_UP_STEPS:
        parser.error(f"--steps {arguments.steps}: more than {WARM_UP_STEPS}")
    if arguments.traces:
        return trace(arguments, progress)
    import torch

    if not torch.cuda.is_available():
        sys.exit("bench/gpu.py: PyTorch sees no GPU on this machine")
    head = sitting()
    results = {**head, "quick": arguments.quick, "machine": torch.cuda.get_device_name(0),
               "models": [train(name, arguments, progress) for name in arguments.models.split(",")]}
    report(results, table(results["models"]), "gpu", arguments)
    return None


if __name__ == "__main__":
    main()
