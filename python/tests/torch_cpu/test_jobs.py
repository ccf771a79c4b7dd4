"""`ebb run -- torchrun`: ranks within one budget together, with the losses that they have without Ebbtide."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import runner

ROOT = pathlib.Path(__file__).resolve().parents[3]
EBB = os.environ.get("EBB_BIN") or ROOT / "build/release/cli/ebb"
RANKS = pathlib.Path(__file__).resolve().parents[1] / "programs/ranks.py"
BUDGET = 16 * runner.MIB  # of 2 x 24 MiB that a rank of the first kind has in weights, gradients and AdamW's state


def launch(kind, before=()):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [*before, *launcher, RANKS, kind]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(line for line in done.stdout.splitlines() if line[:1] in "01")


@pytest.mark.parametrize("kind", ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_ranks_of_torchrun(ebbtide_built, flash, tmp_path, kind):
    budget = BUDGET if kind == "ddp" else BUDGET // 2
    summary = tmp_path / "summary.json"
    options = ["--memory", budget, "--block", "64KiB", "--flash", flash, "--summary", summary]
    found = launch(kind, [EBB, "run", *options, "--"])
    assert len(found) == 8 and found == launch(kind)
    job = json.loads(summary.read_text(encoding="utf-8"))
    assert [rank["rank"] for rank in job["ranks"]] == [0, 1] and job["unmanaged_processes"] == 0
    assert job["peak_resident_bytes"] <= budget and job["budget_bytes"] == budget
    assert [process["used_memory"] for process in job["job"]["processes"]] == [False, True, True], "launcher, ranks"
    for rank in job["ranks"]:
        assert rank["evicted_bytes"] > 0 and rank["fetched_bytes"] > 0
