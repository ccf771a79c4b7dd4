"""Table of bench/simulated/loops.py: how near to the proved bound a policy comes, by loop, disk and memory."""

import collections

from children import format_size


def table(points, policy):
    shares = list(dict.fromkeys(each["memory"] for each in points))
    rows = collections.defaultdict(dict)
    for each in points:
        result = each["policies"][policy]
        cell = f"{result['of_bound']:.1%}" if each["bound_ns"] else f"({result['step_ns'] / each['ideal_ns']:.2f}x)"
        row = rows[each["loop"], each["disk"]]
        row[each["memory"]] = "all fits" if each["fits"] else cell
        row["head"] = [format_size(each["peak_bytes"]), f"{each['ideal_ns'] * 1e-9:.3f} s"]
    return [["loop", "disk GB/s", "peak", "ideal", *shares],
            *([*name, *row["head"], *(row[share] for share in shares)] for name, row in rows.items())]


def document(results):
    """Of the first policy; the summary is of all."""
    parts = [f"{name}: {found['median']:.1%} of the bound in the median, {found['worst']['of_bound']:.1%} at worst "
             f"({found['worst']['point']}), {found['counted']} points of {found['points']}"
             for name, found in results["summary"].items() if found["median"] is not None]
    return "; ".join(parts), table(results["points"], next(iter(results["summary"])))
