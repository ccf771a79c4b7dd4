"""Answers: what a program without data gets when it asks for data.

A fake tensor has a shape and no content. Where a program reads one (`.item()`, `if tensor`, `.numpy()`) or the shape of
a result depends on one (`nonzero`), it gets something plausible here: zeros, `True` from all(), and for shapes the
largest that is possible. Small tensors that were made from Python values, and small random integers, are known and
answered truly. Every kind of question is noted, for the report.

Invariant: nothing here raises because data are missing, and nothing reads or writes the memory behind a fake tensor.
"""

import numpy
import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._mode_utils import no_dispatch

aten = torch.ops.aten

# Tensors of Python values up to this size keep their content: lengths, labels and masks that programs branch on.
_KNOWN_ELEMENTS_MAX = 16384

_TRUE = "_ebb_true"  # marks what all() returned: checks such as isfinite(x).all() are meant to pass

SCALAR = aten._local_scalar_dense.default


class Notes:
    """What was answered without being known, and what was left out: texts with how often each occurred."""

    def __init__(self):
        self.counts = {}

    def add(self, text):
        self.counts[text] = self.counts.get(text, 0) + 1


def mark(func, out):
    """Remembers of a result what answers later need."""
    if func in (aten.all.default, aten.all.dim, aten.all.dims) and isinstance(out, FakeTensor):
        setattr(out, _TRUE, True)


def scalar(tensor, notes):
    """The value of a tensor with one element."""
    known = tensor.constant if isinstance(tensor, FakeTensor) else tensor
    if known is not None:
        with no_dispatch():
            return known.item()
    notes.add("values read by the program (.item(), float(), if) are 0, or True of all()")
    if tensor.dtype == torch.bool:
        return getattr(tensor, _TRUE, False)
    return complex(0) if tensor.dtype.is_complex else 0.0 if tensor.dtype.is_floating_point else 0


def _shaped(like, shape, dtype=torch.int64):
    return torch.empty(shape, dtype=dtype, device=like.device)


def _unique(tensor, sorted=True, return_inverse=False, return_counts=False):
    rows = tensor.numel()
    return (tensor.new_empty(rows), _shaped(tensor, tensor.shape if return_inverse else 0),
            _shaped(tensor, rows if return_counts else 0))


def _unique_dim(tensor, dim, sorted=True, return_inverse=False, return_counts=False):
    rows = tensor.shape[dim]
    return (torch.empty_like(tensor), _shaped(tensor, rows if return_inverse else 0),
            _shaped(tensor, rows if return_counts else 0))


def _index(tensor, indices):
    """Boolean masks choose everything."""
    masks = [each for each in indices if each is not None and each.dtype in (torch.bool, torch.uint8)]
    if len(masks) != 1 or len([each for each in indices if each is not None]) != 1:
        raise DynamicOutputShapeException(aten.index.Tensor)
    at, mask = next((i, each) for i, each in enumerate(indices) if each is not None)
    return tensor.new_empty((*tensor.shape[:at], mask.numel(), *tensor.shape[at + mask.dim():]))


_LARGEST = {
    aten.nonzero.default: lambda tensor: _shaped(tensor, (tensor.numel(), tensor.dim())),
    aten.masked_select.default: lambda tensor, mask: tensor.new_empty(
        torch.broadcast_shapes(tensor.shape, mask.shape).numel()),
    aten._unique2.default: _unique,
    aten.unique_dim.default: _unique_dim,
    aten.unique_consecutive.default: lambda tensor, return_inverse=False, return_counts=False, dim=None: _unique(
        tensor, True, return_inverse, return_counts),
    aten.repeat_interleave.Tensor: lambda repeats, output_size=None: _shaped(repeats, output_size or repeats.numel()),
    aten.bincount.default: lambda tensor, weights=None, minlength=0: _shaped(
        tensor, max(minlength, 1), torch.float64 if weights is not None else torch.int64),
    aten.index.Tensor: _index,
}
_COMPARISONS = (aten.equal.default, aten.allclose.default)


# Integers drawn at random are made for use as positions, which must fit each other; so small ones are really drawn.
_DRAWN = (aten.randint.default, aten.randint.low, aten.randint.generator, aten.randint.low_generator,
          aten.randperm.default, aten.randperm.generator)


def _draw(func, args, kwargs, out):
    if out.numel() > _KNOWN_ELEMENTS_MAX or out.fake_device.type != "cpu":
        return out
    mode = out.fake_mode
    with no_dispatch():
        real = func(*args, **kwargs)
    return mode.fake_tensor_converter.from_real_tensor(mode, real, make_constant=True)


def call(func, args, kwargs, notes):
    """What `func` returns for fake tensors."""
    try:
        out = func(*args, **kwargs)
        return _draw(func, args, kwargs, out) if func in _DRAWN else out
    except DataDependentOutputException:
        if func not in _COMPARISONS:
            raise
        notes.add("comparisons of whole tensors (equal, allclose) are True")
        return True
    except DynamicOutputShapeException:
        if func not in _LARGEST:
            raise
        notes.add("shapes that depend on data (nonzero, masks, unique) are the largest possible")
        return _LARGEST[func](*args, **kwargs)


def _known(tensor):
    return tensor.constant if isinstance(tensor, FakeTensor) and not tensor.requires_grad else None


def install(notes):
    """Gives FakeTensor the methods by which Python code reads content."""
    fake_tensor.CONSTANT_NUMEL_LIMIT = _KNOWN_ELEMENTS_MAX

    def to_numpy(self, *, force=False):
        known = _known(self)
        if known is not None:
            with no_dispatch():
                return known.numpy().copy()
        notes.add("arrays made of tensors (.numpy()) hold zeros")
        dtype = torch.float32 if self.dtype == torch.bfloat16 else self.dtype
        return numpy.zeros(tuple(self.shape), dtype=str(dtype).removeprefix("torch."))

    def to_array(self, dtype=None, copy=None):
        return to_numpy(self) if dtype is None else to_numpy(self).astype(dtype, copy=False)

    def to_list(self):
        known = _known(self)
        if known is not None:
            with no_dispatch():
                return known.tolist()
        notes.add("lists made of tensors (.tolist()) hold zeros")
        return to_numpy(self).tolist()

    def to_text(self, specification):
        return format(self.item(), specification) if self.dim() == 0 else object.__format__(self, specification)

    FakeTensor.numpy = to_numpy
    FakeTensor.__array__ = to_array
    FakeTensor.tolist = to_list
    FakeTensor.__format__ = to_text
