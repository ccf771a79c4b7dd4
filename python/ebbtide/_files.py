"""map_file(): a file as memory that is read as it is touched, within the budget."""

from __future__ import annotations

import ctypes
import os
import weakref


def map_file(path, offset: int, nbytes: int, module) -> memoryview:
    address, size = module.map_file(os.fspath(path), offset, nbytes)
    memory = (ctypes.c_ubyte * size).from_address(address)
    # Every view of it keeps `memory`; the last one to go unmaps the file.
    weakref.finalize(memory, module.unmap_file, address, size).atexit = False
    return memoryview(memory).cast("B")
