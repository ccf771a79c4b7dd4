"""What goes wrong is said once, clearly, with the remedy, and nothing is lost: options, flash, memory, drivers."""

import os
import re
import sys

import pytest
import runner
import rungs

MIB = runner.MIB
MEMORY = 8 * MIB


def enable_error(options, env=None):
    """The message of the ebbtide.Error that enable(**options) raises in a fresh process."""
    code = (
        "import sys, json, ebbtide\n"
        "try:\n    ebbtide.enable(**json.loads(sys.argv[1]))\n"
        "except ebbtide.Error as error:\n"
        "    assert isinstance(error, RuntimeError) and not ebbtide.enabled()\n"
        "    print(json.dumps({'message': str(error)}))\n"
        "else:\n    sys.exit('accepted')\n")
    argv = [sys.executable, "-c", code, runner.json.dumps(options)]
    return runner.run(argv, env=runner.environment(env), timeout=60).check().find("message")


@pytest.mark.parametrize("change,said", [
    ({"memory": "lots"}, "lots"),
    ({"memory": "-1GiB"}, "-1GiB"),
    ({"memory": "1.5XB"}, "1.5XB"),
    ({"memory": "1e30TiB"}, "1e30TiB"),
    ({"memory": "12KiB"}, "12"),
    ({"memory": -5}, "-5"),
    ({"block": "3MiB"}, "3"),
    ({"block": "512"}, "512"),
    ({"block": ""}, "block"),
    ({"managed_min": "few"}, "few"),
    ({"policy": "clairvoyant"}, "clairvoyant"),
])
def test_nonsense_options(flash, change, said):
    message = enable_error({**runner.options(flash, 64 * MIB, block="2MiB"), **change})
    assert said in message, message
    assert len(message) > len(said) + 20, f"no remedy: {message}"


@pytest.mark.parametrize("variable,value", [("EBB_MEMORY", "lots"), ("EBB_BLOCK", "wide"), ("EBB_MANAGED_MIN", "few")])
def test_nonsense_environment(flash, variable, value):
    """Text that is no size is reported under the name of its variable."""
    message = enable_error({"flash": str(flash)}, env={variable: value})
    assert variable in message and value in message, message


@pytest.mark.parametrize("variable", ["EBB_POLICY", "EBB_MEMORY_DRIVER", "EBB_FLASH_DRIVER"])
def test_unknown_name_in_the_environment(flash, variable):
    """A name nobody knows is quoted, beside those that exist."""
    message = enable_error({"flash": str(flash), "memory": 64 * MIB}, env={variable: "floppy"})
    assert variable in message and "floppy" in message, message
    assert "auto" in message or "foresight" in message, message


def test_flash_directory_missing(flash):
    path = os.path.join(flash, "missing")
    assert path in enable_error(runner.options(path, MEMORY))


def test_flash_is_a_file(tmp_path, ebbtide_built):
    path = tmp_path / "file"
    path.write_text("not a directory")
    assert str(path) in enable_error(runner.options(path, MEMORY))


def test_flash_not_writable(tmp_path, ebbtide_built):
    path = "/sys" if os.geteuid() == 0 else str(tmp_path)  # root may write wherever the file system can
    if path != "/sys":
        os.chmod(path, 0o500)
    assert path in enable_error(runner.options(path, MEMORY))


def test_flash_on_a_ram_disk(ebbtide_built):
    if not runner.children.is_ram_disk("/dev/shm"):
        pytest.skip("/dev/shm is no RAM disk on this machine")
    assert "/dev/shm" in enable_error(runner.options("/dev/shm", MEMORY))


@pytest.mark.parametrize("driver", ["auto", "remap"])
def test_out_of_memory_and_flash(flash, driver):
    """A limit on flash is reached: RuntimeError with figures and remedy, every tensor intact, memory usable again."""
    options = {**runner.options(flash, MEMORY), "flash": f"{flash}:16MiB"}
    child = runner.managed("scenarios_process:run_out", options, mib=64, env={"EBB_MEMORY_DRIVER": driver})
    record, stats = child.find("result"), child.find("stats")
    assert record["message"], "64 MiB fitted into 8 MiB of memory and 16 MiB of flash"
    assert "RuntimeError" in record["kind"]
    for pattern in ("memory", "flash", r"\b8(\.0+)? MiB", r"\b16(\.0+)? MiB"):
        assert re.search(pattern, record["message"]), record["message"]
    assert record["intact"], "tensors changed when memory ran out"
    assert record["again"] == MIB, "freed memory cannot be used again"
    assert 12 <= record["allocated"] <= 24
    assert stats["flash_limit_bytes"] == 16 * MIB
    runner.assert_within_budget(stats)


@pytest.mark.parametrize("memory_driver,flash_driver", [("auto", "threads"), ("remap", "uring"), ("remap", "threads"),
                                                        ("move", "uring")])
def test_drivers(flash, memory_driver, flash_driver):
    """Every pair of drivers gives stock's bits; that it was this pair is asserted for every run (rungs.check)."""
    rung, best_flash = rungs.offered(bool(rungs.prefix()))
    if memory_driver == "move" and rung == "remap":
        pytest.skip("the kernel offers this process no userfaultfd that can move pages")
    if flash_driver == "uring" and best_flash != "uring":
        pytest.skip("the kernel offers this process no io_uring")
    env = {"EBB_MEMORY_DRIVER": memory_driver, "EBB_FLASH_DRIVER": flash_driver}
    runner.compare("workloads:run", runner.options(flash, MEMORY), env=env, name="mlp_fused", steps=5)


def test_budget_below_one_operator(flash):
    """An operator over 40 MiB under a budget of 2 MiB: slow, but right."""
    runner.compare("scenarios:operator_beyond_the_budget", runner.options(flash, 2 * MIB), timeout=240)
