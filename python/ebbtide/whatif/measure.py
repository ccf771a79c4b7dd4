"""Measure: the speed of this machine's kernels, as tables that roofline.py interpolates.

Two kinds of tables. Grids: GFLOP/s of matrix products by (m, k, n), and of convolutions by their channels and pixels.
Curves: nanoseconds per byte by bytes, for kernels that memory bounds; a byte is counted as recorder.Call.bytes does.
All in memory that is there: while measuring, malloc gives nothing back, so no page faults. What a fault costs is a
number of its own.

Numbers are those of good turns among many, which is what the machine can do when nothing else runs.
"""

import contextlib
import ctypes
import itertools
import math
import time

import torch

aten = torch.ops.aten

_TURN_NS = 400_000  # long enough that the clock does not matter, short enough that some are undisturbed
_TURNS_MIN = 10
_PROBE_NS, _PROBE_NS_MAX = 16_000_000, 100_000_000
# Inputs of one kernel take turns, so that caches do not help more than in a program: as many bytes of them, at most,
# for large tensors and for others.
_ROTATION_BYTES, _ROTATION_BYTES_SMALL = 1 << 30, 256 << 20
SIZES = (64 << 10, 1 << 20, 16 << 20, 64 << 20)
_LARGE_BYTES = 64 << 20
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def _turns_ns(function):
    """Nanoseconds of one call of function(i), by turns, in order of size."""
    # A thread alone is measured by the processor time it takes, which other programs do not lengthen.
    clock = time.thread_time_ns if torch.get_num_threads() == 1 else time.perf_counter_ns
    function(0)
    begin = clock()
    function(1)
    calls = max(1, min(1000, _TURN_NS // max(1, clock() - begin)))
    turns, spent, index = [], 0, 2
    while spent < _PROBE_NS or (len(turns) < _TURNS_MIN and spent < _PROBE_NS_MAX):
        begin = clock()
        for i in range(index, index + calls):
            function(i)
        taken = max(1, clock() - begin)
        turns.append(taken / calls)
        spent += taken
        index += calls
    return sorted(turns)


def _best_ns(function):
    """The least: one of many short turns other programs miss."""
    return _turns_ns(function)[0]


def _usual_ns(function):
    """The lower quartile: where caches decide, the least would be luck. But threads that wait for each other are held
    up by every other program, and then the least is the only turn that shows the kernel."""
    turns = _turns_ns(function)
    return turns[len(turns) // 4] if torch.get_num_threads() == 1 else turns[0]


def _settle(points):
    """Takes back what other programs did to one size: a byte of a smaller tensor is hardly dearer than of a larger."""
    for i in reversed(range(len(points) - 1)):
        points[i][1] = min(points[i][1], 1.5 * points[i + 1][1])


@contextlib.contextmanager
def _memory_stays():
    """malloc keeps what is freed, so that kernels do not meet fresh pages."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    except (OSError, AttributeError):
        libc = None
    try:
        yield
    finally:
        if libc is not None:
            libc.mallopt(_M_MMAP_MAX, 65536)
            libc.mallopt(_M_TRIM_THRESHOLD, 128 << 10)
            libc.malloc_trim(0)


# Grids


def _matrix_product(m, k, n, batch=None, dtype=torch.float32):
    lead = () if batch is None else (batch,)
    sets = max(1, min(4, (64 << 20) // max(1, 4 * k * (m + n) * (batch or 1))))
    left = [torch.randn(*lead, m, k).to(dtype) for _ in range(sets)]
    right = [torch.randn(*lead, k, n).to(dtype) for _ in range(sets)]
    product = torch.mm if batch is None else torch.bmm
    ns = _best_ns(lambda i: product(left[i % sets], right[i % sets]))
    return 2 * m * k * n * (batch or 1) / ns


def _convolution(channels, outputs, kernel, side, stride=1, groups=1, batch=4):
    image = torch.randn(batch, channels, side, side)
    weight = torch.randn(outputs, channels // groups, kernel, kernel)
    pads = [kernel // 2, kernel // 2]
    rest = ([stride, stride], pads, [1, 1], False, [0, 0], groups)
    out = aten.convolution(image, weight, None, *rest)
    flops = 2 * out.numel() * (channels // groups) * kernel * kernel
    forward = flops / _best_ns(lambda i: aten.convolution(image, weight, None, *rest))
    gradient = torch.randn_like(out)
    backward = 2 * flops / _best_ns(lambda i: aten.convolution_backward(
        gradient, image, weight, [0], *rest, [True, True, False]))
    return forward, backward


MATRIX_SIDES = (32, 256, 2048)
BATCHED_SIDES = (64, 512)
# Channels in, channels out, kernel, pixels a side, stride, groups.
CONVOLUTIONS = ((3, 64, 7, 224, 2, 1), (64, 64, 1, 56, 1, 1), (64, 256, 1, 56, 1, 1), (256, 1024, 1, 14, 1, 1),
                (2048, 512, 1, 7, 1, 1), (64, 64, 3, 56, 1, 1), (256, 256, 3, 14, 1, 1), (512, 512, 3, 7, 1, 1),
                (128, 128, 3, 28, 1, 128))


def _grids(progress):
    grids = {"mm": [], "bmm": [], "convolution": [], "convolution_backward": []}
    progress("matrix products")
    for m, k, n in itertools.product(MATRIX_SIDES, repeat=3):
        grids["mm"].append([[m, k, n], _matrix_product(m, k, n)])
    for m, k, n in itertools.product(BATCHED_SIDES, repeat=3):
        grids["bmm"].append([[m, k, n], _matrix_product(m, k, n, batch=8)])
    progress("convolutions")
    for case in CONVOLUTIONS:
        forward, backward = _convolution(*case)
        channels, outputs, kernel, side, stride, groups = case
        features = [channels // groups * kernel * kernel, outputs // groups, (side // stride) ** 2, kernel, groups]
        grids["convolution"].append([features, forward])
        grids["convolution_backward"].append([features, backward])
    return grids


def _faster(grids, again):
    """The better of two measurements, point by point."""
    return {name: [[features, max(rate, other)] for (features, rate), (_, other) in zip(points, again[name])]
            for name, points in grids.items()}


def _precisions():
    """Speed of matrix products in other types, as a share of float32."""
    base = _matrix_product(512, 512, 512)
    return {str(dtype).removeprefix("torch."): _matrix_product(512, 512, 512, dtype=dtype) / base
            for dtype in (torch.bfloat16, torch.float16, torch.float64)}


# Curves


def _tables(width, rows):
    return torch.randn(rows, width)


def _layer_norm(a):
    return aten.native_layer_norm(a, [a.shape[-1]], None, None, 1e-5)


def _images(a):
    return a.view(4, -1, 32, 32) if a.numel() >= 4096 else a.view(1, 1, -1, 32)


def _kernels():
    """Name, function(a, b) of two [rows, 512] tables, and bytes in units of one table."""
    indices = {}

    def rows_of(a):
        if a.shape[0] not in indices:
            indices[a.shape[0]] = torch.randint(0, a.shape[0], (a.shape[0],))
        return indices[a.shape[0]]

    def batch_norm(a):
        image = _images(a)
        ones = torch.ones(image.shape[1])
        return aten.native_batch_norm(image, ones, ones, ones.clone(), ones.clone(), True, 0.1, 1e-5)

    def batch_norm_backward(a, b):
        image, ones = _images(a), torch.ones(_images(a).shape[1])
        return aten.native_batch_norm_backward(_images(b), image, ones, ones, ones, ones, ones, True, 1e-5,
                                               [True, True, True])

    def layer_norm_backward(a, b):
        ones, width = torch.ones(a.shape[0], 1), torch.ones(a.shape[-1])
        return aten.native_layer_norm_backward(b, a, [a.shape[-1]], ones, ones, width, None, [True, True, False])

    return (
        ("fill", lambda a, b: a.zero_(), 1), ("copy", lambda a, b: a.clone(), 2),
        ("strided", lambda a, b: a.view(-1, 8, 4, 128).transpose(1, 2).contiguous(), 2),
        ("transpose", lambda a, b: a.t().contiguous(), 2),
        ("unary", lambda a, b: torch.relu(a), 2), ("binary", lambda a, b: a + b, 3),
        ("inplace", lambda a, b: a.add_(b, alpha=1e-6), 3), ("update", lambda a, b: a.addcdiv_(b, b, value=1e-6), 3),
        ("root", lambda a, b: torch.sqrt(b), 2), ("math", lambda a, b: torch.tanh(a), 2),
        ("random", lambda a, b: b.bernoulli_(0.5), 1), ("normal", lambda a, b: b.normal_(), 1),
        ("dropout", lambda a, b: aten.native_dropout(a, 0.1, True), 2.25),
        ("sum", lambda a, b: a.sum(0), 1), ("mean", lambda a, b: a.mean(1), 1),
        ("softmax", lambda a, b: torch.softmax(a, -1), 2),
        ("safe_softmax", lambda a, b: aten._safe_softmax(a, -1), 2),
        ("softmax_backward", lambda a, b: aten._softmax_backward_data(a, b, -1, torch.float32), 3),
        ("layer_norm", lambda a, b: _layer_norm(a), 2), ("layer_norm_backward", layer_norm_backward, 3),
        ("batch_norm", lambda a, b: batch_norm(a), 2), ("batch_norm_backward", batch_norm_backward, 3),
        ("pool", lambda a, b: aten.max_pool2d_with_indices(_images(a), [3, 3], [2, 2], [1, 1]), 1.75),
        ("gather", lambda a, b: a.index_select(0, rows_of(a)), 2),
        ("scatter", lambda a, b: aten.embedding_dense_backward(a, rows_of(a), a.shape[0], -1, False), 2))


def _curves(progress):
    width = 512
    kernels = _kernels()
    curves = {name: [] for name, _, _ in kernels}
    for size in SIZES:
        progress(f"kernels on {size / 2**20:.3g} MiB")
        rows = size // (4 * width)
        bytes_max = _ROTATION_BYTES if size >= _LARGE_BYTES else _ROTATION_BYTES_SMALL
        sets = max(1, min(64, bytes_max // (2 * size)))
        left = [_tables(width, rows) for _ in range(sets)]
        right = [_tables(width, rows).abs_().add_(1) for _ in range(sets)]
        for name, function, tables in kernels:
            ns = _usual_ns(lambda i: function(left[i % sets], right[i % sets]))  # noqa: B023
            curves[name].append([tables * size, ns / (tables * size)])
    for points in curves.values():
        _settle(points)
    return curves


def _optimizers():
    """The fused optimizer, by bytes of what it reads and writes."""
    points = []
    for size in SIZES[1:]:
        tensors = [torch.rand(size // 4) for _ in range(4)]
        steps = [torch.tensor(1.0)]
        lists = [[each] for each in tensors]
        ns = _usual_ns(lambda i: torch._fused_adamw_(  # noqa: B023
            *lists, [], steps, lr=1e-9, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False,  # noqa: B023
            maximize=False))
        points.append([8 * size, ns / (8 * size)])
    return points


def _thin_products():
    """Products of a row and a matrix, by type and bytes of the matrix, each of which is used once in a long time."""
    width, curves = 2048, {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        row, points = torch.ones(1, width, dtype=dtype), []
        matrices = torch.ones(_ROTATION_BYTES // (width * dtype.itemsize), width, dtype=dtype)
        for size in SIZES[1:]:
            parts = matrices.split(size // (width * dtype.itemsize))
            ns = _usual_ns(lambda i: torch.mm(row, parts[i % len(parts)].t()))  # noqa: B023
            points.append([size, ns / size])
        _settle(points)
        curves["thin_" + str(dtype).removeprefix("torch.")] = points
    return curves


def _better(curves, again):
    return {name: [[size, min(ns, other)] for (size, ns), (_, other) in zip(points, again[name])]
            for name, points in curves.items()}


def _overhead_ns():
    """What an operator costs besides its work, forward or backward."""
    weight = torch.zeros(8, requires_grad=True)
    length = 50

    def chain(_):
        value = weight
        for _ in range(length):
            value = value + weight
        value.sum().backward()
        weight.grad = None

    return _usual_ns(chain) / (2.5 * length)  # forward, and backward with a sum of gradients now and then


def _fault_ns_per_byte():
    """What memory that comes fresh from the kernel costs besides being written, several pieces being held."""
    size, held = 64 << 20, [None] * 4

    def take(i):
        held[i % len(held)] = None
        held[i % len(held)] = torch.empty(size, dtype=torch.uint8).zero_()

    fresh = _usual_ns(take)
    held = [each for each in held if each is not None]  # a busy machine takes few turns
    return max(0.0, (fresh - _usual_ns(lambda i: held[i % len(held)].zero_())) / size)


def measure(progress=lambda text: None):
    """All tables of this machine, with torch's present number of threads."""
    begin = time.perf_counter()
    progress("page faults")
    fault = _fault_ns_per_byte()
    with torch.no_grad(), _memory_stays():
        grids = _grids(progress)
        precisions = _precisions()
        curves = _curves(progress)
        progress("products with one row")
        thin = _thin_products()
        progress("optimizers")
        curves["optimizer"] = _optimizers()
        # A shared machine can be half as fast for seconds: products are measured at the beginning and at the end.
        grids = _faster(grids, _grids(progress))
        curves.update(_better(thin, _thin_products()))
    with torch.inference_mode(False), torch.enable_grad():  # the program may have switched it off
        overhead = _overhead_ns()
    return {"grids": grids, "curves": curves, "precisions": precisions, "overhead_ns": overhead,
            "fault_ns_per_byte": fault, "seconds": round(time.perf_counter() - begin, 1),
            "measured": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "matrix_gflops": round(max(value for _, value in grids["mm"]), 1),
            "copy_gbps": round(1 / math.exp(sum(math.log(v) for _, v in curves["copy"][-2:]) / 2), 2)}
