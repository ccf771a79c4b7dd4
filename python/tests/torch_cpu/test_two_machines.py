"""Two machines, each with an `ebb run` of its own: two network namespaces, joined by a cable (`ip`, as root).

The example of examples/two_machines under torchrun with c10d's rendezvous. A machine is killed and started again; what
both compute then is what an undisturbed run of stock PyTorch computes, step by step.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import job_processes
import pytest
import runner
from job_runs import ROOT, Run, assert_within, losses

MIB = runner.MIB
TRAIN = ROOT / "examples/two_machines/train.py"
STEPS = 14
BUDGET = 6 * MIB  # of 24 MiB that a rank has in weights, gradients and AdamW's state
LIMIT_S = 600
# A launcher notices within eight seconds that another is gone.
NOTICES = "keep_alive_interval=1,keep_alive_max_attempt=8,last_call_timeout=1"

pytestmark = pytest.mark.usefixtures("ebbtide_built")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


class Machines:
    """Namespaces a and b of this process, 10.99.7.1 and .2; they reach each other and nothing else."""

    def __init__(self):
        self.names = [f"ebb-{os.getpid()}-{letter}" for letter in "ab"]
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", "eth0", "netns", self.names[0], "type", "veth", "peer", "name", "eth0", "netns",
           self.names[1])
        for number, name in enumerate(self.names):
            ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                ip("-n", name, "link", "set", device, "up")

    @staticmethod
    def address(number):
        return f"10.99.7.{number + 1}"

    def prefix(self, number):
        return ["ip", "netns", "exec", self.names[number]]

    def launcher(self, number, port, checkpoints):
        return [sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1,
                "--max-restarts", 3, "--rdzv-backend", "c10d", "--rdzv-id", "ebb",
                "--rdzv-endpoint", f"{self.address(0)}:{port}",
                "--rdzv-conf", f"is_host={1 - number},{NOTICES}", "--local-addr", self.address(number), TRAIN,
                "--checkpoints", checkpoints, "--every", 3, "--steps", STEPS]

    def remove(self):
        for name in self.names:
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                ip("netns", "del", name)


@pytest.fixture
def machines(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    monkeypatch.setenv("TP_SOCKET_IFNAME", "eth0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # Else torchrun 2.13 keeps the address of rank 0 for itself when a machine comes to a later round.
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    if os.geteuid() != 0:
        pytest.skip("network namespaces are root's")
    made = None
    try:
        made = Machines()
    except FileNotFoundError:
        pytest.skip("no ip (iproute2) to make network namespaces with")
    except subprocess.CalledProcessError as error:
        for number in "ab":
            subprocess.run(["ip", "netns", "del", f"ebb-{os.getpid()}-{number}"], capture_output=True, check=False)
        pytest.skip(f"no network namespaces: {error.stderr.strip()}")
    yield made
    made.remove()


def free_port():
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]


def stock(machines, tmp_path):
    """Losses of both machines, undisturbed."""
    port = free_port()
    started = [subprocess.Popen(list(map(str, [*machines.prefix(number),
                                               *machines.launcher(number, port, tmp_path / f"stock-{number}")])),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for number in range(2)]
    ended = [process.communicate(timeout=LIMIT_S) for process in started]
    assert [process.returncode for process in started] == [0, 0], ended
    return losses("".join(out for out, _ in ended))


def until_step(run, step):
    """Reads what a machine prints until one of its ranks has done this step."""
    for line in run.process.stdout:
        run.out += line
        if (found := re.match(r"rank \d+ step (\d+) ", line)) and int(found[1]) >= step:
            return
    raise AssertionError(f"ended before step {step}: {run.process.stderr.read()}")


def kill_machine(run):
    """All of it at once, but for what removes the private directory: a machine would keep that in /tmp."""
    command = pathlib.Path(f"/proc/{run.process.pid}/cmdline").read_bytes()
    for pid in [run.process.pid, *job_processes.of_run(run.process.pid)]:
        with contextlib.suppress(OSError):
            if pid == run.process.pid or pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() != command:
                os.kill(pid, signal.SIGKILL)
    run.process.wait()


@pytest.mark.slow
def test_a_machine_is_killed_and_comes_back(flash, folder, tmp_path, machines):
    expected = stock(machines, tmp_path)
    port = free_port()

    def start(number):
        words = machines.launcher(number, port, tmp_path / f"checkpoints-{number}")
        own = folder / str(number)
        own.mkdir(exist_ok=True)
        return Run(own, flash, BUDGET, words, prefix=machines.prefix(number), more=["--quiet"])

    first, second = start(0), start(1)
    until_step(second, 7)
    kill_machine(second)
    second.out += second.process.stdout.read()
    again = start(1)
    codes = first.end(LIMIT_S), again.end(LIMIT_S)
    assert codes == (0, 0), first.err + again.err
    found = losses(first.out + second.out + again.out)
    assert sorted(set(found)) == sorted(set(expected)) and len(expected) == 2 * STEPS
    assert len(found) > len(set(found)), "what had been done since the last checkpoint was done again"
    for run in (first, again):
        assert_within(run.summary(), BUDGET)
        assert run.summary()["evicted_bytes"] > 0 and run.summary()["fetched_bytes"] > 0
    for number in range(2):
        assert list((folder / str(number)).glob("ebb-*")) == []
