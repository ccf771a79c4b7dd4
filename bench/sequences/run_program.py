"""Runs one of the programs (programs.py) for some iterations; prints a JSON line for each."""

import argparse
import json
import struct
import time

import torch
from programs import PROGRAMS, QUICK


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--quick", action="store_true", help="with tiny layers")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    step = PROGRAMS[arguments.program](QUICK if arguments.quick else 1)
    for number in range(arguments.iterations):
        started = time.perf_counter()
        bits = struct.pack(">d", step(number)).hex()
        print(json.dumps({"iteration": number, "bits": bits, "seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
