"""What uses memory under `ebb run` and is no member of its job: it is named, with --strict it is ended, and who joins
late is none. These programs have no torch, but a file of its library's name mapped, and join by the job's socket.
"""

import signal
import subprocess
import sys

import pytest
import runner
from job_runs import Run

MIB = runner.MIB

# 96 MiB of its own, and what looks like torch from outside.
BEGIN = """
import mmap, os, socket, struct, sys, time
held = b"1" * (96 << 20)
def map_torch():
    with open(sys.argv[1], "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
def join():
    folder, name = os.path.split(os.environ["EBB_JOB"])
    os.chdir(folder)  # an address has room for 107 characters
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(name)
    hello = struct.pack("=IHHiIQQQQQIIII", 0x6a626265, 1, 1, -1, 0, 0, 0, 1 << 20, 1 << 30, 0, 0, 0, 0, 0)
    assert connection.send(hello) == 72
    return connection
"""
NAMED_S = 3  # a look a second, and two of a fork, before it is said to be one
STATIC = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) { memset(malloc(96 << 20), 1, 96 << 20); sleep(SECONDS); return 0; }
"""

pytestmark = pytest.mark.usefixtures("ebbtide_built")


@pytest.fixture
def start(flash, folder, tmp_path):
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(bytes(4096))

    def started(program, *flags, strict=False, command=None):
        words = command or [sys.executable, *flags, "-c", BEGIN + program, library]
        return Run(folder, flash, 64 * MIB, words, more=["--strict"] if strict else [])

    return started


def outsiders(run):
    return run.summary()["job"]["outside_the_budget"]


@pytest.mark.parametrize("joins", [True, False])
def test_who_joins_late_is_none(start, joins):
    """Named by a look, and forgotten by the next."""
    program = f"mapped = map_torch(); time.sleep({NAMED_S})\nif {joins}: joined = join()\ntime.sleep({NAMED_S})"
    run = start(program, "-I")
    assert run.end() == 0, run.err
    assert len(outsiders(run)) == (0 if joins else 1)
    assert ("skips Ebbtide's hook" in run.err) != joins


@pytest.mark.parametrize("strict", [False, True])
def test_a_fork_of_a_member_is_named_and_never_ended(start, strict):
    run = start(f"joined = join(); time.sleep(1)\nif os.fork() == 0:\n    time.sleep({NAMED_S + 2})\n    os._exit(0)\n"
                "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))", strict=strict)
    assert run.end() == 0, run.err
    assert len(outsiders(run)) == 1 and "forked from a process of the job" in run.err


@pytest.mark.parametrize("strict", [False, True])
def test_a_static_program(start, tmp_path, strict):
    source = tmp_path / "static.c"
    source.write_text(STATIC, encoding="utf-8")
    seconds = 60 if strict else NAMED_S
    made = subprocess.run(["cc", "-static", f"-DSECONDS={seconds}", "-o", tmp_path / "static", source],
                          capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"cannot be linked statically here: {made.stderr.decode()}")
    # Behind a shell, which goes on: `ebb run` says nothing of it before.
    run = start("", strict=strict, command=["sh", "-c", f"{tmp_path}/static; echo ended with $?"])
    assert run.end() == 0
    assert f"ended with {128 + signal.SIGKILL if strict else 0}" in run.out
    assert len(outsiders(run)) == 1 and "linked statically" in run.err
    assert ("--strict: 'static'" in run.err) == strict


@pytest.mark.slow  # for ten seconds of a core it may still be importing torch
@pytest.mark.parametrize("strict", [False, True])
def test_another_python(start, strict):
    """That has not run the hook although nothing on its command line says so."""
    program = ("if 'AGAIN' not in os.environ:\n"
               "    env = {**os.environ, 'AGAIN': '1'}\n"
               "    del env['PYTHONPATH'], held\n"
               "    os.execve(sys.executable, [sys.executable, '-c', sys.orig_argv[2], *sys.argv[1:]], env)\n"
               "mapped, end = map_torch(), time.process_time() + 16\n"
               "while time.process_time() < end: pass\n")
    run = start(program, strict=strict)
    assert run.end() == (-signal.SIGKILL if strict else 0), run.err
    assert len(outsiders(run)) == 1 and "has not run Ebbtide's hook" in run.err
    assert ("--strict" in run.err) == strict
