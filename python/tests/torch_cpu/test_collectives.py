"""gloo sends from managed memory and receives into it, on every rung: what arrives is what stock PyTorch receives."""

import pathlib

import pytest
import runner
import rungs
from job_runs import TORCHRUN, Run, assert_within, stock

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"
MIB = runner.MIB
WORDS = [*TORCHRUN, 2, PROGRAMS / "collectives.py"]
BUDGET = 28 * MIB  # a quarter of what both have alive at their peaks together
REMOTE_WORDS = [*TORCHRUN, 2, PROGRAMS / "remote_calls.py"]
REMOTE_BUDGET = 40 * MIB

pytestmark = pytest.mark.usefixtures("ebbtide_built")


def run_on(rung, flash, folder, budget, words):
    """Two ranks in one budget, run to their end, which must be a good one."""
    if why := rungs.why_not(rung):
        pytest.skip(why)
    prefix = rungs.as_user() if rung == "user" else []
    if prefix:
        rungs.give_to_user(folder)
        rungs.give_to_user(flash)
    run = Run(folder, flash, budget, words, prefix=prefix, env={"EBB_MEMORY_DRIVER": rungs.MEMORY_DRIVERS[rung]},
              more=["--strict"])
    run.end()
    assert run.process.returncode == 0, run.err
    assert run.summary()["description"].startswith(rungs.IN_DESCRIPTION[rung])
    return run


@pytest.mark.parametrize("rung", rungs.RUNGS)
def test_what_arrives_is_what_was_sent(flash, folder, rung):
    run = run_on(rung, flash, folder, BUDGET, WORDS)
    expected = runner.once("collectives", [], lambda: stock(*WORDS))
    assert len(expected) == 18 and run.losses() == expected
    summary = run.summary()
    assert_within(summary, BUDGET)
    assert summary["evicted_bytes"] > 0 and summary["fetched_bytes"] > 0
    assert summary["peak_live_bytes"] > 3.6 * BUDGET, "a quarter"
    print({name: summary[name] for name in ("peak_live_bytes", "faults", "launches", "fetched_bytes")})


@pytest.mark.parametrize("rung", rungs.RUNGS)
def test_remote_calls_carry_tensors(flash, folder, rung):
    """torch.distributed.rpc: what is absent at either end arrives all the same."""
    run = run_on(rung, flash, folder, REMOTE_BUDGET, REMOTE_WORDS)
    expected = runner.once("remote calls", [], lambda: stock(*REMOTE_WORDS))
    assert len(expected) == 13 and run.losses() == expected
    assert run.summary()["evicted_bytes"] > 0
