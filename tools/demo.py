#!/usr/bin/env python3
"""The demonstration (`make demo`): one unmodified training script, with all the memory it wants and with a third of it.

Trains a GPT-2 model from transformers on a text that is on the machine already: once briefly to measure how many bytes
of tensors it has at its peak, once on stock PyTorch, once under `ebb run` with a third of that. Compares the bits of
every loss and prints where time and memory went. Exits with 1 if any loss differs, 2 if it cannot run. A few minutes.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench" / "training"))

import children  # noqa: E402
from children import ChildError, ebb_run, format_size  # noqa: E402
from machine import describe_machine  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().with_name("demo") / "train.py"
WARM_UP_STEPS = 2  # the optimizer makes its state in the first; the second is the first that can follow a plan
TIMEOUT_S = 1800
GIB = 2**30
# (bytes that the unlimited run needs, layers, width): the largest one that fits is trained.
SIZES = ((6.5 * GIB, 12, 768), (4 * GIB, 8, 768), (2 * GIB, 6, 512))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=10, help="steps of each of the two runs (at least 4; default 10)")
    parser.add_argument("--share", type=float, default=1 / 3, help="of the peak to give the managed run (default 1/3)")
    parser.add_argument("--flash", help="directory for the flash tier (default: $TMPDIR, /tmp or /var/tmp)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of progress and table")
    arguments = parser.parse_args()
    if arguments.steps < WARM_UP_STEPS + 2:
        parser.error(f"--steps {arguments.steps}: at least {WARM_UP_STEPS + 2} are needed for a median")
    if not 0.05 <= arguments.share <= 1:
        parser.error(f"--share {arguments.share:g}: give a part of the peak between 0.05 and 1")
    return arguments


def available_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


class Progress:
    """One line per step while a run lasts; silent with --json."""

    def __init__(self, quiet):
        self.quiet = quiet

    def say(self, text=""):
        if not self.quiet:
            print(text, flush=True)

    def of(self, steps):
        def on_record(record):
            if "text" in record:
                self.say(f"    learning {record['text']}, {record['text_bytes']:,} bytes, with "
                         f"{record['parameters'] / 1e6:.0f} million parameters")
            if "step" in record:
                self.say(f"    step {record['step'] + 1:2}/{steps}   loss {record['loss']:.6f}  [{record['bits']}]"
                         f"   {record['seconds']:6.2f} s")

        return on_record


def demonstrate(arguments, progress):
    flash = children.flash_directory(arguments.flash)
    free = available_bytes()
    needed, layers, width = next((size for size in SIZES if size[0] <= free), SIZES[-1])
    if needed > free:
        raise ChildError(f"the unlimited run needs {format_size(needed)} of memory, {format_size(free)} are available")

    def script(steps):
        return [sys.executable, SCRIPT, "--steps", steps, "--layers", layers, "--width", width]

    progress.say("1. How much memory does it want? Two steps with room for everything.")
    _, summary = ebb_run(script(2), memory=int(free * 0.9), flash=flash, timeout=TIMEOUT_S,
                         env=children.environment(), on_record=progress.of(2))
    peak = summary["peak_live_bytes"] + summary["small_bytes"]
    budget = int(peak * arguments.share) // 2**21 * 2**21
    progress.say(f"    {format_size(peak)} of tensors at the peak\n")

    progress.say("2. Stock PyTorch, memory unlimited.")
    stock = children.run(script(arguments.steps), env=children.environment(), timeout=TIMEOUT_S,
                         on_record=progress.of(arguments.steps)).check()
    progress.say(f"\n3. The same script under `ebb run --memory {format_size(budget).replace(' ', '')}`, "
                 f"{budget / peak:.0%} of the peak.")
    managed, summary = ebb_run(script(arguments.steps), memory=budget, flash=flash, timeout=TIMEOUT_S,
                               env=children.environment(), on_record=progress.of(arguments.steps))
    return account(stock, managed, summary, peak, budget)


def account(stock, managed, summary, peak, budget):
    """Everything the table shows, as plain values."""
    stock_bits, managed_bits = stock.all("bits"), managed.all("bits")
    seconds = {"stock": stock.all("seconds"), "ebbtide": managed.all("seconds")}
    medians = {name: statistics.median(values[WARM_UP_STEPS:]) for name, values in seconds.items()}
    return {
        "machine": describe_machine(), "date": datetime.date.today().isoformat(),
        "text": stock.find("text"), "parameters": stock.find("parameters"),
        "peak_tensor_bytes": peak, "budget_bytes": budget,
        "step_seconds": seconds, "median_step_seconds": medians,
        "slowdown": medians["ebbtide"] / medians["stock"],
        "process_peak_bytes": {"stock": stock.find("peak_rss_bytes"), "ebbtide": managed.find("peak_rss_bytes")},
        "tensor_peak_resident_bytes": {"stock": peak, "ebbtide": summary["peak_resident_bytes"]},
        "fetched_bytes": summary["fetched_bytes"], "evicted_bytes": summary["evicted_bytes"],
        "stall_share": summary["stall_ns"] / 1e9 / sum(seconds["ebbtide"]),
        "faults": summary["faults"], "description": summary.get("description", ""),
        "losses": {"stock": stock_bits, "ebbtide": managed_bits},
        "losses_equal": stock_bits == managed_bits and bool(stock_bits),
    }


def table(result):
    medians, process = result["median_step_seconds"], result["process_peak_bytes"]
    tensors = result["tensor_peak_resident_bytes"]
    rows = [
        ("", "stock PyTorch", "ebb run"),
        ("memory for tensors", "unlimited", format_size(result["budget_bytes"])),
        ("median step", f"{medians['stock']:.2f} s", f"{medians['ebbtide']:.2f} s  (x{result['slowdown']:.2f})"),
        ("tensors in memory, peak", format_size(tensors["stock"]), format_size(tensors["ebbtide"])),
        ("whole process, peak", format_size(process["stock"]), format_size(process["ebbtide"])),
        ("read from flash", "-", format_size(result["fetched_bytes"])),
        ("written to flash", "-", format_size(result["evicted_bytes"])),
        ("waiting for memory", "-", f"{result['stall_share']:.1%} of the time"),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    rule = "  " + "-" * (sum(widths) + 4)
    lines = ["  " + f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def verdict(result):
    pairs = list(zip(result["losses"]["stock"], result["losses"]["ebbtide"]))
    if result["losses_equal"]:
        return f"  All {len(pairs)} losses are equal, bit for bit."
    different = [step for step, (a, b) in enumerate(pairs) if a != b]
    return f"  THE LOSSES DIFFER, first in step {different[0] + 1 if different else len(pairs) + 1}."


def main():
    arguments = parse_arguments()
    progress = Progress(arguments.json)
    try:
        result = demonstrate(arguments, progress)
    except ChildError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"\n{table(result)}\n{verdict(result)}\n\n  {result['machine']}; {result['date']}\n"
              f"  {result['description']}")
    return 0 if result["losses_equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
