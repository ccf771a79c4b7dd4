"""Table of bench/simulated/ablation.py: what becomes of `foresight` without one of its parts."""

import math
import statistics

BENCHES = ("sequences", "loops")


def of_bound(points):
    """Median and worst share of the bound."""
    shares = [bound / seconds for seconds, bound in points.values() if bound]
    return f"{statistics.median(shares):.1%}, {min(shares):.1%}" if shares else "-"


def slower(points, with_all):
    """How much longer without the part: geometric mean, and the two ends."""
    ratios = {name: seconds / with_all[name][0] for name, (seconds, _) in points.items()}
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    least, most = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    return [f"{mean:.3f}", f"{ratios[least]:.2f} {least}", f"{ratios[most]:.2f} {most}"]


def table(results):
    """A line for each part and bench, those that matter most first."""
    rows = [["without", "on", "of the bound: median, worst", "time", "least", "most"]]
    for bench in BENCHES:
        if bench not in results["all"]:
            continue
        with_all = results["all"][bench]
        rows.append(["nothing", bench, of_bound(with_all), "1", "", ""])
        lines = [[part["name"], bench, of_bound(part["points"][bench]), *slower(part["points"][bench], with_all)]
                 for part in results["parts"] if bench in part["points"]]
        rows += sorted(lines, key=lambda line: -float(line[3]))
    return rows


def document(results):
    counts = " and ".join(f"{len(points)} points of {bench}" for bench, points in results["all"].items())
    return (f"{counts}; time: by that with all parts, the geometric mean, and the points where it is least and most",
            table(results))
