"""Making arrays: creation functions and data types of the standard, random numbers, files."""

from __future__ import annotations

import math

from .. import _array
from . import _dtypes
from ._dtypes import DEFAULT_FLOAT, DEFAULT_INT, as_dtype, bool_
from ._object import CPU, Array


def _sizes(shape) -> list:
    return [shape] if isinstance(shape, int) else [int(size) for size in shape]


def _check_device(device) -> None:
    if device not in (None, CPU):
        raise ValueError(f"there is no device {device!r}, only {CPU!r}")


def _kind_of(values) -> str:
    kinds = {next((kind for kind in (bool, int, float) if isinstance(value, kind)), None) for value in values}
    if None in kinds:
        raise TypeError("elements must be bool, int or float")
    return "f" if float in kinds else "i" if int in kinds else "b" if kinds else "f"


def _flatten(nested, shape, depth, out) -> None:
    if depth == len(shape):
        if isinstance(nested, list | tuple):
            raise ValueError("the lists are nested unevenly")
        out.append(nested.tolist() if isinstance(nested, Array) else nested)
        return
    if not isinstance(nested, list | tuple) or len(nested) != shape[depth]:
        raise ValueError("the lists are nested unevenly")
    for part in nested:
        _flatten(part, shape, depth + 1, out)


def _from_nested(obj, dtype):
    shape, probe = [], obj
    while isinstance(probe, list | tuple):
        shape.append(len(probe))
        probe = probe[0] if probe else None
        if probe is None:
            break
    values: list = []
    _flatten(obj, shape, 0, values)
    kind = _kind_of(values)
    if dtype is None:
        dtype = {"f": DEFAULT_FLOAT, "i": DEFAULT_INT, "b": bool_}[kind]
        if kind == "i" and any(value >= 2**63 for value in values):
            dtype = _dtypes.uint64
    if kind == "f" or dtype.kind == "f":
        return _array.from_floats([float(value) for value in values], shape, dtype.name)
    if dtype.kind in "iu":
        limits = _dtypes.iinfo(dtype)
        if any(not limits.min <= value <= limits.max for value in values):
            raise OverflowError(f"a value is out of the range of {dtype.name}")
    return _array.from_ints([v - 2**64 if v >= 2**63 else int(v) for v in values], shape, dtype.name)


def asarray(obj, /, *, dtype=None, device=None, copy=None) -> Array:
    _check_device(device)
    if dtype is not None:
        as_dtype(dtype)
    if isinstance(obj, Array):
        inner = obj._a
    elif hasattr(obj, "__dlpack__"):
        return _finish(from_dlpack(obj)._a, dtype, copy)
    else:
        if not isinstance(obj, list | tuple | bool | int | float) and hasattr(obj, "item"):
            obj = obj.item()  # a scalar of NumPy
        if copy is False:
            raise ValueError("Python numbers and lists cannot be shared without a copy")
        return Array(_from_nested(obj, dtype))
    return _finish(inner, dtype, copy)


def _finish(inner, dtype, copy) -> Array:
    if dtype is not None and dtype.name != inner.dtype:
        if copy is False:
            raise ValueError("another dtype needs a copy")
        return Array(inner.astype(dtype.name))
    return Array(inner.copy() if copy else inner)


def from_dlpack(x, /, *, device=None, copy=None) -> Array:
    _check_device(device)
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer of before version 1
        capsule = x.__dlpack__()
    inner = _array.from_dlpack(capsule)
    return Array(inner.copy() if copy else inner)


def full(shape, fill_value, *, dtype=None, device=None) -> Array:
    _check_device(device)
    if dtype is None:
        kind = _kind_of([fill_value])
        dtype = {"f": DEFAULT_FLOAT, "i": DEFAULT_INT, "b": bool_}[kind]
    if isinstance(fill_value, int) and as_dtype(dtype).kind in "iu":
        value = int(fill_value)
        return Array(_array.full_int(_sizes(shape), value - 2**64 if value >= 2**63 else value, dtype.name))
    return Array(_array.full(_sizes(shape), float(fill_value), as_dtype(dtype).name))


def empty(shape, *, dtype=None, device=None) -> Array:
    _check_device(device)
    return Array(_array.empty(_sizes(shape), as_dtype(dtype or DEFAULT_FLOAT).name))


def zeros(shape, *, dtype=None, device=None) -> Array:
    return full(shape, 0, dtype=dtype or DEFAULT_FLOAT, device=device)


def ones(shape, *, dtype=None, device=None) -> Array:
    return full(shape, 1, dtype=dtype or DEFAULT_FLOAT, device=device)


def empty_like(x, /, *, dtype=None, device=None) -> Array:
    return empty(x.shape, dtype=dtype or x.dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None) -> Array:
    return zeros(x.shape, dtype=dtype or x.dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None) -> Array:
    return ones(x.shape, dtype=dtype or x.dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None) -> Array:
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None) -> Array:
    _check_device(device)
    if stop is None:
        start, stop = 0, start
    whole = all(isinstance(value, int) for value in (start, stop, step))
    if dtype is None:
        dtype = DEFAULT_INT if whole else DEFAULT_FLOAT
    if whole:  # beyond what a double holds exactly
        count = max(0, -(-(stop - start) // step))
        steps = _array.arange(0, count, 1, "int64")
        scaled = _array.binary("multiply", steps, _array.scalar_int(step, "int64"))
        first = _array.scalar_int(start - 2**64 if start >= 2**63 else start, "int64")
        return Array(_array.binary("add", scaled, first).astype(as_dtype(dtype).name))
    count = max(0, math.ceil((stop - start) / step))
    values = _array.arange(start, start + step * count - step / 2 if count else start, step, "float64")
    return Array(values.astype(as_dtype(dtype).name))


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True) -> Array:
    _check_device(device)
    values = _array.linspace(float(start), float(stop), num, endpoint, "float64")
    return Array(values.astype(as_dtype(dtype or DEFAULT_FLOAT).name))


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None) -> Array:
    _check_device(device)
    return Array(_array.eye(n_rows, n_rows if n_cols is None else n_cols, k, as_dtype(dtype or DEFAULT_FLOAT).name))


def meshgrid(*arrays, indexing="xy") -> list:
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    if len({array.dtype for array in arrays}) > 1:
        raise ValueError("meshgrid: arrays of one dtype are needed")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[0], order[1] = 1, 0
    sizes = [0] * len(arrays)
    for array, dim in zip(arrays, order, strict=True):
        sizes[dim] = array.size
    result = []
    for array, dim in zip(arrays, order, strict=True):
        own = [1] * len(arrays)
        own[dim] = array.size
        result.append(Array(array._a.reshape(own).broadcast_to(sizes).copy()))
    return result


def _triangle(x, k, lower) -> Array:
    if x.ndim < 2:
        raise ValueError("tril and triu need two dimensions")
    rows = _array.arange(0, x.shape[-2], 1, "int64").reshape([-1, 1])
    columns = _array.arange(0, x.shape[-1], 1, "int64")
    edge = _array.binary("add", rows, _array.scalar_int(k, "int64"))
    keep = _array.binary("less_equal" if lower else "greater_equal", columns, edge)
    return Array(_array.where(keep, x._a, _array.scalar(0.0, x.dtype.name)))


def tril(x, /, *, k=0) -> Array:
    return _triangle(x, k, True)


def triu(x, /, *, k=0) -> Array:
    return _triangle(x, k, False)


def astype(x, dtype, /, *, copy=True, device=None) -> Array:
    _check_device(device)
    if x.dtype is as_dtype(dtype):
        return Array(x._a.copy()) if copy else x
    return Array(x._a.astype(dtype.name))


def uniform(shape, *, seed, stream=0, dtype=None) -> Array:
    """Numbers in [0, 1) that depend only on seed, stream and place (Philox4x32-10)."""
    return Array(_array.uniform(_sizes(shape), seed, stream, (dtype or DEFAULT_FLOAT).name))


def normal(shape, *, seed, stream=0, dtype=None) -> Array:
    return Array(_array.normal(_sizes(shape), seed, stream, (dtype or DEFAULT_FLOAT).name))


def integers(low, high, shape, *, seed, stream=0, dtype=None) -> Array:
    """In [low, high)."""
    return Array(_array.random_integers(low, high, _sizes(shape), seed, stream, (dtype or DEFAULT_INT).name))


def save(path, x) -> None:
    """Writes a .npy file."""
    _array.save_npy(str(path), x._a)


def load(path) -> Array:
    """Reads a .npy file."""
    return Array(_array.load_npy(str(path)))
