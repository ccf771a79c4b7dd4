"""The budget is hard: the whole process lives in a cgroup that would kill it if memory went much beyond.

The cgroup holds the budget and an allowance for the interpreter, PyTorch's own memory and its libraries' pages; the
tensors alone are larger than both, so stock PyTorch cannot live there, which the test asserts first.
"""

import signal

import pytest
import runner

BUDGET = 256 * runner.MIB
ALLOWANCE = 700 * runner.MIB


@pytest.fixture
def cgroup():
    try:
        with runner.children.MemoryCgroup(BUDGET + ALLOWANCE) as group:
            yield group
    except runner.ChildError as error:
        pytest.skip(str(error))


def test_stock_does_not_fit(cgroup):
    child = runner.run(runner.command("scenarios_process:train_large", {"steps": 2}, None), env=runner.environment(),
                       timeout=120, cgroup=cgroup)
    assert child.returncode == -signal.SIGKILL, "the cgroup holds stock PyTorch: the test below would prove nothing"


@pytest.mark.parametrize("driver", ["auto", "remap"])
def test_managed_run_lives_within_the_budget(flash, cgroup, driver):
    options = runner.options(flash, BUDGET, block="2MiB", managed_min="64KiB")
    child = runner.run(runner.command("scenarios_process:train_large", {"steps": 2}, options), timeout=240,
                       cgroup=cgroup, env=runner.environment({"EBB_MEMORY_DRIVER": driver})).check()
    assert child.find("result") == runner.stock_result("scenarios_process:train_large", steps=2)
    stats = child.find("stats")
    runner.assert_within_budget(stats)
    runner.assert_moved(stats)
    assert stats["peak_live_bytes"] > BUDGET + ALLOWANCE


def test_description_of_the_peak(flash):
    """What the runtime reports agrees with the kernel: the process grew by the budget, not by its tensors."""
    options = runner.options(flash, BUDGET, block="2MiB", managed_min="64KiB")
    child = runner.managed("scenarios_process:train_large_and_measure", options, steps=1)
    assert child.find("result") < BUDGET + ALLOWANCE
