"""Property tests of `ebbtide.array` against NumPy, over random shapes, strides, types and broadcasts.

Each case has a number, which is its seed and part of its name: `pytest -k "case and 17"` repeats one.
"""

import math

import ebbtide.array as xp
import numpy as np
import pytest
import torch

CASES = range(24)
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
TOLERANCE = {"float16": 2e-3, "float32": 5e-6, "float64": 1e-13}


def random_numpy(rng, shape, dtype, low=-9, high=9):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return rng.integers(0 if kind == "u" else low, high + 1, shape).astype(dtype)
    return (rng.random(shape) * (high - low) + low).astype(dtype)


def random_view(rng, shape, dtype, **limits):
    """An array of NumPy and one of ours that share memory, often cut out of something larger or turned round."""
    steps = [int(rng.integers(1, 3)) for _ in shape]
    whole = np.asarray(random_numpy(rng, [size * step + 1 for size, step in zip(shape, steps)], dtype, **limits))
    key = []
    for size, step in zip(shape, steps):
        backwards = size * step - step, None, -step
        key.append(slice(*backwards) if rng.random() < 0.3 else slice(0, size * step, step))
    return whole[tuple(key)], xp.asarray(whole)[tuple(key)]


def random_shape(rng, rank_max=4, size_max=6):
    return tuple(int(size) for size in rng.integers(1, size_max + 1, rng.integers(0, rank_max + 1)))


def broadcast_of(rng, shape):
    """A shape that broadcasts to this one."""
    part = tuple(1 if rng.random() < 0.3 else size for size in shape)
    return part[int(rng.integers(0, len(part) + 1)):]


def check(ours, expected, dtype=None, exact=False):
    got = np.from_dlpack(ours)
    assert got.shape == expected.shape
    if dtype is not None:
        assert ours.dtype.name == dtype
    tolerance = 0 if exact or got.dtype.kind != "f" else TOLERANCE[got.dtype.name]
    np.testing.assert_allclose(got.astype(expected.dtype), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum",
                                  "less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_arithmetic(name, case):
    rng = np.random.default_rng(case)
    dtype = (INTEGERS + FLOATS)[case % 10]
    shape = random_shape(rng)
    a, x = random_view(rng, shape, dtype)
    b, y = random_view(rng, broadcast_of(rng, shape), dtype, **({"low": 1} if "i" in np.dtype(dtype).kind else {}))
    if name in ("floor_divide", "remainder"):
        b, y = b + (b == 0), y + xp.astype(y == 0, y.dtype)
    with np.errstate(all="ignore"):
        check(getattr(xp, name)(x, y), getattr(np, name)(a, b), exact=True)


@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh",
                                  "tanh", "atan", "asinh", "sqrt", "square", "abs", "floor", "ceil", "trunc", "round",
                                  "sign", "negative", "reciprocal"])
def test_functions(name, case):
    rng = np.random.default_rng(case)
    a, x = random_view(rng, random_shape(rng, 3, 40), FLOATS[case % 2], low=0.01 if name[:3] in ("log", "sqr") else -4,
                       high=4)
    reference = {"atan": "arctan", "asinh": "arcsinh"}.get(name, name)
    check(getattr(xp, name)(x), getattr(np, reference)(a), a.dtype.name)


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                                  "bitwise_right_shift"])
def test_operators_of_bits(name, case):
    rng = np.random.default_rng(case)
    dtype = (INTEGERS + ["bool"])[int(rng.integers(8 if "shift" in name else 9))]
    shape = random_shape(rng)
    a, x = random_view(rng, shape, dtype)
    b, y = random_view(rng, broadcast_of(rng, shape), dtype, low=0, high=6)
    check(getattr(xp, name)(x, y), getattr(np, name)(a, b), dtype, exact=True)


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("name", ["divide", "pow", "atan2", "hypot", "copysign", "nextafter", "logaddexp"])
def test_functions_of_two_operands(name, case):
    rng = np.random.default_rng(case)
    dtype = FLOATS[case % 2]
    shape = random_shape(rng)
    a, x = random_view(rng, shape, dtype, low=0.5, high=4)
    b, y = random_view(rng, broadcast_of(rng, shape), dtype, low=0.5, high=4)
    reference = {"atan2": "arctan2", "pow": "power"}.get(name, name)
    check(getattr(xp, name)(x, y), getattr(np, reference)(a, b), dtype)


@pytest.mark.parametrize(("name", "low", "high"), [("exp", -86, 86), ("log", 1e-3, 1e6), ("log2", 1e-3, 1e6),
                                                   ("log10", 1e-3, 1e6), ("sin", -1000, 1000), ("cos", -1000, 1000),
                                                   ("tanh", -10, 10), ("atan", -1e5, 1e5)])
def test_vector_functions_err_by_at_most_four_units_in_the_last_place(name, low, high):
    a = (np.random.default_rng(1).random(20000) * (high - low) + low).astype("float32")
    expected = getattr(np, {"atan": "arctan"}.get(name, name))(a.astype("float64"))
    got = np.from_dlpack(getattr(xp, name)(xp.asarray(a))).astype("float64")
    unit = np.spacing(np.abs(expected).astype("float32")).astype("float64")
    assert (np.abs(got - expected) / unit).max() <= 4


@pytest.mark.parametrize("case", CASES)
def test_expressions_are_combined_without_changing_a_bit(case):
    rng = np.random.default_rng(case)
    a, x = random_view(rng, (7, 130), FLOATS[case % 2])
    b, y = random_view(rng, (130,), FLOATS[case % 2])
    lazy = xp.where(x > y, (x + y) * 2 - xp.abs(x), xp.floor(x * y) / 4)
    assert lazy.is_lazy
    check(lazy, np.where(a > b, (a + b) * 2 - np.abs(a), np.floor(a * b) / 4), exact=True)


@pytest.mark.parametrize("case", CASES)
def test_reductions_over_any_axes(case):
    rng = np.random.default_rng(case)
    shape = random_shape(rng) or (3,)
    a, x = random_view(rng, shape, (FLOATS + INTEGERS)[case % 10])
    axes = tuple(d for d in range(len(shape)) if rng.random() < 0.5) or None
    keep = bool(rng.random() < 0.5)
    for name in ("sum", "prod", "max", "min", "any", "all"):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(a, axis=axes, keepdims=keep)
        check(getattr(xp, name)(x, axis=axes, keepdims=keep), np.asarray(expected))
    axis = int(rng.integers(0, len(shape)))
    for name in ("argmax", "argmin"):
        check(getattr(xp, name)(x, axis=axis), getattr(np, name)(a, axis=axis))
    if a.dtype.kind == "f":
        for name in ("mean", "std", "var"):
            check(getattr(xp, name)(x, axis=axes, keepdims=keep), np.asarray(getattr(np, name)(a, axis=axes,
                                                                                              keepdims=keep)))
    check(xp.cumulative_sum(x, axis=axis), np.cumulative_sum(a, axis=axis))


@pytest.mark.parametrize("case", CASES)
def test_shapes_and_indexing(case):
    rng = np.random.default_rng(case)
    shape = random_shape(rng) or (4, 3)
    a, x = random_view(rng, shape, "int32")
    axis = int(rng.integers(0, len(shape)))
    order = [int(d) for d in rng.permutation(len(shape))]
    check(xp.permute_dims(x, order), a.transpose(order))
    check(xp.reshape(xp.permute_dims(x, order), (-1,)), a.transpose(order).reshape(-1))
    check(xp.flip(x, axis=axis), np.flip(a, axis=axis))
    check(xp.roll(x, 2, axis=axis), np.roll(a, 2, axis=axis))
    check(xp.concat([x, x], axis=axis), np.concatenate([a, a], axis=axis))
    check(xp.stack([x, x], axis=axis), np.stack([a, a], axis=axis))
    check(xp.sort(x, axis=axis), np.sort(a, axis=axis))
    check(xp.argsort(x, axis=axis), np.argsort(a, axis=axis, kind="stable"))
    check(x[x > 0], a[a > 0])
    check(x[..., None, ::-1], a[..., None, ::-1])
    index = rng.integers(-shape[axis], shape[axis], 5)
    check(xp.take(x, xp.asarray(index), axis=axis), np.take(a, index, axis=axis))
    for ours, theirs in zip(xp.nonzero(x), np.nonzero(a)):
        check(ours, theirs)
    for ours, theirs in zip(xp.unique_all(x)[:1] + xp.unique_all(x)[2:], np.unique_all(a)[:1] + np.unique_all(a)[2:]):
        check(ours, theirs)


@pytest.mark.parametrize("case", CASES)
def test_assignment_through_views(case):
    rng = np.random.default_rng(case)
    a = random_numpy(rng, (6, 5), "float64")
    x = xp.asarray(a.copy())
    before = x * 2  # must keep the old values, though it is lazy
    kept = a * 2
    start, step = int(rng.integers(0, 5)), int(rng.integers(1, 3))
    a[start::step, ::-2] = 7
    x[start::step, ::-2] = 7
    a[a < 0] = -1
    x[x < 0] = -1
    row = random_numpy(rng, (5,), "float64")
    a[2] = row
    x[2, ...] = xp.asarray(row)
    check(x, a, exact=True)
    check(before, kept, exact=True)


@pytest.mark.parametrize("case", CASES)
def test_matmul(case):
    rng = np.random.default_rng(case)
    dtype = ["float32", "float64", "int64"][case % 3]
    n, m, k = (int(size) for size in rng.integers(1, 30, 3))
    a, x = random_view(rng, (3, n, m), dtype)
    b, y = random_view(rng, (m, k), dtype)
    np.testing.assert_allclose(np.from_dlpack(x @ y), a @ b, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(np.from_dlpack(y.T @ x.mT), b.T @ a.swapaxes(1, 2), rtol=1e-4, atol=1e-3)


def test_values_that_are_special():
    x, y = xp.asarray([0.0, -0.0, math.nan, 1.0]), xp.asarray([-0.0, math.nan, 0.0, math.nan])
    assert xp.cos(xp.zeros(3, dtype=xp.float64)).tolist() == [1, 1, 1]
    assert not xp.any(xp.signbit(xp.sign(x)))
    for name in ("maximum", "minimum", "add", "multiply"):
        assert xp.isnan(getattr(xp, name)(x, y)).tolist() == [False, True, True, True]


def test_matmul_of_single_rows_and_columns():
    rows = np.arange(6, dtype="float32").reshape(6, 1)
    column = np.arange(4, dtype="float32").reshape(4, 1)
    ours = xp.asarray(rows) @ xp.asarray(column).T  # both strides of the transposed column are 1
    np.testing.assert_array_equal(np.from_dlpack(ours), rows @ column.T)
    ours = xp.asarray(rows).T @ xp.asarray(np.asfortranarray(rows))
    np.testing.assert_array_equal(np.from_dlpack(ours), rows.T @ rows)


def test_memory_is_shared_with_numpy_and_torch():
    a = np.zeros(4, dtype="float32")
    x = xp.asarray(a)
    a[1] = 5
    x[2] = 6.0
    assert x.tolist() == [0, 5, 6, 0] and a.tolist() == [0, 5, 6, 0]
    t = torch.from_dlpack(x)
    t[0] = 1
    assert x.tolist() == [1, 5, 6, 0]
    assert xp.asarray(torch.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert xp.asarray(torch.ones(2, dtype=torch.bfloat16)).dtype is xp.bfloat16
    frozen = np.ones(2)
    frozen.flags.writeable = False
    y = xp.asarray(frozen)
    y[0] = 3.0
    assert frozen.tolist() == [1, 1]


def test_npy_files_are_those_of_numpy(tmp_path):
    a = np.arange(12, dtype="float32").reshape(3, 4)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "f.npy", np.asfortranarray(a))
    assert xp.load(tmp_path / "a.npy").tolist() == a.tolist() == xp.load(tmp_path / "f.npy").tolist()
    xp.save(tmp_path / "b.npy", xp.asarray(a)[::-1, ::2])
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), a[::-1, ::2])


def test_errors_come_before_anything_runs():
    x, y, small = xp.ones((3, 4)), xp.ones((2, 4)), xp.ones(2, dtype=xp.int8)
    passes = xp.stats()["passes"]
    for nonsense in (lambda: x + y, lambda: xp.sum(x, axis=2), lambda: x @ y, lambda: xp.reshape(x, (5, -1))):
        with pytest.raises(ValueError, match=r"\(3, 4\)|dimension|12|5"):
            nonsense()
    for nonsense in (lambda: x & x, lambda: x + 1j, lambda: x + (x > 0), lambda: small + 1.5):
        with pytest.raises(TypeError):
            nonsense()
    with pytest.raises(OverflowError):
        small + 1000
    with pytest.raises(IndexError):
        x[3]
    assert xp.stats()["passes"] == passes


def test_a_chain_is_one_pass():
    x = xp.uniform((1000,), seed=1).evaluate()
    passes = xp.stats()["passes"]
    y = xp.sum(xp.exp(x * 2 + 1) - x)
    assert xp.stats()["passes"] == passes
    value = np.from_dlpack(x).astype("float64")
    assert math.isclose(float(y), (np.exp(value * 2 + 1) - value).sum(), rel_tol=1e-6)
    assert xp.stats()["passes"] <= passes + 2  # and one to convert the sum


def test_softmax_and_convolution_agree_with_torch():
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    w = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(2))
    ours = xp.conv2d(xp.asarray(x), xp.asarray(w), stride=2, padding=1)
    torch.testing.assert_close(torch.from_dlpack(ours), torch.nn.functional.conv2d(x, w, stride=2, padding=1),
                               rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.from_dlpack(xp.softmax(xp.asarray(x), axis=1)), x.softmax(1))
