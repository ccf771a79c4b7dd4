"""What bench/g10.py's points amount to, in equal timing, counting each machine and network once.

Of the published points some are the same simulation (128 GiB of host memory is in two of the sweeps, 0 % of variation
in another), so means and counts are over the distinct ones. Many have nothing to gain: how many is said beside them.
"""

import statistics

NEAR_IDEAL = 1.005  # times the kernels alone
CLOSE = 0.98  # of the bound
KEY = ("net", "batch", "host_gib", "flash_gbps", "pcie_gbps", "vary")
STEPS_OF_IDEAL = (1.005, 1.02, 1.05, 1.1, 1.25, 1.5)
POLICIES = ("foresight", "g10", "deepum", "flashneuron", "on_demand")
PUBLISHED = {"g10": "G10", "deepum": "DeepUM+", "flashneuron": "FlashNeuron", "on_demand": "UVM"}


def as_published(row, policy):
    """Our seconds in the artifact's convention: for demand paging it took the faster of both iterations."""
    seconds = row["artifact"][policy]
    return min(seconds, row["artifact_first"][policy]) if policy == "on_demand" else seconds


def label(row):
    changed = {"batch": "", "host": f", {row['host_gib']} GiB", "flash": f", {row['flash_gbps']:g} GB/s",
               "variation": f", {row['vary']:.0%}"}[row["sweep"]]
    return f"{row['net']}-{row['batch']}{changed}"


def distinct(rows):
    """The first of each simulation."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in KEY), row)
    return list(found.values())


def _times(rows, of):
    """How many times as fast: mean, extremes, and how often at least as fast."""
    times = sorted((of(row), label(row)) for row in rows)
    return {"mean": round(statistics.geometric_mean(value for value, _ in times), 4),
            "median": round(statistics.median(value for value, _ in times), 4),
            "worst": {"point": times[0][1], "times": round(times[0][0], 4)},
            "best": {"point": times[-1][1], "times": round(times[-1][0], 4)},
            "at_least_as_fast": sum(value >= 1 for value, _ in times)}


def _shares(rows, bound):
    shares = sorted((row[bound] / row["strict"]["foresight"], label(row)) for row in rows if row[bound])
    return {"median": round(statistics.median(share for share, _ in shares), 4),
            "faster": sum(share > 1.0005 for share, _ in shares),
            "worst": {"point": shares[0][1], "share": round(shares[0][0], 4)},
            "below_98_percent": [{"point": name, "share": round(share, 4)} for share, name in shares if share < CLOSE]}


def _distribution(rows):
    """How many points take at most so many times as long as their kernels alone; each point in one class."""
    slowdowns = sorted(row["strict"]["foresight"] / row["ideal"] for row in rows)
    counts, below = {}, 0
    for step in STEPS_OF_IDEAL:
        within = sum(slowdown <= step for slowdown in slowdowns)
        counts[f"{step:g}"] = within - below
        below = within
    counts["more"] = len(slowdowns) - below
    return counts


def summarize(rows):
    """The points that G10 has a number for; `nominal` of each is the ideal time without variation."""
    nominal = {(row["net"], row["batch"]): row["ideal"] for row in rows if row["vary"] == 0}
    for row in rows:
        row["nominal"] = nominal.get((row["net"], row["batch"]), row["ideal"])
    published = [row for row in rows if "g10" in row["published"]]
    points = distinct(published)

    def by_published(timing):
        # Kernel times that vary do so by draws of the artifact's own: what is compared are slowdowns.
        return lambda row: row["published"]["g10"] / row["nominal"] / (row[timing]["foresight"] / row["ideal"])

    return {"points": len(published), "distinct": len(points),
            "both_as_in_the_artifact": _times(points, by_published("artifact")),
            "both_strict": _times(points, lambda row: row["strict"]["g10"] / row["strict"]["foresight"]),
            "published_by_strict": _times(points, by_published("strict")),
            "near_ideal": sum(row["strict"]["foresight"] <= NEAR_IDEAL * row["ideal"] for row in points),
            "published_near_ideal": sum(row["published"]["g10"] <= NEAR_IDEAL * row["nominal"] for row in points),
            "of_ideal": _distribution(points),
            "of_bound": _shares(points, "bound"), "of_bound_written": _shares(points, "bound_written")}


def summary_table(summary):
    def times(key):
        found = summary[key]
        return [f"{found['mean']:.2f}", f"{found['median']:.2f}",
                f"{found['worst']['times']:.3f} ({found['worst']['point']})",
                f"{found['best']['times']:.2f} ({found['best']['point']})",
                f"{found['at_least_as_fast']} of {summary['distinct']}"]

    rows = [["`foresight`, times as fast as G10", "mean", "median", "least", "most", "at least as fast"],
            ["published G10, both in the artifact's timing", *times("both_as_in_the_artifact")],
            ["G10's planner on this core, both strict", *times("both_strict")]]
    for key, words in (("of_bound", "of the bound, strict"), ("of_bound_written", "of the bound if all is written")):
        found = summary[key]
        far = len(found["below_98_percent"])
        rows.append([words, "", f"{found['median']:.1%}", f"{found['worst']['share']:.1%} ({found['worst']['point']})",
                     "", f"{far} points below {CLOSE:.0%}"])
    return rows


def distribution_table(summary):
    """Where the points lie: most of them leave nothing to gain."""
    steps = [f"up to {(float(step) - 1):.1%}" if step != "more" else "more" for step in summary["of_ideal"]]
    return [["over the kernels alone", *steps], ["points", *map(str, summary["of_ideal"].values())]]


def document(results):
    summary = summarize(results["points"])
    heading = (f"{summary['points']} published points, {summary['distinct']} distinct; at {summary['near_ideal']} "
               f"`foresight` is within 0.5 % of ideal, as is published G10 at {summary['published_near_ideal']}")
    return heading, summary_table(summary)


def document_distribution(results):
    return ("`foresight` in strict timing: seconds over those of the kernels alone",
            distribution_table(summarize(results["points"])))


def document_batches(results):
    """Seconds of the batch sweep, strict, beside the published ones."""
    def cell(value):
        return "-" if value is None else f"{value:.4g}"

    rows = [["network, batch", "ideal", "bound", "bound, all written", "foresight",
             *(name for policy in POLICIES[1:] for name in (policy, f"published {PUBLISHED[policy]}")),
             "foresight as in the artifact"]]
    for row in sorted((row for row in results["points"] if row["sweep"] == "batch"),
                      key=lambda row: (row["net"], row["batch"])):
        rows.append([f"{row['net']}, {row['batch']}", *(cell(row[key]) for key in ("ideal", "bound", "bound_written")),
                     cell(row["strict"]["foresight"]),
                     *(cell(side) for policy in POLICIES[1:]
                       for side in (row["strict"].get(policy), row["published"].get(policy))),
                     cell(row["artifact"]["foresight"])])
    return "Seconds of the fifth iteration in strict timing; published ones are the artifact's, in its timing", rows
