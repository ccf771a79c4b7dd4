"""What may go wrong around a program, on the real kernel and disk: a Fault for each, for faulted_run.Place.run().

A fault says how a run under it may end: `equal` (with stock's losses), `refused` (before its first step, with a message
that has `said` in it), `stopped` (later, likewise), `killed`. Losses that are not stock's are never among them.
"""

import contextlib
import errno
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import runner

HERE = pathlib.Path(__file__).resolve().parent
MIB, GIB = 2**20, 2**30
FLASH = r"flash in '|flash is full|--flash"


class Fault:
    """Nothing at all; the base of the others."""

    name, happens = "calm", "nothing"
    ends = ("equal",)
    said = ""
    limits = {}
    root = False  # it takes root to bring it about
    users = (False, True)  # as root, as an ordinary user

    def __init__(self, **changes):
        for name, value in changes.items():
            setattr(self, name, value)

    def why_not(self):
        """Why it cannot be had here, or None."""
        return "needs root" if self.root and os.geteuid() != 0 else None

    def around(self, place):
        return contextlib.nullcontext()

    def flash(self, place):
        return f"{place}/flash:256MiB"

    def outside(self, place):
        """What the command begins with, as the user that the test has."""
        return []

    def inside(self, place):
        """Likewise, as the user that the program is to have."""
        return []

    def during(self, run):
        """While it runs, in the thread that waits for it. False: the program had ended before."""
        return True


# -- Flash -------------------------------------------------------------------------------------------------------------


class FullDisk(Fault):
    """A file system of its own, in a mount namespace of the run's: nothing of it stays."""

    root = True
    mount = 'mount -o loop "$1" "$2" && shift 2 && chmod 777 "$1" && shift && exec "$@"'

    def why_not(self):
        missing = [tool for tool in ("unshare", "mkfs.ext4", "mount") if shutil.which(tool) is None]
        if super().why_not() or missing:
            return super().why_not() or f"no {missing[0]}"
        probe = subprocess.run(["unshare", "-m", "sh", "-c", "test -b /dev/loop0"], check=False, capture_output=True)
        return None if probe.returncode == 0 else "no mount namespace, or no loop devices"

    @contextlib.contextmanager
    def around(self, place):
        with (place / "image").open("wb") as image:
            image.truncate(self.size)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", place / "image"], check=True)
        yield

    def outside(self, place):
        folder = place / "flash"
        return ["unshare", "--mount", "sh", "-c", self.mount, "mount", place / "image", folder, folder]

    def during(self, run):
        if not self.filled:
            return True
        run.after(1)
        try:
            with open(f"/proc/{run.program()}/root{run.place}/flash/filled", "wb", buffering=0) as file:
                while file.write(bytes(64 * 1024)):
                    pass
        except OSError as error:
            return error.errno == errno.ENOSPC


class Truncated(Fault):
    name, happens = "flash file cut off", "to nothing, from outside, while the program trains"
    ends = ("stopped",)
    said = "cannot be read back from flash"

    def during(self, run):
        run.after(2)
        with contextlib.suppress(OSError):  # it has ended
            for link in pathlib.Path(f"/proc/{run.program()}/fd").iterdir():
                if os.readlink(link).startswith(str(run.place / "flash")):
                    os.truncate(link, 0)
                    return True
        return False


# -- The kernel --------------------------------------------------------------------------------------------------------


class Refused(Fault):
    """System calls that fail as a container's seccomp profile has it."""

    def __init__(self, *calls, number="EPERM", **changes):
        self.calls, self.number = calls, number
        self.name = f"{' + '.join(calls)} refused"
        self.happens = f"the kernel answers {number}, from the start"
        super().__init__(**changes)

    def inside(self, place):
        words = [f"{call}:{self.number}" for call in self.calls]
        return [sys.executable, HERE / "refuse_calls.py", *words, "--"]


class Limited(Fault):
    """A limit of the process, from before it starts."""

    def __init__(self, name, value, **changes):
        self.limits = {name: value}
        self.name = f"RLIMIT_{name}"
        self.happens = f"{value:,}"
        super().__init__(**changes)


# -- Signals -----------------------------------------------------------------------------------------------------------


class Killed(Fault):
    """At a random moment, from its start on: the program, `ebb run`, or all at once."""

    users = (False,)
    WHOM = ("the program", "ebb run", "all at once")

    def __init__(self, whom):
        self.whom = whom
        self.name = f"SIGKILL of {whom}"
        self.happens = "at a random moment"
        self.ends = ("killed", "equal")

    def during(self, run):
        if random.random() < 0.75:
            run.after(0)
            run.over.wait(random.random())
        else:
            run.over.wait(3 * random.random())
        pid = {"the program": run.program, "ebb run": lambda: run.process.pid,
               "all at once": lambda: -run.process.pid}[self.whom]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid(), signal.SIGKILL)
            return True
        return False


class Stopped(Fault):
    name, happens = "SIGSTOP, SIGCONT", "all threads stand still for up to 0.2 s, 5 times, at random moments of steps"
    users = (False,)

    def during(self, run):
        run.after(0)
        came = False
        with contextlib.suppress(ProcessLookupError):
            for _ in range(5):
                run.over.wait(random.random() / 10)
                pid = run.program()
                os.kill(pid, signal.SIGSTOP)
                came = True
                time.sleep(random.random() / 5)
                os.kill(pid, signal.SIGCONT)
        return came


# -- Memory and time ---------------------------------------------------------------------------------------------------


class Pressed(Fault):
    """A memory cgroup whose limit goes below what is in use, again and again (v2: memory.high)."""

    name, happens = "memory cgroup", "its limit sinks 64 MiB below what is in use, 20 times a second"
    root = True
    below = 64 * MIB

    def why_not(self):
        if why := super().why_not():
            return why
        try:
            with runner.children.MemoryCgroup(8 * GIB):
                return None
        except runner.ChildError as error:
            return str(error)

    @contextlib.contextmanager
    def around(self, place):
        with runner.children.MemoryCgroup(8 * GIB) as self.group:
            yield

    def outside(self, place):
        return self.group.wrap([])

    def during(self, run):
        use, limit = {1: ("memory.usage_in_bytes", "memory.limit_in_bytes"),
                      2: ("memory.current", "memory.high")}[self.group.version]
        run.after(0)
        while not run.over.wait(0.05):
            now = int((self.group.path / use).read_text())
            for value in (max(now - self.below, 16 * MIB), 8 * GIB):
                with contextlib.suppress(OSError):  # v1: so much cannot be taken from it
                    (self.group.path / limit).write_text(str(value))
        return len(run.lines) > 1


class Jumping(Fault):
    name, happens = "time of day", "jumps by up to a day, back and forth, whenever somebody asks for it"
    users = (False,)

    def why_not(self):
        return None if shutil.which("cc") else "no C compiler"

    @contextlib.contextmanager
    def around(self, place):
        source = HERE.parent / "programs/jumping_clock.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", place / "clock.so", source, "-ldl"], check=True)
        yield

    def inside(self, place):
        return ["env", f"LD_PRELOAD={place}/clock.so"]


# -- All of them -------------------------------------------------------------------------------------------------------

NO_ROOM = {"ends": ("stopped", "refused"), "said": FLASH}
USERS = {"users": (True,)}  # root is above it
ROOT = {"users": (False,)}  # it is all the same


def catalogue():
    """All that is tested, in the order in which a table has it."""
    calls = ("userfaultfd", "io_uring_setup", "memfd_create")
    return [
        FullDisk(name="full disk", happens="8 MiB of ext4, where --flash says 256 MiB", size=8 * MIB, filled=False,
                 **NO_ROOM),
        FullDisk(name="disk filled by others", happens="64 MiB of ext4, all written by another process at the 2nd step",
                 size=64 * MIB, filled=True, ends=("equal", "stopped"), said=FLASH),
        Limited("FSIZE", 8 * MIB, **NO_ROOM),
        Truncated(),
        *(Refused(call) for call in calls),
        Refused(*calls[:2], number="ENOSYS"),
        Refused(*calls, number="ENOSYS", ends=("refused",), said="userfaultfd is denied.*memfd"),
        *(Killed(whom) for whom in Killed.WHOM),
        Stopped(),
        *(Limited("NOFILE", value, ends=("equal", "refused", "stopped"), said="ulimit -n",
                  **ROOT) for value in (8, 12, 16, 32)),
        *(Limited("NPROC", value, ends=("equal", "refused"), said="ulimit -u", **USERS)
          for value in (2, 5)),
        Limited("MEMLOCK", 0, **USERS),
        *(Limited("AS", value, ends=("equal", "refused", "stopped"), said="ulimit -v|failed to map segment",
                  **ROOT)
          for value in (2 * GIB, 4 * GIB, 8 * GIB)),  # of 2 there is not enough to import torch, also without Ebbtide
        Limited("STACK", 128 * 1024, **ROOT),
        Pressed(),
        Jumping(),
    ]
