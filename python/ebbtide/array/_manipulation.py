"""Shapes, joining, indexing functions, sets and inspection: the rest of the standard."""

from __future__ import annotations

import collections

from .. import _array
from . import _dtypes
from ._dtypes import ALL, DEFAULT_FLOAT, DEFAULT_INT, DType, isdtype, promote
from ._object import CPU, Array


def _joined_type(arrays):
    dtype = arrays[0].dtype
    for array in arrays[1:]:
        dtype = promote(dtype, array.dtype)
    return dtype.name


def concat(arrays, /, *, axis=0) -> Array:
    name = _joined_type(arrays)
    if axis is None:
        arrays, axis = [reshape(array, (-1,)) for array in arrays], 0
    return Array(_array.concatenate([array._a.astype(name) for array in arrays], axis))


def stack(arrays, /, *, axis=0) -> Array:
    name = _joined_type(arrays)
    return Array(_array.stack([array._a.astype(name) for array in arrays], axis))


def unstack(x, /, *, axis=0) -> tuple:
    if not x.ndim:
        raise ValueError("unstack: an array with 0 dimensions")
    return tuple(Array(x._a.select(axis, i)) for i in range(x.shape[axis]))


def broadcast_shapes(*shapes) -> tuple:
    result: list = []
    for shape in shapes:
        sizes = [1] * (len(result) - len(shape)) + list(shape)
        result = [1] * (len(sizes) - len(result)) + result
        for d, (a, b) in enumerate(zip(result, sizes, strict=True)):
            if a != b and 1 not in (a, b):
                raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
            result[d] = b if a == 1 else a
    return tuple(result)


def broadcast_to(x, /, shape) -> Array:
    return Array(x._a.broadcast_to(list(shape)))


def broadcast_arrays(*arrays) -> list:
    shape = broadcast_shapes(*(array.shape for array in arrays))
    return [broadcast_to(array, shape) for array in arrays]


def expand_dims(x, /, axis) -> Array:
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"expand_dims: axis {axis} of an array with {x.ndim} dimensions")
    return Array(x._a.expand_dims(axis))


def squeeze(x, /, axis) -> Array:
    return Array(x._a.squeeze([axis] if isinstance(axis, int) else list(axis)))


def flip(x, /, *, axis=None) -> Array:
    axes = list(range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return Array(x._a.flip(axes)) if axes else x


def permute_dims(x, /, axes) -> Array:
    return Array(x._a.permute(list(axes)))


def moveaxis(x, source, destination, /) -> Array:
    source, destination = ([axes] if isinstance(axes, int) else list(axes) for axes in (source, destination))
    for axis in source + destination:
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(f"moveaxis: axis {axis} of an array with {x.ndim} dimensions")
    source, destination = [a % x.ndim for a in source], [a % x.ndim for a in destination]
    order = [d for d in range(x.ndim) if d not in source]
    for to, of in sorted(zip(destination, source, strict=True)):
        order.insert(to, of)
    return permute_dims(x, order)


def reshape(x, /, shape, *, copy=None) -> Array:
    result = x._a.reshape(list(shape))
    if copy is False and result.pointer != x._a.pointer:
        raise ValueError("reshape: this shape needs a copy")
    return Array(result.copy() if copy else result)


def roll(x, /, shift, *, axis=None) -> Array:
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    inner = x._a
    for by, dim in zip(shifts, axes, strict=True):
        size = inner.shape[dim]
        if size:
            at = (size - by) % size
            inner = _array.concatenate([inner.slice(dim, at, None, 1), inner.slice(dim, None, at, 1)], dim)
    return Array(inner)


def repeat(x, repeats, /, *, axis=None) -> Array:
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    counts = repeats.tolist() if isinstance(repeats, Array) else repeats
    size = x.shape[axis]
    if isinstance(counts, list) and len(counts) == 1:
        counts = counts[0]
    counts = [counts] * size if isinstance(counts, int) else counts
    if len(counts) != size:
        raise ValueError(f"repeat: {len(counts)} counts for a dimension of size {size}")
    index = [i for i, count in enumerate(counts) for _ in range(count)]
    return Array(_array.take(x._a, _array.from_ints(index, [len(index)], "int64"), axis))


def tile(x, repetitions, /) -> Array:
    times = (1,) * (x.ndim - len(repetitions)) + tuple(repetitions)
    inner = x._a.reshape([1] * (len(times) - x.ndim) + list(x.shape))
    for dim, count in enumerate(times):
        if count != 1:
            inner = _array.concatenate([inner] * count, dim) if count else inner.slice(dim, 0, 0, 1)
    return Array(inner.copy() if inner is x._a else inner)


def take(x, indices, /, *, axis=None) -> Array:
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take: axis is needed for an array that has not one dimension")
        axis = 0
    flat = _array.take(x._a, indices._a.reshape([-1]), axis)
    axis %= x.ndim
    return Array(flat.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]]))


def take_along_axis(x, indices, /, *, axis=-1) -> Array:
    return Array(_array.take_along(x._a, indices._a, axis))


# ---- sets. NaN is unequal to itself, and each one is kept.

unique_all_result = collections.namedtuple("unique_all_result", "values indices inverse_indices counts")
unique_counts_result = collections.namedtuple("unique_counts_result", "values counts")
unique_inverse_result = collections.namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x, /) -> unique_all_result:
    flat = x._a.reshape([-1])
    size = flat.size
    order = _array.argsort(flat, 0, False)
    values = _array.take(flat, order, 0)
    first = _array.full([builtins_min(size, 1)], 1.0, "bool")
    differs = _array.binary("not_equal", values.slice(0, 1, None, 1), values.slice(0, None, -1, 1))
    starts = _array.concatenate([first, differs], 0)
    where = _array.nonzero(starts)[0]
    ends = _array.concatenate([where.slice(0, 1, None, 1), _array.full_int([builtins_min(size, 1)], size, "int64")], 0)
    group = _array.binary("subtract", _array.cumulative("sum", starts.astype("int64"), 0),
                          _array.scalar_int(1, "int64"))
    inverse = _array.scatter(_array.full_int([size], 0, "int64"), order, group, 0, False)
    return unique_all_result(Array(_array.take(values, where, 0)), Array(_array.take(order, where, 0)),
                             Array(inverse.reshape(list(x.shape))), Array(_array.binary("subtract", ends, where)))


builtins_min = __builtins__["min"] if isinstance(__builtins__, dict) else __builtins__.min


def unique_counts(x, /) -> unique_counts_result:
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x, /) -> unique_inverse_result:
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x, /) -> Array:
    return unique_all(x).values


# ---- types and inspection


def can_cast(from_, to, /) -> bool:
    dtype = from_.dtype if isinstance(from_, Array) else from_
    if dtype is to:
        return True
    try:
        return promote(dtype, to) is to
    except TypeError:
        return False


def result_type(*arrays_and_dtypes) -> DType:
    dtypes, scalars = [], []
    for one in arrays_and_dtypes:
        if isinstance(one, bool | int | float):
            scalars.append(one)
        else:
            dtypes.append(one.dtype if isinstance(one, Array) else one)
    if not dtypes:
        raise ValueError("result_type: at least one array or dtype is needed")
    dtype = dtypes[0]
    for other in dtypes[1:]:
        dtype = promote(dtype, other)
    for value in scalars:
        kinds = {bool: "b", int: "iuf", float: "f"}[type(value)]
        if dtype.kind not in kinds:
            raise TypeError(f"result_type: a Python {type(value).__name__} does not combine with {dtype.name}")
    return dtype


class _Info:
    def capabilities(self) -> dict:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self) -> str:
        return CPU

    def devices(self) -> list:
        return [CPU]

    def default_dtypes(self, *, device=None) -> dict:
        return {"real floating": DEFAULT_FLOAT, "complex floating": None, "integral": DEFAULT_INT,
                "indexing": _dtypes.int64}

    def dtypes(self, *, device=None, kind=None) -> dict:
        return {name: dtype for name, dtype in ALL.items()
                if name not in ("float16", "bfloat16") and (kind is None or isdtype(dtype, kind))}


def __array_namespace_info__() -> _Info:
    return _Info()
