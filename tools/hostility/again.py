#!/usr/bin/env python3
"""Trains the same small model in a fresh process again and again, and looks closely at a run that has other bits.

    .venv/bin/python tools/hostility/again.py gpt2 --runs 500 --jobs 3 --rung user
    .venv/bin/python tools/hostility/again.py gpt2 --runs 500 --jobs 3 --rung user --compact
    .venv/bin/python tools/hostility/again.py gpt2 --runs 500 --stock

Each run must give stock's losses and parameters bit for bit. Of one that does not, the first operator is named that
made something else; its results, those of stock and its counters are kept as JSON in build/again. Exit code 1 if any
run differed or failed.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), *(str(ROOT / "python/tests" / part) for part in ("support", "programs"))]

import runner  # noqa: E402
import rungs  # noqa: E402
import workloads  # noqa: E402
from hostility import kernel  # noqa: E402

KEPT = ROOT / "build" / "again"
STEPS = 6
BLOCK = 64 * runner.KIB
LIMIT_S = 300
COUNTERS = ("faults", "rescues", "deviations", "evicted_bytes", "fetched_bytes", "corrupt_blocks")


def options_of(arguments, flash):
    if arguments.stock:
        return None
    peak = runner.peak_live_bytes("workloads:run", flash, {"name": arguments.model, "steps": STEPS})
    return runner.options(flash, runner.budget_of(peak, arguments.fraction, BLOCK), block=f"{BLOCK}")


def look(child, expected, name):
    """Keeps what a run has come to unless it was as expected; what there is to say of it."""
    result = child.find("result")
    if all(result[key] == expected[key] for key in ("losses", "parameters")):
        return ""  # operators' workspaces may have what was in memory
    stats = (child.all("stats") or [{}])[-1]
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{name}.json"
    path.write_text(json.dumps({"expected": expected, "result": result, "stats": stats}, indent=1), encoding="utf-8")
    others = [f"number {number}, {made[0]} of {made[1]}" for number, (made, wanted)
              in enumerate(zip(result["operators"], expected["operators"])) if made != wanted]
    counters = ", ".join(f"{key} {stats[key]}" for key in COUNTERS if key in stats)
    return (f"{name}: losses {result['losses']}, not {expected['losses']}; of {len(expected['operators'])} results of "
            f"operators {len(others)} differ, the first is {others[0] if others else 'none'}; {counters}; "
            f"kept as {path.relative_to(ROOT)}")


def train(number, model, options, expected):
    """One run, in one of the processes that share them; what is wrong with it."""
    name = f"{model}-{os.getpid()}-{number}"
    try:
        child = runner.start("recorded:run", {"name": model, "steps": STEPS}, options, timeout=LIMIT_S)
        return look(child.check(), expected, name)
    except runner.ChildError as error:
        return f"{name}: {error}"


def run(arguments, flash):
    expected = runner.stock_result("recorded:run", name=arguments.model, steps=STEPS)
    options = options_of(arguments, flash)
    runs = bad = 0
    hostility = kernel.Compaction() if arguments.compact else kernel.Hostility()
    # No `with`: its end would take back that nothing more is to begin.
    pool = concurrent.futures.ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn"))
    with hostility.around(None):
        started = [pool.submit(train, i, arguments.model, options, expected) for i in range(arguments.runs)]
        try:
            for each in concurrent.futures.as_completed(started):
                runs += 1
                if wrong := each.result():
                    bad += 1
                    print(wrong)
                if sys.stdout.isatty():
                    print(f"{runs} of {arguments.runs}", end="\r", flush=True)
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            pool.shutdown(cancel_futures=True)  # after those that have begun
    print(f"{runs} runs, {bad} differed or failed")
    return runs > 0 and bad == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=workloads.FAST)
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
    if arguments.compact and (why := kernel.Compaction().why_not(allowed=False)):
        parser.error(f"--compact: {why}")
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by the way on which the processes that train end, too
    os.environ.setdefault("EBB_REMEMBER", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle workers of one process spin on the core of another
    with tempfile.TemporaryDirectory(prefix="ebb-again-") as results, \
            tempfile.TemporaryDirectory(prefix="ebb-tests-", dir=runner.flash_folder()) as flash:
        os.environ["EBB_TEST_RESULTS"] = results
        rungs.give(flash)
        return 0 if run(arguments, flash) else 1


if __name__ == "__main__":
    sys.exit(main())
