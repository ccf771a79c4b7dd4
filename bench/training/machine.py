"""Machine: one line that says what a measurement was made on, and the page cache emptied. Standard library only."""

import os
import pathlib
import platform


def _first_value(path, key):
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return ""


def describe_machine():
    """Processor, processors this process may use, memory, kernel, Python; never a name or a path of the machine."""
    processor = _first_value("/proc/cpuinfo", "model name") or platform.machine()
    memory_gib = int(_first_value("/proc/meminfo", "MemTotal").split()[0]) / 2**20
    return (f"{processor}, {len(os.sched_getaffinity(0))} CPUs, {memory_gib:.0f} GiB, "
            f"Linux {platform.release()}, Python {platform.python_version()}")


def drop_caches():
    """Writes back and empties the kernel's caches, so that all contenders find them alike; False without the rights."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    except OSError:
        return False
    return True
