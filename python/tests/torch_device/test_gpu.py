"""Tensors on a real GPU under Ebbtide: what stock PyTorch gives on the same GPU, bit for bit. Skipped where there is
none; `tools/gpu_check` takes a skip for a failure.
"""

import sys

import device_operators
import device_workloads
import gpu_programs
import pytest
import runner

BLOCK = 2 * runner.MIB
SLICE = 60
CUDA_WORKLOADS = (*device_workloads.NAMES, "wide")


@pytest.fixture(scope="module")
def gpu(ebbtide_built):
    code = "import torch; raise SystemExit(0 if torch.cuda.is_available() else 77)"
    if runner.run([sys.executable, "-c", code], env=runner.environment(), timeout=120).returncode != 0:
        pytest.skip("PyTorch sees no GPU on this machine")


def options(flash, device_memory, memory="2GiB", block=BLOCK, policy="foresight"):
    return {"memory": memory, "flash": f"{flash}:4GiB", "policy": policy, "block": block,
            "device_memory": device_memory}


def compare(target, options_, *, env=None, **arguments):
    expected = runner.stock_result(target, device="cuda", timeout=900, **arguments)
    child = runner.managed(target, options_, device="cuda", timeout=900, env=env, **arguments)
    assert child.find("result") == expected
    return child.find("stats")


@pytest.mark.parametrize("name", CUDA_WORKLOADS)
@pytest.mark.parametrize("fraction", [2, 4, 8])
def test_training(gpu, flash, name, fraction):
    peak = runner.once("gpu peak", name, lambda: compare(
        "device_workloads:run", options(flash, "2GiB"), name=name)["peak_live_bytes"])
    # The models are small: blocks of 2 MiB are too few at an eighth of them. cuBLAS keeps some workspaces besides.
    memory = max(peak // fraction, 16 * BLOCK) // BLOCK * BLOCK + 12 * runner.MIB
    stats = compare("device_workloads:run", options(flash, memory), name=name)
    if name == "wide":
        runner.assert_moved(stats)


@pytest.mark.parametrize("scenario", ["operators_that_hide", "gradients", "streams", "several_threads"])
@pytest.mark.parametrize("strict", ["0", "1"])
def test_scenarios(gpu, flash, scenario, strict):
    memory = 128 * runner.MIB if strict == "0" else 1024 * runner.MIB
    compare(f"device_scenarios:{scenario}", options(flash, memory), env={"EBB_DEVICE_STRICT": strict})


@pytest.mark.parametrize("program", gpu_programs.EXACT)
@pytest.mark.parametrize("strict", ["0", "1"])
def test_programs(gpu, flash, program, strict):
    memory = 128 * runner.MIB if strict == "0" else 1024 * runner.MIB
    compare(f"gpu_programs:{program}", options(flash, memory), env={"EBB_DEVICE_STRICT": strict})


@pytest.mark.parametrize("strict", ["0", "1"])
def test_kernels_chosen_by_speed(gpu, flash, strict):
    expected = runner.stock_result("gpu_programs:convolutions", device="cuda", timeout=900)
    child = runner.managed("gpu_programs:convolutions", options(flash, "1GiB"), device="cuda", timeout=900,
                           env={"EBB_DEVICE_STRICT": strict})
    assert child.find("result") == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("first", range(0, 720, SLICE))
def test_every_operator_announces(gpu, flash, first):
    arguments = {"device": "cuda", "first": first, "last": first + SLICE, "timeout": 1800}
    expected = runner.stock_result("device_operators:walk", **arguments)
    actual = runner.managed("device_operators:walk", options(flash, "8GiB"), env={"EBB_DEVICE_STRICT": "1"},
                            **arguments).find("result")
    # Bits may differ between any two runs on a GPU: many kernels add in any order.
    assert not device_operators.different(expected, actual, bits=False)


def test_kernels_of_triton(gpu, flash):
    compare("device_scenarios:compiled", options(flash, 128 * runner.MIB))
