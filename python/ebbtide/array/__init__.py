"""Arrays larger than memory, with operators combined into single passes: the Python array API standard 2024.12.

    import ebbtide.array as xp
    x = xp.uniform((10_000, 1_000), seed=1)
    y = xp.sum(xp.exp(2 * x + 1), axis=1)       # lazy: one pass over x when somebody asks
    numpy.from_dlpack(y)                        # no copy, as from_dlpack() of NumPy and PyTorch arrays here

    open_runtime(memory="4GiB", flash="/nvme")  # from now on arrays live in memory and flash together
    stats()                                     # caches of shapes and combined operators, passes run

Needs neither NumPy nor PyTorch. Not in it: complex numbers, and the extensions linalg and fft (docs/array.md).
"""

from __future__ import annotations

import math as _math

from .. import _array, _calls
from ._creation import *  # noqa: F403
from ._creation import _check_device  # noqa: F401
from ._dtypes import (
    bfloat16,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._dtypes import bool_ as bool
from ._functions import *  # noqa: F403
from ._manipulation import *  # noqa: F403
from ._manipulation import __array_namespace_info__
from ._object import Array

__array_api_version__ = "2024.12"
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi


def open_runtime(memory: str = "", flash: str = "", policy: str = "") -> None:
    """Arrays made from now on share this budget; what does not fit into it lies on flash. Sizes as in "1.5GiB"."""
    _calls.bring_in()
    _array.open_runtime(str(memory), str(flash), policy)


def close_runtime() -> None:
    """New arrays come from ordinary memory again; those that exist stay where they are."""
    _array.close_runtime()


def set_threads(threads: int) -> None:
    """Threads that a pass runs on; 0: as many as this process may use."""
    _array.set_threads(threads)


def use_opencl(device: str = "", elements_min: int = _array.OPENCL_ELEMENTS_MIN) -> str:
    """Elementwise passes of so many elements run on this OpenCL device (docs/opencl.md). Returns what that is.

    `device` is a part of its name or platform, or its number; empty: the first that is no CPU, or else the first.
    """
    return _array.use_opencl(str(device), elements_min)


def use_cpu() -> None:
    """All passes run on the CPU again."""
    _array.use_cpu()


def stats() -> dict:
    """Hits and misses of the caches, passes and operators that ran, there and on a device, forced evaluations."""
    return _array.stats()


def evaluate(*arrays) -> None:
    """Runs what is still only an expression."""
    for array in arrays:
        array.evaluate()
