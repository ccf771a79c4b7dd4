"""Who waits: the module of the operator that is about to, found on the stack of its own thread.

Asked only where something has to be waited for (bindings/torch/waiting.h), and while it is on its way: a program that
does not wait pays nothing, and none gets a hook. Modules and optimizers are held weakly.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref

import torch
from torch.optim.optimizer import Optimizer

from .. import _C

_CALL = torch.nn.Module._wrapped_call_impl.__code__
_STEP = Optimizer.profile_hook_step(lambda self: None).__code__

_roots: list[tuple[weakref.ref, dict[int, str]]] = []  # models that have been seen, with names by id of their modules
_optimizers: list[weakref.ref] = []
_steps = 0
_described = -1  # in which step the tensors of optimizers were told
_rest_until = 0.0  # telling them takes at most a hundredth of the time


def start() -> None:
    _C.set_wait_asker(_who_waits)
    atexit.register(_C.set_wait_asker, None)


def stepped() -> None:
    global _steps
    _steps += 1


def _who_waits() -> str | None:
    """The innermost module whose call is on this thread's stack, or the optimizer; None: neither is.

    Raises nothing of its own. What a signal's handler raises meanwhile, the binding hands on to the program.
    """
    try:
        return _find()
    except Exception as error:
        if not _raised_by_us(error):
            raise
        return None


def _raised_by_us(error: Exception) -> bool:
    innermost = error.__traceback__
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    return innermost.tb_frame.f_code.co_filename.startswith((__file__, os.path.dirname(torch.__file__)))


def _find() -> str | None:
    inner = outer = optimizer = None
    frame = sys._getframe().f_back
    while frame is not None:
        code = frame.f_code
        if code is _CALL:
            outer = frame.f_locals["self"]
            inner = outer if inner is None else inner
        elif code is _STEP:
            optimizer = frame.f_locals.get("self")
        frame = frame.f_back
    if inner is not None:
        return _name(inner, outer)
    if optimizer is None:
        return None
    _note_optimizer(optimizer)
    return f"optimizer {type(optimizer).__name__}"


def _name(module, outer) -> str:
    """As in named_modules() of the largest model that it is part of."""
    names = _names_in_largest(module)
    if names is None or _names_in_largest(outer) is None:
        names = {id(part): name for name, part in outer.named_modules()}
        _roots[:] = [(root, known) for root, known in _roots if root() is not None and id(root()) not in names]
        _roots.append((weakref.ref(outer), names))
        _describe()
    return names.get(id(module)) or f"({type(module).__name__})"


def _names_in_largest(module) -> dict[int, str] | None:
    found = None
    for root, names in _roots:
        if id(module) in names and root() is not None and (found is None or len(names) > len(found)):
            found = names
    return found


def _note_optimizer(optimizer) -> None:
    """Once in a step: gradients are there only now, and the state since the first."""
    global _described, _rest_until
    started = time.perf_counter()
    if _described == _steps or started < _rest_until:
        return
    _described = _steps
    if all(known() is not optimizer for known in _optimizers):
        _optimizers[:] = [known for known in _optimizers if known() is not None]
        _optimizers.append(weakref.ref(optimizer))
    _describe()
    _rest_until = started + 100 * (time.perf_counter() - started)


def _describe() -> None:
    parameters = [pair for root, _ in _roots if root() is not None for pair in _held_by(root())]
    names = {id(tensor): name for tensor, name in parameters}
    states = []
    for optimizer in filter(None, (known() for known in _optimizers)):
        for group in optimizer.param_groups:
            parameters += [(tensor, "(no module)") for tensor in group["params"] if id(tensor) not in names]
        for tensor, state in list(optimizer.state.items()):
            name = names.get(id(tensor), "(no module)")
            states += [(value, f"{name} {key}") for key, value in state.items() if isinstance(value, torch.Tensor)]
    _C.describe(parameters, states)


def _held_by(root):
    """Parameters and buffers with their names, without a call that a subclass of Tensor could intercept."""
    for prefix, module in root.named_modules():
        for held in (module._parameters, module._buffers):
            for key, tensor in held.items():
                if tensor is not None:
                    yield tensor, f"{prefix}.{key}" if prefix else key
