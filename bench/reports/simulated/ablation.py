"""Table of bench/simulated/ablation.py: what becomes of `foresight` without one of its parts."""

import math
import statistics


def of_bound(points, seconds):
    """Median and worst share of the bound."""
    shares = [point["bound_s"] / time for point, time in zip(points, seconds) if point["bound_s"]]
    return f"{statistics.median(shares):.1%}, {min(shares):.1%}"


def slower(points, seconds):
    """How much longer without the part: geometric mean, and the two ends."""
    ratios = [(time / point["seconds"], point["name"]) for point, time in zip(points, seconds)]
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios))
    return [f"{mean:.3f}", *(f"{ratio:.2f} {name}" for ratio, name in (min(ratios), max(ratios)))]


def table(results):
    """A line for each part and bench, those that matter most first."""
    rows = [["without", "on", "of the bound: median, worst", "time", "least", "most"]]
    for bench, points in results["points"].items():
        rows.append(["nothing", bench, of_bound(points, [point["seconds"] for point in points]), "1", "", ""])
        lines = []
        for part in results["parts"]:
            if (seconds := part["seconds"].get(bench)) is not None:
                lines.append([part["name"], bench, of_bound(points, seconds), *slower(points, seconds)])
        rows += sorted(lines, key=lambda line: -float(line[3]))
    return rows


def document(results):
    counts = " and ".join(f"{len(points)} points of {bench}" for bench, points in results["points"].items())
    return (f"{counts}; time: by that with all parts, the geometric mean, and the points where it is least and most",
            table(results))
