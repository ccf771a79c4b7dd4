"""libebb_calls.so for programs that call enable() themselves: `ebb run` loads it before a program begins, this while it
runs. The libraries that are loaded call it from then on, and so do extension modules that are imported later; what
dlopen() brings in another way calls it from the next optimizer step on."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import os
import pathlib

# From this folder: as pip installs it, as `cmake --install` does, and as it is built.
_PLACES = ("lib", "../../..", "../../build/release/calls")

_stand_before = None


def bring_in() -> None:
    """Without the library, or with EBB_CALLS=0, nothing happens: what then fails is in the runtime's description."""
    global _stand_before
    is_there = _stand_before is not None or hasattr(ctypes.CDLL(None), "ebb_calls_register")
    if is_there or os.environ.get("EBB_CALLS") == "0":
        return
    here = pathlib.Path(__file__).resolve().parent
    library = next((path for place in _PLACES if (path := here / place / "libebb_calls.so").exists()), None)
    if library is None:
        return
    _stand_before = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL).ebb_calls_stand_before
    _stand_before.restype = ctypes.c_size_t
    _after_each_extension()
    stand_before()


def stand_before() -> None:
    """Again, for libraries that have been loaded since; cheap where there are none."""
    if _stand_before is not None:
        _stand_before()


def _after_each_extension() -> None:
    loader = importlib.machinery.ExtensionFileLoader
    create = loader.create_module

    @functools.wraps(create)
    def create_module(self, spec):
        module = create(self, spec)
        stand_before()
        return module

    loader.create_module = create_module
