"""Contenders: the ways of running one training script that the benchmark compares, and the rounds that they run in.

A contender is a label, what part of the peak it may use (None: all), and a function that runs the script once and
returns (Child, summary or None). Those with the same part run in cgroups of the same limit. Printing is bench/run.py's,
tables are reports/training.py's. Standard library only, so the benchmark itself stays small.
"""

import contextlib
import dataclasses
import pathlib
import statistics
import sys
import tempfile
import typing

import children
import fio
import possible
import stock
from children import ChildError, MemoryCgroup, format_size
from machine import drop_caches
from swap_file import SwapFile, ZramSwap

WARM_UP_STEPS = 2
TIMEOUT_S = 3600
BLOCK_BYTES = 2**21
BLOCKS_MIN = 16  # fewer than the runtime accepts would be no measurement
BUFFERS_BYTES = 256 * 2**20  # what libraries take for themselves, beside what the process holds before the model
RECORD_STEPS = 4
ROOM = "ebb run, room for all"
VARYING = ("lengths", "experts", "phases")  # as in models.py: their iterations are not alike
VARYING_STEPS, VARYING_WARM_UP = 24, 6
SWAP_STEPS = 4  # a turn of those that page, as these take minutes
HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Contender:
    label: str
    share: typing.Optional[int]  # 3: a third of the peak
    run: typing.Callable  # of steps and a cgroup
    steps: int


def script_of(name, steps, quick):
    return [sys.executable, HERE / "train.py", "--model", name, "--steps", steps, *(["--quick"] if quick else [])]


def _available_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def memory_for_all():
    """A budget in which everything that this machine could hold fits."""
    return int(_available_bytes() * 0.9)


def budget_of(peak, share):
    """A part of the peak, in blocks."""
    return max(int(peak / share) // BLOCK_BYTES, BLOCKS_MIN) * BLOCK_BYTES


def peak_bytes(name, arguments, record=None, steps=2):
    """The most bytes of tensors the model has at once: some steps under `ebb run` with room for everything."""
    _, summary = children.ebb_run(script_of(name, steps, arguments.quick), memory=memory_for_all(), record=record,
                                  flash=arguments.flash, env=children.environment(), timeout=TIMEOUT_S)
    return summary["peak_live_bytes"] + summary["small_bytes"]


def why_no_cgroup():
    """None where this process may make memory cgroups."""
    try:
        with MemoryCgroup(2**30):
            return None
    except ChildError as error:
        return str(error)


class Sitting:
    """All rounds of one model."""

    def __init__(self, name, arguments, progress):
        self.name, self.arguments, self.progress = name, arguments, progress
        self.scratch = None
        self.varies = name in VARYING
        self.steps = max(arguments.steps, VARYING_STEPS) if self.varies and not arguments.quick else arguments.steps
        self.warm_up = VARYING_WARM_UP if self.steps >= VARYING_STEPS else WARM_UP_STEPS
        self.result = {"model": name, "steps": self.steps, "warm_up": self.warm_up, "varies": self.varies, "notes": []}

    def script(self, steps):
        return script_of(self.name, steps, self.arguments.quick)

    def note(self, text):
        if text not in self.result["notes"]:
            self.result["notes"].append(text)

    def measure(self):
        with tempfile.TemporaryDirectory(prefix="ebb-bench-") as folder:
            trace = f"{folder}/trace.jsonl"
            self.progress(f"{self.name}: measuring the peak")
            self.peak = peak_bytes(self.name, self.arguments, trace, RECORD_STEPS)
            disks = [possible.calibrate(self.arguments.flash)]
            base = stock.run(self.script(1), {}).find("baseline_rss_bytes") + BUFFERS_BYTES
            self.result |= {"peak_bytes": self.peak, "base_bytes": base, "shares": {
                str(share): {"budget_bytes": budget_of(self.peak, share),
                             "cgroup_bytes": budget_of(self.peak, share) + base} for share in self.arguments.shares}}
            found = self.contenders(folder)
            with contextlib.ExitStack() as stack:
                try:
                    if not self.arguments.quick:
                        self.scratch = stack.enter_context(fio.Scratch(self.arguments.flash))
                except ChildError as error:
                    self.note(f"the disk is not measured in each turn: {error}")
                self.rounds(found)
            if not self.arguments.quick:
                disks.append(possible.calibrate(self.arguments.flash))
            self.result["disks"] = disks
            self.bounds(trace, f"{folder}/shortened.jsonl")
        bits = {tuple(turn["bits"][:SWAP_STEPS]) for turns in self.result["contenders"].values() for turn in turns}
        whole = {tuple(turn["bits"]) for turns in self.result["contenders"].values() for turn in turns
                 if len(turn["bits"]) == self.steps}
        self.result["losses_equal"] = len(bits) == 1 and len(whole) == 1
        verdict = "equal bit for bit" if self.result["losses_equal"] else "NOT equal"
        self.note(f"the losses of all contenders and rounds are {verdict}")
        return self.result

    def bounds(self, trace, shortened):
        """The proved bound of each point, with kernels as fast as the fastest turn with all memory had them."""
        if not self.varies:
            turns = [turn for label, turns in self.result["contenders"].items() for turn in turns
                     if label.startswith("stock, ") or label == ROOM]
            steps = [statistics.median(turn["seconds"][self.warm_up:] or turn["seconds"]) for turn in turns]
            possible.shorten(trace, min(steps), shortened)
        for share, point in self.result["shares"].items():
            if self.varies:
                point["bound"] = point["bound_then"] = {"seconds": None, "kind": possible.NONE}
                continue
            disk = possible.fastest(self.result["disks"])
            point["bound"] = possible.bound(shortened, point["budget_bytes"], disk)
            rates = [turn["both_ways_bps"] for label, turns in self.result["contenders"].items() for turn in turns
                     if label.endswith(f", 1/{share}") and turn.get("both_ways_bps")]
            if rates:
                point["both_ways_bps"] = statistics.median(rates)
                point["bound_then"] = possible.bound(shortened, point["budget_bytes"],
                                                     disk | {"total_bps": point["both_ways_bps"]})

    def contenders(self, folder):
        """In the order of their turns."""
        name, variables, self.result["tuned"] = stock.calibrate(
            self.script, lambda text: self.progress(f"{self.name}: {text}"))
        self.result["notes"] += self.result["tuned"]["notes"]
        found = [self._stock("stock, as it comes", {}), self._stock(f"stock, tuned: {name}", variables),
                 self._ebb(ROOM, None)]
        found += [self._ebb(f"ebb run, 1/{share}", share) for share in self.arguments.shares]
        middle = 3 if 3 in self.arguments.shares else self.arguments.shares[0]
        if self.varies:
            found.append(self._ebb(f"ebb run --policy window, 1/{middle}", middle, policy="window"))
        if self.arguments.with_guide:
            found.append(self._ebb(f"ebb run --guide, 1/{middle}", middle, guide=f"{folder}/guide.jsonl.gz"))
        if self.arguments.with_swap and not self.varies:
            found += self._swaps(variables, middle)
        if any(each.share for each in found) and (why := why_no_cgroup()):
            self.note(f"none runs in a memory cgroup: {why}")
            found = [dataclasses.replace(each, run=_without_cgroup(each.run)) for each in found]
        return found

    def _stock(self, label, variables):
        return Contender(label, None, lambda steps, cgroup: (stock.run(self.script(steps), variables, cgroup), None),
                         self.steps)

    def _ebb(self, label, share, **options):
        memory = budget_of(self.peak, share or 1 / 2)

        def run(steps, cgroup):
            return children.ebb_run(self.script(steps), memory=memory, flash=self.arguments.flash, cgroup=cgroup,
                                    env=children.environment(), timeout=TIMEOUT_S, **options)

        return Contender(label, share, run, self.steps)

    def _swaps(self, variables, share):
        """Tuned stock in the same cgroup, with a swap file and with zram; what cannot be had is noted."""
        found = []
        if why := why_no_cgroup():
            self.note(f"kernel swap: not measured ({why})")
            return found
        for label, kind in (("kernel swap", SwapFile), ("zram", ZramSwap)):
            try:
                with kind(self.arguments.flash, 2**26):
                    pass
            except ChildError as error:
                self.note(f"{label}: not measured ({error})")
                continue

            def run(steps, cgroup, kind=kind):
                with kind(self.arguments.flash, 2 * self.peak):
                    return stock.run(self.script(steps), variables, cgroup), None

            found.append(Contender(f"stock on {label}, 1/{share}", share, run, min(self.steps, SWAP_STEPS)))
        return found

    def rounds(self, found):
        """A B C A B C …: what a machine does in an hour, it does to all of them."""
        self.result["contenders"] = {each.label: [] for each in found}
        for turn in range(self.arguments.rounds):
            for each in found:
                if turn and not self.result["contenders"][each.label]:
                    continue  # it failed before any round was over, perhaps after an hour
                self.progress(f"{self.name}: round {turn + 1} of {self.arguments.rounds}, {each.label}")
                if not self.arguments.quick and not drop_caches():
                    self.note("caches are not dropped before a turn: that needs root")
                self.turn(each)

    def turn(self, each):
        limit = self.result["shares"][str(each.share)]["cgroup_bytes"] if each.share else None
        pages = each.label.startswith("stock on ")
        record = {}
        try:
            if self.scratch and each.share and each.label.startswith("ebb run"):
                record["both_ways_bps"] = self.scratch.both_ways()
            with contextlib.ExitStack() as stack:
                cgroup = None
                if limit and not getattr(each.run, "without_cgroup", False):
                    cgroup = stack.enter_context(MemoryCgroup(limit, swap_bytes=None if pages else 0))
                child, summary = each.run(each.steps, cgroup)
                record["cgroup_peak_bytes"] = cgroup.peak_bytes() if cgroup else None
        except ChildError as error:
            self.note(f"{each.label} failed in {format_size(limit) if limit else 'all memory'}: {error.reason()}"[:400])
            return
        record |= {each: child.all(each) for each in ("seconds", "processor_s", "stolen_s", "bits")}
        record["process_peak_bytes"] = child.find("peak_rss_bytes")
        if summary:
            record["stats"] = {key: value for key, value in summary.items()
                               if isinstance(value, (int, float)) and not isinstance(value, bool)}
            record["description"] = summary.get("description", "")
        self.result["contenders"][each.label].append(record)
        self.result.setdefault("threads", child.find("threads"))
        self.result.setdefault("torch", child.find("torch"))


def _without_cgroup(run):
    def alone(steps, _):
        return run(steps, None)

    alone.without_cgroup = True
    return alone


def seconds_of(turn, result, of="seconds"):
    """A turn's number: the median of its steps; of iterations that differ the mean, over the same ones for all."""
    counted = turn[of][min(result["warm_up"], len(turn[of]) - 1):]
    return statistics.fmean(counted) if result["varies"] else statistics.median(counted)


def operators(arguments, progress):
    """Microseconds a call, stock and managed, in turns."""
    script = [sys.executable, HERE / "operators.py", *(["--calls", "500", "--batches", "2"] if arguments.quick else [])]
    runs = {"stock": lambda: stock.run(script, {}),
            "ebb run": lambda: children.ebb_run(script, memory="512MiB", flash=arguments.flash,
                                                env=children.environment(), timeout=TIMEOUT_S)[0]}
    cases = {}
    for turn in range(arguments.rounds):
        for label, run in runs.items():
            progress(f"operators: round {turn + 1} of {arguments.rounds}, {label}")
            for record in run().records:
                if "case" in record:
                    cases.setdefault(record["case"], {}).setdefault(label, []).extend(record["us"])
    if not cases:
        raise ChildError("the operator benchmark printed nothing")
    return cases
