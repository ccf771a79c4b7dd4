"""Operators: walks PyTorch's operator database and hashes what every operator returns for the database's own samples.

Run by child.py. Before a group of operators runs forward, and again before it runs backward and the results are hashed,
everything is pushed out of a small budget by sweeping over a ballast that is larger than it; so under Ebbtide operators
find nothing resident. The ballast is swept on stock PyTorch, too: the two runs differ in the allocator alone.
"""

import itertools
import random
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten
from workloads import hash_tensors

BALLAST_TENSORS = 8
BALLAST_WORDS = 48 * 1024  # 48 blocks of 4 KiB each; together more than the budget
GROUP = 8  # operators between two sweeps, which on a slow disk take longer than the operators

# Operators whose results stock PyTorch does not define, so that two stock runs may differ. Everything else compares.
UNINITIALISED = "returns memory that nobody has written"
EXCEPTIONS = {
    "empty": UNINITIALISED,
    "empty_like": UNINITIALISED,
    "empty_permuted": UNINITIALISED,
    "empty_strided": UNINITIALISED,
    "new_empty": UNINITIALISED,
    "new_empty_strided": UNINITIALISED,
    "resize_": "grows a tensor by memory that nobody has written",
    "resize_as_": "grows a tensor by memory that nobody has written",
    "linalg.lstsq": "its default driver, gelsy, is handed an array of pivots that nobody has written",
    "linalg.lstsq.grad_oriented": "as linalg.lstsq",
}
# Operators that are walked with so many samples at most: gathers out of 20 MB would fault for every element, for hours.
SAMPLES_MAX = {"grid_sampler_3d": 2}


def describe():
    return {"names": [op.full_name for op in op_db], "exceptions": EXCEPTIONS}


def _seed():
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


class Ballast:
    """Tensors that are only ever read, so that pushing them out in their turn writes nothing."""

    def __init__(self):
        self.tensors = [torch.arange(BALLAST_WORDS, dtype=torch.float32) for _ in range(BALLAST_TENSORS)]

    def sweep(self):
        for tensor in self.tensors:
            tensor.max()

    def check(self):
        expected = torch.arange(BALLAST_WORDS, dtype=torch.float32)
        assert all(torch.equal(tensor, expected) for tensor in self.tensors), "the ballast changed"


def _tensors(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _digest(tree):
    """A hash of every tensor in a nest of results; other leaves by their text."""
    leaves = tree_flatten(tree)[0]
    others = [repr(leaf) for leaf in leaves if not isinstance(leaf, torch.Tensor)]
    strides = [tuple(leaf.stride()) for leaf in _tensors(tree) if leaf.layout == torch.strided]
    return f"{hash_tensors(_tensors(tree))[:16]} {strides} {others}"


def _attempt(function):
    try:
        return function()
    except Exception as error:  # noqa: BLE001: an error is a result like any; both runs must give it
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _forward(function, sample):
    _seed()
    return function(sample.input, *sample.args, **sample.kwargs)


def _backward(result, sample):
    """Gradients of the sample's inputs with respect to the sum of all differentiable results."""
    outputs = [t for t in _tensors(result) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    inputs = [t for t in _tensors([sample.input, sample.args, sample.kwargs]) if t.requires_grad and t.is_leaf]
    if not outputs or not inputs:
        return None
    return torch.autograd.grad(outputs, inputs, [torch.ones_like(t) for t in outputs], allow_unused=True)


def _samples(op, dtype, limit):
    gradients = op.supports_autograd and dtype.is_floating_point
    _seed()
    samples = op.sample_inputs("cpu", dtype, requires_grad=gradients)
    return list(itertools.islice(samples, limit))


def _walk_group(ops, dtype, limit, ballast, in_place):
    """Digests of a few operators by name: all samples, sweep, all forwards, sweep, all backwards and hashes."""
    digests, runs = {}, []
    for op in ops:
        samples = _attempt(lambda: _samples(op, dtype, min(limit, SAMPLES_MAX.get(op.full_name, limit))))
        if isinstance(samples, str):
            digests[op.full_name] = samples  # the error
        else:
            runs += [(op, op, sample) for sample in samples]
    if in_place:
        runs += [(op, op.inplace_variant, _copy(sample)) for op, _, sample in runs if op.inplace_variant is not None]
    ballast.sweep()
    results = [_attempt(lambda: _forward(function, sample)) for _, function, sample in runs]
    ballast.sweep()
    for (op, _, sample), result in zip(runs, results):
        gradients = _attempt(lambda: _backward(result, sample))
        digest = _digest([result, gradients, sample.input, sample.args, sample.kwargs])
        digests.setdefault(op.full_name, []).append(digest)
    return digests


def _copy(sample):
    return sample.transform(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf)


def walk(dtype="float32", samples=2, first=0, last=None, in_place=False, only=None):
    """Runs the operators `first` to `last` of the database; returns their digests by name."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(False)
    kind = getattr(torch, dtype)
    ballast = Ballast()
    ops = [op for op in op_db[first:last] if op.full_name not in EXCEPTIONS and kind in op.supported_dtypes("cpu")]
    ops = [op for op in ops if not only or op.full_name in only]
    digests = {}
    for start in range(0, len(ops), GROUP):
        digests |= _walk_group(ops[start:start + GROUP], kind, samples, ballast, in_place)
    ballast.check()
    return digests
