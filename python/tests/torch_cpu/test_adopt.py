"""Memory that exists already, under the budget where it is: arrays larger than it, owners that come and go."""

import pytest
import runner

BUDGET = 96 * runner.MIB
WORDS = 32 * runner.MIB  # of 8 bytes: 256 MiB
MARGIN = 32 * runner.MIB  # page tables, and the kernel's memory for the process


def run(target, flash, budget=BUDGET, cgroup=None, **arguments):
    options = runner.options(flash, budget, block="2MiB", managed_min="64KiB")
    return runner.run(runner.command(f"scenarios_adopt:{target}", arguments, options), env=runner.environment(),
                      timeout=180, cgroup=cgroup).check()


def test_an_array_larger_than_the_budget_keeps_its_values(flash):
    child = run("sum_larger_than_budget", flash, words=WORDS)
    result, stats = child.find("result"), child.find("stats")
    assert result["sums"] == [WORDS * (WORDS - 1) // 2, WORDS * (WORDS + 1) // 2, WORDS * (WORDS + 1) // 2]
    assert result["same_address"]
    # The process itself held no more than before, less what left.
    assert result["after_adopt"] < result["before"] - 8 * WORDS + BUDGET + 32 * runner.MIB
    assert result["after_sums"] < result["before"] - 8 * WORDS + BUDGET + 32 * runner.MIB
    runner.assert_within_budget(stats)
    runner.assert_moved(stats)


def test_arrays_adopted_one_by_one_live_in_a_cgroup_that_cannot_hold_them(flash):
    words = WORDS // 2
    # A new array is stock's until it is adopted: one of them fits beside what the process has and the budget.
    limit = run("many_arrays", flash, count=0, words=0).find("result")["before"] + BUDGET + 8 * words + MARGIN
    try:
        with runner.children.MemoryCgroup(limit) as group:
            child = run("many_arrays", flash, cgroup=group, count=8, words=words)
    except runner.ChildError as error:
        if "no memory cgroup" not in str(error):
            raise
        pytest.skip(str(error))
    assert child.find("result")["sums"] == [i * words for i in range(8)]
    runner.assert_within_budget(child.find("stats"))
    assert 8 * 8 * words > limit


@pytest.mark.parametrize("target", ["owners_end", "guests_keep_their_memory", "buffers", "refusals", "forks"])
def test_scenario(flash, target):
    assert run(target, flash).find("result") == "ok"


def test_with_the_runtime_of_arrays(flash):
    child = runner.run(runner.command("scenarios_adopt:runtime_of_arrays", {"flash": str(flash)}, None),
                       env=runner.environment(), timeout=120).check()
    assert child.find("result") == "ok"
