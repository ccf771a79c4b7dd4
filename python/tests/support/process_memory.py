"""The memory of this process, in bytes, as the kernel counts it."""

import pathlib


def read():
    """The most it ever had, pages of files among them; and what it has now that is no file's."""
    lines = pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    size = lambda name: int(fields[name].split()[0]) * 1024
    return {"peak": size("VmHWM"), "own": size("RssAnon") + size("RssShmem")}
