"""Calibration: how fast this machine computes, measured once and kept in a file.

The file is $XDG_CACHE_HOME/ebbtide/calibration.json, shared with `ebb calibrate`, which adds the speed of flash. What
is measured here is kept by processor, version of torch and number of threads. The file is replaced as a whole; who
comes last wins, and what another version of Ebbtide wrote is measured anew.
"""

import contextlib
import json
import os
import pathlib
import platform
import tempfile

import torch

VERSION = 1


def path():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(cache) / "ebbtide" / "calibration.json"


def _processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def key():
    threads = torch.get_num_threads()
    return f"{_processor()}, torch {torch.__version__}, {threads} thread{'s' if threads != 1 else ''}"


def _read():
    try:
        content = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"version": VERSION}
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return {"version": VERSION}
    return content


def load():
    """What is known of this machine with these threads, or None."""
    found = _read().get("torch", {})
    found = found.get(key()) if isinstance(found, dict) else None
    if not isinstance(found, dict) or "grids" not in found or "curves" not in found:
        return None
    return found if "thin_float32" in found["curves"] else None  # else of an ebb that did not measure it


def store(measured):
    """Keeps it; a cache that cannot be written is no error, it is measured again."""
    content = _read()
    content.setdefault("torch", {})[key()] = measured
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        os.replace(file.name, target)
    except OSError:
        pass


def show_progress(text):
    """One line on the terminal of `ebb`, while this machine is measured."""
    descriptor = os.environ.get("EBB_WHATIF_PROGRESS")
    if descriptor:
        with contextlib.suppress(OSError):
            os.write(int(descriptor), f"\r\033[Kmeasuring this machine: {text}".encode())


def get():
    """The calibration of this machine, measured now if it is not known."""
    known = load()
    if known is None:
        from . import measure

        known = measure.measure(show_progress)
        store(known)
    return known
