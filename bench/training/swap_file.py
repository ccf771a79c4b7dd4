"""SwapFile and ZramSwap: temporary swap for the contenders that page; switched off however the benchmark ends.

They change the system while they last and need root, so bench/run.py makes one only when asked with --with-swap, and
only for the turns of that contender. SIGTERM and SIGHUP are turned into exceptions meanwhile, so that they clean up,
too; after SIGKILL or a power cut what `swapon --show` names must be switched off, and the file deleted, by hand.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from children import ChildError

ZRAM_CONTROL = pathlib.Path("/sys/class/zram-control")
PRIORITY = 32767  # before any other swap of the machine


class Swap:
    """What both have in common; `_make` returns the path that the kernel swaps to, `_remove` undoes it."""

    def __init__(self, directory, size_bytes):
        self.directory = directory
        self.size_bytes = size_bytes
        self.path = None
        self.active = False
        self.handlers = {}

    def __enter__(self):
        for tool in ("mkswap", "swapon", "swapoff"):
            if shutil.which(tool) is None:
                raise ChildError(f"--with-swap: {tool} is not on the path")
        if os.geteuid() != 0:
            raise ChildError("--with-swap: only root may use swap")
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.handlers[number] = signal.signal(number, _interrupt)
        try:
            self._make()
            _call("mkswap", self.path)
            _call("swapon", "-p", str(PRIORITY), self.path)
            self.active = True
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):
                raise ChildError(f"--with-swap: no swap: {error.strerror}") from None
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.active:
                _call("swapoff", self.path)
                self.active = False
        finally:
            if self.path and not self.active:
                self._remove()
                self.path = None
            for number, handler in self.handlers.items():
                signal.signal(number, handler)
            self.handlers = {}


class SwapFile(Swap):
    """A file in `directory`."""

    def _make(self):
        handle, self.path = tempfile.mkstemp(prefix="ebb-bench-swap-", dir=self.directory)
        try:
            os.fchmod(handle, 0o600)
            os.posix_fallocate(handle, 0, self.size_bytes)
        finally:
            os.close(handle)

    def _remove(self):
        os.unlink(self.path)


class ZramSwap(Swap):
    """A zram device of its own: compressed memory, which no cgroup counts."""

    def _make(self):
        if not (ZRAM_CONTROL / "hot_add").exists():
            raise ChildError("--with-swap: this kernel has no zram, or its module is not loaded")
        number = (ZRAM_CONTROL / "hot_add").read_text(encoding="ascii").strip()  # reading it makes a device
        self.path = f"/dev/zram{number}"
        self._file("disksize").write_text(str(self.size_bytes), encoding="ascii")

    def _file(self, name):
        return pathlib.Path("/sys/block", pathlib.Path(self.path).name, name)

    def _remove(self):
        with contextlib.suppress(OSError):
            self._file("reset").write_text("1", encoding="ascii")
        (ZRAM_CONTROL / "hot_remove").write_text(self.path.removeprefix("/dev/zram"), encoding="ascii")


def _interrupt(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def _call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ChildError(f"--with-swap: {command[0]} failed: {done.stderr.strip()}")
