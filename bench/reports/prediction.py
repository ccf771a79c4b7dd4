"""Tables of bench/prediction.py's results: forecasts beside what came, and how far off they were."""

import statistics

from children import format_size
from output import median_range


def measured(row):
    return [turn["step_s"] for turn in row["turns"]]


def off(row, which):
    """Of the measured median. `simulated`: each trace's simulation beside the other turns; None with a single turn."""
    if which == "predicted":
        return row["predicted_s"] / statistics.median(measured(row)) - 1
    others = [turn["simulated_s"] / statistics.median(each["step_s"] for each in row["turns"] if each is not turn) - 1
              for turn in row["turns"] if len(row["turns"]) > 1]
    return max(others, key=abs) if others else None


def off_in_sample(row):
    """Each trace's simulation beside its own turn, the worst."""
    return max((turn["simulated_s"] / turn["step_s"] - 1 for turn in row["turns"]), key=abs)


def percent(value):
    return "-" if value is None else f"{value:+.0%}"


def table(results):
    rows = [["model", "memory", "foretold (ebb plan)", "then measured", "off by", "ebb sim, other turns off by",
             "ebb sim, own turn off by", "of the bound"]]
    for row in results["rows"]:
        seconds = measured(row)
        memory = f"1/{row['share']} ({format_size(row['budget_bytes'])})"
        rows.append([row["model"], memory, f"{row['predicted_s']:.2f} s",
                     median_range(seconds), percent(off(row, "predicted")), percent(off(row, "simulated")),
                     percent(off_in_sample(row)), f"{row['bound_s'] / statistics.median(seconds):.0%}"])
    return rows


def document(results):
    return (f"Seconds a step, foretold before anything ran, then measured: medians (least-most) of {results['rounds']} "
            "rounds; of simulations the worst turn", table(results))
