"""Elementwise, statistical, searching and linear-algebra functions of the standard."""

from __future__ import annotations

from .. import _array
from . import _dtypes
from ._dtypes import ALL, DEFAULT_INT, promote
from ._object import Array, binary, scalar, unary

_UNARY = {
    "floating": ("acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt "
                 "tan tanh").split(),
    "arithmetic": "abs ceil floor isfinite isinf isnan negative round sign square trunc signbit".split(),
}
_BINARY = {
    "floating": "atan2 copysign divide hypot logaddexp nextafter".split(),
    "arithmetic": ("add floor_divide greater greater_equal less less_equal maximum minimum multiply pow remainder "
                   "subtract").split(),
    "bits": "bitwise_and bitwise_or bitwise_xor".split(),
    "shift": "bitwise_left_shift bitwise_right_shift".split(),
    "any": "equal not_equal".split(),
}


def _checked_operands(name, a, b):
    if not isinstance(a, Array) and not isinstance(b, Array):
        raise TypeError(f"{name}: at least one operand must be an array")


def _make_unary(name, kinds):
    def function(x, /):
        return unary(name, kinds, x)

    function.__name__ = function.__qualname__ = name
    return function


def _make_binary(name, kinds):
    def function(x1, x2, /):
        _checked_operands(name, x1, x2)
        return binary(name, kinds, x1, x2)

    function.__name__ = function.__qualname__ = name
    return function


for _kinds, _names in _UNARY.items():
    globals().update({_name: _make_unary(_name, _kinds) for _name in _names})
for _kinds, _names in _BINARY.items():
    globals().update({_name: _make_binary(_name, _kinds) for _name in _names})


def signbit(x, /):
    return unary("signbit", "floating", x)


def positive(x, /):
    return +x


def real(x, /):
    if x.dtype.kind == "b":
        raise TypeError("real: bool is not supported")
    return x


conj = real


def bitwise_invert(x, /):
    return ~x


def _logical(name):
    def function(x1, x2, /):
        _checked_operands(name, x1, x2)
        for x in (x1, x2):
            if (x.dtype.kind if isinstance(x, Array) else type(x)) not in ("b", bool):
                raise TypeError(f"{name}: only bool is supported")
        return binary(name.replace("logical", "bitwise"), "bits", x1, x2)

    function.__name__ = name
    return function


logical_and, logical_or, logical_xor = _logical("logical_and"), _logical("logical_or"), _logical("logical_xor")


def logical_not(x, /):
    if x.dtype.kind != "b":
        raise TypeError("logical_not: only bool is supported")
    return unary("logical_not", "any", x)


def clip(x, /, min=None, max=None):
    def bound(limit):
        if isinstance(limit, Array):
            if promote(x.dtype, limit.dtype) is not x.dtype:
                raise TypeError(f"clip: a limit of {limit.dtype.name} for {x.dtype.name}")
            return limit._a
        if isinstance(limit, int) and x.dtype.kind in "iu":  # a limit beyond the type limits nothing
            info = _dtypes.iinfo(x.dtype)
            limit = info.min if limit < info.min else info.max if limit > info.max else limit
        return scalar(limit, x.dtype)

    result = x._a
    if x.dtype.kind == "b":
        raise TypeError("clip: bool is not supported")
    if min is not None:
        result = _array.binary("maximum", result, bound(min))
    if max is not None:
        result = _array.binary("minimum", result, bound(max))
    return Array(result.copy() if result is x._a else result)


def where(condition, x1, x2, /):
    if condition.dtype.kind != "b":
        raise TypeError("where: the condition must be bool")
    _checked_operands("where", x1, x2)
    a = x1._a if isinstance(x1, Array) else scalar(x1, x2.dtype)
    b = x2._a if isinstance(x2, Array) else scalar(x2, x1.dtype)
    promote(ALL[a.dtype], ALL[b.dtype])
    return Array(_array.where(condition._a, a, b))


# ---- statistics and searching


def _axes(axis, rank):
    if axis is None:
        return list(range(rank))
    return [axis] if isinstance(axis, int) else list(axis)


def _reduced(kind, x, axis, keepdims):
    axes = _axes(axis, x.ndim)
    if not axes and x.ndim:  # over no dimension at all: each element by itself
        wide = _array.reduce(kind, x._a.expand_dims(0), [0], False)
        return Array(wide)
    return Array(_array.reduce(kind, x._a, axes, keepdims))


def _check_numeric(name, x, kinds="iuf"):
    if x.dtype.kind not in kinds:
        raise TypeError(f"{name}: {x.dtype.name} is not supported")


def _accumulated(name, x, dtype):
    """The operand of a sum or a product in the type of its result, and that type."""
    if dtype is None:
        default = DEFAULT_INT if x.dtype.kind == "i" else _dtypes.uint64
        dtype = x.dtype if x.dtype.kind == "f" else default
    return (x if x.dtype is dtype else Array(x._a.astype(dtype.name))), dtype


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    _check_numeric("sum", x)
    operand, dtype = _accumulated("sum", x, dtype)
    return _as(_reduced("sum", operand, axis, keepdims), dtype)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    _check_numeric("prod", x)
    operand, dtype = _accumulated("prod", x, dtype)
    return _as(_reduced("prod", operand, axis, keepdims), dtype)


def _as(x, dtype):
    return x if x.dtype is dtype else Array(x._a.astype(dtype.name))


def max(x, /, *, axis=None, keepdims=False):
    _check_numeric("max", x)
    return _reduced("max", x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    _check_numeric("min", x)
    return _reduced("min", x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return _reduced("any", x, axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    return _reduced("all", x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return _reduced("sum", Array(x._a.astype("bool").astype("int64")), axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    _check_numeric("mean", x, "f")
    axes = _axes(axis, x.ndim)
    return Array(_array.mean(x._a, axes, keepdims)) if axes else Array(x._a.copy())


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    _check_numeric("var", x, "f")
    axes = _axes(axis, x.ndim)
    if not axes:  # one element each: 0, or nothing left to divide by
        zero = binary("subtract", "arithmetic", x, x)
        return zero if correction < 1 else binary("divide", "floating", zero, zero)
    return Array(_array.variance(x._a, axes, float(correction), keepdims))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return unary("sqrt", "floating", var(x, axis=axis, correction=correction, keepdims=keepdims))


def _cumulative(kind, x, axis, dtype, include_initial):
    _check_numeric(f"cumulative_{kind}", x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis is needed for an array that has not one dimension")
        axis = 0
    operand, dtype = _accumulated(kind, x, dtype)
    result = _array.cumulative(kind, operand._a, axis).astype(dtype.name)
    if include_initial:
        sizes = list(x.shape)
        sizes[axis] = 1
        result = _array.concatenate([_array.full(sizes, float(kind == "prod"), dtype.name), result], axis)
    return Array(result)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    return _cumulative("sum", x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    return _cumulative("prod", x, axis, dtype, include_initial)


def _arg(kind, x, axis, keepdims):
    _check_numeric(kind, x)
    return Array(_array.reduce(kind, x._a, _axes(axis, x.ndim), keepdims))


def argmax(x, /, *, axis=None, keepdims=False):
    return _arg("argmax", x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return _arg("argmin", x, axis, keepdims)


def nonzero(x, /):
    return tuple(Array(one) for one in _array.nonzero(x._a))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    values = x1._a if sorter is None else _array.take(x1._a, sorter._a, 0)
    return Array(_array.searchsorted(values, x2._a, side == "right"))


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return Array(_array.sort(x._a, axis, descending))


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return Array(_array.argsort(x._a, axis, descending))


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    parts = [part._a for part in (prepend, x, append) if part is not None]
    result = _array.concatenate(parts, axis) if len(parts) > 1 else x._a
    for _ in range(n):
        name = "not_equal" if x.dtype.kind == "b" else "subtract"
        result = _array.binary(name, result.slice(axis, 1, None, 1), result.slice(axis, None, -1, 1))
    return Array(result)


# ---- linear algebra, and what networks are made of


def matmul(x1, x2, /):
    promote(x1.dtype, x2.dtype)
    _check_numeric("matmul", x1)
    return x1 @ x2


def matrix_transpose(x, /):
    return x.mT


def vecdot(x1, x2, /, *, axis=-1):
    promote(x1.dtype, x2.dtype)
    _check_numeric("vecdot", x1)
    if not -builtins_min(x1.ndim, x2.ndim) <= axis < 0 or x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: shapes {x1.shape} and {x2.shape} do not fit along {axis}")
    product = binary("multiply", "arithmetic", x1, x2)
    return _as(_reduced("sum", product, axis, False), product.dtype)


builtins_min = __builtins__["min"] if isinstance(__builtins__, dict) else __builtins__.min


def tensordot(x1, x2, /, *, axes=2):
    promote(x1.dtype, x2.dtype)
    _check_numeric("tensordot", x1)
    if isinstance(axes, int):
        axes = (list(range(x1.ndim - axes, x1.ndim)), list(range(axes)))
    left, right = ([axis % x.ndim for axis in chosen] for chosen, x in zip(axes, (x1, x2), strict=True))
    if [x1.shape[a] for a in left] != [x2.shape[a] for a in right]:
        raise ValueError(f"tensordot: shapes {x1.shape} and {x2.shape} do not fit along {axes}")
    free_left = [d for d in range(x1.ndim) if d not in left]
    free_right = [d for d in range(x2.ndim) if d not in right]
    depth = 1
    for axis in left:
        depth *= x1.shape[axis]
    rows = columns = 1
    for d in free_left:
        rows *= x1.shape[d]
    for d in free_right:
        columns *= x2.shape[d]
    a = x1._a.permute(free_left + left).reshape([rows, depth])
    b = x2._a.permute(right + free_right).reshape([depth, columns])
    sizes = [x1.shape[d] for d in free_left] + [x2.shape[d] for d in free_right]
    return Array(_array.matmul(a, b).reshape(sizes))


def softmax(x, /, *, axis=-1):
    return Array(_array.softmax(x._a, axis))


def log_softmax(x, /, *, axis=-1):
    return Array(_array.log_softmax(x._a, axis))


def layer_norm(x, weight, bias, /, *, epsilon=1e-5):
    """Over the last dimension."""
    return Array(_array.layer_norm(x._a, weight._a, bias._a, epsilon))


def conv2d(x, weight, /, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of NCHW images with OIHW weights, float32."""
    return Array(_array.conv2d(x._a, weight._a, None if bias is None else bias._a, stride, padding, dilation, groups))


def vector_norm(x, /, *, axis=None, keepdims=False):
    """The Euclidean norm."""
    _check_numeric("vector_norm", x, "f")
    return Array(_array.norm(x._a, _axes(axis, x.ndim), keepdims))


def sigmoid(x, /):
    return unary("sigmoid", "floating", x)


def erf(x, /):
    return unary("erf", "floating", x)


def gelu(x, /):
    return Array(_array.gelu(x._a))


def relu(x, /):
    return binary("maximum", "arithmetic", x, 0)
