"""What is possible: the proved bound of a step on this disk with so much memory (docs/design/0005-lower-bound.md).

The kernels' times are those of a run with room for everything, so no transfer has made them longer, and together no
longer than the fastest step that was seen with all memory. The disk is as fast as `ebb calibrate` finds it with nothing
beside it: no schedule is faster than that on this machine.
"""

import gzip
import json
import sys

import children
from children import ebb_binary

LIMIT_S = 1800
WEAKER = "of the bytes that one launch must move"
NONE = "none: iterations differ"


def ask(command, *words, timeout=LIMIT_S):
    """The JSON object that a command of `ebb` prints."""
    environment = {**children.environment(), "EBB_PYTHON": sys.executable}
    child = children.run([ebb_binary(), command, "--json", *words], env=environment, timeout=timeout).check()
    return json.loads(child.stdout)


def calibrate(flash):
    """The disk in bytes a second: each way alone, and both together (0: no less than the sum)."""
    speeds = ask("calibrate", "--flash", flash)["flash"]
    together = speeds["read_mixed_bps"] + speeds["write_mixed_bps"]
    return {"read_bps": speeds["read_bps"], "write_bps": speeds["write_bps"],
            "total_bps": together if together < speeds["read_bps"] + speeds["write_bps"] else 0}


def fastest(disks):
    """Of several calibrations the fastest each way: what a bound may count with."""
    totals = [disk["total_bps"] for disk in disks]
    return {"read_bps": max(disk["read_bps"] for disk in disks), "write_bps": max(disk["write_bps"] for disk in disks),
            "total_bps": 0 if 0 in totals else max(totals)}


def flash_options(disk):
    """As `ebb plan` and `ebb sim` name it."""
    return ["--flash-read", f"{disk['read_bps']:.0f}", "--flash-write", f"{disk['write_bps']:.0f}", "--flash-total",
            f"{disk['total_bps']:.0f}"]


def _lines(trace):
    opened = gzip.open if trace.endswith(".gz") else open
    with opened(trace, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def shorten(trace, seconds, into):
    """Writes the trace with kernels that together take no longer than so many seconds. The durations of one recorded
    step have in them what a machine did just then: fresh pages that it had to find, other programs."""
    recorded = sum(line.get("ns", 0) for line in _lines(trace) if "launch" in line)
    factor = min(1.0, seconds * 1e9 / recorded)
    with open(into, "w", encoding="utf-8") as file:
        for line in _lines(trace):
            if "launch" in line:
                line["ns"] = max(1, round(line.get("ns", 0) * factor))
            file.write(json.dumps(line) + "\n")


def bound(trace, memory, disk):
    """Seconds that a step takes at least, and which bound that is."""
    found = ask("plan", trace, "--device-memory", memory, "--host-memory", "0", *flash_options(disk))
    kept = found["bound"]["clean_copies_kept"]
    if kept["outcome"] == "streams":
        return {"seconds": of_large_launches(trace, memory, disk), "kind": WEAKER}
    return {"seconds": kept["total_ns"] * 1e-9, "kind": kept["outcome"]}


def of_large_launches(trace, memory, disk):
    """Where a launch touches more than memory holds, no schedule has all of it in place, and the program that proves
    the bound does not apply. But whatever pages while it runs: what it reads and was not in memory when it began must
    come, and of what it has written all but a memory full has left before it ends. All other launches take their time.
    """
    sizes, total = {}, 0.0
    for line in _lines(trace):
        if "tensor" in line:
            sizes[line["tensor"]] = line["bytes"]
        elif "launch" in line:
            comes, leaves = (max(0, sum(sizes[each] for each in set(line.get(side, []))) - memory)
                             for side in ("reads", "writes"))
            times = [line.get("ns", 0) * 1e-9, comes / disk["read_bps"], leaves / disk["write_bps"]]
            if disk["total_bps"]:
                times.append((comes + leaves) / disk["total_bps"])
            total += max(times)
    return total
