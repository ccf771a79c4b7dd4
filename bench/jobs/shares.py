#!/usr/bin/env python3
"""Two ranks under one budget: what a job's shares are worth, beside shares set by hand and equal ones.

    bench/jobs/shares.py --flash /nvme --rounds 5

Alike: DistributedDataParallel trains an MLP with AdamW in a third of what both ranks have, under one `ebb run`, and
with an `ebb run` for each rank that has half of that budget. Uneven: each rank trains a model of its own, one of three
times the state of the other, and they wait for each other after each step, in three quarters of what both have; with
shares that follow the waiting, and with `--share equal`. Contenders take turns. Printed: seconds a step, of the slower
rank, medians with the least and the most; exit code 1 if losses differ from stock's.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training")]

from children import ChildError, ebb_binary, flash_directory  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.jobs.shares import table  # noqa: E402

STATE = 16  # bytes for each weight: itself, its gradient, two moments
LAYERS, TIMES = 4, 3
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "localhost:0"]


def rank_main(arguments):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    uneven = arguments.role == "uneven"
    layers = LAYERS * (TIMES if uneven and dist.get_rank() == 0 else 1)
    model = torch.nn.Sequential(*[torch.nn.Linear(arguments.width, arguments.width) for _ in range(layers)])
    if not uneven:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, losses = [], []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = model(torch.randn(16, arguments.width)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        if uneven:
            dist.barrier()
        times.append(time.perf_counter() - start)
    line = json.dumps({"rank": dist.get_rank(), "times": times[arguments.steps // 2:], "losses": losses})
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # whole, although the other rank writes, too
    dist.destroy_process_group()


def run(role, prefix, launcher, arguments):
    """Seconds a step of the slower rank, and both ranks' losses."""
    command = [*prefix, *TORCHRUN, *launcher, __file__, "--role", role, "--width", arguments.width, "--steps",
               arguments.steps]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [str(word) for word in command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}: {done.stderr.strip()[-2000:]}")
    ranks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ranks.sort(key=lambda each: each["rank"])
    return max(statistics.median(each["times"]) for each in ranks), [each["losses"] for each in ranks]


def jobs(arguments, flash, ebb):
    """Both, with what runs before the launcher in each contender, and what the launcher is told before the program."""
    state = LAYERS * arguments.width**2 * STATE
    managed = [ebb, "run", "--quiet", "--flash", flash, "--memory"]
    third, three_quarters = 2 * state // 3, (1 + TIMES) * state * 3 // 4
    return [{"name": "alike", "state_bytes": 2 * state, "budget_bytes": third,
             "commands": {
                 "stock": ([], []), "one ebb run": ([*managed, third, "--"], []),
                 "an ebb run each, a half": ([], ["--no-python", *managed, third // 2, "--", sys.executable])}},
            {"name": "uneven", "state_bytes": (1 + TIMES) * state, "budget_bytes": three_quarters,
             "commands": {"stock": ([], []), "one ebb run": ([*managed, three_quarters, "--"], []),
                          "--share equal": ([*managed, three_quarters, "--share", "equal", "--"], [])}}]


def measure(job, rounds, arguments, show):
    """Adds the contenders' turns to the job."""
    job["contenders"] = {name: [] for name in job["commands"]}
    expected = None
    for turn in range(rounds):
        for name, (prefix, launcher) in job["commands"].items():
            show(f"{job['name']}, {name}, round {turn + 1} of {rounds}")
            seconds, losses = run(job["name"], prefix, launcher, arguments)
            expected = expected or losses
            job["contenders"][name].append({"seconds": seconds, "equal": losses == expected})
    del job["commands"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--flash", help="directory on the disk that is measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=24, help="of which the later half counts")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        return rank_main(arguments)
    show, results = progress_line(arguments.json), {**sitting(), "rounds": arguments.rounds}
    try:
        with tempfile.TemporaryDirectory(prefix="ebb-shares-", dir=flash_directory(arguments.flash)) as flash:
            results["jobs"] = jobs(arguments, flash, ebb_binary())
            for job in results["jobs"]:
                measure(job, arguments.rounds, arguments, show)
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    show("")
    report(results, table(results), "shares", arguments)
    turns = [turn for job in results["jobs"] for each in job["contenders"].values() for turn in each]
    return 0 if all(turn["equal"] for turn in turns) else 1


if __name__ == "__main__":
    sys.exit(main())
