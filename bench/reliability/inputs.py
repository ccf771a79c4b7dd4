#!/usr/bin/env python3
"""What libFuzzer finds in the readers of what others give us (tests/fuzzing), after so many minutes of each.

    bench/reliability/inputs.py --minutes 10 --save

Two run at a time, from the corpora of the repository. Exit code 1 if an input ended one; it lies beside the program.
Without clang (tools/bootstrap --fuzzers) nothing is tried.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training")]
ROOT = HERE.parent

from output import report, sitting  # noqa: E402
from reports.reliability import table_of_inputs  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="of each input [10]")
    parser.add_argument("--json", action="store_true", help="print the results")
    parser.add_argument("--save", action="store_true", help="write them to bench/results/")
    return parser.parse_args()


def build():
    for command in (["cmake", "--preset", "libfuzzer"], ["cmake", "--build", "--preset", "libfuzzer"]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-2000:]}")
    return sorted((ROOT / "build/libfuzzer/tests").glob("*_input"))


def fuzz(program, minutes):
    name = program.name.removesuffix("_input")
    with tempfile.TemporaryDirectory() as new:
        done = subprocess.run([program, f"-max_total_time={60 * minutes:.0f}", "-max_len=8192", "-print_final_stats=1",
                               f"-artifact_prefix={program}-", new, ROOT / "tests/fuzzing/corpus" / name],
                              capture_output=True, text=True, errors="replace", check=False)
        kept = len(list(pathlib.Path(new).iterdir()))
    ended = re.search(r"^SUMMARY: .+", done.stderr, re.MULTILINE)
    executions = re.search(r"^stat::number_of_executed_units: +(\d+)", done.stderr, re.MULTILINE)
    return {"name": name, "executions": int(executions.group(1)) if executions else 0, "kept": kept,
            "found": None if done.returncode == 0 else ended.group() if ended else f"exit code {done.returncode}"}


def main():
    arguments = parse_arguments()
    if shutil.which("clang++") is None:
        print("clang++ is not installed: what reads files is not tried (tools/bootstrap --fuzzers)", file=sys.stderr)
        return 0
    results = sitting(packages=())
    programs = build()
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        inputs = list(pool.map(lambda program: fuzz(program, arguments.minutes), programs))
    results.update(minutes=arguments.minutes, inputs=inputs)
    report(results, table_of_inputs(results), "inputs", arguments)
    return 1 if any(each["found"] for each in inputs) else 0


if __name__ == "__main__":
    sys.exit(main())
