"""SwapFile: a temporary swap file for the contender that pages; switched off and deleted however the benchmark ends.

Changes the system while it lasts and needs root, so bench/run.py makes one only when asked with --with-swap.
SIGTERM and SIGHUP are turned into exceptions meanwhile, so that they clean up, too; after SIGKILL or a power cut the
file named in `swapon --show` must be switched off and deleted by hand.
"""

import os
import shutil
import signal
import subprocess
import tempfile

from children import ChildError


class SwapFile:
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
            raise ChildError("--with-swap: only root may use swap files")
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.handlers[number] = signal.signal(number, _interrupt)
        try:
            handle, self.path = tempfile.mkstemp(prefix="ebb-bench-swap-", dir=self.directory)
            os.fchmod(handle, 0o600)
            os.posix_fallocate(handle, 0, self.size_bytes)
            os.close(handle)
            _call("mkswap", self.path)
            _call("swapon", self.path)
            self.active = True
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):
                raise ChildError(f"--with-swap: no swap file in {self.directory}: {error.strerror}") from None
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.active:
                _call("swapoff", self.path)
                self.active = False
        finally:
            if self.path and not self.active:
                os.unlink(self.path)
                self.path = None
            for number, handler in self.handlers.items():
                signal.signal(number, handler)
            self.handlers = {}


def _interrupt(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def _call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ChildError(f"--with-swap: {command[0]} failed: {done.stderr.strip()}")
