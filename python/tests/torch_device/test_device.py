"""Tensors on a device under Ebbtide, without a GPU: stock models train on `soft_device` with a part of the memory they
need, and give the bits of the CPU; every operator of PyTorch's database announces what it touches; what does not fit
is refused where the program can see it.
"""

import json
import sys

import device_operators
import device_workloads
import pytest
import runner

KIB, MIB = runner.KIB, runner.MIB
BLOCK = 64 * KIB
FRACTIONS = (2, 4, 8)
# Every model at an eighth, and each other fraction; all combinations are among the slow tests.
CHOSEN = [(name, 8) for name in device_workloads.NAMES] + [("mlp", 2), ("gpt", 4), ("conv", 2), ("lstm", 4)]
OPERATORS_MAX = 1000  # more than the database has
MEMORY = 2 * MIB


def compare(target, options, **arguments):
    """The device gives what the CPU gives; returns the statistics."""
    expected = runner.stock_result(target, device="cpu", **arguments)
    child = runner.managed(target, options, device="soft", **arguments)
    assert child.find("result") == expected
    return child.find("stats")


def peak(flash, name):
    def measure():
        stats = compare("device_workloads:run", runner.on_soft_device(flash, "256MiB"), name=name)
        assert stats["evicted_bytes"] == 0
        return stats["peak_live_bytes"]

    return runner.once("device peak", name, measure)


def check_fraction(flash, name, fraction, **options):
    memory = peak(flash, name) // fraction // BLOCK * BLOCK
    stats = compare("device_workloads:run", runner.on_soft_device(flash, memory, **options), name=name)
    assert stats["resident_bytes"] <= memory
    runner.assert_moved(stats)
    return stats


@pytest.mark.parametrize("name,fraction", CHOSEN)
def test_training(flash, name, fraction):
    check_fraction(flash, name, fraction)


@pytest.mark.slow
@pytest.mark.parametrize("name", device_workloads.NAMES)
@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("policy", ["foresight", "window"])
def test_training_whole(flash, name, fraction, policy):
    check_fraction(flash, name, fraction, policy=policy)


def test_training_with_flash_below(flash):
    """Host memory that holds little: most goes on to flash, and comes back with its checksum."""
    stats = check_fraction(flash, "mlp_fused", 4, memory=MIB, policy="window")
    assert stats["peak_live_bytes"] > stats["budget_bytes"] + 8 * MIB


def test_training_in_strict_mode(flash):
    stats = compare("device_workloads:run", runner.on_soft_device(flash, "16MiB", strict=True), name="gpt")
    assert stats["launches"] > 1000


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scenario", ["operators_that_hide", "gradients", "streams", "several_threads"])
def test_scenarios(flash, scenario, strict):
    memory = "24MiB" if strict else "3MiB"
    stats = compare(f"device_scenarios:{scenario}", runner.on_soft_device(flash, memory, strict=strict))
    if not strict and scenario != "several_threads":
        runner.assert_moved(stats)


def test_what_does_not_fit_raises(flash):
    record = runner.managed("device_scenarios:refused", runner.on_soft_device(flash, MEMORY)).find("result")
    assert record["intact"] and record["usable"]
    for message in record["messages"]:
        assert "GPU memory for tensors is 2.00 MiB" in message and "--device-memory" in message, record


def test_kernels_that_are_no_operators(flash):
    """Announced they run; not announced they end as on a GPU: the tests' device does notice."""
    options = runner.on_soft_device(flash, MEMORY)
    assert runner.managed("device_scenarios:kernels_of_others", options, announced=True).find("result")
    with pytest.raises(runner.ChildError, match="not mapped"):
        runner.managed("device_scenarios:kernels_of_others", options, announced=False)


def test_kernels_of_triton(flash):
    pytest.importorskip("triton")
    assert runner.managed("device_scenarios:kernels_of_triton", runner.on_soft_device(flash, MEMORY)).find("result")


def test_forked_workers(flash):
    assert runner.managed("device_scenarios:forked_worker", runner.on_soft_device(flash, MEMORY)).find("result")


def test_collectives(flash):
    record = runner.managed("device_scenarios:collectives", runner.on_soft_device(flash, MEMORY)).find("result")
    assert record["equal"]
    assert "c10d::send of a tensor that Ebbtide manages is not supported" in record["message"]


def test_memory_that_no_operator_shows_stays(flash):
    runner.managed("device_scenarios:unseen_memory", runner.on_soft_device(flash, MEMORY))


def test_memory_that_was_recorded_for_a_stream(flash):
    runner.managed("device_scenarios:recorded_streams", runner.on_soft_device(flash, MEMORY))


def check_operators(flash, device_memory, bits=True, **arguments):
    expected = runner.stock_result("device_operators:walk", device="cpu", timeout=3600, **arguments)
    options = runner.on_soft_device(flash, device_memory, strict=True)
    actual = runner.managed("device_operators:walk", options, device="soft", timeout=3600, **arguments).find("result")
    assert not device_operators.different(expected, actual, bits)
    return expected


def test_every_operator_announces(flash):
    """All of the database, with two samples each."""
    walked = check_operators(flash, "128MiB")
    assert len(walked) > 500 and not [name for name, runs in walked.items() if isinstance(runs, str)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "complex64"])
@pytest.mark.parametrize("first", range(0, OPERATORS_MAX, 100))
def test_every_operator_announces_whole(flash, first, dtype):
    """All samples and more data types: for some of them a device decomposes an operator, and rounds in another way."""
    check_operators(flash, "1GiB", bits=False, first=first, last=first + 100, dtype=dtype, samples=10**6)


def answer(program, env=None):
    """What a program of a few lines says in a process of its own."""
    argv = [sys.executable, "-c", program]
    return runner.run(argv, env=runner.environment(env), timeout=60).check().find("said")


CUDA = """
import json, torch, ebbtide
try:
    ebbtide.enable(memory="64MiB", device_memory="1GiB")
except ebbtide.Error as error:
    print(json.dumps({"said": str(error)}))
"""


def test_no_gpu_is_said(flash):
    assert "tensors cannot live on a GPU" in answer(CUDA, {"EBB_CUDA_LIBRARY": "libno_such_cuda.so"})
    assert "device_memory" in answer(CUDA.replace("1GiB", "lots"))


INSTALLED = """
import json, torch, ebbtide
from ebbtide.torch import device
if torch.version.cuda is None:
    print(json.dumps({"said": "no CUDA"}))
else:
    device._install_allocator()
    torch.cuda.memory.empty_cache()
    said = torch._C._cuda_getAllocatorBackend()
    device._refuse_graphs()
    try:
        torch.cuda.CUDAGraph.capture_begin(None)
    except ebbtide.Error as error:
        print(json.dumps({"said": f"{said}; {error}"}))
"""


def test_pluggable_allocator():
    """PyTorch takes our entry points, as far as that can be seen without a GPU."""
    said = answer(INSTALLED)
    if said == "no CUDA":
        pytest.skip("this PyTorch is built without CUDA")
    assert json.dumps(said) and "pluggable" in said and "CUDA graphs are not supported" in said


BENCHMARK = """
import json, torch, warnings
from ebbtide.torch import device

device._leave_benchmark_off()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    torch.backends.cudnn.benchmark = True
    with torch.backends.cudnn.flags(benchmark=True):
        inside = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
print(json.dumps({"said": [torch.backends.cudnn.benchmark, inside, len(said), str(said[0].message)]}))
"""


def test_the_search_for_fast_kernels_stays_off():
    on, inside, warned, text = answer(BENCHMARK)
    assert not on and not inside and warned == 2 and "stays off with --device-memory" in text
