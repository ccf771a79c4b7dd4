"""What one operator costs: microseconds a call of tiny operators on small parts of large tensors, and of allocations.

Run stock and under `ebb run` with room for everything by bench/run.py; the difference is the price of announcing the
operator's operands and retiring them. Prints one JSON object a case.
"""

import argparse
import json
import time

import torch

MIB_WORDS = 2**20 // 4


def cases():
    large = [torch.zeros(MIB_WORDS) for _ in range(4)]
    a, b, c, out = (tensor[:8] for tensor in large)
    small = torch.zeros(8)
    return {
        "no managed operand": lambda: small.add_(1.0),
        "one managed operand": lambda: a.add_(1.0),
        "two managed operands": lambda: torch.add(a, 1.0, out=out),
        "four managed operands": lambda: torch.addcmul(a, b, c, out=out),
        "a view (no data touched)": lambda: large[0].view(-1, 64),
        "allocate and free 1 MiB": lambda: torch.empty(MIB_WORDS),
    }


def microseconds(function, calls):
    started = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - started) / calls * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--batches", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        for name, function in cases().items():
            microseconds(function, arguments.calls // 10)
            batches = [microseconds(function, arguments.calls) for _ in range(arguments.batches)]
            print(json.dumps({"case": name, "us": batches}), flush=True)


if __name__ == "__main__":
    main()
