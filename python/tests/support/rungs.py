"""Rungs: the ways in which the kernel lets Ebbtide serve memory, how a child is started on each, and which one it got.

`full` needs a right that root has; `user` is what an ordinary user gets: faults of user mode only; `remap` needs
neither rights nor a recent kernel. $EBB_TEST_RUNG says which one the tests stand on that ask for none themselves;
without it that is the best one here, found by asking the kernel, not Ebbtide.

As root the rung `user` is that of user nobody. It keeps the one right to read every file, because the Python that runs
the tests may lie where nobody could read it; it is no right over memory.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import pwd
import shutil
import struct
import subprocess
import sys

RUNGS = ("full", "user", "remap")
MEMORY_DRIVERS = {"full": "move", "user": "move", "remap": "remap"}
IN_DESCRIPTION = {
    "full": "userfaultfd with UFFDIO_MOVE, full rung",
    "user": "userfaultfd with UFFDIO_MOVE, user-mode rung",
    "remap": "memfd remapping with a SIGSEGV handler",
    "uring": "io_uring",
    "threads": "threads",
}
ORDINARY_USER = "nobody"

SYS_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
SYS_IO_URING_SETUP = 425
USER_MODE_ONLY = 1
API, IOCTL_API, FEATURE_MOVE = 0xAA, 0xC018AA3F, 1 << 16
IOCTL_NEW = 0xAA00  # on /dev/userfaultfd
IO_URING_PARAMS_BYTES = 120


def wanted():
    """The rung that this session asks for, or None for the best one."""
    rung = os.environ.get("EBB_TEST_RUNG", "auto")
    if rung not in (*RUNGS, "auto"):
        raise ValueError(f"EBB_TEST_RUNG: '{rung}' is none of auto, {', '.join(RUNGS)}")
    return None if rung == "auto" else rung


def as_user():
    """What a command begins with that runs as an ordinary user; nothing where we are one."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={ORDINARY_USER}", f"--regid={pwd.getpwnam(ORDINARY_USER).pw_gid}", "--clear-groups",
            "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


def prefix():
    """What the command of every managed child begins with in this session."""
    return as_user() if wanted() == "user" else []


def environment():
    """What the environment of every managed child begins with in this session."""
    rung = wanted()
    return {"EBB_MEMORY_DRIVER": MEMORY_DRIVERS[rung]} if rung else {}


@functools.cache
def offered(ordinary):
    """The best rung and the best flash driver that the kernel offers to a process like this one, or to a user's."""
    argv = [*(as_user() if ordinary else []), sys.executable, __file__]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.split()


def why_not(rung):
    """Why there is no such rung here, or None."""
    if rung == "user" and os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "no setpriv to become an ordinary user with"
    best, _ = offered(rung == "user")
    return None if rung in (best, "remap") else f"the kernel offers the rung {best} here, not {rung}"


def give(path):
    """Lets children of this session write to the folder."""
    if prefix():
        give_to_user(path)


def give_to_user(path):
    """Lets what as_user() starts write to the folder."""
    shutil.chown(path, ORDINARY_USER)


def of(driver="auto"):
    """The rung that a child of this session stands on if it asks for this memory driver."""
    if driver == "remap":
        return "remap"
    if driver == "move" and wanted() == "remap":
        return offered(False)[0]
    return wanted() or offered(False)[0]


def check(description, env):
    """Asserts that a child was served by what its environment asked for; without a word there, by the best."""
    memory, flash = (env.get(name) or "auto" for name in ("EBB_MEMORY_DRIVER", "EBB_FLASH_DRIVER"))
    rung = of(memory)
    if flash == "auto":
        flash = offered(rung == "user")[1]
    served_memory, served_flash = description.split("; ")[0], description.split("; ")[-1]
    assert served_memory.startswith(IN_DESCRIPTION[rung]), f"asked for the rung {rung}, got: {description}"
    assert served_flash.startswith(IN_DESCRIPTION[flash]), f"asked for flash by {flash}, got: {description}"


@contextlib.contextmanager
def not_yet(known, rung, error, pattern):
    """What is known to fail on the rungs `known`: there it must, with this error and no other, and counts as that."""
    if rung not in known:
        yield
        return
    import pytest  # tools/hostile has no need of it

    with pytest.raises(error, match=pattern):
        yield
    pytest.xfail(f"on the rung {rung}: {pattern}")


# -- What the kernel offers --------------------------------------------------------------------------------------------


def _syscall(number, *arguments):
    """A descriptor, or None."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(ctypes.c_long(number), *arguments)
    if descriptor < 0 and ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EINVAL):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"system call {number}")
    return descriptor if descriptor >= 0 else None


def _userfaultfd():
    """The best userfaultfd there is, as a descriptor and its rung."""
    number = SYS_USERFAULTFD[os.uname().machine]
    if (descriptor := _syscall(number, 0)) is not None:
        return descriptor, "full"
    try:
        with open("/dev/userfaultfd", "r+b", buffering=0) as device:
            return fcntl.ioctl(device, IOCTL_NEW, 0), "full"
    except OSError:
        pass
    return _syscall(number, USER_MODE_ONLY), "user"


def best():
    """The best rung that the kernel offers this process."""
    descriptor, rung = _userfaultfd()
    if descriptor is None:
        return "remap"
    try:
        features = struct.unpack("QQQ", fcntl.ioctl(descriptor, IOCTL_API, struct.pack("QQQ", API, 0, 0)))[1]
    finally:
        os.close(descriptor)
    return rung if features & FEATURE_MOVE else "remap"


def has_io_uring():
    descriptor = _syscall(SYS_IO_URING_SETUP, 1, ctypes.create_string_buffer(IO_URING_PARAMS_BYTES))
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


if __name__ == "__main__":
    print(best(), "uring" if has_io_uring() else "threads")
