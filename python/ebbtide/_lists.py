"""Optimizers, and operators on lists of tensors (foreach, fused): a part of the lists after the other.

One call on all parameters touches more than memory, and foreach optimizers pass over all of it a dozen times. What such
a call does to one tensor does not depend on the others, so parts one by one have the same result, bit by bit, and each
stays in memory for all that an optimizer does with it. Optimizers that go by elements pass through one large tensor in
slices, too: while one is at work the next comes. Parts are ordinary launches: recorded, planned, timed. They are the
same in each iteration, which a plan goes by.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import threading

import torch

from .hook import imports

FUSED = ("_fused_adagrad_", "_fused_adam_", "_fused_adamw_", "_fused_sgd_",
         "_amp_foreach_non_finite_check_and_unscale_")
# Modules of torch.optim whose functions do the same to each element, whatever the others of its tensor are.
ELEMENTWISE = ("adadelta", "adagrad", "adam", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd")
# What they may touch at once on the CPU: of memory, and at most.
MEMORY_SHARE = 32
BYTES_MAX = 32 << 20
# Slices begin at multiples of so many elements: aligned, and worth a call.
SLICE = 4096


def split(device_type: str, bytes_max: int, in_slices: bool = True, more_types: tuple[type, ...] = ()) -> None:
    """From now on such calls touch at most so many bytes of that device at once, or what one place of the lists has.
    Without `in_slices` only what is fused is in slices: a guide (ebb run --guide) is of whole parameters. `more_types`
    of tensors can be cut as PyTorch's own can."""
    _Parts.of[device_type] = bytes_max
    _Parts.types += more_types
    for name in dir(torch):
        if name in FUSED:
            _replace(torch, name, _is_cut, _in_slices)
        elif name.startswith("_foreach_"):
            _replace(torch, name, _is_cut)
    for module in pkgutil.iter_modules(torch.optim.__path__):
        # No attribute of torch.optim, which deletes those.
        _replace_in(importlib.import_module(f"torch.optim.{module.name}"), in_slices and module.name in ELEMENTWISE)
    imports.when_imported("torch._dynamo.trace_rules", _compile_as_before)


def _compile_as_before(rules) -> None:
    """torch.compile knows PyTorch's functions by name, and traces into what is none of those: so ours must be none, and
    what they call when they are traced must be the one of that name."""
    load = rules.load_object
    if hasattr(load, "__wrapped__"):
        return

    @functools.wraps(load)
    def load_object(name):
        found = load(name)
        return found.__wrapped__ if hasattr(found, "ebbtide_parts") else found

    rules.load_object = load_object


def _replace_in(module, in_slices: bool) -> None:
    for name in dir(module):
        if in_slices and name.startswith(("_multi_tensor_", "_single_tensor_")):
            _replace(module, name, _is_tensors, lambda function: _as_optimizer(_in_slices(function)))
        elif name.startswith(("_multi_tensor_", "_fused_")):
            _replace(module, name, _is_tensors, _as_optimizer)


def _replace(module, name: str, is_cut, with_part=lambda function: function) -> None:
    function = getattr(module, name)
    if callable(function) and not hasattr(function, "ebbtide_parts"):
        setattr(module, name, _in_parts(with_part(function), is_cut, function))


class _Parts:
    """How many bytes a part may have, by type of device; and of which types what is cut may be."""

    of: dict[str, int] = {}
    types: tuple[type, ...] = (torch.Tensor, torch.nn.Parameter)


class _Within(threading.local):
    """A part of an optimizer's lists: nothing that it calls need be looked at again."""

    optimizer = False


_within = _Within()


def _is_tensors(value, count: int | None = None) -> bool:
    """A list of tensors, some of which may be missing."""
    return (isinstance(value, (list, tuple)) and len(value) > 0 and len(value) == (count or len(value))
            and all(each is None or isinstance(each, torch.Tensor) for each in value))


def _is_cut(value, count: int) -> bool:
    """An argument of an operator with something for each tensor: others, or numbers."""
    if isinstance(value, torch.Tensor):
        return value.dim() == 1 and len(value) == count
    return isinstance(value, (list, tuple)) and len(value) == count


def _ends(lists) -> list[int]:
    """Where to cut lists that belong together: by the sizes in the first, and how many lists are like it. Each step of
    an optimizer asks this of all parameters, so it looks at each of them once."""
    shape = lists[0][0].shape
    alike = sum(len(tensors) == len(lists[0]) and tensors[0] is not None and tensors[0].shape == shape
                for tensors in lists)
    ends, together = [], 0
    for i, tensor in enumerate(lists[0]):
        most = 0 if tensor is None else _Parts.of.get(tensor.device.type, 0)
        here = alike * tensor.nbytes if most > 0 else 0
        if 0 < together and together + here > most > 0:
            ends.append(i)
            together = 0
        together += here
    return [*ends, len(lists[0])]


def _as_optimizer(function):
    """The same function, by which _within knows that it runs."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        _within.optimizer = True
        try:
            return function(*args, **kwargs)
        finally:
            _within.optimizer = False

    return run


def _in_slices(function):
    """The same function on lists of one tensor each, a slice of those after the other where they are large. Where a
    tensor is yet to be made it has them whole: what is made for a slice, an optimizer could not keep."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        tensors = [value[0] for value in args if _is_tensors(value, 1)]
        if not tensors or not all(map(_is_plain, tensors)) or torch.is_grad_enabled():
            return function(*args, **kwargs)
        count = max(tensor.numel() for tensor in tensors)
        large = [tensor for tensor in tensors if tensor.numel() == count]
        nbytes = sum(tensor.nbytes for tensor in large)
        most = _Parts.of.get(large[0].device.type, nbytes)
        if nbytes <= most:
            return function(*args, **kwargs)

        def cut(value, part):
            is_large = _is_tensors(value, 1) and value[0].numel() == count
            return [value[0].view(-1)[part]] if is_large else value

        # What there is once for a tensor, as its step, each slice finds as the first one did.
        once = [(tensor, tensor.clone()) for tensor in tensors if tensor.numel() != count]
        length = max(count * most // nbytes // SLICE, 1) * SLICE
        for begin in range(0, count, length):
            for tensor, before in once if begin else ():
                tensor.copy_(before)
            function(*(cut(value, slice(begin, begin + length)) for value in args), **kwargs)
        return None

    return run


def _is_plain(tensor) -> bool:
    """Whether a slice of it is a view, and has the bits that it has in the whole. In half precision some kernels round
    otherwise in the last elements of each thread's part, and where those lie depends on addresses: fused SGD, and with
    AVX2 additions."""
    return (type(tensor) in _Parts.types and tensor.layout == torch.strided
            and tensor.is_floating_point() and tensor.is_contiguous()
            and (tensor.device.type != "cpu" or tensor.element_size() >= 4))


def _in_parts(function, is_cut, original):
    """The same function; `is_cut(argument, count)` tells which arguments it takes a part of. `original`: the one that
    torch.compile is to trace."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        if torch.compiler.is_compiling():  # what it becomes are kernels of their own (torch/compiled.py)
            return original(*args, **kwargs)
        if _within.optimizer:
            return function(*args, **kwargs)
        lists = [value for value in (*args, *kwargs.values()) if _is_tensors(value)]
        ends = _ends(lists) if lists and lists[0][0] is not None else []
        if len(ends) < 2:
            return function(*args, **kwargs)
        count, begin, results = ends[-1], 0, []
        cut = [is_cut(value, count) for value in args]
        cut_named = {name for name, value in kwargs.items() if is_cut(value, count)}
        for end in ends:
            parts = [value[begin:end] if part else value for value, part in zip(args, cut, strict=True)]
            named = {name: value[begin:end] if name in cut_named else value for name, value in kwargs.items()}
            result = function(*parts, **named)
            results += result if result is not None else []
            for value, part, is_part in zip(args, parts, cut, strict=True):
                if is_part and isinstance(value, list):
                    value[begin:end] = part  # an optimizer may have put its first momentum there
            begin = end
        return results or None

    run.__wrapped__ = original
    run.ebbtide_parts = True
    return run
