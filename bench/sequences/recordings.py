"""Recordings of the programs: made by `ebb run`, several runs of the same put together."""

import gzip
import itertools
import json
import pathlib
import sys

import children
from children import ChildError

HERE = pathlib.Path(__file__).resolve().parent
ITERATIONS = 16  # recorded
WARM_UP = 2      # that `ebb run` lets go by
# Of the peak: with so much memory nothing has to leave, and what is freed is used again. With more, new memory is taken
# for new sizes, and getting it from the kernel counts as the time of whoever touches it first.
ROOM = 1.3
# Where no optimizer says that an iteration is over, so many more go by until it is found.
MORE = {"generation": 14}
TIMEOUT_S = 900


def record(program, file, *, memory, flash, quick):
    script = [sys.executable, HERE / "run_program.py", program,
              "--iterations", ITERATIONS + WARM_UP + MORE.get(program, 0), *(["--quick"] if quick else [])]
    small = ["--managed-min", "4KiB"] if quick else []
    child, summary = children.ebb_run(script, memory=memory, flash=flash, record=file, env=children.environment(),
                                timeout=TIMEOUT_S, more=["--record-iterations", ITERATIONS, *small])
    return tuple(child.all("bits")), summary["peak_live_bytes"] + summary["small_bytes"]


def shortest(runs, target):
    """Writes the trace that all `runs` are, each launch with its shortest duration. ChildError if they differ."""
    unfinished = target.with_suffix(".part")
    with gzip.open(unfinished, "wt", encoding="utf-8") as out:
        files = [gzip.open(run, "rt", encoding="utf-8") for run in runs]
        for number, lines in enumerate(itertools.zip_longest(*files, fillvalue="{}")):
            records = [json.loads(line) for line in lines]
            first = dict(records[0])
            if "ns" in first:
                first["ns"] = min(record.get("ns", 0) for record in records)
            # The header says how fast each run found its disk.
            if number > 0 and any({**record, "ns": first.get("ns")} != {**first, "ns": first.get("ns")}
                                  for record in records):
                raise ChildError(f"{runs[0]} and another run differ in line {number + 1}: not the same program")
            out.write(json.dumps(first, separators=(",", ":")) + "\n")
        for file in files:
            file.close()
    unfinished.rename(target)


def make(program, folder, *, runs, memory, flash, quick):
    """Records a program where its recording is missing; returns the file. `memory`: of a run that tells the peak. Those
    that count have the same memory, so that their tensors lie alike: which blocks a slice is in depends on it."""
    file = folder / f"{program}.jsonl.gz"
    if file.is_file():
        return file
    parts, outputs = [folder / f"{program}.run{run}.jsonl.gz" for run in range(runs)], set()
    if not quick:
        _, peak = record(program, parts[0], memory=memory, flash=flash, quick=quick)
        memory = int(ROOM * peak)
    for part in parts:
        bits, _ = record(program, part, memory=memory, flash=flash, quick=quick)
        outputs.add(bits)
    if len(outputs) != 1:
        raise ChildError(f"{program} computes something else each time")
    shortest(parts, file)
    for part in parts:
        part.unlink()
    return file
