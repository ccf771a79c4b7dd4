#!/usr/bin/env python3
"""Today's models on today's machines, simulated from roofline traces: what Ebbtide would do where they do not fit.

    bench/simulated/scale.py               all cases; prints the tables
    bench/simulated/scale.py --only gh200  those whose name has this in it
    bench/simulated/scale.py --quick       a few layers of two models, to see that it works

Traces are made by roofline.py and decoders.py, and run by `ebb sim` with the policies of Ebbtide and with G10's planner
on the same core. What is assumed is in MACHINES, EFFICIENCY, HOST and CHECKSUMS, and in docs/scale.md with its sources.
The roofline is checked: the step recorded on a GPU (bench/data/gpu) beside the one that is made of the same model.
"""

import argparse
import dataclasses
import gzip
import json
import math
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training"), str(HERE / "simulated")]

import decoders  # noqa: E402
import possible  # noqa: E402
import roofline  # noqa: E402
from children import ChildError, ebb_binary  # noqa: E402
from output import print_table, progress_line, report, sitting  # noqa: E402
from reports.simulated import scale as tables  # noqa: E402

GIB, MIB = 2**30, 2**20
TIMEOUT_S = 7200
POLICIES = ("foresight", "window", "g10")
STEPS_EACH, TOKENS_EACH = 6, 16  # iterations of what repeats; the mean is of the later half
TOKENS, WARM_UP = 24, 8  # of a mixture, whose tokens differ
EFFICIENCY = roofline.Efficiency(product=0.6, attention=0.35, bandwidth=0.85)
HOST = {"launch_host_ns": 10_000, "sync_host_ns": 20_000}
CHECKSUMS = 12e9  # bytes a second, of both directions of flash: what one thread got done (docs/benchmarks.md)


@dataclasses.dataclass(frozen=True)
class Machine:
    """The link has `one_way` where traffic goes one way, as in generation, else `both_ways` in each of them."""
    device: roofline.Device
    memory: int
    host: int
    one_way: float
    both_ways: float
    flash_read: float
    flash_write: float
    block: int

    def options(self, link, block, flash_total=CHECKSUMS):
        rates = {"--pcie": link, "--flash-read": self.flash_read, "--flash-write": self.flash_write,
                 "--flash-total": flash_total}
        return ["--device-memory", self.memory, "--host-memory", self.host, "--block", block,
                *(word for name, rate in rates.items() for word in (name, f"{rate:.0f}"))]


MACHINES = {
    "H200": Machine(roofline.Device("H200", 989e12, 67e12, 4.8e12), 132 * GIB, 512 * GIB,
                    55e9, 50e9, 24e9, 13e9, 128 * MIB),
    "GH200": Machine(roofline.Device("GH200", 989e12, 67e12, 4.0e12), 90 * GIB, 420 * GIB,
                     337e9, 205e9, 12e9, 6.5e9, 128 * MIB),
    "RTX 5080": Machine(roofline.Device("RTX 5080", 112.6e12, 56.3e12, 0.96e12), 14 * GIB, 48 * GIB,
                        55e9, 50e9, 7e9, 5e9, 32 * MIB),
}
EXPERT_BLOCK = 8 * MIB  # an expert has 38 MB: with larger blocks its neighbours come along


@dataclasses.dataclass(frozen=True)
class Step:
    model: roofline.Model
    machine: str
    batch: int
    length: int = 4096
    recompute: bool = True
    in_backward: bool = False
    checked: bool = True  # what comes from flash and goes there, by one thread

    @property
    def what(self):
        marks = {"nothing recomputed": not self.recompute, "updates in backward": self.in_backward,
                 "no checksums": not self.checked}
        return ", ".join([f"{self.model.name}, {self.batch} x {self.length}",
                          *(mark for mark, has in marks.items() if has)])


@dataclasses.dataclass(frozen=True)
class Token:
    model: roofline.Model
    machine: str
    batch: int
    context: int = 4096

    @property
    def what(self):
        return f"{self.model.name}, batch {self.batch}"


STEPS = (
    *(Step(roofline.LLAMA_8B, machine, 8, recompute=recompute)
      for machine in ("H200", "GH200") for recompute in (True, False)),
    Step(roofline.QWEN_14B, "GH200", 4),
    *(Step(roofline.LLAMA_8B, "RTX 5080", batch) for batch in (2, 8)),
    Step(roofline.LLAMA_8B, "RTX 5080", 8, in_backward=True),
    *(Step(roofline.LLAMA_70B, machine, batch) for machine in ("H200", "GH200") for batch in (8, 32)),
    Step(roofline.LLAMA_70B, "H200", 8, in_backward=True),
    Step(roofline.LLAMA_70B, "H200", 8, checked=False),
    Step(roofline.QWEN_235B, "H200", 32),
)
GENERATION = (
    Token(roofline.LLAMA_8B, "RTX 5080", 1),
    *(Token(roofline.LLAMA_70B, machine, 8) for machine in ("H200", "GH200")),
    Token(roofline.LLAMA_70B, "RTX 5080", 1),
    *(Token(roofline.QWEN_235B, machine, 1) for machine in MACHINES),
)
READ_BACK = Token(roofline.QWEN_235B, "H200", 1)
# What a read of the router's choice costs: nothing, as HOST has it, and what was told of mlx-lm (docs/scale.md).
SYNCHRONISATIONS = {"none": {}, "launches only": {"launch_host_ns": 10_000}, "20 us": HOST,
                    "300 us": {"launch_host_ns": 10_000, "sync_host_ns": 300_000}}


def simulate(trace, options):
    with tempfile.TemporaryDirectory(prefix="ebb-scale-") as folder:
        path = pathlib.Path(folder) / "trace.jsonl"
        trace.write(path)
        return summary(possible.ask("sim", path, *options, timeout=TIMEOUT_S))


def summary(found):
    """Of one iteration: those that count, in the mean."""
    results = {}
    for result in found["results"]:
        count = found["iterations"] - found["warm_up"] if found["sequence"] else 1
        times = result["iterations_ns"]
        step = result["mean_iteration_ns"] if found["sequence"] else statistics.fmean(times[len(times) // 2:])
        results[result["policy"]] = {
            "step_ns": step, "iterations_ns": times,
            "bytes": {lane: use["bytes"] / count for lane, use in result["lanes"].items()},
            "stalls_ns": {cause: ns / count for cause, ns in result["stalls"].items()}}
        ideal = result["ideal_ns"] / count
        bound = result["bound_ns"] / count if result["bound_ns"] else None
    return {"ideal_ns": ideal, "bound_ns": bound, "bound_note": found["bound_note"], "policies": results}


def train(case, machine):
    trace = roofline.Trace(machine.device, EFFICIENCY, model=case.model.name, batch=case.batch, **HOST)
    decoders.Training(case.model, trace, case.batch, case.length, recompute=case.recompute,
                      in_backward=case.in_backward, part=machine.memory // 32).step()
    return {"what": case.what, "machine": case.machine, "parameters": case.model.parameters(),
            "tokens": case.batch * case.length, "flops": roofline.flops_of_step(case.model, case.batch, case.length),
            "peak_flops": machine.device.half_flops,
            "launches": trace.launches,
            **simulate(trace, [*machine.options(machine.both_ways, machine.block, CHECKSUMS if case.checked else 0),
                               "--iterations", STEPS_EACH, "--policy", ",".join(POLICIES)])}


def generate(case, machine, host=HOST, policies=POLICIES):
    trace = roofline.Trace(machine.device, EFFICIENCY, model=case.model.name, batch=case.batch, **host)
    decoders.Generation(case.model, trace, case.batch, case.context, TOKENS if case.model.experts else 1).run()
    block, count = machine.block, ["--iterations", TOKENS_EACH]
    if case.model.experts:
        block, count = EXPERT_BLOCK, ["--warm-up", WARM_UP]
    return {"what": case.what, "machine": case.machine, "parameters": case.model.parameters(), "tokens": case.batch,
            "launches": trace.launches, **simulate(trace, [*machine.options(machine.one_way, block), *count,
                                                           "--policy", ",".join(policies)])}


def synchronisations(case, machine):
    """One case again with other costs of a read of the host, and with memory for all of it."""
    roomy = dataclasses.replace(machine, memory=2 * case.model.parameters() * 2)
    rows = []
    for name, host in SYNCHRONISATIONS.items():
        room, found = (generate(case, each, host, ("foresight",)) for each in (roomy, machine))
        rows.append({"host": name, "machine": case.machine, "what": case.what, "ideal_ns": found["ideal_ns"],
                     "room_ns": room["policies"]["foresight"]["step_ns"],
                     "step_ns": found["policies"]["foresight"]["step_ns"],
                     "host_ns": found["policies"]["foresight"]["stalls_ns"]["host_ns"]})
    return rows


# -- The check: a recorded step ---------------------------------------------------------------------------------------

RECORDED = HERE / "data/gpu/gpt2-large-h100.jsonl.gz"
H100 = roofline.Device("H100", 989e12, 67e12, 3.35e12)
CHECKED = ["--device-memory", "17GiB", "--host-memory", "60GiB", "--pcie", "50GB/s", "--flash-read", 0,
           "--flash-write", 0, "--block", "128MiB", "--iterations", STEPS_EACH, "--policy", "foresight,window"]
MEASURED = HERE / "results/2026-11-26-gpu-second.json"


def recorded_efficiency(path=RECORDED):
    """What the recorded kernels reached. A product of a x b, b x c has its three sizes, so its flops are known."""
    sizes, flops, moved = {}, 0.0, 0
    times = {"product": 0, "attention": 0, "bandwidth": 0, "all": 0}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in map(json.loads, file):
            if "tensor" in line:
                sizes[line["tensor"]] = line["bytes"]
            if "launch" not in line:
                continue
            reads, writes = ([sizes[each] for each in line.get(side, [])] for side in ("reads", "writes"))
            kind = None
            if line["op"] in ("aten::mm", "aten::addmm"):  # the first operand of the latter is the bias
                kind, elements = "product", [size / 4 for size in (*reads[-2:], writes[0])]
                flops += 2 * math.sqrt(math.prod(elements))
            elif "attention" in line["op"]:
                kind = "attention"
            elif "_foreach_" in line["op"]:
                kind = "bandwidth"
                moved += sum(reads) + sum(writes)
            times["all"] += line["ns"]
            if kind:
                times[kind] += line["ns"]
    model = roofline.GPT2_LARGE
    attention = 3.5 * model.layers * roofline.flops_of_attention(model, 4, 1024)
    return times, roofline.Efficiency(flops / (times["product"] * 1e-9 * H100.single_flops),
                                      attention / (times["attention"] * 1e-9 * H100.single_flops),
                                      moved / (times["bandwidth"] * 1e-9 * H100.bandwidth))


def check():
    times, efficiency = recorded_efficiency()
    made = roofline.Trace(H100, efficiency, single=True, model="GPT-2 large", batch=4)
    decoders.Training(roofline.GPT2_LARGE, made, 4, 1024, recompute=False, single=True, part=17 * GIB // 32).step()
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))["fifth_sitting"]
    return {"efficiency": dataclasses.asdict(efficiency), "recorded_ns": times,
            "recorded": summary(possible.ask("sim", RECORDED, *CHECKED, timeout=TIMEOUT_S)),
            "roofline": simulate(made, CHECKED),
            "measured_s": {"stock": measured["stock"][1:],  # the first steps make the optimizer's state, and learn
                           "foresight": measured["17GiB_foresight_blocks_of_128MiB"][3:]}}


# -- All of it -------------------------------------------------------------------------------------------------------


def small(case, machine, part=16):
    """A few layers, on the part of the machine that they would have."""
    return (dataclasses.replace(case, model=dataclasses.replace(case.model, layers=case.model.layers // part)),
            dataclasses.replace(machine, memory=machine.memory // part, host=machine.host // part, block=8 * MIB))


def measure(arguments, progress):
    def chosen(cases):
        for case in cases:
            name = f"{case.what}, {case.machine}"
            if arguments.only.lower() not in name.lower():
                continue
            progress(name)
            yield small(case, MACHINES[case.machine]) if arguments.quick else (case, MACHINES[case.machine])

    found = {"steps": [train(*each) for each in chosen(STEPS[:1] if arguments.quick else STEPS)],
             "tokens": [generate(*each) for each in chosen((READ_BACK,) if arguments.quick else GENERATION)],
             "synchronisations": [row for each in chosen((READ_BACK,)) for row in synchronisations(*each)]}
    progress("the recorded step")
    found["check"] = check()
    progress("")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name or machine")
    parser.add_argument("--quick", action="store_true", help="a few layers of two models, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of tables")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    results = {**sitting(()), "quick": arguments.quick, "efficiency": dataclasses.asdict(EFFICIENCY), "host": HOST,
               "machines": {name: dataclasses.asdict(machine) for name, machine in MACHINES.items()}}
    try:
        ebb_binary()
        results.update(measure(arguments, progress_line(arguments.json)))
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    report(results, tables.training(results), "scale", arguments)
    if not arguments.json:
        for table in (tables.generation, tables.synchronisations, tables.check):
            print_table(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
