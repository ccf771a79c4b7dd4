"""Tables of bench/streams.py's and bench/flash.py's results."""

import statistics

from output import median_range

PEERS = ("mapped", "mapped_sequential")


def summarize(runs):
    """Medians, and how fast the window is beside the better way of mapping and beside memory for all."""
    rows = []
    for program, by_name in runs.items():
        medians = {name: statistics.median(record["seconds"] for record in records)
                   for name, records in by_name.items()}
        mapped = [medians[name] for name in PEERS if name in medians]
        rows.append({"program": program, "seconds": medians,
                     "of_memory": medians["memory"] / medians["window"],
                     "times_mapped": min(mapped) / medians["window"] if mapped else None})
    return rows


def table(results):
    names = list(next(iter(results["runs"].values())))
    rows = [["program", *names, "window, x of memory", "x of the better mapped"]]
    for row in summarize(results["runs"]):
        by_name = results["runs"][row["program"]]
        rows.append([row["program"], *(median_range([record["seconds"] for record in by_name[name]]) for name in names),
                     f"{row['of_memory']:.2f}", f"{row['times_mapped']:.2f}" if row["times_mapped"] else "-"])
    return rows


def _sizes(results):
    size = results["memory_mib"] * results["factor"] / 1024
    return (f"{size:g} GiB with {results['memory_mib']} MiB of memory, medians (least-most) of {results['rounds']} "
            "rounds")


def document(results):
    equal = "equal" if results["digests_equal"] else "NOT equal"
    return (f"Seconds of the first iteration over {_sizes(results)}; one binary for all, digests of all blocks {equal}",
            table(results))


def flash_table(runs):
    rows = [["program", "stream GB/s", "fio GB/s", "of fio", "range of rounds", "of its time waiting"]]
    for name, row in runs.items():
        shares = [ours / theirs for ours, theirs in zip(row["program"], row["fio"])]
        ours, theirs = statistics.median(row["program"]), statistics.median(row["fio"])
        rows.append([name, median_range(row["program"], 2, "", 1e-9), median_range(row["fio"], 2, "", 1e-9),
                     f"{ours / theirs:.0%}", f"{min(shares):.0%} to {max(shares):.0%}",
                     f"{statistics.median(each['stall_seconds'] / each['seconds'] for each in row['records']):.0%}"])
    return rows


def document_flash(results):
    return f"{_sizes(results)}; fio on a file as new as the program's data", flash_table(results["runs"])
