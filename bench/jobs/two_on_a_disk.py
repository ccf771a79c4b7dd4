#!/usr/bin/env python3
"""Two processes of a job on one disk: how long fetches of one take, alone and beside one that writes as much as it can.

    bench/jobs/two_on_a_disk.py --flash /nvme

Both run under one `ebb run --share equal` with tensors of three times their share. The reader touches blocks at
random, two of three absent, and waits for each; nothing tells what it will touch. The writer adds 1 to all of its
tensors, again and again. It is stopped and continued by signals, so that turns of the reader alone and beside it
alternate. Printed: the reader's fetches and how long they took, and what the writer got through.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training")]

MIB = 2**20
BLOCK = 2 * MIB
RESIDENT_S = 1e-4  # a touch that took less was of a block that was there


def read_at_random(size):
    """For as many seconds as a line of standard input says: answers with how long each touch took."""
    import torch

    tensor = torch.ones(size // 4)
    draw = random.Random(1)
    print("ready", flush=True)
    for line in sys.stdin:
        end, took = time.perf_counter() + float(line), []
        while (start := time.perf_counter()) < end:
            tensor[draw.randrange(size // BLOCK) * (BLOCK // 4)].item()
            took.append(time.perf_counter() - start)
        print(json.dumps(took), flush=True)


def write_all(size):
    """A line for each time that all has been changed."""
    import torch

    tensors = [torch.zeros(2 * MIB) for _ in range(size // (8 * MIB))]
    print("ready", flush=True)
    while True:
        for tensor in tensors:
            tensor += 1
        print(size, flush=True)


def start(rank, role, size):
    ranks = {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, __file__, "--role", role, "--size", str(size)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **ranks})
    process.stdout.readline()
    return process


def quantiles(took):
    absent = sorted(seconds for seconds in took if seconds > RESIDENT_S)
    at = lambda share: 1e3 * absent[min(len(absent) - 1, int(share * len(absent)))]
    return (f"{len(absent)} fetches, p50 {at(0.5):.1f} ms, p90 {at(0.9):.1f} ms, p99 {at(0.99):.1f} ms, "
            f"longest {at(1):.1f} ms")


def both(arguments):
    reader, writer = start(0, "reader", arguments.size), start(1, "writer", arguments.size)
    os.set_blocking(writer.stdout.fileno(), False)
    took, seconds = {"alone": [], "beside": []}, 0
    os.kill(writer.pid, signal.SIGSTOP)
    for turn in range(arguments.rounds):
        for kind in ("alone", "beside") if turn % 2 == 0 else ("beside", "alone"):
            began = time.perf_counter()
            if kind == "beside":
                os.kill(writer.pid, signal.SIGCONT)
            time.sleep(0.5)  # what was under way is over, or has begun
            reader.stdin.write(f"{arguments.seconds}\n")
            reader.stdin.flush()
            took[kind] += json.loads(reader.stdout.readline())
            if kind == "beside":
                os.kill(writer.pid, signal.SIGSTOP)
                seconds += time.perf_counter() - began
    passes = len((writer.stdout.read() or "").split())
    for kind, some in took.items():
        print(f"reader {kind}: {arguments.rounds * arguments.seconds:.0f} s, {quantiles(some)}", flush=True)
    print(f"writer beside it: {passes * arguments.size / 2**30 / seconds:.2f} GiB/s of its tensors", flush=True)
    writer.kill()
    reader.stdin.close()
    reader.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", type=int, default=600 * MIB, help="bytes of tensors of each (default 600 MiB)")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each kind (default 4)")
    parser.add_argument("--seconds", type=float, default=2, help="of a turn (default 2)")
    parser.add_argument("--flash", help="directory for flash [a temporary one]")
    parser.add_argument("--role", choices=("both", "reader", "writer"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        return {"both": lambda: both(arguments), "reader": lambda: read_at_random(arguments.size),
                "writer": lambda: write_all(arguments.size)}[arguments.role]()
    from children import ebb_binary, flash_directory

    with tempfile.TemporaryDirectory(prefix="ebb-disk-", dir=flash_directory(arguments.flash)) as flash:
        words = ["--size", arguments.size, "--rounds", arguments.rounds, "--seconds", arguments.seconds]
        run = [ebb_binary(), "run", "--quiet", "--share", "equal", "--memory", 2 * arguments.size // 3,
               "--flash", flash]
        return subprocess.run(list(map(str, [*run, "--", sys.executable, __file__, "--role", "both", *words])),
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
