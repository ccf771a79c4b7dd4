"""Training under any budget gives the bits that stock PyTorch gives: every loss, every parameter.

Budgets are fractions of the most bytes of tensors that the workload ever has, or a handful of blocks. Each case also
asserts that memory stayed within the budget and that blocks really left and came back.
"""

import pytest
import runner
import workloads

STEPS = 6
FRACTIONS = (2, 4, 8)
POLICIES = ("foresight", "window", "on_demand")
DRIVERS = ("move", "remap")
KIB = runner.KIB

# Beside a quarter under the default policy for every workload: each other fraction and policy, and the other driver.
# All combinations are among the slow tests.
CHOSEN = [(name, 4, "foresight", "auto") for name in workloads.FAST] + [
    ("gpt2", 8, "window", "auto"),
    ("embedding", 8, "foresight", "auto"),
    ("lstm", 2, "on_demand", "auto"),
    ("mlp_fused", 8, "on_demand", "auto"),
    ("mlp_foreach", 8, "window", "remap"),
]
WHOLE = [(name, fraction, policy, driver) for name in workloads.FAST + workloads.SLOW for fraction in FRACTIONS
         for policy in POLICIES for driver in DRIVERS]


def check(flash, name, memory, block, policy, driver, steps=STEPS, timeout=180, **sizes):
    return runner.compare("workloads:run", runner.options(flash, memory, block=f"{block}", policy=policy),
                          env={"EBB_MEMORY_DRIVER": driver}, timeout=timeout, name=name, steps=steps, **sizes)


def check_fraction(flash, name, fraction, policy, driver, timeout=180):
    peak = runner.peak_live_bytes("workloads:run", flash, {"name": name, "steps": STEPS})
    block = 64 * KIB
    return check(flash, name, runner.budget_of(peak, fraction, block), block, policy, driver, timeout=timeout)


@pytest.mark.parametrize("name", workloads.FAST)
def test_stock_is_deterministic(name):
    """What the other tests rest on: without it a difference would prove nothing."""
    first = runner.stock("workloads:run", name=name, steps=STEPS).find("result")
    assert first == runner.stock_result("workloads:run", name=name, steps=STEPS)
    assert len(set(first["losses"])) == STEPS, "a model that does not learn hides lost updates"


@pytest.mark.parametrize("name,fraction,policy,driver", CHOSEN)
def test_fraction_of_the_peak(flash, name, fraction, policy, driver):
    check_fraction(flash, name, fraction, policy, driver)


@pytest.mark.slow
@pytest.mark.parametrize("name,fraction,policy,driver", WHOLE)
def test_fraction_of_the_peak_whole(flash, name, fraction, policy, driver):
    check_fraction(flash, name, fraction, policy, driver, timeout=900)


@pytest.mark.slow
@pytest.mark.parametrize("name,fraction", [(name, fraction) for name in workloads.FULL_SIZE for fraction in FRACTIONS])
def test_full_size(flash, name, fraction):
    """Whole models with the blocks and thresholds that a program gets by default."""
    block = 2 * runner.MIB
    arguments = {"name": name, "steps": STEPS, "full_size": True}
    defaults = {"block": "2MiB", "managed_min": "64KiB"}
    peak = runner.peak_live_bytes("workloads:run", flash, arguments, memory="12GiB", **defaults)
    memory = runner.budget_of(peak, fraction, block)
    runner.compare("workloads:run", runner.options(flash, memory, **defaults), timeout=1800, **arguments)


@pytest.mark.parametrize("name,blocks,block_kib,policy,sizes", [
    ("mlp", 16, 256, "foresight", {"steps": 5}),
    ("mlp_fused", 24, 128, "window", {"steps": 5}),
    # Backwards through time each step goes through all weights, which do not fit: 600,000 faults for 5 steps of 32.
    ("lstm", 32, 64, "foresight", {"steps": 3, "length": 8}),
    ("embedding", 26, 64, "on_demand", {"steps": 5}),
])
def test_a_handful_of_blocks(flash, name, blocks, block_kib, policy, sizes):
    """Less memory than one operator needs: everything rests on the fault path."""
    check(flash, name, blocks * block_kib * KIB, block_kib * KIB, policy, "auto", **sizes)


@pytest.mark.slow
@pytest.mark.parametrize("name", workloads.FAST)
@pytest.mark.parametrize("blocks,block_kib", [(26, 64), (20, 128), (16, 256)])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_handful_of_blocks_whole(flash, name, blocks, block_kib, policy, driver):
    check(flash, name, blocks * block_kib * KIB, block_kib * KIB, policy, driver, steps=5, timeout=900)


@pytest.mark.parametrize("threads", [1, 4])
def test_number_of_threads(flash, threads):
    """More threads than processors fault at once; one thread faults while nothing else runs."""
    runner.compare("workloads:run", runner.options(flash, 4 * runner.MIB), name="mlp_fused", steps=5, threads=threads)
