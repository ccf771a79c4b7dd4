"""Ebbtide: train and run PyTorch models larger than memory, unmodified.

    import ebbtide
    ebbtide.enable(memory="1.5GiB", flash="/nvme")   # before the model; nothing else changes

From then on the storage of tensors on the `cpu` device lives in one address space over a memory budget and flash. It
works with every operator, because memory that is absent when it is touched is fetched by the touch.

    enable()   once per process, or again after disable() with the same options; tensors made before stay as they are
    disable()  new tensors are ordinary again; those that exist stay managed, wherever they are, until they are freed
    set_memory()  changes the budget while the program runs
    stats()    a dict of counters, in bytes and nanoseconds, and the seconds of every step; a table in notebooks
    adopt()    brings memory that exists already, such as a NumPy array, under the budget in place; release() ends it
    map_file()  a file as memory, read as it is touched
    step()     marks the end of an iteration; optimizers of torch.optim do it by themselves
    launch()   around kernels on GPU tensors that are neither operators nor Triton's
"""

from __future__ import annotations

import importlib
import sys
import typing

from . import _adoption, _files
from ._adoption import Adopted

if typing.TYPE_CHECKING:
    from .torch import disable, enable, enabled, launch, manages, set_memory, stats, step

__version__ = "0.1.0"
__all__ = ["Adopted", "Error", "adopt", "disable", "enable", "enabled", "launch", "manages", "map_file", "release",
           "set_memory", "stats", "step"]


class Error(RuntimeError):
    """What fails here, with the remedy."""


def __getattr__(name: str):
    """What needs torch is loaded when it is first asked for: ebbtide.array and adopt() do without."""
    if name not in __all__ and name not in ("_enable", "_enable_from_environment"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".torch", __name__), name)


def load_ipython_extension(shell) -> None:
    """`%load_ext ebbtide`: the line magic %ebb shows stats(), and %ebb memory=1.5GiB enables."""
    from . import _notebook

    _notebook.load_into(shell)


def _adopting_module():
    """Whose runtime adopts: that of enable(), or else that of ebbtide.array.open_runtime()."""
    for name in ("_C", "_array"):
        module = sys.modules.get(f"{__name__}.{name}")
        if module is not None and module.opened():
            return module
    raise Error("there is no memory budget yet: call ebbtide.enable() or ebbtide.array.open_runtime() first")


def adopt(array) -> Adopted:
    """Brings the memory of a NumPy array, a CPU tensor or a writable buffer under the budget, in place.

    Its address and its content stay, and nothing is copied; what does not fit into the budget is on flash from now on
    and comes back when it is touched. Whole blocks inside it are adopted (enable(block=...), 2 MiB by default); of a
    tensor all of its storage, of a view of NumPy's the view. It ends with release(array), with the returned object, or
    with the array: an array that is deleted takes its memory along. A bytearray or the like is kept alive until it is
    released.

    Raises Error where the memory cannot be adopted: shared, of a file, read-only, locked, adopted already.
    """
    return _adoption.adopt(array, _adopting_module(), Error)


def map_file(path, offset: int = 0, nbytes: int = 0) -> memoryview:
    """A file, or `nbytes` of it from `offset` on (a multiple of 4096; 0: all from there), as writable memory.

    It is read from the disk as it is touched, or announced by operators, and counts in the budget while in memory;
    it leaves without a write. What is written to it is the program's own: the file stays as it is. For
    `torch.frombuffer` and `numpy.frombuffer`. The file is unmapped with the last view of it.

    Raises Error where the file cannot be mapped: missing, open for writing, shorter than that.
    """
    return _files.map_file(path, offset, nbytes, _adopting_module())


def release(array) -> None:
    """Ends the adoption of an array, or of what adopt() returned: all of it comes home, and is plain memory again."""
    _adoption.release(array, Error)
