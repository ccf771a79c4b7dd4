"""Kernels of torch.compile on the CPU: each call of one announces the tensors that it is given.

Inductor compiles what it has fused to functions in C++ and calls them from generated Python. They are wrapped as they
are loaded, so what it caches stays as it is, and a program that was compiled before runs the same code.
"""

from __future__ import annotations

import functools
import hashlib

from .. import _C
from ..hook import imports


def start() -> None:
    imports.when_imported("torch._inductor.codecache", _announce_kernels)


def _announce_kernels(module) -> None:
    cache = module.CppPythonBindingsCodeCache
    load = cache.load_pybinding_async.__func__
    if hasattr(load, "__wrapped__"):  # enabled twice
        return

    @functools.wraps(load)
    def load_pybinding_async(cls, argtypes, main_code, *args, **kwargs):
        future = load(cls, argtypes, main_code, *args, **kwargs)
        if cls is not cache:  # entries of whole graphs, which are given other things
            return future
        return functools.cache(lambda: _announced(future(), argtypes, main_code))

    cache.load_pybinding_async = classmethod(load_pybinding_async)


def _announced(kernel, argtypes, code):
    op = _C.kernel_op("inductor::" + hashlib.sha256(code.encode()).hexdigest()[:16])
    written = sum(1 << i for i, kind in enumerate(argtypes[:63]) if "*" in kind and "const" not in kind)
    begin, end = _C.begin_kernel, _C.end_kernel

    def run(*args):
        ticket = begin(op, args, written)
        if ticket == 0:
            return kernel(*args)
        try:
            return kernel(*args)
        finally:
            end(ticket)

    return run
