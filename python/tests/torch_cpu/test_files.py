"""Files that a program maps: the same bytes, tokens and losses as stock, and no byte of them written anywhere.

Each scenario of scenarios_files.py runs stock and managed, in a part of the memory that its files take.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import rungs
import runner

ROOT = pathlib.Path(__file__).resolve().parents[3]
EBB = os.environ.get("EBB_BIN") or ROOT / "build/release/cli/ebb"
MEMORY = 6 * runner.MIB


def compare(flash, scenario, *, memory=MEMORY, driver="auto", **arguments):
    stats = runner.compare(f"scenarios_files:{scenario}", runner.options(flash, memory), moved=False, timeout=300,
                           env={"EBB_MEMORY_DRIVER": driver}, **arguments)
    assert stats["fetched_bytes"] > memory, "the files were left to the kernel"
    return stats


@pytest.mark.parametrize("driver", ["auto", "remap"])
@pytest.mark.parametrize("scenario", ["mappings", "workers", "checkpoints"])
def test_every_way_to_map_a_file(flash, tmp_path, scenario, driver):
    compare(flash, scenario, driver=driver, folder=str(tmp_path))


@pytest.mark.parametrize("name, share", [("llama", 3), ("gpt2", 3), ("mixtral", 4), ("bert", 3), ("t5", 3),
                                         pytest.param("llama", 8, marks=pytest.mark.slow),
                                         pytest.param("gpt2", 8, marks=pytest.mark.slow),
                                         pytest.param("mixtral", 8, marks=pytest.mark.slow),
                                         pytest.param("bert", 8, marks=pytest.mark.slow),
                                         pytest.param("t5", 8, marks=pytest.mark.slow)])
def test_models_from_checkpoints(flash, tmp_path, name, share):
    sizes = {"llama": 15, "gpt2": 15, "mixtral": 19, "bert": 14, "t5": 13}  # MiB of bfloat16
    memory = sizes[name] * runner.MIB // share
    stats = compare(flash, "pretrained", memory=max(memory, 2 * runner.MIB), folder=str(tmp_path), name=name)
    assert stats["fetched_bytes"] > sizes[name] * runner.MIB
    # What the program makes itself goes to flash: activations, and the experts that transformers puts together.
    assert stats["rewritten_bytes"] == 0, "weights were written to"


@pytest.mark.parametrize("name, options", [("llama", {}), ("gpt2", {}), ("llama", {"trainer": True}),
                                           ("gpt2", {"merged": True})])
def test_adapters_on_checkpoints(flash, tmp_path, name, options):
    """LoRA over frozen weights: these are read, and only read. A merge writes to them, in memory."""
    pytest.importorskip("peft")
    stats = compare(flash, "adapters", memory=5 * runner.MIB, folder=str(tmp_path), name=name, **options)
    assert stats["fetched_bytes"] > 15 * runner.MIB
    assert (stats["rewritten_bytes"] > 0) == ("merged" in options)


def test_pipelines_of_several_models(flash, tmp_path):
    pytest.importorskip("diffusers", reason="diffusers is not installed: tools/bootstrap --bench installs it")
    stats = compare(flash, "images", folder=str(tmp_path))
    assert stats["rewritten_bytes"] == 0, "weights were written to"


def test_map_file(flash, tmp_path):
    compare(flash, "mapped_by_hand", folder=str(tmp_path))


def test_the_example_generates(flash, tmp_path):
    """As its text says it: makes its checkpoint, and then has the same tokens with and without Ebbtide."""
    words = [sys.executable, ROOT / "examples/generate/generate.py", tmp_path / "model", "--layers=2", "--tokens=6"]

    def tokens(*before):
        done = subprocess.run([*before, *words], capture_output=True, text=True, timeout=240, check=True)
        return re.findall(r"^token +(\d+)", done.stdout, re.MULTILINE), done.stderr

    expected, _ = tokens()
    found, said = tokens(EBB, "run", "--memory=96MiB", "--flash", flash, "--")
    assert len(expected) == 6 and found == expected
    assert re.search(r"steps +[1-9]\d* found, such as tokens", said), said


def test_what_a_program_does_with_files_is_remembered(flash, tmp_path):
    """Loading reads no weights, and the first pass of the second run is planned by what the first run did."""
    home = tmp_path / "home"
    home.mkdir()
    rungs.give(home)

    def run(passes, **variables):
        command = [*rungs.prefix(), EBB, "run", "--memory=16MiB", "--block=64KiB", "--flash", flash, "--quiet", "--",
                   sys.executable, ROOT / "python/tests/programs/first_pass.py", tmp_path / "model", str(passes)]
        environment = {**os.environ, "XDG_CACHE_HOME": str(home), "EBB_REMEMBER": "1", **variables}
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    run(1)  # makes the checkpoint
    unknown = run(1)
    assert unknown["size"] > 2 * 16 * runner.MIB
    assert unknown["loading"] < unknown["size"] / 4
    assert unknown["ahead"] < unknown["first"] / 10
    assert not list(home.glob("ebbtide/passes/*"))
    run(8)
    assert [path.stat().st_mode & 0o777 for path in home.glob("ebbtide/passes/*")] == [0o600]
    known = run(1)
    assert known["ahead"] > known["first"] / 2
    assert known["logits"] == unknown["logits"]
    assert run(1, EBB_REMEMBER="0")["ahead"] < unknown["first"] / 10
