"""Tables of bench/simulated/sequences.py: two policies beside who knows all that comes, by program and memory."""

import collections

from children import format_size

POLICIES = ("foresight", "window")


def of_bound(row, policy):
    return row["bound_s"] and row["bound_s"] / row["seconds"][policy]


def percent(value):
    return f"{value:.1%}" if value else "-"


def table(rows):
    """A line for each program and memory."""
    lines = [["program", "memory", "kernels", "bound", *POLICIES, *(f"{policy} of bound" for policy in POLICIES),
              "foresight / window"]]
    for row in rows:
        lines.append([row["program"], f"{row['share']} ({format_size(row['budget_bytes'])})",
                      f"{row['ideal_s']:.2f} s", f"{row['bound_s']:.2f} s" if row["bound_s"] else "-",
                      *(f"{row['seconds'][policy]:.2f} s" for policy in POLICIES),
                      *(percent(of_bound(row, policy)) for policy in POLICIES),
                      f"{row['seconds']['foresight'] / row['seconds']['window']:.3f}"])
    return lines


def summary_table(summaries):
    lines = [["memory", *(text for policy in POLICIES for text in (f"{policy} of bound, median", "worst")),
              "foresight / window, median", "best", "worst"]]
    for name, summary in summaries.items():
        cells = []
        for policy in POLICIES:
            found = summary["of_bound"][policy]
            cells += ["-", "-"] if found is None else [percent(found["median"]),
                                                       f"{percent(found['worst'][0])} {found['worst'][1]}"]
        ratio = summary["foresight_by_window"]
        lines.append([name, *cells, f"{ratio['median']:.3f}",
                      *(f"{ratio[end][0]:.3f} {ratio[end][1]}" for end in ("best", "worst"))])
    return lines


def document(results):
    """A line for each program; a cell for each memory: shares of the bound, and one policy's time by the other's."""
    programs = collections.defaultdict(dict)
    for row in results["rows"]:
        ratio = row["seconds"]["foresight"] / row["seconds"]["window"]
        shares = ", ".join(percent(of_bound(row, policy)) for policy in POLICIES)
        programs[row["program"]][row["share"]] = f"{shares}, {ratio:.2f}"
        programs[row["program"]]["head"] = [format_size(row["peak_bytes"]), f"{row['ideal_s']:.1f} s"]
    shares = [name for name in results["summary"] if name != "all"]
    rows = [["program", "peak", "kernels", *shares]]
    rows += [[name.replace("_", " "), *cells["head"], *(cells[share] for share in shares)]
             for name, cells in programs.items()]
    medians = []
    for share in shares:
        found = results["summary"][share]
        medians.append(", ".join([*(percent(found["of_bound"][policy]["median"]) for policy in POLICIES),
                                  f"{found['foresight_by_window']['median']:.2f}"]))
    rows.append(["median", "", "", *medians])
    everything = results["summary"]["all"]["of_bound"]
    return "; ".join(f"{policy}: {percent(everything[policy]['median'])} of the bound in the median, "
                     f"{percent(everything[policy]['worst'][0])} at worst ({everything[policy]['worst'][1]})"
                     for policy in POLICIES), rows
