"""The training script of the benchmark, the same for every contender; it knows nothing of Ebbtide.

Prints JSON lines: the process's memory before the model, then for each step its duration, what the process had of the
processors, what the host of a virtual machine took of them, and the bits of its loss; at the end the most memory the
process ever had. The same seed gives every contender the same data.
"""

import argparse
import json
import os
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


def clocks():
    """Seconds: the wall's, the processors' in this process, and the processors' that the host has taken from all."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()
    stolen = int(fields[8]) if len(fields) > 8 else 0
    return time.perf_counter(), time.process_time(), stolen / os.sysconf("SC_CLK_TCK")


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
        before = clocks()
        evaluates = models.evaluates(arguments.model, step)
        if not evaluates:
            optimizer.zero_grad()
        with torch.set_grad_enabled(not evaluates):
            loss = loss_of(make_batch())
        if not evaluates:
            loss.backward()
            optimizer.step()
        bits = struct.pack(">f", loss.item()).hex()
        seconds, processor_s, stolen_s = (now - then for now, then in zip(clocks(), before))
        print(json.dumps({"step": step, "bits": bits, "seconds": seconds, "processor_s": processor_s,
                          "stolen_s": stolen_s}), flush=True)
    print(json.dumps({"peak_rss_bytes": status_bytes("VmHWM")}), flush=True)


if __name__ == "__main__":
    main()
