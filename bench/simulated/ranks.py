#!/usr/bin/env python3
"""Ranks that share a drive and a network, simulated: from how many on one of the two binds (`ebb sim --ranks`).

    bench/simulated/ranks.py               1 to 1024 ranks of two models; prints the table
    bench/simulated/ranks.py --quick       1, 8 and 64

`resnet152`: the trace of the G10 artifact (bench/data/g10), batch 512 on an A100 with 40 GiB and a drive of 3.2 GB/s
each way. `mlp`: the benchmark's MLP with AdamW (bench/training/train.py) as `ebb plan` sees it, kernels estimated for
this machine, in a third of its peak on a drive of 2.52 GB/s for reads, 3.76 for writes and 3.45 for both. Eight ranks
share a drive, or each has its own; a ring of 12.5 GB/s or 1.25 GB/s and 10 us between neighbours. The model's
assumptions: docs/cli.md, `ebb sim`.
"""

import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training")]

import possible  # noqa: E402
from children import ChildError, ebb_binary  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.simulated.ranks import table  # noqa: E402

CASES = (("12.5GB/s", 8), ("12.5GB/s", 1), ("1.25GB/s", 1))  # the network, and how many ranks share a drive
DISK = ["--pcie", "1000000GB/s", "--flash-read", "2.52GB/s", "--flash-write", "3.76GB/s", "--flash-total", "3.45GB/s"]
TIMEOUT_S = 1800


def traces(folder):
    """By name: the trace, and the machine of a rank."""
    mlp = folder / "mlp.jsonl.gz"
    script = [sys.executable, HERE / "training/train.py", "--model", "mlp", "--steps", 4]
    speeds = [word for word in DISK if word not in ("--pcie", "1000000GB/s")]
    peak = possible.ask("plan", "--to", mlp, *speeds, "--", *script)["peak_bytes"]
    return {"resnet152": (HERE / "data/g10/traces/ResNet152-512.jsonl.gz", []),
            "mlp": (mlp, ["--device-memory", peak // 3, *DISK])}


def measure(numbers, progress):
    found = []
    with tempfile.TemporaryDirectory(prefix="ebb-ranks-") as folder:
        for name, (trace, machine) in traces(pathlib.Path(folder)).items():
            for network, per_drive in CASES:
                progress(f"{name}, {network}, {per_drive} on a drive")
                result = possible.ask("sim", trace, "--ranks", ",".join(map(str, numbers)), "--network", network,
                                      "--per-drive", per_drive, "--host-memory", 0, *machine, timeout=TIMEOUT_S)
                found.append({"name": name, **{key: value for key, value in result.items() if key != "trace"}})
    progress("")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer numbers of ranks, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    results = {**sitting(("torch",)), "jobs": []}
    try:
        ebb_binary()
        results["quick"] = arguments.quick
        numbers = (1, 8, 64) if arguments.quick else [2**power for power in range(11)]
        results["jobs"] = measure(numbers, progress_line(arguments.json))
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    report(results, table(results["jobs"]), "ranks", arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
