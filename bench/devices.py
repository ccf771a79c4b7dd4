#!/usr/bin/env python3
"""The benchmarks that are C++ programs, bench_mirror and bench_opencl: run, shown, and kept with what they ran on.

    bench/devices.py [mirror] [opencl] [--save]

They print Markdown tables of medians, least and most themselves; these are kept cell by cell. What a machine cannot run
(no userfaultfd, no OpenCL device: exit code 77) is said and left out.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
from output import save, sitting  # noqa: E402
from reports.devices import read_tables  # noqa: E402

PROGRAMS = ("mirror", "opencl")
FOLDER = HERE.parent / "build" / "release" / "bench"
LIMIT_S = 1800
CANNOT_RUN = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="*", help="of " + ", ".join(PROGRAMS) + " (default: all)")
    parser.add_argument("--quick", action="store_true", help="2 MiB and two rounds, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results/")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.programs if name not in PROGRAMS]:
        parser.error(f"'{unknown[0]}': choose from {', '.join(PROGRAMS)}")
    code = 0
    for name in arguments.programs or PROGRAMS:
        program = FOLDER / f"bench_{name}"
        if not program.is_file():
            print(f"bench/devices.py: {program} is missing: build it with `make bench`", file=sys.stderr)
            return 2
        words = ["--mib", "2", "--rounds", "2"] if arguments.quick else []
        head = sitting(packages=())
        child = children.run([program, *words], env=children.environment(), timeout=LIMIT_S)
        if child.returncode == CANNOT_RUN:
            print(f"{name}: left out: {child.tail(1)}", file=sys.stderr)
            continue
        if child.returncode != 0:
            print(f"bench/devices.py: {name}: {child.tail(3)}", file=sys.stderr)
            code = 1
            continue
        results = {**head, "quick": arguments.quick, **read_tables(child.stdout)}
        print(json.dumps(results, indent=1) if arguments.json else child.stdout)
        if arguments.save:
            print(f"saved {save(results, name)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
