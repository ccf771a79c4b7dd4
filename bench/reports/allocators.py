"""Tables of bench/allocators.py's results."""

import statistics

from output import median_range


def table(runs):
    """A row for each log and allocator: medians over rounds."""
    rows = [["log, allocator", "allocate p50 ns", "p99 ns", "free p50 ns", "p99 ns", "hits", "page faults/iteration",
             "iteration ms", "first ms"]]
    for work, by_name in runs.items():
        for name, records in by_name.items():
            def median(key, records=records):
                return statistics.median(each[key] for each in records)

            calls = sum(each["hits"] + each["misses"] for each in records)
            hits = f"{sum(each['hits'] for each in records) / calls:.2%}" if calls else "-"
            times = [f"{median(key):.0f}" for key in
                     ("allocate_p50_ns", "allocate_p99_ns", "free_p50_ns", "free_p99_ns")]
            whole = ["-", "-", "-"] if work == "random" else [
                f"{median('faults_an_iteration'):.0f}",
                median_range([each["iteration_s"] for each in records], 1, "", 1e3),
                f"{median('first_iteration_s') * 1e3:.1f}"]
            rows.append([f"{work}, {name}", *times, hits, *whole])
    return rows


def document(results):
    return f"Medians of {results['rounds']} rounds; random: {results['threads']} threads", table(results["runs"])
