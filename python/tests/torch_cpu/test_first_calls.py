"""What MKL chooses at first calls is chosen before threads call together (ebbtide/torch/first_calls.py)."""

import pathlib
import re
import subprocess
import sys

import child
import pytest
import runner
import torch
from ebbtide.torch import first_calls

# As PyTorch has them, where MKL has another name.
NAMES = {"ln": "log"}
ASKED = """
import sys
import ebbtide
from ebbtide.torch import first_calls
asked = []
first_calls.settle = lambda: asked.append(ebbtide.enabled())
ebbtide.enable(memory="64MiB", flash=sys.argv[1])
print(asked)
"""
# The first call in each of many processes, of the functions in turn; says in how many forms each has come out.
FORKED = """
import os, sys, zlib
import child, numpy, torch
from ebbtide.torch import first_calls
numbers = torch.from_numpy(numpy.linspace(0.05, 0.95, 200000, dtype="float32"))  # threads do not survive a fork
child.settle_first_calls()
seen = {}
for i in range(int(sys.argv[1])):
    name = first_calls.FUNCTIONS[i % len(first_calls.FUNCTIONS)]
    out, end = os.pipe()
    if os.fork() == 0:
        os.write(end, zlib.crc32(getattr(torch, name)(numbers).numpy()).to_bytes(4, "big"))
        os._exit(0)
    os.close(end)
    seen.setdefault(name, set()).add(os.read(out, 4))
    os.close(out)
    os.wait()
print({name: len(each) for name, each in seen.items()})
"""


def python(script, *arguments, timeout=60):
    env = {**runner.environment(), "OMP_NUM_THREADS": "2"}
    env["PYTHONPATH"] += f":{pathlib.Path(child.__file__).parent}"
    return runner.run([sys.executable, "-c", script, *arguments], env=env, timeout=timeout).check().stdout


def test_all_that_pytorch_calls_are_among_them():
    library = pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    called = {name.lower() for name in re.findall(r" vm[sd]([A-Z][A-Za-z0-9]*)$", symbols, re.MULTILINE)}
    if not called:
        pytest.skip("this PyTorch has no MKL in it")
    assert {NAMES.get(name, name) for name in called} <= set(first_calls.FUNCTIONS)


def test_enable_has_them_made_first(flash):
    assert python(ASKED, str(flash)) == "[False]\n"


@pytest.mark.slow
def test_first_calls_of_many_processes_agree():
    """Without settle() some four of these have other bits, on two cores of a Xeon."""
    assert python(FORKED, "4000", timeout=600) == f"{ {name: 1 for name in first_calls.FUNCTIONS} }\n"
