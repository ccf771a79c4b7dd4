"""Tables of bench/simulated/scale.py: what a step or a token takes where a model does not fit, and what is checked."""

import statistics


def seconds(ns):
    return f"{ns / 1e9:.3g} s" if ns >= 1e9 else f"{ns / 1e6:.3g} ms"


def share(part, whole):
    return f"{part / whole:.0%}" if whole else "-"


def of_bound(case):
    return share(case["bound_ns"], case["policies"]["foresight"]["step_ns"]) if case["bound_ns"] else "-"


def rate(case, digits):
    return f"{case['tokens'] / (case['policies']['foresight']['step_ns'] * 1e-9):.{digits}f}"


def traffic(case):
    """GB in and out: those of host memory, and of flash."""
    moved = {lane: size / 1e9 for lane, size in case["policies"]["foresight"]["bytes"].items()}
    return [f"{moved['host_in']:.3g} / {moved['host_out']:.3g}", f"{moved['flash_in']:.3g} / {moved['flash_out']:.3g}"]


def others(case):
    return [share(case["ideal_ns"], case["policies"][name]["step_ns"]) for name in ("window", "g10")]


def training(results):
    rows = [["model, batch x length", "machine", "kernels", "step", "tokens/s", "of kernels", "of the bound",
             "of the peak", "window", "G10's planner", "host in / out GB", "flash in / out GB"]]
    for case in results["steps"]:
        step = case["policies"]["foresight"]["step_ns"]
        rows.append([case["what"], case["machine"], seconds(case["ideal_ns"]), seconds(step), rate(case, 0),
                     share(case["ideal_ns"], step), of_bound(case),
                     share(case["flops"] / case["peak_flops"] * 1e9, step), *others(case), *traffic(case)])
    return rows


def generation(results):
    rows = [["model", "machine", "kernels", "token", "tokens/s", "of kernels", "of the bound", "window",
             "G10's planner", "host in / out GB", "flash in / out GB"]]
    for case in results["tokens"]:
        step = case["policies"]["foresight"]["step_ns"]
        rows.append([case["what"], case["machine"], seconds(case["ideal_ns"]), seconds(step), rate(case, 2),
                     share(case["ideal_ns"], step), of_bound(case), *others(case), *traffic(case)])
    return rows


def synchronisations(results):
    rows = [["a launch, a read", "room for all", "of that not kernels", "as it is"]]
    for row in results["synchronisations"]:
        rows.append([row["host"], seconds(row["room_ns"]), share(row["room_ns"] - row["ideal_ns"], row["room_ns"]),
                     seconds(row["step_ns"])])
    return rows


def check(results):
    found = results["check"]
    rows = [["", "kernels", "foresight in 17 GiB", "window in 17 GiB"]]
    for name in ("recorded", "roofline"):
        case = found[name]
        rows.append([f"simulated, {name}", seconds(case["ideal_ns"]),
                     *(seconds(case["policies"][policy]["step_ns"]) for policy in ("foresight", "window"))])
    measured = {name: seconds(1e9 * statistics.median(times)) for name, times in found["measured_s"].items()}
    rows.append(["measured, a step", measured["stock"], measured["foresight"], "-"])
    return rows


def document(results):
    shares = results["efficiency"]
    return ("Training, simulated: `foresight`, and in shares of the kernels alone `window` and G10's planner. Kernels "
            f"reach {shares['product']:.0%} of the peak in products, {shares['attention']:.0%} in attention, "
            f"{shares['bandwidth']:.0%} of bandwidth", training(results))


def document_generation(results):
    host = results["host"]
    return (f"Generation, simulated, 4096 tokens of context. The host takes {host['launch_host_ns'] / 1e3:g} us for a "
            f"launch and {host['sync_host_ns'] / 1e3:g} us to go on after a read", generation(results))


def document_synchronisations(results):
    first = results["synchronisations"][0]
    return (f"{first['what']} on {first['machine']}: a token, by what launches and reads of the router's choice cost",
            synchronisations(results))


def document_check(results):
    shares = results["check"]["efficiency"]
    return ("GPT-2 large, batch 4 of 1024 tokens, 32-bit floats, on an H100. Recorded kernels reach "
            f"{shares['product']:.0%} of 67 TFLOPS in products, {shares['attention']:.0%} in attention, and "
            f"{shares['bandwidth']:.0%} of 3.35 TB/s in the optimizer, which is what the roofline is made with",
            check(results))
