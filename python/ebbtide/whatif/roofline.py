"""Roofline: how long a kernel takes on this machine, estimated from a calibration (measure.py).

Matrix products and convolutions by their flops, as torch.utils.flop_counter counts them, and a speed interpolated
between measured sizes; everything else by its bytes and the speed of a kernel of its class. An operator of no known
class counts as elementwise. Pure computation; `estimate()` remembers nothing.
"""

import math

import torch
from torch.utils.flop_counter import flop_registry

from .recorder import Tensor

# Classes of operators by name without "aten::" and without a trailing "_"; what is not here is told by its tags.
_CLASSES = {
    "fill": "zero fill zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full arange scalar_tensor",
    "copy": "clone copy cat stack _to_copy lift_fresh lift_fresh_copy constant_pad_nd slice_backward select_backward"
            " repeat expand_copy convolution_overrideable",
    "math": "exp log tanh sigmoid gelu gelu_backward silu silu_backward erf pow sin cos log1p expm1 mish softplus",
    "root": "sqrt rsqrt div reciprocal",
    "update": "addcdiv addcmul lerp",
    "sum": "sum", "mean": "mean amax amin max min argmax argmin any all norm linalg_vector_norm var var_mean std",
    "softmax": "_softmax _log_softmax logsumexp cumsum sort topk", "safe_softmax": "_safe_softmax",
    "softmax_backward": "_softmax_backward_data _log_softmax_backward_data",
    "layer_norm": "native_layer_norm native_group_norm _fused_rms_norm",
    "layer_norm_backward": "native_layer_norm_backward native_group_norm_backward _fused_rms_norm_backward",
    "batch_norm": "native_batch_norm _native_batch_norm_legit",
    "batch_norm_backward": "native_batch_norm_backward",
    "pool": "max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d",
    "gather": "embedding index_select gather index nll_loss_forward",
    "scatter": "embedding_dense_backward index_put index_add scatter scatter_add _unsafe_index_put"
               " max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward",
    "dropout": "native_dropout", "random": "bernoulli", "normal": "normal randn randn_like rand rand_like uniform"
    " randint randperm random exponential multinomial",
    "optimizer": "_fused_adam _fused_adamw _fused_sgd _fused_adagrad",
}
_CLASS_OF = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
# Batched products with a matrix product inside, and the attention kernels made of them.
_BATCHED = ("bmm", "baddbmm")
THIN_ROWS = 32  # a product with so few is bounded by reading its matrix, and measured as such
_ATTENTION = "_scaled_dot_product"


def _logs(values):
    return [math.log(max(1, value)) for value in values]


def _between(points, x):
    """Linear in the logarithms of both, flat outside what was measured. `points` are [x, y], in order of x."""
    x = math.log(max(1, x))
    known = [(math.log(at), math.log(max(value, 1e-12))) for at, value in points]
    if x <= known[0][0]:
        return math.exp(known[0][1])
    for (left, low), (right, high) in zip(known, known[1:]):
        if x <= right:
            return math.exp(low + (high - low) * (x - left) / (right - left))
    return math.exp(known[-1][1])


def _near(points, features):
    """The mean of what was measured, weighed by closeness in the logarithms of the features."""
    at, total, weights = _logs(features), 0.0, 0.0
    for known, value in points:
        distance = sum((a - b) ** 2 for a, b in zip(at, _logs(known)))
        weight = 1 / (distance + 0.05) ** 1.5
        total += weight * math.log(max(value, 1e-3))
        weights += weight
    return math.exp(total / weights)


def _in_grid(points, features):
    """Linear in logarithms between the corners of the cell around the features; flat outside the grid."""
    table = {tuple(at): math.log(max(value, 1e-3)) for at, value in points}
    result = {(): 1.0}  # corner so far -> its weight
    for axis, value in enumerate(features):
        sides = sorted({at[axis] for at in table})
        value = min(max(value, sides[0]), sides[-1])
        low = max(side for side in sides if side <= value)
        high = min(side for side in sides if side >= value)
        share = 0.0 if low == high else math.log(value / low) / math.log(high / low)
        corners = {}
        for corner, weight in result.items():
            for side, part in ((low, 1 - share), (high, share)):
                if part > 0:
                    corners[(*corner, side)] = corners.get((*corner, side), 0.0) + weight * part
        result = corners
    return math.exp(sum(weight * table[corner] for corner, weight in result.items()))


class Roofline:
    def __init__(self, calibration):
        self.grids, self.curves = calibration["grids"], calibration["curves"]
        self.precisions = calibration.get("precisions", {})
        self.overhead_ns = calibration["overhead_ns"]
        self.fault_ns_per_byte = calibration.get("fault_ns_per_byte", 0.0)

    def estimate(self, call):
        """Nanoseconds of a recorder.Call with all its tensors in memory."""
        return self.overhead_ns + self._work(call)

    def _work(self, call):
        name = call.func._schema.name.partition("::")[2]
        flops = _flops(call)
        if flops:
            speed = self._speed(name, call)
            if speed:
                return max(flops / speed, self._thin(name, call) or 0.5 * self._by_bytes("copy", call.bytes))
        if call.func.namespace == "aten" or name in _CLASS_OF:
            kind = _class_of(name, call)
            return self._by_bytes(kind, min(call.bytes, _gathered(call)) if kind == "gather" else call.bytes)
        return self._by_bytes("binary", call.bytes)

    def _thin(self, name, call):
        """Of a product with few rows, as one token has: what reading the matrix takes; 0 of all others."""
        matrices = [each for each in call.args if isinstance(each, Tensor)][-2:]
        kind = "thin_" + (str(matrices[0].dtype).removeprefix("torch.") if matrices else "")
        thin = len(matrices) == 2 and all(len(each.shape) == 2 for each in matrices)
        if name.startswith("convolution") or kind not in self.curves or not thin:
            return 0.0
        return self._by_bytes(kind, call.bytes) if matrices[0].shape[0] <= THIN_ROWS else 0.0

    def _by_bytes(self, kind, count):
        return count * _between(self.curves[kind], count)

    def _speed(self, name, call):
        """GFLOP/s, or None where nothing like it was measured."""
        tensors = [each for each in call.args if isinstance(each, Tensor)]
        precision = self.precisions.get(str(tensors[0].dtype).removeprefix("torch."), 1.0) if tensors else 1.0
        if name.startswith("convolution"):
            backward = name.startswith("convolution_backward")
            features = _convolution_features(call, backward)
            return features and precision * _near(self.grids[name.partition("_over")[0]], features)
        if name in _BATCHED:
            left, right = tensors[-2].shape, tensors[-1].shape
            sides = (left[-2], left[-1], right[-1])
            # Large matrices in a batch are as those alone.
            large = max(sides) > 512
            return precision * _in_grid(self.grids["mm" if large else "bmm"], sides)
        if name.startswith(_ATTENTION):
            query, key = tensors[-3 if "backward" not in name else 1].shape, tensors[1].shape
            return precision * _in_grid(self.grids["bmm"], (query[-2], query[-1], key[-2]))
        if len(tensors) >= 2 and len(tensors[-1].shape) == 2 and len(tensors[-2].shape) == 2:
            left, right = tensors[-2].shape, tensors[-1].shape
            return precision * _in_grid(self.grids["mm"], (left[0], left[1], right[1]))
        return None


class Rough:
    """Without a calibration: what an ordinary core does. Good enough to tell long kernels from short ones."""

    _NS_PER_BYTE, _FLOPS_PER_NS, _OVERHEAD_NS = 0.2, 50.0, 2000.0

    def estimate(self, call):
        return self._OVERHEAD_NS + max(call.bytes * self._NS_PER_BYTE, _flops(call) / self._FLOPS_PER_NS)


def _flops(call):
    formula = flop_registry.get(call.func) or flop_registry.get(call.func._overloadpacket)
    if formula is None:
        return 0
    try:
        return formula(*_shapes(call.args), **_shapes(call.kwargs), out_val=_shapes(call.out))
    except Exception:  # a form that the formula does not know: by its bytes
        return 0


def _shapes(value):
    if isinstance(value, Tensor):
        return torch.Size(value.shape)
    if isinstance(value, (tuple, list)):
        return tuple(_shapes(each) for each in value)
    if isinstance(value, dict):
        return {name: _shapes(each) for name, each in value.items()}
    return value


def _convolution_features(call, backward):
    """As measure.py gives them: taps a group, outputs a group, pixels, kernel, groups."""
    weight = call.args[2] if backward else call.args[1]
    pixels = call.args[0].shape[2:] if backward else call.out.shape[2:]
    groups = call.args[-2] if backward else call.args[-1]
    if not isinstance(weight, Tensor) or not isinstance(groups, int):
        return None
    outputs, channels, *kernel = weight.shape
    taps = math.prod(kernel)
    return [channels * taps, outputs // groups, math.prod(pixels), round(taps ** (1 / max(1, len(kernel)))), groups]


def _class_of(name, call):
    mutates = name.endswith("_")
    plain = name[:-1] if mutates else name
    kind = _CLASS_OF.get(plain) or _CLASS_OF.get(name)
    tensors = [each for each in call.args if isinstance(each, Tensor)]
    if kind == "copy":
        strided = any(not each.contiguous for each in tensors)
        return "strided" if strided and _rows_stay(tensors) else "transpose" if strided else "copy"
    if kind is not None:
        return "update" if mutates and kind in ("root",) else kind
    if mutates:
        return "inplace"
    if torch.Tag.nondeterministic_seeded in call.func.tags:
        return "random"
    return "unary" if len(tensors) <= 1 else "binary"


def _gathered(call):
    """What a lookup reads and writes: of its table only what it finds."""
    found = call.out
    return 2 * math.prod(found.shape) * found.dtype.itemsize if isinstance(found, Tensor) else call.bytes


def _rows_stay(tensors):
    """Whether a copy that reorders keeps rows together; matrices alone are transposed."""
    return any(len(each.shape) > 2 for each in tensors)
