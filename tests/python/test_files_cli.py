"""`ebb run` gives a runtime to a program without PyTorch when it maps a large file: any program, here a script."""

import json
import os
import pathlib

import pytest
from ebb_program import needs_ebb

pytestmark = needs_ebb
MIB = 2**20
BYTES = 70 * MIB + 777
READS = """
import hashlib, mmap, os, sys
with open(sys.argv[1], "rb") as file:
    expected = hashlib.sha256(file.read()).hexdigest()
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for _ in range(3):
    assert hashlib.sha256(memoryview(mapped)).hexdigest() == expected
if os.fork() == 0:
    os._exit(hashlib.sha256(memoryview(mapped)).hexdigest() != expected)
assert os.wait()[1] == 0
print(any("ebb-faults" in open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")))
"""


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "large"
    piece = os.urandom(MIB)
    with path.open("wb") as file:
        for i in range(BYTES // MIB + 1):
            file.write(bytes([i]) + piece[1:])
        file.truncate(BYTES)
    return path


def run(box, path, **environment):
    summary = box.path / "summary.json"
    result = box.run("run", "--memory", "24MiB", "--summary", str(summary), "--", "python3", "-c", READS, str(path),
                     **environment)
    assert result.returncode == 0, result.stderr
    return result, json.loads(summary.read_text(encoding="utf-8"))


def test_a_program_without_torch_has_its_files_managed(box, large_file):
    result, summary = run(box, large_file)
    assert result.stdout == b"True\n"
    assert summary["peak_resident_bytes"] <= summary["budget_bytes"] == 24 * MIB
    assert summary["fetched_bytes"] > BYTES and summary["evicted_bytes"] == 0
    assert b"no memory was managed" not in result.stderr


def test_files_can_be_left_to_the_kernel(box, large_file):
    result, _ = run(box, large_file, EBB_MAP_FILES="0")
    assert result.stdout == b"False\n" and b"no memory was managed" in result.stderr


def test_processes_share_the_budget(box, large_file):
    """As with PyTorch: each that maps a large file joins the job, here one after the other."""
    program = f"from os import fork, wait, execvp\nimport sys\n{READS}\n"
    script = pathlib.Path(box.path) / "reads.py"
    script.write_text(program, encoding="utf-8")
    result = box.run("run", "--memory", "24MiB", "--quiet", "--", "sh", "-c",
                     f"python3 {script} {large_file}; python3 {script} {large_file}")
    assert result.returncode == 0, result.stderr
    assert result.stdout == b"True\nTrue\n"


def test_what_cannot_be_given_ends_the_program(box, large_file):
    result = box.run("run", "--memory", "24MiB", "--quiet", "--", "python3", "-c", READS, str(large_file),
                     EBB_FLASH_DRIVER="nonsense")
    assert result.returncode == 2 and b"EBB_FLASH_DRIVER" in result.stderr
