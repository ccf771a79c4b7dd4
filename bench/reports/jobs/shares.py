"""Table of bench/jobs/shares.py: two ranks under one budget, beside shares that somebody set."""

import statistics

from output import median_range


def table(results):
    """A line for each contender, with how many times as fast `one ebb run` of the same job is."""
    rows = [["ranks", "contender", "step of the slower", "speed of one ebb run beside it", "losses"]]
    for job in results["jobs"]:
        seconds = {name: [turn["seconds"] for turn in turns] for name, turns in job["contenders"].items()}
        ours = statistics.median(seconds["one ebb run"])
        for name, values in seconds.items():
            equal = all(turn["equal"] for turn in job["contenders"][name])
            rows.append([job["name"], name, median_range(values), f"{statistics.median(values) / ours:.2f}",
                         "equal" if equal else "DIFFER"])
    return rows


def document(results):
    sizes = "; ".join(f"{job['name']}: {job['budget_bytes'] / 2**20:.0f} MiB of {job['state_bytes'] / 2**20:.0f}"
                      for job in results["jobs"])
    return f"Seconds a step, medians (least-most) of {results['rounds']} rounds in turns. {sizes}", table(results)
