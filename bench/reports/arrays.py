"""Tables of bench/arrays.py's results. Quotients are medians of those within a round."""

from output import median_range


def combination_table(results):
    found = results["combination"]
    return [["combined", "beside", "times as fast"], ["two operators", "one by one", f"{found['two']:.2f}"],
            ["eight operators", "one by one", f"{found['eight']:.2f}"],
            ["triad", "STREAM's triad", f"{found['of_stream']:.2f}"]]


def expressions_table(results):
    expressions = results["expressions"]
    names = list(next(iter(expressions.values()))["seconds"])
    rows = [["milliseconds", *names, "times as fast as the best"]]
    for text, row in expressions.items():
        rows.append([f"`{text}`", *(median_range(row["times"][name], 1, "", 1e3) for name in names),
                     f"{row['speedup']:.2f} ({row['best_peer']})"])
    return rows


def _heading(results):
    size = results["elements"] * 4 / 2**20
    return f"Arrays of {size:g} MiB, medians (least-most) of {results['rounds']} rounds in one process"


def document_combination(results):
    return _heading(results), combination_table(results)


def document(results):
    return _heading(results), expressions_table(results)
