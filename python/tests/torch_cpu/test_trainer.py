"""Hugging Face's Trainer, whole, on every rung: workers, evaluation, checkpoints, and a run that goes on from one."""

import pytest
import rungs
import runner
from test_system_calls import place, run  # noqa: F401

PROGRAM = "trainer_program:run"


@pytest.mark.parametrize("rung", ["user", pytest.param("full", marks=pytest.mark.slow),
                                  pytest.param("remap", marks=pytest.mark.slow)])
def test_training_with_checkpoints(ebbtide_built, place, rung):  # noqa: F811
    pytest.importorskip("accelerate")
    child = run(rung, place, PROGRAM, {}).check()
    stats = child.find("stats")
    assert stats["description"].startswith(rungs.IN_DESCRIPTION[rung])
    assert child.find("result") == runner.stock_result(PROGRAM)
    runner.assert_within_budget(stats)
    runner.assert_moved(stats)
