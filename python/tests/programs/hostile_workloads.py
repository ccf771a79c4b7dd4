"""Hostile workloads: those of workloads.py in a process that is treated badly, from inside, while it trains.

`run` is comparable with a stock run without hostilities. What the kernel and other processes do: tools/hostile.
"""

import contextlib
import ctypes
import os
import pathlib
import resource
import signal
import threading

import torch
import workloads

MIB = 2**20
MADV_COLLAPSE = 25
PERIOD_S = 0.0005
# Of some hundred MiB in all, which a third of it moves through in blocks of 2 MiB.
SIZES = {
    "mlp_fused": {"width": 1536, "depth": 8},
    "gpt2": {"vocabulary": 8192, "length": 64, "width": 512, "layers": 4, "heads": 8},
    "resnet": {},
}


@contextlib.contextmanager
def _again_and_again(act):
    stop = threading.Event()

    def go_on():
        while not stop.wait(PERIOD_S):
            act()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def signals():
    """A storm of them, to the thread that trains, to any thread, and from a timer; each has a handler."""
    seen = {number: 0 for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGPROF)}

    def count(number, _):
        seen[number] += 1

    for number in seen:
        signal.signal(number, count)
    main = threading.get_ident()
    signal.setitimer(signal.ITIMER_PROF, PERIOD_S, PERIOD_S)

    def send():
        signal.pthread_kill(main, signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)

    with _again_and_again(send):
        yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    assert all(seen.values()), f"a storm without some of its signals: {seen}"


@contextlib.contextmanager
def collapse():
    """MADV_COLLAPSE on whatever anonymous memory is large enough, which wants to make huge pages of it."""
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]

    def act():
        for line in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
            fields = line.split()
            start, end = (int(word, 16) for word in fields[0].split("-"))
            if fields[1].startswith("rw") and len(fields) == 5 and end - start >= 4 * MIB:
                for at in range(start, min(end, start + 1024 * MIB), 64 * MIB):
                    madvise(at, min(64 * MIB, end - at), MADV_COLLAPSE)

    with _again_and_again(act):
        yield


@contextlib.contextmanager
def descriptors():
    """One is left."""
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    assert taken, "there was no descriptor to take"
    os.close(taken.pop())
    yield
    for each in taken:
        os.close(each)


@contextlib.contextmanager
def processes():
    """No thread can be started any more, once there are those that training has."""
    workloads.train(workloads.build_mlp, 1, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    yield


def run(name, steps, inside=None):
    """Trains one of SIZES while `inside`, one of the functions above, lasts."""
    with globals()[inside]() if inside else contextlib.nullcontext():
        return workloads.train(lambda: getattr(workloads, f"build_{name}")(**SIZES[name]), steps, seed=0)


def address_space():
    """The bytes of address space that a child has before Ebbtide starts in it."""
    torch.ones(1)
    return int(pathlib.Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
