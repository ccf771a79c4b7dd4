"""First calls: what Intel's MKL chooses at the first call of a function, one thread has it choose before several call.

PyTorch computes exp, tanh and others on the CPU with MKL's vector math, each thread a part. MKL 2024.2, which PyTorch
2.13 still has, picks the function for this processor as it is first called. Where threads make that call together, one
of them may get a variant of low accuracy for its part: other bits than in any later call, hundreds of units in the last
place off, silently and once in some hundred processes (github.com/pytorch/pytorch/issues/188792). A program that is
larger than its memory would have Ebbtide suspected of it.
"""

from __future__ import annotations

import torch

# Those that libtorch_cpu calls MKL for, each in single and double precision.
FUNCTIONS = ("acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp", "log", "log10", "log2", "sin", "sqrt",
             "tan", "tanh", "trunc")


def settle() -> None:
    """Calls each once for a single element, which no second thread computes: 3 ms in a process."""
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64):
            element = torch.full((1,), 0.5, dtype=dtype, device="cpu")
            for name in FUNCTIONS:
                getattr(torch, name)(element)
