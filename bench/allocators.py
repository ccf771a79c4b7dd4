#!/usr/bin/env python3
"""Allocators side by side: ours, glibc, jemalloc, mimalloc and PyTorch's own, on the allocations of real training;
glibc, jemalloc and mimalloc as they come, and told to use huge pages and to keep what is freed, as Ebbtide does.

    bench/allocators.py                        the models' logs replayed, and 1 to 64 MiB at random by threads at once
    bench/allocators.py --models resnet152 --rounds 3 --json
    bench/allocators.py --to-log step.jsonl.gz step.log      only turn a trace into a log of allocations

Each model trains a few steps under `ebb run --record` with room for everything; the births and deaths of the trace are
the log. A contender replays it in a process of its own, iteration after iteration, writes to every page of what it is
given, as a kernel would, and is timed call by call. Contenders take turns by rounds; reported are medians of rounds.
"""

import argparse
import gzip
import importlib.util
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
import contenders  # noqa: E402
import stock  # noqa: E402
from output import progress_line, report, sitting  # noqa: E402
from reports.allocators import table  # noqa: E402

MODELS = ("gpt2", "resnet152", "mlp")
BINARY = HERE.parent / "build" / "release" / "bench" / "bench_allocators"
PACKAGES = {"jemalloc": "libjemalloc2", "mimalloc": "libmimalloc2.0"}  # of Debian
LIMIT_S = 600
ITERATIONS = 8
RANDOM_CALLS = 200_000
RANDOM_MEMORY = 4 * 2**30
STEPS = (4, 8)  # of two runs: what happens between the one's end and the other's is steady training


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", default="resnet152,mlp", help="comma-separated, of " + ", ".join(MODELS))
    parser.add_argument("--threads", type=int, default=2, help="of the random requests (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every contender (default 3)")
    parser.add_argument("--flash", help="directory for flash, which is opened but not used")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="bench_allocators of another build")
    parser.add_argument("--quick", action="store_true", help="tiny models and one round, to see that it works")
    parser.add_argument("--to-log", nargs=2, metavar=("TRACE", "LOG"), help="write a trace's log and do nothing else")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    arguments.models = [name for name in arguments.models.split(",") if name]
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"--models {unknown[0]}: choose from {', '.join(MODELS)}")
    if arguments.rounds < 1 or not 1 <= arguments.threads <= 64:
        parser.error("at least 1 round, and 1 to 64 threads")
    if arguments.to_log is None and not arguments.binary.is_file():
        parser.error(f"{arguments.binary} is missing: build it with `make`, or name one with --binary")
    if arguments.quick:
        arguments.rounds = 1
    return arguments


# -- Logs -------------------------------------------------------------------------------------------------------------


def events_of(lines):
    """One iteration of a trace (docs/trace.md) as ("p" | "a" | "f", tensor, bytes), in order: persistent tensors first;
    one without an `alloc` is born at its first launch, one without a `free` dies after its last."""
    records = [json.loads(line) for line in lines if line.strip()]
    tensors = {record["tensor"]: record for record in records if "tensor" in record}
    told_born = {record["alloc"] for record in records if "alloc" in record}
    told_dead = {record["free"] for record in records if "free" in record}
    last = {}
    for at, record in enumerate(records):
        for tensor in record.get("reads", []) + record.get("writes", []) if "launch" in record else []:
            last[tensor] = at
    persistent = {key for key, record in tensors.items() if record.get("persistent")}
    events = [("p", key, tensors[key]["bytes"]) for key in sorted(persistent) if tensors[key]["bytes"] > 0]
    live = set()

    def born(tensor):
        if tensor not in live and tensor not in persistent and tensors[tensor]["bytes"] > 0:
            live.add(tensor)
            events.append(("a", tensor, tensors[tensor]["bytes"]))

    def dead(tensor):
        if tensor in live:
            live.discard(tensor)
            events.append(("f", tensor, 0))

    for at, record in enumerate(records):
        if "alloc" in record:
            born(record["alloc"])
        elif "free" in record:
            dead(record["free"])
        elif "launch" in record:
            touched = sorted(set(record.get("reads", []) + record.get("writes", [])))
            for tensor in touched:
                if tensor not in told_born:
                    born(tensor)
            for tensor in touched:
                if tensor not in told_dead and last[tensor] == at:
                    dead(tensor)
    for tensor in sorted(live):
        dead(tensor)
    return events


def write_log(trace, log):
    """Returns the most bytes that live at once."""
    opened = gzip.open if str(trace).endswith(".gz") else open
    with opened(trace, "rt", encoding="utf-8") as file:
        events = events_of(file)
    sizes, live, peak = {}, 0, 0
    with open(log, "w", encoding="utf-8") as file:
        for kind, tensor, size in events:
            sizes[tensor] = size or sizes[tensor]
            live += -sizes[tensor] if kind == "f" else size
            peak = max(peak, live)
            file.write(f"{kind} {tensor}\n" if kind == "f" else f"{kind} {tensor} {size}\n")
    return peak


def record(name, arguments, folder):
    """Trains; returns (log, its peak, share of the allocations of steady training that the cache served)."""
    trace, summaries = pathlib.Path(folder) / f"{name}.jsonl.gz", []
    for steps in STEPS:
        _, summary = children.ebb_run(contenders.script_of(name, steps, arguments.quick),
                                      memory=contenders.memory_for_all(), flash=arguments.flash,
                                      record=trace if steps == STEPS[-1] else None, env=children.environment(),
                                      timeout=LIMIT_S)
        summaries.append(summary)
    hits, misses = (summaries[1][key] - summaries[0][key] for key in ("cache_hits", "cache_misses"))
    log = trace.with_name(f"{name}.log")
    return log, write_log(trace, log), hits / max(hits + misses, 1)


# -- Contenders -------------------------------------------------------------------------------------------------------


def find_allocators():
    """Name to (what bench_allocators calls it, variables of its environment), and notes about those not there."""
    found, notes = {"Ebbtide": ("ebb", {}), "glibc": ("malloc", {})}, []
    found["glibc, tuned"] = ("malloc", {"GLIBC_TUNABLES": stock.GLIBC})
    for name, (library, tuned) in stock.PRELOADED.items():
        if stock.can_be_preloaded(library):
            found[name] = ("malloc", {"LD_PRELOAD": library})
            found[f"{name}, tuned"] = ("malloc", {"LD_PRELOAD": library, **tuned})
        else:
            notes.append(f"{name}: not installed (Debian: apt-get install {PACKAGES[name]})")
    spec = importlib.util.find_spec("torch")
    library = pathlib.Path(spec.origin).parent / "lib" / "libc10.so" if spec and spec.origin else None
    if library and library.is_file():
        found["PyTorch"] = (str(library), {})
    else:
        notes.append("PyTorch: not installed")
    return found, notes


def run_once(arguments, words, allocator, memory):
    name, variables = allocator
    child = children.run([arguments.binary, words[0], name, *words[1:], memory, arguments.flash],
                         env=children.environment(variables), timeout=LIMIT_S)
    return child.check().records[-1]


def measure(arguments, allocators, folder, progress):
    works, rates = {}, {}
    for name in arguments.models:
        progress(f"{name}: recording")
        log, peak, rates[name] = record(name, arguments, folder)
        works[name] = (["replay", log, ITERATIONS], 3 * peak + 2**28)
    calls = RANDOM_CALLS // 100 if arguments.quick else RANDOM_CALLS
    works["random"] = (["random", arguments.threads, calls], RANDOM_MEMORY)
    runs = {work: {name: [] for name in allocators} for work in works}
    for turn in range(arguments.rounds):
        for work, (words, memory) in works.items():
            for name, allocator in allocators.items():
                progress(f"round {turn + 1} of {arguments.rounds}: {work}, {name}")
                runs[work][name].append(run_once(arguments, words, allocator, memory))
    progress("")
    return runs, rates


def main():
    arguments = parse_arguments()
    if arguments.to_log:
        write_log(*arguments.to_log)
        return
    head = sitting()
    progress = progress_line(arguments.json)
    try:
        arguments.flash = children.flash_directory(arguments.flash)
        allocators, notes = find_allocators()
        with tempfile.TemporaryDirectory(prefix="ebb-allocators-") as folder:
            runs, rates = measure(arguments, allocators, folder, progress)
    except children.ChildError as error:
        raise SystemExit(f"bench/allocators.py: {error}") from None
    notes += [f"{name}: in its own training, after {STEPS[0]} steps, {rate:.2%} of managed allocations hit the cache"
              for name, rate in rates.items()]
    results = {**head, "quick": arguments.quick, "rounds": arguments.rounds,
               "threads": arguments.threads, "notes": notes, "steady_hit_rates": rates, "runs": runs}
    report(results, table(runs), "allocators", arguments)
    if not arguments.json:
        print("\n".join(notes))


if __name__ == "__main__":
    main()
