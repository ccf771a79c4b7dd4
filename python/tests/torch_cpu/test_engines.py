"""The engines that people train with, unmodified, under `ebb run`: the programs of examples/engines, each with two
ranks in a part of what they have alive, with the losses that they have without Ebbtide under the same launcher.

Lightning and Ray are tested where the Python that runs the tests has them; the others come with PyTorch and
transformers.
"""

import importlib.util
import sys
import tempfile

import pytest
import runner
from job_runs import ROOT, TORCHRUN, Run, assert_within, losses, stock, users

MIB = runner.MIB
ENGINES = ROOT / "examples/engines"
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", 1,
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", 0, "--num_processes"]
# By name: what starts it, its words, the packages that it needs, and a quarter of what its ranks have alive together.
PROGRAMS = {
    "trainer": (TORCHRUN, ["trainer.py", "--width", 256], ["transformers", "accelerate"], 46 * MIB),
    "accelerate": (ACCELERATE, ["trainer.py", "--width", 256], ["transformers", "accelerate"], 46 * MIB),
    "lightning": (TORCHRUN, ["lightning_ddp.py"], ["lightning"], 16 * MIB),
    "tensor parallel": (TORCHRUN, ["tensor_parallel.py"], [], 13 * MIB),
    "pipeline": (TORCHRUN, ["pipeline.py"], [], 9 * MIB),
}
AROUND = 0.85  # of the part that is meant

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ebbtide_built")]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def short_folder():
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as made:
        yield made


def need(*packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")


def words_of(name, ranks=2):
    launcher, program, packages, quarter = PROGRAMS[name]
    need(*packages)
    return [*launcher, ranks, ENGINES / program[0], *program[1:]], quarter


def check(run, expected, budget):
    assert expected and run.losses() == expected
    summary = run.summary()
    assert_within(summary, budget)
    assert summary["evicted_bytes"] > 0 and summary["fetched_bytes"] > 0
    return summary


@pytest.mark.parametrize("part", [4, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_ranks(flash, folder, name, part):
    words, quarter = words_of(name)
    budget = quarter * 4 // part
    run = Run(folder, flash, budget, words, more=["--strict"])
    run.end()
    expected = runner.once("engine", [name], lambda: stock(*words))
    summary = check(run, expected, budget)
    print(f"{summary['peak_live_bytes'] / MIB:.1f} MiB alive at the peak of each rank, together")
    assert summary["peak_live_bytes"] * AROUND <= part * budget <= summary["peak_live_bytes"] / AROUND
    assert [rank["rank"] for rank in summary["ranks"]] == [0, 1]
    assert len(users(summary)) == 2


@pytest.mark.slow
def test_lightning_starts_a_rank_itself(flash, folder):
    """Rank 0 is what the user has started; it is a process like any other until Lightning numbers it."""
    need("lightning")
    words, budget = [sys.executable, ENGINES / "lightning_ddp.py"], 16 * MIB
    run = Run(folder, flash, budget, words)
    run.end()
    assert len(users(check(run, stock(*words), budget))) == 2


@pytest.mark.slow
def test_ray_train(flash, folder, monkeypatch, short_folder):
    """Workers are children of Ray's daemons: they join by what they inherit of the environment."""
    need("ray", "pyarrow")  # as in ray[train]
    monkeypatch.setenv("RAY_TMPDIR", short_folder)  # its sockets have long names, and so has tmp_path
    words, budget = [sys.executable, ENGINES / "ray_train.py"], 16 * MIB
    run = Run(folder, flash, budget, words)
    run.end(600)
    assert len(users(check(run, stock(*words, limit_s=600), budget))) == 2


def digest(lines):
    return [line for line in lines if line.startswith("parameters ")]


@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_distributed_checkpoint(flash, folder, tmp_path, beside):
    """Saved by two ranks, loaded by one and by three, in about a quarter: what comes back is what was saved."""
    budget, program = 8 * MIB, ENGINES / "checkpoint.py"
    saved = {}
    for kind in ("stock", "managed"):
        words = [*TORCHRUN, 2, program, "--save", tmp_path / kind, *["--beside"] * beside]
        if kind == "stock":
            saved[kind] = stock(*words)
        else:
            run = Run(folder, flash, budget, words)
            run.end()
            check(run, saved["stock"], budget)
            saved[kind] = losses(run.out)
    for ranks in (1, 3):
        words = [*TORCHRUN, ranks, program, "--load", tmp_path / "managed"]
        run = Run(folder, flash, budget, words)
        run.end()
        check(run, stock(*TORCHRUN, ranks, program, "--load", tmp_path / "stock"), budget)
        assert digest(losses(run.out)) == digest(saved["stock"]) != []
