"""The budget is hard: the whole process lives in a cgroup that would kill it if memory went much beyond.

The cgroup holds the budget and what the same program has without its tensors: the interpreter, PyTorch with its threads
and Ebbtide's own, measured by training a model of next to nothing. The tensors alone are larger than both, so stock
PyTorch cannot live there, which the test asserts first.
"""

import signal

import pytest
import runner

BUDGET = 256 * runner.MIB
# Page tables, the kernel's memory for the process, and a few pages of files: measured to be 15 MiB.
MARGIN = 32 * runner.MIB
SMALL = 64  # wide
TRAIN, MEASURE = "scenarios_process:train_large", "scenarios_process:train_large_and_measure"


def options(flash):
    return runner.options(flash, BUDGET, block="2MiB", managed_min="64KiB")


def base(flash, driver):
    """The memory of the same program with tensors of no size to speak of."""
    def measure():
        child = runner.managed(MEASURE, options(flash), env={"EBB_MEMORY_DRIVER": driver}, steps=2, width=SMALL)
        assert child.find("stats")["peak_live_bytes"] < 2 * runner.MIB
        return child.find("result")

    return runner.once("base", driver, measure)


def cgroup(flash, driver):
    limit = base(flash, driver)["own"] + BUDGET + MARGIN
    try:
        with runner.children.MemoryCgroup(limit):
            return runner.children.MemoryCgroup(limit)
    except runner.ChildError as error:
        pytest.skip(str(error))


def run_in(group, flash_options, driver):
    return runner.run(runner.command(TRAIN, {"steps": 2}, flash_options), timeout=240, cgroup=group,
                      env=runner.environment({"EBB_MEMORY_DRIVER": driver}))


def test_stock_does_not_fit(flash):
    with cgroup(flash, "auto") as group:
        assert run_in(group, None, "auto").returncode == -signal.SIGKILL, (
            "the cgroup holds stock PyTorch: the test below would prove nothing")


@pytest.mark.parametrize("driver", ["auto", "remap"])
def test_managed_run_lives_within_the_budget(flash, driver):
    with cgroup(flash, driver) as group:
        child = run_in(group, options(flash), driver).check()
    assert child.find("result") == runner.stock_result(TRAIN, steps=2)
    stats = child.find("stats")
    runner.assert_within_budget(stats)
    runner.assert_moved(stats)
    assert stats["peak_live_bytes"] > group.limit_bytes


def test_description_of_the_peak(flash):
    """What the runtime reports agrees with the kernel: the process grew by the budget, not by its tensors."""
    grown = runner.managed(MEASURE, options(flash), steps=2).find("result")["peak"] - base(flash, "auto")["peak"]
    assert BUDGET / 2 < grown < BUDGET + MARGIN
