"""Encrypted flash, and blocks compared byte by byte: the bits of stock, and nothing on the disk to be read."""

import pytest
import runner

MEMORY = 8 * runner.MIB
ENCRYPT, CONTENT = {"EBB_ENCRYPT": "1"}, {"EBB_VERIFY": "content"}


@pytest.mark.parametrize("env", [ENCRYPT, CONTENT, {**ENCRYPT, **CONTENT, "EBB_FLASH_DRIVER": "threads"}],
                         ids=["encrypted", "compared", "both"])
@pytest.mark.parametrize("target", ["workloads:run", "scenarios_process:fork_snapshot"])
def test_the_same_bits(flash, target, env):
    arguments = {"name": "mlp", "steps": 4} if target == "workloads:run" else {}
    runner.compare(target, runner.options(flash, MEMORY), env=env, **arguments)


def test_files_of_the_users_are_read_as_they_are(flash, tmp_path):
    stats = runner.compare("scenarios_files:mappings", runner.options(flash, 6 * runner.MIB), moved=False, timeout=300,
                           env={**ENCRYPT, **CONTENT}, folder=str(tmp_path))
    assert stats["fetched_bytes"] > 0


@pytest.mark.parametrize("encrypt", [False, True])
def test_on_flash_there_is_what_a_tensor_holds_unless_it_is_encrypted(flash, encrypt):
    options = {**runner.options(flash, MEMORY), "encrypt": encrypt}
    child = runner.managed("scenarios_safety:phrases_on_flash", options, folder=str(flash))
    found, first, same = child.find("result")
    assert (found == 0) if encrypt else (found > 100_000)
    assert first == list(range(16)) and same
    assert ("AES-256-XTS" in child.find("stats")["description"]) == encrypt
