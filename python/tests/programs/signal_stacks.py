"""Which threads have a stack for signals: each is sent one, whose handler asks."""

import ctypes
import os
import pathlib
import signal
import time

import ebbtide
import torch

SS_DISABLE = 2
TGKILL = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
LIBC = ctypes.CDLL(None, use_errno=True)


class Stack(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_void_p), ("flags", ctypes.c_int), ("bytes", ctypes.c_size_t)]


def threads():
    """Of the program, by number; Ebbtide's own run no handlers."""
    names = {int(task.name): (task / "comm").read_text().strip() for task in pathlib.Path("/proc/self/task").iterdir()}
    return [number for number, name in names.items() if not name.startswith("ebb-")]


def ask():
    """By number of the thread: whether it has a stack for signals."""
    found = {}

    def handler(_):
        stack = Stack()
        LIBC.sigaltstack(None, ctypes.byref(stack))
        found[LIBC.gettid()] = (stack.flags & SS_DISABLE) == 0

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(handler)
    before = signal.getsignal(signal.SIGUSR2)
    LIBC.signal(signal.SIGUSR2, handler)
    for number in threads():
        LIBC.syscall(TGKILL, os.getpid(), number, int(signal.SIGUSR2))
        until = time.monotonic() + 5
        while number not in found and time.monotonic() < until:
            time.sleep(0.001)
    signal.signal(signal.SIGUSR2, before)
    return found


def of_a_team(count, options, early):
    """Which of the threads have one that PyTorch divides an operator among, and whether the caller has.

    They are made after enable(), or before it if `early`.
    """
    before = set(threads())
    torch.set_num_threads(count)
    if early:
        torch.randn(1 << 20).exp_()
    ebbtide.enable(**options)
    torch.randn(1 << 20).exp_()
    found = ask()
    others = [has for number, has in found.items() if number not in before]
    return {"caller": found[LIBC.gettid()], "others": others, "how": ebbtide.stats()["description"]}
