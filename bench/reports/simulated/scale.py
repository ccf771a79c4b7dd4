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
    moved = {lane: f"{size / 1e9:.0f}" if size >= 1e12 else f"{size / 1e9:.3g}"
             for lane, size in case["policies"]["foresight"]["bytes"].items()}
    return [f"{moved['host_in']} / {moved['host_out']}", f"{moved['flash_in']} / {moved['flash_out']}"]


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


# -- Beside what others publish -------------------------------------------------------------------------------


def case_of(results, what, machine):
    return next(case for case in (*results["steps"], *results["tokens"])
                if (case["what"], case["machine"]) == (what, machine))


def ours_of_kernels(case, policy="foresight"):
    return f"{share(case['ideal_ns'], case['policies'][policy]['step_ns'])} of the kernels alone"


def ours_of_peak(case):
    flops = case["flops"] / case["policies"]["foresight"]["step_ns"] * 1e9
    return f"{flops / 1e12:.0f} TFLOPS, {share(flops, case['peak_flops'])} of the peak"


def ours_of_bound(case):
    return f"{of_bound(case)} of what is possible for who fetches"


LARGE = ("Llama 3.1 70B, 32 x 4096", "H200")
PUBLISHED = (
    ("TeraIO", "80.7 % of the speed with unlimited GPU memory; 1.47 times that of ZeRO-Offload and -Infinity; means",
     "arXiv 2506.06472, abstract", *LARGE, ours_of_kernels),
    ("G10", "90.3 % of ideal, simulated: an A100 with 40 GiB, convolutional networks, BERT, ViT",
     "arXiv 2310.09443, abstract", *LARGE,
     lambda case: f"{ours_of_kernels(case)}, by its planner on this core {ours_of_kernels(case, 'g10')}"),
    ("ZeRO-Infinity", "more than 25 PFLOPS on 512 V100, 40 % of their peak", "arXiv 2104.07857, abstract", *LARGE,
     ours_of_peak),
    ("ZeRO-3 Offload", "49 TFLOPS a GPU: a trillion parameters on 512 V100", "DeepSpeed's announcement, 2021-03-08",
     *LARGE, ours_of_peak),
    ("ZeRO-Offload", "Llama 2 7B on four A100: a step of 0.5 s becomes one of more than 7", "DeepSpeed, "
     "`blogs/deepspeed-zenflow`", "Llama 3.1 8B, 8 x 4096, nothing recomputed", "H200", ours_of_kernels),
    ("SuperOffload", "about 600 TFLOPS on one GH200: Qwen3 14B or GPT-OSS 20B, batch 4 of 4096 tokens",
     "DeepSpeed, `blogs/deepspeed-superoffload`", "Qwen3 14B, 4 x 4096", "GH200", ours_of_peak),
    ("GreedySnake", "1.96 times the throughput of ZeRO-Infinity: GPT-65B on one A100, with flash",
     "arXiv 2512.17570, abstract", "Llama 3.1 70B, 8 x 4096, updates in backward", "H200", ours_of_peak),
    ("MLP-Offload", "iterations 2.5 times as fast as state of the art, to 280 billion parameters",
     "arXiv 2509.02480, abstract", "Qwen3 235B-A22B, 32 x 4096", "H200", ours_of_kernels),
    ("DAK", "generation up to 3 times as fast as by fetching on NVLink-C2C, 1.8 times on PCI Express",
     "arXiv 2604.26074, abstract", "Llama 3.1 70B, batch 8", "GH200", ours_of_bound),
)


def document_published(results):
    rows = [["system", "what it says", "where", "nearest to it here", "simulated"]]
    rows += [[system, says, where, f"{what}, {machine}", ours(case_of(results, what, machine))]
             for system, says, where, what, machine, ours in PUBLISHED]
    return "Published, and simulated", rows
