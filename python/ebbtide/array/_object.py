"""The array object of the standard, around ebbtide._array.Array."""

from __future__ import annotations

import enum
import operator

from .. import _array
from . import _dtypes, _indexing
from ._dtypes import ALL, DType, promote

CPU = "cpu"


def scalar(value, dtype: DType) -> _array.Array:
    """A Python number as an array of this type, or TypeError or OverflowError if the type cannot hold it."""
    if isinstance(value, bool):
        allowed = "biuf" if dtype.kind == "b" else "b"
        if dtype.kind not in allowed:
            raise TypeError(f"a Python bool does not combine with {dtype.name}")
    elif isinstance(value, int):
        if dtype.kind == "b":
            raise TypeError("a Python int does not combine with bool")
        if dtype.kind in "iu":
            limits = _dtypes.iinfo(dtype)
            if not limits.min <= value <= limits.max:
                raise OverflowError(f"{value} is out of the range of {dtype.name}")
            return _array.scalar_int(value - 2**64 if value >= 2**63 else value, dtype.name)
    elif isinstance(value, float):
        if dtype.kind != "f":
            raise TypeError(f"a Python float does not combine with {dtype.name}")
    else:
        raise TypeError(f"{type(value).__name__} does not combine with an array")
    return _array.scalar(float(value), dtype.name)


def both(a, b) -> tuple[_array.Array, _array.Array, DType]:
    """Two operands, at least one an Array, in their common type."""
    if not isinstance(a, Array):
        return scalar(a, b.dtype), b._a, b.dtype
    if not isinstance(b, Array):
        return a._a, scalar(b, a.dtype), a.dtype
    return a._a, b._a, promote(a.dtype, b.dtype)


_KINDS = {"arithmetic": "iuf", "floating": "f", "bits": "biu", "shift": "iu", "any": "biuf"}
_OPERATORS = {
    "add": ("add", "arithmetic"), "sub": ("subtract", "arithmetic"), "mul": ("multiply", "arithmetic"),
    "truediv": ("divide", "floating"), "floordiv": ("floor_divide", "arithmetic"), "mod": ("remainder", "arithmetic"),
    "pow": ("pow", "arithmetic"), "and": ("bitwise_and", "bits"), "or": ("bitwise_or", "bits"),
    "xor": ("bitwise_xor", "bits"), "lshift": ("bitwise_left_shift", "shift"),
    "rshift": ("bitwise_right_shift", "shift"), "lt": ("less", "arithmetic"), "le": ("less_equal", "arithmetic"),
    "gt": ("greater", "arithmetic"), "ge": ("greater_equal", "arithmetic"), "eq": ("equal", "any"),
    "ne": ("not_equal", "any"),
}


def binary(name: str, kinds: str, a, b) -> Array:
    left, right, dtype = both(a, b)
    if dtype.kind not in _KINDS[kinds]:
        raise TypeError(f"{name}: {dtype.name} is not supported")
    return Array(_array.binary(name, left, right))


def unary(name: str, kinds: str, a) -> Array:
    if not isinstance(a, Array):
        raise TypeError(f"{name}: expected an array, not {type(a).__name__}")
    if a.dtype.kind not in _KINDS[kinds]:
        raise TypeError(f"{name}: {a.dtype.name} is not supported")
    return Array(_array.unary(name, a._a))


class DLDeviceType(enum.IntEnum):
    CPU = 1


class Array:
    """An n-dimensional array whose elementwise operators are lazy and combined into passes.

    Made by the functions of ebbtide.array. Views share memory with what they were cut from.
    """

    __slots__ = ("__weakref__", "_a")

    def __init__(self, inner: _array.Array):
        self._a = inner

    dtype = property(lambda self: ALL[self._a.dtype])
    shape = property(lambda self: self._a.shape)
    ndim = property(lambda self: len(self._a.shape))
    size = property(lambda self: self._a.size)
    device = property(lambda self: CPU)

    @property
    def strides(self) -> tuple:
        """In elements."""
        return self._a.strides

    @property
    def is_lazy(self) -> bool:
        return self._a.is_lazy

    @property
    def T(self) -> Array:
        if self.ndim != 2:
            raise ValueError("T is for arrays of two dimensions; use permute_dims() or mT")
        return self.mT

    @property
    def mT(self) -> Array:
        if self.ndim < 2:
            raise ValueError("mT needs two dimensions")
        order = list(range(self.ndim))
        order[-1], order[-2] = order[-2], order[-1]
        return Array(self._a.permute(order))

    def evaluate(self) -> Array:
        self._a.evaluate()
        return self

    def to_device(self, device, /, *, stream=None) -> Array:
        if device != CPU or stream is not None:
            raise ValueError(f"there is only the device {CPU!r}, without streams")
        return self

    def tensor_along_dimension(self, index: int, dims) -> Array:
        """The `index`-th of the sub-arrays that span `dims`, a view."""
        return Array(self._a.tad(index, list(dims)))

    def tolist(self):
        values = self._a.to_floats() if self.dtype.kind == "f" else (
            self._a.to_unsigned() if self.dtype.kind == "u" else self._a.to_ints())
        if self.dtype.kind == "b":
            values = [bool(value) for value in values]
        for size in reversed(self.shape[1:]):
            values = [values[i:i + size] for i in range(0, len(values), size)] if size else [[]] * self.shape[0]
        return values if self.shape else values[0]

    def _item(self, kinds: str, to: str):
        if self.size != 1 or self.ndim != 0:
            raise TypeError(f"only an array with 0 dimensions converts to {to}, not one of shape {self.shape}")
        if self.dtype.kind not in kinds:
            raise TypeError(f"{self.dtype.name} does not convert to {to}")
        return self.tolist()

    def __bool__(self) -> bool:
        return bool(self._item("biuf", "bool"))

    def __int__(self) -> int:
        return int(self._item("biuf", "int"))

    def __index__(self) -> int:
        return self._item("iu", "an index")

    def __float__(self) -> float:
        return float(self._item("biuf", "float"))

    def __complex__(self) -> complex:
        return complex(self._item("biuf", "complex"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array with 0 dimensions has no length")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if self.size > 1000:
            return f"Array(shape={self.shape}, dtype={self.dtype.name})"
        return f"Array({self.tolist()!r}, dtype={self.dtype.name})"

    def __getitem__(self, key) -> Array:
        return Array(_indexing.get(self._a, key))

    def __setitem__(self, key, value) -> None:
        if isinstance(value, Array):
            if value.dtype is not self.dtype and promote(self.dtype, value.dtype) is not self.dtype:
                raise TypeError(f"{value.dtype.name} does not fit into {self.dtype.name}; convert with astype()")
            value = value._a
        else:
            value = scalar(value, self.dtype)
        _indexing.put(self._a, key, value)

    def __array_namespace__(self, /, *, api_version=None):
        import ebbtide.array as namespace

        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"version {api_version!r} of the array API is not supported")
        return namespace

    def __dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is not None:
            raise ValueError("memory of the CPU has no stream")
        if dl_device is not None and tuple(int(part) for part in dl_device) != (1, 0):
            raise BufferError("only memory of the CPU is exported")
        inner = self._a.copy() if copy else self._a
        return inner.to_dlpack(max_version is not None and max_version[0] >= 1, bool(copy))

    def __dlpack_device__(self):
        return DLDeviceType.CPU, 0

    def __neg__(self):
        return unary("negative", "arithmetic", self)

    def __pos__(self):
        if self.dtype.kind == "b":
            raise TypeError("positive: bool is not supported")
        return self

    def __abs__(self):
        return unary("abs", "arithmetic", self)

    def __invert__(self):
        return unary("bitwise_invert", "bits", self)

    def __matmul__(self, other):
        if not isinstance(other, Array):
            return NotImplemented
        promote(self.dtype, other.dtype)
        return Array(_array.matmul(self._a, other._a))

    def __imatmul__(self, other):
        result = self @ other
        return _in_place(self, result)

    __hash__ = None


def _in_place(target: Array, result: Array) -> Array:
    """`x += y` rebinds x to the expression: nothing is written until somebody asks for values."""
    if result.dtype is not target.dtype:
        raise TypeError(f"the result has type {result.dtype.name}, not {target.dtype.name}")
    if result.shape != target.shape:
        raise ValueError(f"the result has shape {result.shape}, not {target.shape}")
    target._a = result._a
    return target


def _add_operators() -> None:
    def forward(name, kinds):
        return lambda self, other: (binary(name, kinds, self, other)
                                    if isinstance(other, Array | int | float) else NotImplemented)

    def reflected(name, kinds):
        return lambda self, other: (binary(name, kinds, other, self)
                                    if isinstance(other, int | float) else NotImplemented)

    def in_place(apply):
        return lambda self, other: _in_place(self, apply(self, other))

    for short, (name, kinds) in _OPERATORS.items():
        setattr(Array, f"__{short}__", forward(name, kinds))
        if short not in ("lt", "le", "gt", "ge", "eq", "ne"):
            setattr(Array, f"__r{short}__", reflected(name, kinds))
            plain = getattr(operator, short + "_" if short in ("and", "or") else short)
            setattr(Array, f"__i{short}__", in_place(plain))


_add_operators()
