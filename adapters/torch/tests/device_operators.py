"""PyTorch's operator database on the device that stands for a GPU, where nothing is mapped but what a running launch
has announced. Run by child.py.
"""

import itertools
import warnings

import operators
import torch
from torch.testing._internal.common_methods_invocations import op_db

# What is not asked for: sparse tensors, which the test's device has no kernels for.
NOT_HERE = {"sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"}
# PyTorch computes their gradients in another way where a device does not say how.
DECOMPOSED = {"nn.functional.mish", "nn.functional.silu"}


def _run(op, where, dtype, limit):
    """Digests of results and gradients, or messages in their place."""
    operators._seed()
    gradients = op.supports_autograd and dtype.is_floating_point
    runs = []
    for sample in itertools.islice(op.sample_inputs(where, dtype, requires_grad=gradients), limit):
        result = operators._attempt(lambda: operators._forward(op, sample))
        gradient = operators._attempt(lambda: operators._backward(result, sample))
        given = operators._tensors([sample.input, sample.args, sample.kwargs])
        runs.append([operators._digest([result, gradient, given]),
                     [text for text in (result, gradient) if isinstance(text, str)]])
    return runs


def walk(dtype="float32", samples=2, first=0, last=None):
    """Names of the operators walked, and of those that differ from the CPU, with what they raised."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kind = getattr(torch, dtype)
    walked, different = [], {}
    for op in op_db[first:last]:
        if op.full_name in operators.EXCEPTIONS or op.full_name in NOT_HERE or kind not in op.supported_dtypes("cpu"):
            continue
        limit = min(samples, operators.SAMPLES_MAX.get(op.full_name, samples))
        expected = operators._attempt(lambda: _run(op, "cpu", kind, limit))
        actual = operators._attempt(lambda: _run(op, "soft", kind, limit))
        walked.append(op.full_name)
        if actual != expected and not (op.full_name in DECOMPOSED and not any(errors for _, errors in actual)):
            different[op.full_name] = actual if isinstance(actual, str) else [errors for _, errors in actual]
    return {"walked": walked, "different": different}
