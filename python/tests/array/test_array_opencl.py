"""Passes of `ebbtide.array` on an OpenCL device, in a process of their own: a driver brings a compiler and threads."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import ebbtide.array as xp
x = xp.uniform((300_000,), seed=1)
xp.evaluate(x)
def values():
    y = (x * 3 + 1) / (x + 0.5)
    z = xp.where(x < 0.25, y, -y)
    xp.evaluate(z)
    return [float(z[i]) for i in range(0, 300_000, 7919)]
here = values()
try:
    found = xp.use_opencl()
except Exception as error:
    print(error)
    sys.exit(77)
before = xp.stats()["on_device"]
there = values()
assert xp.stats()["on_device"] > before, xp.stats()
assert here == there
xp.use_cpu()
after = xp.stats()["on_device"]
assert values() == here and xp.stats()["on_device"] == after
try:
    xp.use_opencl("no such device")
except Exception as error:
    assert found.split(" (")[0].removeprefix("OpenCL: ") in str(error), error
else:
    raise AssertionError("a device that is not there was opened")
"""


def test_passes_run_on_the_device_and_give_the_same(tmp_path):
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "POCL_CACHE_DIR": str(tmp_path)})
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stderr
