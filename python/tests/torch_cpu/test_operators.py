"""Every operator of PyTorch's own database gives stock's bits when nothing it touches is resident.

Blocks of 4 KiB, every tensor managed however small, and hardly more than the least budget there is, out of
which a ballast of tensors pushes everything else. The default set runs each operator on the first two float32 samples,
forward and backward; the slow set all samples, in-place variants and more data types:

    pytest -m slow -n 4 python/tests/torch_cpu/test_operators.py -k "float32 and move"
"""

import pytest
import runner

OPERATORS_MAX = 1000  # more than the database has
SLICE = 240
SLICES = range(0, OPERATORS_MAX - SLICE, SLICE)
MEMORY = 1280 * runner.KIB  # a little over the least that 4 KiB blocks allow
SLOW_SLICE = 60  # with all samples
SLOW_SLICES = range(0, SLICES[-1] + SLICE, SLOW_SLICE)
SLOW_LIMIT_S = 3600


def compare(flash, driver="auto", policy="foresight", timeout=240, **arguments):
    expected = runner.stock_result("operators:walk", timeout=timeout, **arguments)
    options = runner.options(flash, MEMORY, block="4KiB", managed_min="1", policy=policy)
    child = runner.managed("operators:walk", options, timeout=timeout, env={"EBB_MEMORY_DRIVER": driver}, **arguments)
    actual = child.find("result")
    assert actual.keys() == expected.keys()
    different = [name for name in expected if actual[name] != expected[name]]
    assert not different, f"{len(different)} of {len(expected)} operators differ: {' '.join(different)}"
    runner.assert_moved(child.find("stats"))
    return expected


@pytest.mark.parametrize("first", SLICES)
def test_first_samples(flash, first):
    compare(flash, samples=2, first=first, last=first + SLICE)


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["move", "remap"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool", "complex64"])
@pytest.mark.parametrize("first", SLOW_SLICES)
def test_whole_database(flash, first, dtype, driver):
    compare(flash, driver=driver, timeout=SLOW_LIMIT_S, samples=10**6, first=first, last=first + SLOW_SLICE,
            dtype=dtype, in_place=True)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["window", "on_demand"])
def test_other_policies(flash, policy):
    compare(flash, policy=policy, timeout=SLOW_LIMIT_S, samples=4)


def test_the_database_is_covered():
    """The slices reach its end, no exception outlived its operator, and the samples are not all errors."""
    result = runner.stock_result("operators:describe")
    assert SLICES[-1] + SLICE >= len(result["names"]) > 500
    assert set(result["exceptions"]) <= set(result["names"])
    digests = {}
    for first in SLICES:
        digests |= runner.stock_result("operators:walk", timeout=240, samples=2, first=first, last=first + SLICE)
    assert len(digests) > 600
    assert not [name for name, value in digests.items() if isinstance(value, str)], "no samples could be made"
