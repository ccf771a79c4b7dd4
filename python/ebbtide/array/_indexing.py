"""Indexing as the standard has it: integers, slices, ellipsis, None, one boolean mask, integer arrays."""

from __future__ import annotations

import operator

from .. import _array


def _inner(key):
    """The _array.Array of an index that is an array, or None."""
    return getattr(key, "_a", None)


def _is_mask(key) -> bool:
    inner = _inner(key)
    return isinstance(key, bool) or (inner is not None and inner.dtype == "bool")


def _expanded(key, rank: int) -> list:
    """The parts of a key with the ellipsis written out."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can have only one ellipsis")
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if used > rank:
        raise IndexError(f"{used} indices for an array with {rank} dimensions")
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if at is None:
        at = len(parts)
        parts.append(Ellipsis)
    return [*parts[:at], *[slice(None)] * (rank - used), *parts[at + 1:]]


def _optional(value):
    return None if value is None else operator.index(value)


def _basic(array: _array.Array, parts: list) -> _array.Array:
    dim = 0
    for part in parts:
        if part is None:
            array = array.expand_dims(dim)
            dim += 1
        elif isinstance(part, slice):
            array = array.slice(dim, _optional(part.start), _optional(part.stop), _optional(part.step))
            dim += 1
        else:
            try:
                array = array.select(dim, operator.index(part))
            except TypeError:
                raise IndexError(f"{part!r} is no index; use integers, slices, None, ... or arrays") from None
            except ValueError as error:
                raise IndexError(str(error)) from None
    return array


def _is_integer_array(part) -> bool:
    inner = _inner(part)
    return inner is not None and inner.dtype != "bool" and len(inner.shape) > 0


def _flat_positions(shape: tuple, parts: list) -> tuple[_array.Array, tuple]:
    """Where the elements that integer arrays choose are in C order, and the shape of the choice."""
    indices = [_inner(part) or _array.scalar_int(operator.index(part), "int64") for part in parts]
    total = None
    for size, index in zip(shape, indices, strict=True):
        index = index.astype("int64")
        length = _array.scalar_int(size, "int64")
        outside = _array.binary("bitwise_or", _array.binary("less", index, _array.unary("negative", length)),
                                _array.binary("greater_equal", index, length))
        if _array.reduce("any", outside, [], False).item_int():
            raise IndexError(f"an index is out of the range of a dimension of size {size}")
        if size:
            index = _array.binary("remainder", index, length)
        total = index if total is None else _array.binary("add", _array.binary("multiply", total, length), index)
    return total.reshape([-1]), total.shape


def get(array: _array.Array, key) -> _array.Array:
    if _is_mask(key) and not isinstance(key, tuple):
        if isinstance(key, bool):
            return array.expand_dims(0).slice(0, 0, int(key), 1)
        mask = _inner(key)
        if not mask.shape:
            return array.expand_dims(0).slice(0, 0, mask.item_int(), 1)
        try:
            return _array.masked_select(array, mask)
        except ValueError as error:
            raise IndexError(str(error)) from None
    parts = _expanded(key, len(array.shape))
    if not any(_is_integer_array(part) for part in parts):
        return _basic(array, parts)
    arrays = [i for i, part in enumerate(parts) if _is_integer_array(part)]
    if len(arrays) == 1 and len(_inner(parts[arrays[0]]).shape) == 1:
        index = _inner(parts[arrays[0]])
        dim = sum(part is None or isinstance(part, slice) for part in parts[:arrays[0]])
        rest = [slice(None) if i == arrays[0] else part for i, part in enumerate(parts)]
        try:
            return _array.take(_basic(array, rest), index, dim)
        except ValueError as error:
            raise IndexError(str(error)) from None
    if any(part is None or isinstance(part, slice) for part in parts):
        raise IndexError("several integer arrays must index every dimension, without slices and None")
    positions, shape = _flat_positions(array.shape, parts)
    return _array.take(array.reshape([-1]), positions, 0).reshape(list(shape))


def put(array: _array.Array, key, value: _array.Array) -> None:
    if _is_mask(key) and not isinstance(key, tuple):
        if isinstance(key, bool):
            if key:
                array.assign(value)
            return
        mask = _inner(key)
        if not mask.shape:
            if mask.item_int():
                array.assign(value)
            return
        try:
            _array.masked_assign(array, mask, value)
        except ValueError as error:
            raise IndexError(str(error)) from None
        return
    parts = _expanded(key, len(array.shape))
    if not any(_is_integer_array(part) for part in parts):
        target = _basic(array, parts)
        if 0 not in target.shape:
            target.assign(value)
        return
    if any(part is None or isinstance(part, slice) for part in parts):
        raise IndexError("assignment through integer arrays needs one for every dimension")
    positions, shape = _flat_positions(array.shape, parts)
    flat = array.copy().reshape([-1])
    values = value.broadcast_to(list(shape)).reshape([-1])
    array.assign(_array.scatter(flat, positions, values, 0, False).reshape(list(array.shape)))
