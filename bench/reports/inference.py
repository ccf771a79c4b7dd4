"""Tables of bench/inference.py's results: seconds a token (a step, an image), median and range, and of the bound."""

import statistics

from output import median_range

THINGS = {"tokens, logits": "a token", "losses": "a step", "images": "an image"}


def counted(turns, warm_up):
    """Seconds of all that counts."""
    return [seconds for turn in turns for seconds in turn[warm_up:]]


def share_of_bound(turn, alone, must_read, warm_up):
    """What a token must take, by what it took."""
    return max(alone, must_read / statistics.mean(turn["disk"])) / statistics.median(turn["seconds"][warm_up:])


def table(results):
    """Of one program of the results."""
    warm_up = results["warm_up"]
    alone = counted(results["all"], warm_up)
    others = [kind for kind in results["kinds"] if kind != "Ebbtide"]
    rows = [["memory", "all of it", *others, "`ebb run`", "of the bound", "disk GB/s", results["made"]]]
    for share in results["shares"]:
        turns = {kind: [turn["seconds"] for turn in share[kind]] for kind in results["kinds"] if share[kind]}
        seconds = {kind: counted(found, warm_up) for kind, found in turns.items()}
        mine = share["Ebbtide"]
        bounds = [share_of_bound(turn, statistics.median(alone), share["must_read"], warm_up) for turn in mine]
        rows.append([f"1/{share['share']}", median_range(alone),
                     *(median_range(seconds[kind]) if kind in seconds else "failed" for kind in [*others, "Ebbtide"]),
                     median_range(bounds, 0, " %", 100),
                     median_range([rate for turn in mine for rate in turn["disk"]], 2, "", 1e-9),
                     "equal" if all(turn["same"] for turn in mine) else "NOT equal"])
    return rows


def document(results):
    """The first program's table, and what stands above it."""
    (name, found), = results["programs"].items()
    rounds = f"{len(found['all'])} round{'s' if len(found['all']) > 1 else ''}"
    head = (f"{name}, {found['size'] / 2**30:.2f} GiB of weights; seconds {THINGS[found['made']]} from the "
            f"{found['first_counted']} on, medians (least-most) of {rounds}")
    return head, table(found)
