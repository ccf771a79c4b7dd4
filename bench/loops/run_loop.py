"""Child of bench/simulated/loops.py: builds one loop and takes its steps. JSON lines, seconds and loss of each."""

import argparse
import importlib
import json
import time

import catalogue
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loop", choices=catalogue.LOOPS)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--quick", action="store_true", help="the same at a size that runs in moments")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    loop = catalogue.LOOPS[arguments.loop]
    step = getattr(importlib.import_module(loop.file), arguments.loop)(arguments.quick)
    if loop.marked:
        import ebbtide
    for _ in range(arguments.steps):
        started = time.perf_counter()
        loss = step()
        if loop.marked:
            ebbtide.step()
        print(json.dumps({"seconds": time.perf_counter() - started, "loss": loss}), flush=True)


if __name__ == "__main__":
    main()
