"""Contenders: the ways of running one training script that the benchmark compares, and what it makes of their output.

A contender is a function that runs the script once and returns (Child, summary or None). Rounds, medians and tables
are here; options and printing are bench/run.py's. Standard library only, so the benchmark itself stays small.
"""

import contextlib
import pathlib
import statistics
import sys
import tempfile

import children
from children import ChildError, MemoryCgroup, format_size
from swap_file import SwapFile

WARM_UP_STEPS = 2
TIMEOUT_S = 3600
BLOCK_BYTES = 2**21
BLOCKS_MIN = 16  # fewer than the runtime accepts would be no measurement
HERE = pathlib.Path(__file__).resolve().parent
SWAP_NOT_ASKED = "kernel swap: not measured (needs --with-swap and root)"


def script_of(name, steps, quick):
    return [sys.executable, HERE / "train.py", "--model", name, "--steps", steps, *(["--quick"] if quick else [])]


def _available_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _stock(script, cgroup=None):
    return children.run(script, env=children.environment(), timeout=TIMEOUT_S, cgroup=cgroup).check(), None


def _ebbtide(script, memory, flash, guide=None):
    child, summary = children.ebb_run(script, memory=memory, flash=flash, guide=guide, env=children.environment(),
                                      timeout=TIMEOUT_S)
    return child, summary


def memory_for_all():
    """A budget in which everything that this machine could hold fits."""
    return int(_available_bytes() * 0.9)


def peak_bytes(name, arguments):
    """The most bytes of tensors the model has at once: two steps under `ebb run` with room for everything."""
    _, summary = _ebbtide(script_of(name, 2, arguments.quick), memory_for_all(), arguments.flash)
    return summary["peak_live_bytes"] + summary["small_bytes"]


def training(name, arguments, progress):
    """Runs every contender for `rounds` rounds; returns the raw results and what the table needs."""
    progress(f"{name}: measuring the peak")
    peak = peak_bytes(name, arguments)
    budget = max(int(peak * arguments.share) // BLOCK_BYTES, BLOCKS_MIN) * BLOCK_BYTES
    script = script_of(name, arguments.steps, arguments.quick)
    runs = {
        "stock, unlimited": lambda: _stock(script),
        f"ebb run, {arguments.share:.0%} of the peak": lambda: _ebbtide(script, budget, arguments.flash),
        "ebb run, everything fits": lambda: _ebbtide(script, 2 * peak, arguments.flash),
    }
    result = {"model": name, "peak_bytes": peak, "budget_bytes": budget, "notes": [], "contenders": {}}
    with contextlib.ExitStack() as stack:
        if arguments.with_guide:
            guide = stack.enter_context(tempfile.TemporaryDirectory(prefix="ebb-guide-")) + "/guide.jsonl.gz"
            label = f"ebb run --guide, {arguments.share:.0%} of the peak"
            runs[label] = lambda: _ebbtide(script, budget, arguments.flash, guide)
        if arguments.with_swap:
            baseline, _ = _stock(script_of(name, 1, arguments.quick))
            limit = budget + baseline.find("baseline_rss_bytes")
            stack.enter_context(SwapFile(arguments.flash, 2 * peak))
            cgroup = stack.enter_context(MemoryCgroup(limit, swap_bytes=None))
            runs["stock on kernel swap"] = lambda: _stock(script, cgroup)
            result["swap_limit_bytes"] = limit
            result["notes"].append(f"kernel swap: a cgroup of {format_size(limit)}, the budget and what the process "
                                   "holds before it makes the model")
        else:
            result["notes"].append(SWAP_NOT_ASKED)
        _rounds(result, runs, arguments, progress)
    bits = {tuple(turn["bits"]) for turns in result["contenders"].values() for turn in turns}
    result["losses_equal"] = len(bits) == 1
    verdict = "equal bit for bit" if result["losses_equal"] else "NOT equal"
    result["notes"].append(f"the losses of all contenders and rounds are {verdict}")
    return result


def _rounds(result, runs, arguments, progress):
    result["contenders"] = {label: [] for label in runs}
    for turn in range(arguments.rounds):
        for label, run in runs.items():
            progress(f"{result['model']}: round {turn + 1} of {arguments.rounds}, {label}")
            child, summary = run()
            record = {"seconds": child.all("seconds"), "bits": child.all("bits"),
                      "process_peak_bytes": child.find("peak_rss_bytes")}
            if summary:
                record["stats"] = {key: value for key, value in summary.items()
                                   if isinstance(value, (int, float)) and not isinstance(value, bool)}
                record["description"] = summary.get("description", "")
            result["contenders"][label].append(record)
            result.setdefault("threads", child.find("threads"))
            result.setdefault("torch", child.find("torch"))


def counted_seconds(turns):
    return [second for turn in turns for second in turn["seconds"][WARM_UP_STEPS:]]


def _gib(count):
    return f"{count / 2**30:.2f}"


def training_title(result):
    return (f"{result['model']}: {format_size(result['peak_bytes'])} of tensors at the peak; "
            f"torch {result['torch']}, {result['threads']} threads")


def training_table(result):
    stock = statistics.median(counted_seconds(next(iter(result["contenders"].values()))))
    rows = [(result["model"], "median step s", "of stock", "range s", "first step s", "waiting", "read GiB/step",
             "written GiB/step", "process GiB")]
    for label, turns in result["contenders"].items():
        seconds = counted_seconds(turns)
        median = statistics.median(seconds)
        row = [label, f"{median:.3f}", f"x{median / stock:.2f}", f"{min(seconds):.3f}-{max(seconds):.3f}",
               f"{statistics.median(turn['seconds'][0] for turn in turns):.3f}"]
        stats = [turn["stats"] for turn in turns if "stats" in turn]
        if stats:
            steps = sum(len(turn["seconds"]) for turn in turns)
            whole = sum(sum(turn["seconds"]) for turn in turns)
            row += [f"{sum(each['stall_ns'] for each in stats) / 1e9 / whole:.1%}",
                    _gib(sum(each["fetched_bytes"] for each in stats) / steps),
                    _gib(sum(each["evicted_bytes"] for each in stats) / steps)]
        else:
            row += ["-", "-", "-"]
        row.append(_gib(max(turn["process_peak_bytes"] for turn in turns)))
        rows.append(tuple(row))
    return rows


def operators(arguments, progress):
    """Microseconds a call, stock and managed, in turns."""
    script = [sys.executable, HERE / "operators.py", *(["--calls", "500", "--batches", "2"] if arguments.quick else [])]
    runs = {"stock": lambda: _stock(script), "ebb run": lambda: _ebbtide(script, "512MiB", arguments.flash)}
    cases = {}
    for turn in range(arguments.rounds):
        for label, run in runs.items():
            progress(f"operators: round {turn + 1} of {arguments.rounds}, {label}")
            child, _ = run()
            for record in child.records:
                if "case" in record:
                    cases.setdefault(record["case"], {}).setdefault(label, []).extend(record["us"])
    if not cases:
        raise ChildError("the operator benchmark printed nothing")
    return cases


def operators_table(cases):
    rows = [("microseconds a call (median)", "stock", "ebb run", "added")]
    for name, values in cases.items():
        stock, managed = statistics.median(values["stock"]), statistics.median(values["ebb run"])
        rows.append((name, f"{stock:.2f}", f"{managed:.2f}", f"{managed - stock:+.2f}"))
    return rows
