"""PyTorch's operator database on a device. Run by child.py, in strict mode, where nothing is mapped but what a running
launch has announced: what an operator does not announce ends in an error.
"""

import itertools
import warnings

import operators
import torch
from torch.testing._internal.common_methods_invocations import op_db

# Sparse tensors, for which the device of these tests has no kernels.
NOT_THERE = {"sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"}
# PyTorch computes their gradients in another way where a device does not say how.
DECOMPOSED = {"nn.functional.mish", "nn.functional.silu"}
# Of these the database has more samples for the CPU than for any other device: only what is raised can be compared.
MORE_ON_THE_CPU = {"argsort", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve", "sort"}


def _run(op, device, dtype, limit):
    """For each sample a digest of what came of it, and the errors among that."""
    operators._seed()
    gradients = op.supports_autograd and dtype.is_floating_point
    runs = []
    for sample in itertools.islice(op.sample_inputs(device, dtype, requires_grad=gradients), limit):
        result = operators._attempt(lambda: operators._forward(op, sample))
        gradient = operators._attempt(lambda: operators._backward(result, sample))
        given = operators._tensors([sample.input, sample.args, sample.kwargs])
        runs.append([operators._digest([result, gradient, given]),
                     [text for text in (result, gradient) if isinstance(text, str)]])
    return runs


def walk(device="cpu", dtype="float32", samples=2, first=0, last=None):
    """What the operators `first` to `last` of the database give, by name."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kind = getattr(torch, dtype)
    runs = {}
    for op in op_db[first:last]:
        if op.full_name in operators.EXCEPTIONS or op.full_name in NOT_THERE or kind not in op.supported_dtypes("cpu"):
            continue
        limit = min(samples, operators.SAMPLES_MAX.get(op.full_name, samples))
        runs[op.full_name] = operators._attempt(lambda: _run(op, device, kind, limit))
    return runs


def _errors(name, runs):
    if isinstance(runs, str):
        return runs
    return [errors for _, errors in runs if errors or name not in MORE_ON_THE_CPU]


def different(expected, actual, bits=True):
    """Names of the operators that do not give the same, with what they raised; without `bits` only errors count."""
    names = {name for name in expected if expected[name] != actual[name]}
    alike = {name for name in names if _errors(name, expected[name]) == _errors(name, actual[name])}
    return {name: _errors(name, actual[name]) for name in names - (alike & DECOMPOSED if bits else alike)}
