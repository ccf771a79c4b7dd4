"""`ebb run` over several processes: one budget for all of them, with the losses that they have without Ebbtide."""

import json
import os
import pathlib
import signal
import sys
import time

import job_processes
import pytest
import runner
from job_runs import TORCHRUN, Run, assert_within, losses, stock, users

RANKS = pathlib.Path(__file__).resolve().parents[1] / "programs/ranks.py"
KIB, MIB = runner.KIB, runner.MIB
TWO = [*TORCHRUN, 2]
LARGE = 1536  # wide: 54 MiB of weights, and a rank has four times that with gradients and AdamW's state
# Of a job: page tables, heaps, and what gloo and Python take more with large tensors than with small ones.
MARGIN = 48 * MIB

pytestmark = pytest.mark.usefixtures("ebbtide_built")


def flash_files(flash):
    """What a run that was killed now would leave there."""
    return list(pathlib.Path(flash).iterdir())


# Of 2 x 24 MiB that a rank has in weights, gradients and AdamW's state; fully_shard halves them.
@pytest.mark.parametrize("kind,budget", [
    ("ddp", 12 * MIB), pytest.param("ddp", 24 * MIB, marks=pytest.mark.slow),
    pytest.param("fsdp", 8 * MIB, marks=pytest.mark.slow), pytest.param("fsdp", 12 * MIB, marks=pytest.mark.slow)])
def test_ranks_of_torchrun(flash, folder, kind, budget):
    run = Run(folder, flash, budget, [*TWO, RANKS, kind])
    run.end()
    assert len(run.losses()) == 8 and run.losses() == stock(*TWO, RANKS, kind)
    summary = run.summary()
    assert_within(summary, budget)
    assert [process["used_memory"] for process in summary["job"]["processes"]] == [False, True, True], "launcher, ranks"
    assert [rank["rank"] for rank in summary["ranks"]] == [0, 1]
    for rank in summary["ranks"]:
        assert rank["evicted_bytes"] > 0 and rank["fetched_bytes"] > 0
    assert "rank 0" in run.err and "1 process that only imported torch" in run.err


# The launcher, which has nothing to record, comes first.
def test_rank_0_is_recorded(flash, folder):
    trace = folder / "rank.jsonl"
    run = Run(folder, flash, 64 * MIB, [*TWO, RANKS, "ddp", "--steps", 8], more=["--record", trace])
    assert run.end() == 0, run.err
    lines = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    operators = {line["op"] for line in lines if "launch" in line}
    assert {"aten::linear", "aten::addcdiv_"} <= operators


def test_a_guide_is_rank_0_s(flash, folder):
    """And none of the launcher's, which would make memory ready for what it never does."""
    run = Run(folder, flash, 64 * MIB, [*TWO, RANKS, "ddp"], more=["--guide", folder / "guide.jsonl"])
    assert run.end() == 0, run.err
    summary = run.summary()
    assert summary["ranks"][0]["guided"] > 0 and summary["ranks"][1]["guided"] == 0
    assert [each["name"] for each in summary["job"]["processes"] if each["used_memory"]] == ["python", "python"]


def watched(folder, flash, budget, width, share):
    run = Run(folder, flash, budget, [*TWO, RANKS, "ddp", "--width", width], block="2MiB",
              more=["--share", share, "--quiet"])
    watch = job_processes.Watch(run.process.pid)
    run.end()
    peak = watch.stop()
    return run, peak


@pytest.mark.parametrize("share", ["stalls", pytest.param("equal", marks=pytest.mark.slow)])
def test_memory_measured_from_outside(flash, folder, share):
    """Against the same job with tensors of next to nothing: what it has more is the budget."""
    budget = 112 * MIB  # a quarter
    _, base = watched(folder, flash, budget, 16, share)
    run, peak = watched(folder, flash, budget, LARGE, share)
    assert len(run.losses()) == 8
    assert_within(run.summary(), budget)
    print(f"{(peak - base) / MIB:.1f} MiB more than the same job without tensors")
    assert budget / 2 < peak - base < budget + MARGIN


@pytest.mark.parametrize("method", ["spawn", pytest.param("fork", marks=pytest.mark.slow)])
def test_ranks_of_multiprocessing(flash, folder, method):
    program = [sys.executable, RANKS, "ddp", "--spawn", 2, "--method", method]
    run = Run(folder, flash, 16 * MIB, program)
    run.end()
    assert len(run.losses()) == 8 and run.losses() == stock(*program)
    summary = run.summary()
    assert_within(summary, 16 * MIB)
    assert len(users(summary)) == 2, "the process that starts them has no tensors"
    assert all(process["peak_granted_bytes"] > 2 * MIB for process in users(summary))


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["fork", "spawn"])
def test_workers_of_a_loader(flash, folder, workers):
    program = [sys.executable, RANKS, "ddp", "--spawn", 1, "--width", 2048, "--workers", workers, "--steps", 3]
    run = Run(folder, flash, 64 * MIB, program)
    run.end()
    assert len(run.losses()) == 3 and run.losses() == stock(*program)
    summary = run.summary()
    assert summary["managed"] and summary["peak_resident_bytes"] <= 64 * MIB
    # What workers hand over is in shared memory: those that were spawned join, and need nothing.
    assert len(users(summary)) == 1
    assert len(summary["job"]["processes"]) == (2 if workers == "fork" else 4)


@pytest.mark.slow
def test_memory_moves_to_the_rank_that_needs_it(flash, folder):
    program = [*TWO, RANKS, "ddp", "--uneven", "--width", 1024, "--steps", 24]
    run = Run(folder, flash, 96 * MIB, program)
    run.end()
    assert len(run.losses()) == 48 and run.losses() == stock(*program)
    summary = run.summary()
    assert_within(summary, 96 * MIB)
    granted = {process["rank"]: process["peak_granted_bytes"] for process in users(summary)}
    assert summary["job"]["moved_bytes"] > 0 and granted[0] > 52 * MIB, summary["job"]


def ends_with_its_launcher(run, launcher):
    """The exit code of `ebb run`, which ends within 5 s of what it has started."""
    end = time.monotonic() + 120
    while job_processes.exists(launcher) and time.monotonic() < end:
        time.sleep(0.02)
        run.process.poll()
    return run.end(5)


@pytest.mark.parametrize("words,said", [
    ([*TWO, RANKS, "ddp"], "Signal 9"), ([sys.executable, RANKS, "ddp", "--spawn", 2], "signal SIGKILL")],
    ids=["torchrun", "spawn"])
def test_a_rank_is_killed(flash, folder, words, said):
    run = Run(folder, flash, 24 * MIB, [*words, "--steps", 100000])
    pid = int(run.until(r"pid (\d+) trains")[1])
    launcher = job_processes.parent(pid)
    assert flash_files(flash) == [], "flash files have no name"
    os.kill(pid, signal.SIGKILL)
    assert ends_with_its_launcher(run, launcher) == 1
    assert said in run.err, "the launcher's own error reaches the user"
    assert run.summary()["managed"]
    assert flash_files(flash) == []


def test_a_worker_of_a_loader_is_killed(flash, folder):
    """A child of a process of the job: PyTorch's own error reaches the user."""
    program = [sys.executable, RANKS, "ddp", "--spawn", 1, "--workers", "fork", "--steps", 100000]
    run = Run(folder, flash, 24 * MIB, program)
    pid = int(run.until(r"pid (\d+) trains")[1])
    launcher = job_processes.parent(pid)
    worker = next(found for found in job_processes.of_run(run.process.pid) if job_processes.parent(found) == pid)
    os.kill(worker, signal.SIGKILL)
    assert ends_with_its_launcher(run, launcher) == 1
    assert f"DataLoader worker (pid {worker}) is killed by signal: Killed" in run.err
    assert flash_files(flash) == []


def test_ebb_is_killed(flash, folder):
    """What it has started goes on with what it has, and nothing stays on disk."""
    run = Run(folder, flash, 24 * MIB, [*TWO, RANKS, "ddp", "--steps", 30])
    run.until(r"pid (\d+) trains")
    run.process.kill()
    run.process.wait()
    end = time.monotonic() + 5
    while time.monotonic() < end and list(folder.glob("ebb-*")):
        time.sleep(0.05)
    assert list(folder.glob("ebb-*")) == []
    out = run.process.stdout.read()
    assert len(losses(out)) == 60 and losses(out) == stock(*TWO, RANKS, "ddp", "--steps", 30)


LATE = """
import os, sys, time, torch
print("pid", os.getpid(), "waits", file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
torch.ones(1 << 20)
"""


def test_ebb_is_killed_before_a_process_has_memory(flash, folder, tmp_path):
    """The broker is gone with it: who has nothing yet is refused, and does not wait for an answer."""
    run = Run(folder, flash, 24 * MIB, [sys.executable, "-c", LATE, tmp_path / "go"])
    run.until(r"pid (\d+) waits")
    run.process.kill()
    run.process.wait()
    (tmp_path / "go").touch()
    began = time.monotonic()
    err = run.process.stderr.read()
    assert time.monotonic() - began < 5
    assert "the `ebb run` of this job has ended" in err, err


def test_too_many_processes_are_refused(flash, folder):
    """With a message in the process that has no place; the others go on."""
    words = [*TORCHRUN, 4, RANKS, "ddp"]
    run = Run(folder, flash, 40 * MIB, words, block="2MiB", more=["--quiet"])
    assert run.end() == 1
    assert "the job's budget of 40.0 MiB is shared by 2 of its processes" in run.err


HIDDEN = "import torch, time; x = torch.ones(40 << 20); time.sleep({}); print('unmanaged')"


@pytest.mark.parametrize("strict", [False, True])
def test_what_cannot_be_managed_is_named(flash, folder, strict):
    run = Run(folder, flash, 64 * MIB, [sys.executable, "-I", "-c", HIDDEN.format(20 if strict else 4)],
              more=["--strict"] if strict else [])
    code = run.end()
    assert code == (-signal.SIGKILL if strict else 0)
    assert ("unmanaged" in run.out) != strict
    assert "skips Ebbtide's hook" in run.err and ("--strict" in run.err) == strict
    summary = run.summary()
    assert not summary["managed"] and len(summary["job"]["outside_the_budget"]) == 1


def test_importing_torch_is_not_being_managed(flash, folder):
    run = Run(folder, flash, 64 * MIB, [sys.executable, "-c", "import torch"])
    assert run.end() == 0
    assert not run.summary()["managed"] and "nothing large enough was allocated" in run.err
