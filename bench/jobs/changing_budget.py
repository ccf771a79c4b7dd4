#!/usr/bin/env python3
"""Budgets that change every second while two processes of an `ebb run` train: same losses, and never more than that.

    bench/jobs/changing_budget.py --minutes 10 --flash /nvme

Each process trains an MLP with AdamW, and a thread of it sets its budget every second to something else, at random
between an eighth of its state and all of it (`ebbtide.set_memory`), while the broker of the job divides half of what
both have among them. A second after each change it is noted by how much more than the new budget is in use. In the end
both are trained again, on stock PyTorch and for as many steps, and losses are compared bit by bit. Printed: one JSON
object for each process; exit code 1 if losses differ or more than a block too much was in use.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training"), str(HERE.parent / "python/tests/support")]

MIB = 2**20
BLOCK = 2 * MIB
WIDTH = 1024
STATE = 16  # bytes for each weight: itself, its gradient, two moments
LEAST_PART = 8
EVERY_S = 1
PROCESSES = 2


class Changes(threading.Thread):
    """A budget every second, until stop()."""

    def __init__(self, least, most, seed):
        super().__init__(daemon=True)
        self._least, self._most, self._random = least, most, random.Random(seed)
        self._over = threading.Event()
        self.beyond, self.outside, self.took, self.refused = [], [], [], {}

    def run(self):
        import ebbtide
        import job_processes

        while not self._over.is_set():
            wish, began = self._random.randint(self._least, self._most), time.monotonic()
            try:
                ebbtide.set_memory(wish)
            except ebbtide.Error as error:
                why = str(error).rpartition(": ")[2]
                self.refused[why] = self.refused.get(why, 0) + 1
                wish = None
            self.took.append(time.monotonic() - began)
            self._over.wait(max(0, EVERY_S - self.took[-1]))
            if wish is not None and not self._over.is_set():
                resident = ebbtide.stats()["resident_bytes"]
                self.beyond.append(resident - wish)
                self.outside.append(job_processes.pss(os.getpid()) - resident)

    def stop(self):
        self._over.set()
        self.join()
        return {"changes": len(self.beyond), "refused": self.refused, "most_beyond_bytes": max(self.beyond),
                "longest_change_s": round(max(self.took), 3),
                "pss_less_resident_bytes": [min(self.outside), max(self.outside)]}


def train(arguments):
    """For so many steps, or as long as budgets are to change."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    layers = arguments.size // (STATE * WIDTH * WIDTH)
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses, changes, end = [], None, float("inf")
    while len(losses) < arguments.steps and time.monotonic() < end:
        loss = model(torch.randn(64, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        if changes is None and arguments.seconds:
            changes = Changes(arguments.size // LEAST_PART, arguments.size, arguments.seed)
            changes.start()
            end = time.monotonic() + arguments.seconds
    pathlib.Path(arguments.result).write_text(json.dumps({"losses": losses, **(changes.stop() if changes else {})}),
                                              encoding="utf-8")


def start(folder, name, size, seed, **options):
    path = pathlib.Path(folder, f"{name}{seed}.json")
    words = {"role": "train", "size": size, "seed": seed, "result": path, **options}
    return subprocess.Popen([sys.executable, __file__, *(f"--{key}={value}" for key, value in words.items())]), path


def results(started):
    codes = [process.wait() for process, _ in started]
    if any(codes):
        raise SystemExit(f"a training ended with {codes}")
    return [json.loads(path.read_text(encoding="utf-8")) for _, path in started]


def both(arguments):
    """What `ebb run` starts."""
    results([start(arguments.result, "managed", arguments.size, seed, seconds=arguments.seconds)
             for seed in range(PROCESSES)])


def compare(arguments):
    from children import ebb_binary, flash_directory

    seconds = arguments.seconds or 60 * arguments.minutes
    failed = False
    with tempfile.TemporaryDirectory(prefix="ebb-budget-", dir=flash_directory(arguments.flash)) as folder:
        run = [ebb_binary(), "run", "--quiet", "--memory", PROCESSES * arguments.size // 2, "--block", BLOCK, "--flash",
               folder, "--", sys.executable, __file__, "--role=both", f"--result={folder}", f"--size={arguments.size}",
               f"--seconds={seconds}"]
        subprocess.run(list(map(str, run)), check=True)
        for seed in range(PROCESSES):
            managed = json.loads(pathlib.Path(folder, f"managed{seed}.json").read_text(encoding="utf-8"))
            losses = managed.pop("losses")
            (stock,) = results([start(folder, "stock", arguments.size, seed, steps=len(losses))])
            equal = stock["losses"] == losses
            print(json.dumps({"steps": len(losses), "losses_equal": equal, **managed}), flush=True)
            failed |= not equal or managed["most_beyond_bytes"] > BLOCK
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=1, help="for which budgets change (default 1)")
    parser.add_argument("--seconds", type=float, default=0, help="the same in seconds")
    parser.add_argument("--size", type=int, default=256 * MIB, help="bytes of state of each process (default 256 MiB)")
    parser.add_argument("--flash", help="directory for flash [a temporary one]")
    parser.add_argument("--role", choices=("compare", "both", "train"), default="compare", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=float, default=float("inf"), help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return {"compare": compare, "both": both, "train": train}[arguments.role](arguments)


if __name__ == "__main__":
    sys.exit(main())
