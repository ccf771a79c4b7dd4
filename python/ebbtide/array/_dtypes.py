"""Element types, and how they meet Python's numbers: the type section of the Python array API standard 2024.12."""

from __future__ import annotations

import dataclasses

from .. import _array


class DType:
    """One element type; compared by identity, named as the standard names it."""

    __slots__ = ("bits", "kind", "name")

    def __init__(self, name: str, kind: str, bits: int):
        self.name, self.kind, self.bits = name, kind, bits

    def __repr__(self) -> str:
        return f"ebbtide.array.{self.name}"

    def __reduce__(self):
        return _named, (self.name,)


bool_ = DType("bool", "b", 8)
int8, int16, int32, int64 = (DType(f"int{bits}", "i", bits) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{bits}", "u", bits) for bits in (8, 16, 32, 64))
float16, bfloat16 = DType("float16", "f", 16), DType("bfloat16", "f", 16)
float32, float64 = DType("float32", "f", 32), DType("float64", "f", 64)
ALL = {d.name: d for d in (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32,
                           float64)}
DEFAULT_FLOAT, DEFAULT_INT = float32, int64

_KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
          "complex floating": "", "numeric": "iuf"}
_FLOATS = {"float16": (9.765625e-04, 65504.0, 6.103515625e-05), "bfloat16": (2.0**-7, 3.3895313892515355e38, 2.0**-126),
           "float32": (2.0**-23, 3.4028234663852886e38, 2.0**-126),
           "float64": (2.0**-52, 1.7976931348623157e308, 2.0**-1022)}


def _named(name: str) -> DType:
    return ALL[name]


def as_dtype(dtype) -> DType:
    if not isinstance(dtype, DType):
        raise TypeError(f"{dtype!r} is no dtype of ebbtide.array")
    return dtype


def promote(a: DType, b: DType) -> DType:
    """The type of two arrays together; TypeError for kinds that the standard does not mix."""
    if a is b:
        return a
    if "b" in (a.kind, b.kind) or (a.kind == "f") != (b.kind == "f"):
        raise TypeError(f"{a.name} and {b.name} do not promote; convert one with astype()")
    try:
        return ALL[_array.promote(a.name, b.name)]
    except ValueError as error:
        raise TypeError(str(error)) from None


def isdtype(dtype: DType, kind) -> bool:
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is no kind of dtype: {', '.join(_KINDS)}")
    return dtype.kind in _KINDS[kind] if _KINDS[kind] else False


@dataclasses.dataclass(frozen=True)
class finfo_object:  # noqa: N801, the standard's name
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclasses.dataclass(frozen=True)
class iinfo_object:  # noqa: N801, the standard's name
    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type, /) -> finfo_object:  # noqa: A002, the standard's name
    dtype = getattr(type, "dtype", type)
    if as_dtype(dtype).kind != "f":
        raise TypeError(f"{dtype.name} is not a floating type")
    eps, largest, normal = _FLOATS[dtype.name]
    return finfo_object(dtype.bits, eps, largest, -largest, normal, dtype)


def iinfo(type, /) -> iinfo_object:  # noqa: A002, the standard's name
    dtype = getattr(type, "dtype", type)
    if as_dtype(dtype).kind not in "iu":
        raise TypeError(f"{dtype.name} is not an integer type")
    if dtype.kind == "u":
        return iinfo_object(dtype.bits, 2**dtype.bits - 1, 0, dtype)
    return iinfo_object(dtype.bits, 2 ** (dtype.bits - 1) - 1, -(2 ** (dtype.bits - 1)), dtype)
