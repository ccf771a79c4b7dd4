#!/usr/bin/env python3
"""Trains the same small model in a fresh process again and again, and looks closely at a run that has other bits.

    .venv/bin/python tools/hostility/again.py gpt2 --runs 500 --jobs 3 --rung user
    .venv/bin/python tools/hostility/again.py gpt2 --runs 500 --jobs 3 --rung user --compact
    .venv/bin/python tools/hostility/again.py gpt2 --runs 500 --stock

Each run must give stock's losses and parameters bit for bit. One that does not trains twice more in the process where
that happened: if it goes on with other bits, something of the process is other; if not, it was an event. Its results,
those of stock and its counters are kept as JSON in build/again. Exit code 1 if any run differed or failed.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/tests" / part) for part in ("support", "programs")]

import runner  # noqa: E402
import rungs  # noqa: E402

KEPT = ROOT / "build" / "again"
COMPACT = pathlib.Path("/proc/sys/vm/compact_memory")
MODELS = ("gpt2", "bert", "vit", "resnet", "lstm", "embedding", "mlp", "mlp_fused", "mlp_foreach", "mixed")  # FAST
STEPS = 6
BLOCK = 64 * runner.KIB
LIMIT_S = 300
COUNTERS = ("faults", "rescues", "deviations", "evicted_bytes", "fetched_bytes", "corrupt_blocks")


def options_of(arguments, flash):
    if arguments.stock:
        return None
    peak = runner.peak_live_bytes("workloads:run", flash, {"name": arguments.model, "steps": STEPS})
    return runner.options(flash, -(-peak // arguments.fraction // BLOCK) * BLOCK, block=f"{BLOCK}")


def look(child, expected, name):
    """Says and keeps what a run has come to; whether it was as expected."""
    results = child.find("result")
    if results == [expected]:
        return True
    stats = (child.all("stats") or [{}])[-1]
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{name}.json"
    path.write_text(json.dumps({"expected": expected, "results": results, "stats": stats}, indent=1), encoding="utf-8")
    later = " and ".join("stock's bits" if each == expected else
                         "the same other ones" if each == results[0] else "yet others" for each in results[1:])
    counters = ", ".join(f"{key} {stats[key]}" for key in COUNTERS if key in stats)
    print(f"{name}: losses {results[0]['losses']}, not {expected['losses']}; then in the same process {later}; "
          f"{counters}; kept as {path.relative_to(ROOT)}")
    return False


def job(number, arguments, flash, expected, count):
    options = options_of(arguments, flash)
    for run in range(number, arguments.runs, arguments.jobs):
        name = f"{arguments.model}-{os.getpid()}-{run}"
        try:
            child = runner.start("workloads:again", {"expected": expected, "name": arguments.model, "steps": STEPS},
                                 options, timeout=LIMIT_S).check()
            as_expected = look(child, expected, name)
        except runner.ChildError as error:
            print(f"{name}: {error}")
            as_expected = False
        with count.get_lock():
            count[0] += 1
            count[1] += not as_expected


@contextlib.contextmanager
def compaction(wanted):
    if not wanted:
        yield
        return
    over = threading.Event()

    def go_on():
        while not over.wait(0.05):
            COMPACT.write_text("1", encoding="ascii")

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(arguments, flash):
    expected = runner.stock_result("workloads:run", name=arguments.model, steps=STEPS)
    options_of(arguments, flash)  # measured once, for all
    count = multiprocessing.get_context("spawn").Array("i", 2)
    jobs = [multiprocessing.get_context("spawn").Process(target=job, args=(i, arguments, flash, expected, count))
            for i in range(arguments.jobs)]
    with compaction(arguments.compact):
        try:
            for each in jobs:
                each.start()
            while any(each.is_alive() for each in jobs):
                time.sleep(1)
                if sys.stdout.isatty():
                    print(f"\r{count[0]} of {arguments.runs}", end="", flush=True)
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            for each in jobs:
                each.terminate()
                each.join()
    print(f"{count[0]} runs, {count[1]} differed or failed")
    return count[0] > 0 and count[1] == 0 and all(each.exitcode in (0, -15) for each in jobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    parser.add_argument("--fraction", type=int, default=4, help="of the most bytes of tensors that there are at once")
    parser.add_argument("--rung", choices=rungs.RUNGS, help="how memory is served; the best there is if not")
    parser.add_argument("--compact", action="store_true", help="have the kernel compact memory all the time (root)")
    parser.add_argument("--stock", action="store_true", help="without Ebbtide")
    arguments = parser.parse_args()
    if arguments.rung:
        os.environ["EBB_TEST_RUNG"] = arguments.rung
        if why := rungs.why_not(arguments.rung):
            parser.error(why)
    if arguments.compact and not os.access(COMPACT, os.W_OK):
        parser.error(f"--compact: {COMPACT} can be written by root alone")
    os.environ.setdefault("EBB_REMEMBER", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle workers of one process spin on the core of another
    with tempfile.TemporaryDirectory(prefix="ebb-again-") as results, \
            tempfile.TemporaryDirectory(prefix="ebb-tests-", dir=runner.flash_folder()) as flash:
        os.environ["EBB_TEST_RESULTS"] = results
        rungs.give(flash)
        return 0 if run(arguments, flash) else 1


if __name__ == "__main__":
    sys.exit(main())
