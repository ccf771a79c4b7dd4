"""Tests of `ebb doctor`."""

import json
import sys

import pytest
from ebb_program import ROOT, needs_ebb
from terminal import terminal

pytestmark = needs_ebb
SOFT_CUDA = ROOT / "build/release/tests/libcuda_soft.so"


def test_doctor_json(box):
    result = box.run("doctor", "--json", "--quick", EBB_PYTHON=sys.executable)
    found = json.loads(result.stdout)
    assert result.returncode == (0 if found["can_run"] else 1)
    checks = {check["id"]: check for check in found["checks"]}
    expected = {"kernel", "userfaultfd", "system_calls", "uffdio_move", "huge_pages", "max_map_count", "io_uring"}
    expected |= {"flash_directory", "flash_space", "flash_features", "memory", "processor", "swap", "memlock", "trial",
                 "opencl", "cuda", "pinned_memory", "encryption", "python"}
    assert expected == set(checks)
    for check in checks.values():
        assert check["verdict"] in ("good", "warning", "blocking") and check["found"]
        assert check["verdict"] == "good" or check["remedy"]
    assert checks["userfaultfd"]["details"]["rung"] in ("A", "B", "C")
    assert checks["memory"]["details"]["default_budget_bytes"] > 0
    assert found["can_run"] == all(check["verdict"] != "blocking" for check in checks.values())
    assert result.stderr == b""


def cuda_checks(box, library):
    result = box.run("doctor", "--json", "--quick", EBB_PYTHON=sys.executable, EBB_CUDA_LIBRARY=library)
    checks = {check["id"]: check for check in json.loads(result.stdout)["checks"]}
    return [checks[name] for name in ("cuda", "pinned_memory")]


def test_doctor_without_a_gpu(box):
    cuda, pinned = cuda_checks(box, "libcuda_of_nobody.so.1")
    for check in (cuda, pinned):
        assert "there is no CUDA driver here" in check["details"]["reason"]
    assert cuda["details"]["gpus"] == []
    assert "not examined" in pinned["found"] and pinned["verdict"] == "good"


@pytest.mark.skipif(not SOFT_CUDA.exists(), reason="the software CUDA driver is not built")
def test_doctor_finds_a_gpu(box):
    cuda, pinned = cuda_checks(box, str(SOFT_CUDA))
    assert cuda["verdict"] == "good" and cuda["details"]["version"] == 13000
    [gpu] = cuda["details"]["gpus"]
    assert gpu == {"name": "software device", "memory_bytes": 256 << 20, "compute_capability": "9.0",
                   "virtual_memory": True, "pageable_memory_access": False, "host_page_tables": False}
    assert "13.0: software device" in cuda["found"]
    assert pinned["verdict"] == "good" and "64.0 MiB can be pinned" in pinned["found"]


def test_doctor_measures_and_leaves_nothing_behind(box):
    result = box.run("doctor", "--flash", "tmp", EBB_PYTHON="/bin/false")
    text = result.stdout.decode()
    assert "flash speed" in text and ("MB/s" in text or "not measured" in text)
    assert "trial" in text and "192 MiB" in text
    assert result.returncode == 1 and "✗ Python" in text and "/bin/false does not run" in text
    assert "\033" not in text
    assert box.leftovers() == []


def test_doctor_finds_what_blocks(box):
    result = box.run("doctor", "--quick", "--json", "--flash", "nowhere", EBB_PYTHON=sys.executable)
    checks = {check["id"]: check for check in json.loads(result.stdout)["checks"]}
    assert result.returncode == 1 and checks["flash_directory"]["verdict"] == "blocking"
    assert box.run("doctor", "--frobnicate").returncode == 2
    assert box.run("doctor", "--flash", "tmp:12parsecs").returncode == 2


def test_doctor_shows_progress_on_a_terminal(box):
    screen = terminal(box, "doctor", "--quick", EBB_PYTHON=sys.executable)
    screen.finish()
    assert b"examining" in screen.output and screen.output.rindex(b"\r\033[K") > screen.output.rindex(b"examining")


# The real thing.
