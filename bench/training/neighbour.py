#!/usr/bin/env python3
"""Is `ebb run --memory auto` a good neighbour? A training in a memory cgroup, in the middle of which another program in
the same cgroup takes memory, keeps it for a while, and ends.

The neighbour touches memory 16 MiB at a time, at a given speed, and writes down how long each took, and how long of
that it waited for a core. Reported: its slowest touches, with and without the training beside it; who was killed; the
training's budget over time; its steps before, while and after the memory was taken, beside what `ebb plan` foretells;
and whether its losses are those of a run that is left alone, bit for bit.
Without --limit all is in no cgroup, and the machine's own memory is what the two share.
"""

import argparse
import contextlib
import ctypes
import json
import mmap
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import children
import possible

HERE = pathlib.Path(__file__).resolve().parent
MIB, GIB = 2**20, 2**30
TOUCH_BYTES = 16 * MIB
LIMIT_S = 1800
SLOWEST = 5


def neighbour(arguments):
    """The other program: one JSON line with the milliseconds of each touch."""
    memory = mmap.mmap(-1, arguments.bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if arguments.huge:
        memory.madvise(mmap.MADV_HUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    milliseconds, without_queue, began = [], [], time.perf_counter()
    for offset in range(0, arguments.bytes, TOUCH_BYTES):
        due = began + offset / arguments.rate if arguments.rate else 0
        time.sleep(max(0, due - time.perf_counter()))
        queued, started = queued_ns(), time.perf_counter_ns()
        ctypes.memset(address + offset, 1, min(TOUCH_BYTES, arguments.bytes - offset))
        took = time.perf_counter_ns() - started
        milliseconds.append(round(took / 1e6, 2))
        without_queue.append(round(max(0, took - queued_ns() + queued) / 1e6, 2))
    print(json.dumps({"touches_ms": milliseconds, "without_queue_ms": without_queue,
                      "seconds": time.perf_counter() - began}), flush=True)
    time.sleep(arguments.hold)


def queued_ns():
    """How long this process has waited for a core: others that compute are no matter of memory."""
    return int(pathlib.Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1])


def run_neighbour(arguments, group, hold):
    words = [sys.executable, __file__, "--as-neighbour", "--take", arguments.bytes, "--rate", arguments.rate,
             "--hold", hold, *(["--huge"] if arguments.huge else [])]
    child = children.run(words, cgroup=group, timeout=LIMIT_S)
    found = {"returncode": child.returncode}
    if child.returncode == 0:
        touches = child.find("touches_ms")
        found |= {"seconds": round(child.find("seconds"), 2), "touches": len(touches),
                  "median_ms": statistics.median(touches), "slowest_ms": sorted(touches)[-SLOWEST:],
                  "slowest_without_queue_ms": sorted(child.find("without_queue_ms"))[-SLOWEST:]}
    return found


class Watch:
    """The budget of a run as its page of statistics tells of it, ten times a second; and what happened when."""

    def __init__(self, folder):
        self.folder, self.budgets, self.stopped = pathlib.Path(folder), [], threading.Event()
        self.began = time.monotonic()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def seconds(self):
        return round(time.monotonic() - self.began, 2)

    def _watch(self):
        while not self.stopped.wait(0.1):
            for page in self.folder.glob("ebb-*/stats"):
                with contextlib.suppress(OSError):
                    budget, resident = read_page(page)
                    if budget and (not self.budgets or abs(budget - self.budgets[-1][1]) > TOUCH_BYTES):
                        self.budgets.append((self.seconds(), budget, resident))

    def stop(self):
        self.stopped.set()
        self.thread.join()


def read_page(path):
    """The budget and the bytes in memory (include/ebb/stats_page.h)."""
    with open(path, "rb") as page:
        raw = page.read(40)
    return int.from_bytes(raw[24:32], "little"), int.from_bytes(raw[32:40], "little")


def kills(group):
    """How often the kernel has killed in this cgroup; None where it does not say."""
    if group is not None:
        name = "memory.oom_control" if group.version == 1 else "memory.events"
        for line in (group.path / name).read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


def script_of(arguments):
    return [sys.executable, HERE / "train.py", "--model", arguments.model, "--steps", arguments.steps]


def train(arguments, memory, group):
    """One training, with the neighbour beside it from the step `--at-step` on."""
    script = script_of(arguments)
    steps, found, threads = [], {"memory": memory}, []
    with tempfile.TemporaryDirectory(prefix="ebb-neighbour-") as folder:
        watch = Watch(folder)

        def come():
            time.sleep(arguments.delay)
            found["comes_s"] = watch.seconds()
            found["neighbour"] = run_neighbour(arguments, group, arguments.hold)
            found["gone_s"] = watch.seconds()

        def note(record):
            if "step" in record:
                steps.append({"end_s": watch.seconds(), **record})
                if record["step"] == arguments.at_step:
                    threads.append(threading.Thread(target=come))
                    threads[0].start()

        try:
            _, summary = children.ebb_run(script, memory=memory, flash=arguments.flash, cgroup=group, on_record=note,
                                          timeout=LIMIT_S, env=children.environment({"TMPDIR": folder}))
            found["stalled_s"] = round(summary["stall_seconds"], 1)
            found["peak_live_bytes"], found["job"] = summary["peak_live_bytes"], summary["job"]
        except children.ChildError as error:
            found["failed"] = error.reason()
        for thread in threads:
            thread.join()
        watch.stop()
    found |= {"oom_kills": kills(group), "steps": steps, "budgets": watch.budgets}
    if "seconds" in found.get("neighbour", {}) and "failed" not in found:
        came = found["comes_s"] + found["neighbour"]["seconds"]
        spans = {"before": (0, found["comes_s"]), "beside": (came, came + arguments.hold),
                 "after": (found["gone_s"], float("inf"))}
        found["median_step_s"] = {
            name: round(statistics.median(times), 2) for name, (begin, end) in spans.items()
            if (times := [each["seconds"] for each in steps[2:] if begin <= each["end_s"] - each["seconds"] < end])}
        found["foretold_step_s"] = foretold(arguments, watch, found)
    return found


def foretold(arguments, watch, found):
    """What `ebb plan` says of a step with the budget before the neighbour came, and with that beside it."""
    budgets = {name: [budget for when, budget, _ in watch.budgets if when < end][-1]
               for name, end in (("before", found["comes_s"]), ("beside", found["gone_s"]))}
    planned = possible.ask("plan", "--memory", ",".join(map(str, budgets.values())), "--flash", arguments.flash, "--",
                           *script_of(arguments))["budgets"]
    return {name: round(each["step_ns"] * 1e-9, 2) for name, each in zip(budgets, planned) if "step_ns" in each}


def group_of(arguments):
    return children.MemoryCgroup(arguments.limit) if arguments.limit else contextlib.nullcontext()


def measure(arguments):
    result = {"model": arguments.model, "limit_bytes": arguments.limit, "take_bytes": arguments.bytes,
              "rate_bytes_s": arguments.rate, "huge_pages": arguments.huge}
    with group_of(arguments) as group:
        result["neighbour_alone"] = run_neighbour(arguments, group, 0)
    print(f"the neighbour alone: {result['neighbour_alone']}", file=sys.stderr, flush=True)
    left_alone = argparse.Namespace(**{**vars(arguments), "at_step": -1})
    result["left_alone"] = train(left_alone, arguments.most, None)
    for memory in arguments.memory:
        with group_of(arguments) as group:
            result.setdefault("runs", []).append(train(arguments, memory, group))
        print(told(result["runs"][-1], result["left_alone"]), file=sys.stderr, flush=True)
    return result


def told(run, left_alone):
    bits = [step["bits"] for step in run["steps"]]
    same = bits == [step["bits"] for step in left_alone["steps"]]
    budgets = [budget for _, budget, _ in run["budgets"]]
    beside = run.get("neighbour", {})
    touches = (f"slowest touches {beside['slowest_ms']} ms, {beside['slowest_without_queue_ms']} ms without waiting "
               f"for a core" if "slowest_ms" in beside else f"{beside}")
    return (f"--memory {run['memory']}: {run.get('failed') or f'{len(bits)} steps'}, losses "
            f"{'equal bit for bit' if same else 'NOT equal'}; neighbour: {touches}; OOM kills {run['oom_kills']}; "
            f"budgets {min(budgets, default=0) / GIB:.2f} to {max(budgets, default=0) / GIB:.2f} GiB; "
            f"median step {run.get('median_step_s')} s, foretold {run.get('foretold_step_s')} s")


def size(text):
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("", 1)):
        if text.endswith(unit) and text.removesuffix(unit):
            return int(float(text.removesuffix(unit)) * factor)
    raise argparse.ArgumentTypeError(f"'{text}' is no size such as 3.5GiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--as-neighbour", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--memory", action="append", help="a budget of `ebb run`, several times [auto]")
    parser.add_argument("--most", default="4GiB", help="the budget of the run that is left alone, in no cgroup [4GiB]")
    parser.add_argument("--limit", type=size, help="of the cgroup [none is made]")
    parser.add_argument("--take", dest="bytes", type=size, default="3.5GiB", help="what the neighbour takes")
    parser.add_argument("--rate", type=size, default="1GiB", help="at most so much a second; 0: as fast as it can")
    parser.add_argument("--huge", action="store_true", help="in huge pages, which are several times as fast to take")
    parser.add_argument("--hold", type=float, default=30, help="for so many seconds")
    parser.add_argument("--at-step", type=int, default=5)
    parser.add_argument("--delay", type=float, default=1, help="seconds after that step: in the middle of one")
    parser.add_argument("--flash", default="/var/tmp")
    parser.add_argument("--save", help="write the result here, as JSON")
    arguments = parser.parse_args()
    if arguments.as_neighbour:
        neighbour(arguments)
        return
    arguments.memory = arguments.memory or ["auto"]
    result = measure(arguments)
    if arguments.save:
        pathlib.Path(arguments.save).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
