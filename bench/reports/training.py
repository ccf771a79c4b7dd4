"""Tables of bench/run.py's results: for each contender the step of a turn, median and range over rounds, how fast that
is beside tuned stock, and how much of what is possible on that disk.

A turn's number is contenders.seconds_of: a range is therefore one of rounds, and not of single steps.
"""

import statistics

from children import format_size
from contenders import seconds_of
from output import median_range
from possible import WEAKER

TUNED = "stock, tuned"


def _seconds(result):
    """Label to the numbers of its turns, without those that never ran to an end."""
    return {label: [seconds_of(turn, result) for turn in turns]
            for label, turns in result["contenders"].items() if turns}


def median_of(result, label):
    """None where it never ran to an end."""
    values = _seconds(result).get(label)
    return statistics.median(values) if values else None


def _tuned(seconds):
    """The tuned one, or stock as it comes where that was faster after all: nobody would run the slower one."""
    stocks = [values for label, values in seconds.items() if label.startswith("stock, ")]
    return min(statistics.median(values) for values in stocks) if stocks else None


def _share_of(label):
    return label.rsplit("1/", 1)[1] if "1/" in label else None


def _point(result, label):
    share = _share_of(label)
    return result["shares"].get(share, {}) if share and label.startswith("ebb run") else {}


def _possible(result, label, median, which="bound"):
    bound = _point(result, label).get(which)
    if not bound or bound["seconds"] is None:
        return "-"
    return f"{bound['seconds'] / median:.0%}{' *' if bound['kind'] == WEAKER else ''}"


def _then(result, label):
    """GB/s that the disk gave both ways together just before the turns."""
    rate = _point(result, label).get("both_ways_bps")
    return f"{rate / 1e9:.1f}" if rate else "-"


def _processors(turns, result, of):
    """Seconds of all processors together."""
    known = [seconds_of(turn, result, of) for turn in turns if turn.get(of)]
    return f"{statistics.median(known):.2f}" if known else "-"


def title(result):
    return (f"{result['model']}: {format_size(result['peak_bytes'])} of tensors at the peak, "
            f"{format_size(result['base_bytes'])} beside them; torch {result.get('torch', '?')}, "
            f"{result.get('threads', '?')} threads")


def _gib(count):
    return f"{count / 2**30:.2f}"


def table(result):
    """One model, a row a contender."""
    seconds = _seconds(result)
    tuned = _tuned(seconds)
    rows = [[result["model"], "step", "x of tuned stock", "of what is possible", "disk GB/s", "of the possible then",
             "first step", "waiting", "processor s/step", "stolen s/step", "read GiB/step", "written GiB/step"]]
    for label, turns in result["contenders"].items():
        if label not in seconds:
            rows.append([label, "failed", *["-"] * (len(rows[0]) - 2)])
            continue
        median = statistics.median(seconds[label])
        row = [label, median_range(seconds[label]), f"{tuned / median:.2f}" if tuned else "-",
               _possible(result, label, median), _then(result, label), _possible(result, label, median, "bound_then"),
               f"{statistics.median(turn['seconds'][0] for turn in turns):.2f} s"]
        stats = [turn["stats"] for turn in turns if "stats" in turn]
        steps = sum(len(turn["seconds"]) for turn in turns)
        whole = sum(sum(turn["seconds"]) for turn in turns)
        row.append(f"{sum(each['stall_ns'] for each in stats) / 1e9 / whole:.0%}" if stats else "-")
        row += [_processors(turns, result, of) for of in ("processor_s", "stolen_s")]
        row += [_gib(sum(each[of] for each in stats) / steps) if stats else "-"
                for of in ("fetched_bytes", "evicted_bytes")]
        rows.append(row)
    return rows


def operators_table(cases):
    rows = [["microseconds a call (median)", "stock", "ebb run", "added"]]
    for name, values in cases.items():
        stock, managed = statistics.median(values["stock"]), statistics.median(values["ebb run"])
        rows.append([name, f"{stock:.2f}", f"{managed:.2f}", f"{managed - stock:+.2f}"])
    return rows


def document_operators(results):
    return f"One thread, {results['rounds']} rounds in turns", operators_table(results["operators"])


def _disk(results):
    disks = [disk for result in results["training"] for disk in result["disks"]]
    reads, writes = ([disk[key] / 1e9 for disk in disks] for key in ("read_bps", "write_bps"))
    return f"{min(reads):.1f} to {max(reads):.1f} GB/s reads, {min(writes):.1f} to {max(writes):.1f} GB/s writes"


def _heading(results):
    weaker = any(point["bound"]["kind"] == WEAKER for result in results["training"]
                 for point in result["shares"].values())
    text = (f"Seconds a step, medians (least-most) of {results['rounds']} rounds in turns; x: of the speed of tuned "
            "stock with all memory; %: of the speed that is proved to be the most on this disk "
            f"({_disk(results)}, `ebb calibrate` in the same sitting)")
    if any("both_ways_bps" in point for result in results["training"] for point in result["shares"].values()):
        text += "; disk: reads and writes together, by fio just before each turn, and what is possible with that"
    if any(turn.get("stolen_s") for result in results["training"] for turns in result["contenders"].values()
           for turn in turns):
        text += ("; processor: seconds of all processors in a step, stolen: those that the host of this virtual "
                 "machine took")
    return text + ("; *: by the bytes that one launch larger than memory must move" if weaker else "")


def document(results):
    """All models, a row each: README's table."""
    shares = sorted({int(share) for result in results["training"] for share in result["shares"]})
    paged = sorted({label.split(",")[0] for result in results["training"] for label in result["contenders"]
                    if label.startswith("stock on ")})
    rows = [["model, peak", "stock", "stock tuned", "`ebb run`, room for all", *(f"1/{share}" for share in shares),
             *(f"{name} at 1/3" for name in paged)]]
    for result in results["training"]:
        seconds = _seconds(result)
        tuned = _tuned(seconds)

        def cell(prefix, seconds=seconds, tuned=tuned, result=result):
            label = next((label for label in seconds if label.startswith(prefix)), None)
            if label is None:
                return "-"
            median = statistics.median(seconds[label])
            words = [median_range(seconds[label])]
            if not label.startswith("stock, "):
                words.append(f"x {tuned / median:.2f}")
            if (possible := _possible(result, label, median)) != "-":
                words.append(possible)
            return "; ".join(words)

        rows.append([f"{result['model']}, {format_size(result['peak_bytes'])}", cell("stock, as it comes"), cell(TUNED),
                     cell("ebb run, room"), *(cell(f"ebb run, 1/{share}") for share in shares),
                     *(cell(f"{name},") for name in paged)])
    return _heading(results), rows


def document_details(results):
    """All models, a row a contender: docs' table."""
    rows = [["model", "contender", *table(results["training"][0])[0][1:]]]
    for result in results["training"]:
        rows += [[result["model"], *row] for row in table(result)[1:]]
    return _heading(results), rows
