"""Files that a program maps: the same bytes, tokens and losses as stock, and no byte of them written anywhere.

Each scenario of scenarios_files.py runs stock and managed, in a part of the memory that its files take.
"""

import pytest
import runner

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


def test_map_file(flash, tmp_path):
    compare(flash, "mapped_by_hand", folder=str(tmp_path))
