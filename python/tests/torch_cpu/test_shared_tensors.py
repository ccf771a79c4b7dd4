"""Tensors in shared memory are PyTorch's: their memory is a file's, no budget's, and what children do to it is seen."""

import os
import pathlib
import sys

import pytest
import runner
from job_runs import Run, stock

MIB = runner.MIB
PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "programs/shared_tensors.py"

pytestmark = pytest.mark.usefixtures("ebbtide_built")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shared_and_received(flash, folder, method):
    words = [sys.executable, PROGRAM, method]
    run = Run(folder, flash, 16 * MIB, words, block="64KiB")
    run.end()
    assert len(run.losses()) == 7 and run.losses() == stock(*words)
    said = dict(line.split(": ") for line in run.err.splitlines() if line.endswith((": True", ": False")))
    assert said == {"made": "True", "shared": "False", "not shared": "True", "received": "False", "copied": "True"}
    summary = run.summary()
    assert summary["peak_resident_bytes"] <= 16 * MIB < summary["peak_live_bytes"]
    # Three tensors that are shared and one that is received, of 4 MiB each; counted again by a child that maps them.
    if os.environ.get("EBB_CALLS") != "0":
        assert 4 * 4 * MIB <= summary["peak_shared_bytes"] <= 9 * 4 * MIB
