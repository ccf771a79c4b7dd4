"""The training script of the benchmark, the same for every contender; it knows nothing of Ebbtide.

Prints JSON lines: the process's memory before the model, then each step's duration and the bits of its loss, and at
the end the most memory the process ever had. The same seed gives every contender the same data.
"""

import argparse
import json
import pathlib
import random
import struct
import time

import models
import torch


def status_bytes(field):
    for line in pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=models.BUILDERS, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    random.seed(0)
    if arguments.model == "gpt2":
        import transformers  # noqa: F401: its pages belong to the baseline

    print(json.dumps({"baseline_rss_bytes": status_bytes("VmRSS"), "threads": torch.get_num_threads(),
                      "torch": torch.__version__}), flush=True)
    model, optimizer, make_batch, loss_of = models.build(arguments.model, arguments.quick)
    model.train()
    for step in range(arguments.steps):
        started = time.perf_counter()
        evaluates = models.evaluates(arguments.model, step)
        if not evaluates:
            optimizer.zero_grad()
        with torch.set_grad_enabled(not evaluates):
            loss = loss_of(make_batch())
        if not evaluates:
            loss.backward()
            optimizer.step()
        bits = struct.pack(">f", loss.item()).hex()
        print(json.dumps({"step": step, "bits": bits, "seconds": time.perf_counter() - started}), flush=True)
    print(json.dumps({"peak_rss_bytes": status_bytes("VmHWM")}), flush=True)


if __name__ == "__main__":
    main()
