"""Patches: what a program does besides computing, made harmless while its tensors are fake.

Files of models are not written, data come without worker processes, and code is not compiled. Applied once, in the
process whose tensors are fake; never undone, since that process ends with the plan.
"""

import copy
import functools
import importlib.util
import inspect

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes


def _nothing(notes, text):
    def skip(*_args, **_kwargs):
        notes.add(text)

    return skip


def _skip_files(notes):
    skip = _nothing(notes, "files of models are not written (torch.save, safetensors)")
    torch.save = torch.jit.save = skip
    if importlib.util.find_spec("safetensors") is not None:
        import safetensors.torch

        for name in ("save_file", "save_model"):
            setattr(safetensors.torch, name, skip)


def _map_checkpoints():
    """safetensors makes tensors of mapped memory in a way that fake tensors cannot follow; they stay real."""
    if importlib.util.find_spec("safetensors") is None:
        return
    import safetensors.torch

    load = safetensors.torch.load_file

    @functools.wraps(load)
    def load_mapped(*args, **kwargs):
        with _disable_current_modes():
            return load(*args, **kwargs)

    safetensors.torch.load_file = load_mapped


def _load_without_workers(notes):
    from torch.utils.data import DataLoader

    construct = DataLoader.__init__
    alone = {"num_workers": 0, "pin_memory": False, "prefetch_factor": None, "persistent_workers": False, "timeout": 0,
             "multiprocessing_context": None}
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def construct_alone(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        more = given.pop("kwargs", {})
        if given.get("num_workers", 0) > 0:
            notes.add("DataLoader works without worker processes")
        given.update({name: value for name, value in alone.items() if name in signature.parameters and name in given})
        construct(**given, **more)

    DataLoader.__init__ = construct_alone


def _do_not_compile(notes):
    def compile_nothing(model=None, **_options):
        notes.add("torch.compile does nothing: the plan is for eager execution")
        return model if model is not None else lambda function: function

    torch.compile = compile_nothing
    torch.nn.Module.compile = lambda self, *_args, **_options: compile_nothing(self) and None


def _swap_by_data():
    """Module.half() and the like exchange fake parameters in a way that refuses weak references, which we hold."""
    swap = torch.utils.swap_tensors

    def swap_tensors(first, second):
        if not isinstance(first, FakeTensor) or not isinstance(second, FakeTensor):
            return swap(first, second)
        constant, device = second.constant, second.fake_device
        first.data = second.detach()
        first.constant, first.fake_device = constant, device
        return None

    torch.utils.swap_tensors = swap_tensors


def _copy_by_cloning():
    """copy.deepcopy() of a fake tensor; torch's own leaves the copy and its views with different storages."""

    def deep_copy(self, memo):
        known = memo.get(id(self))
        if known is not None:
            return known
        copied = self.detach().clone()
        if getattr(self, "_is_param", False):
            copied = torch.nn.Parameter(copied, requires_grad=self.requires_grad)
        else:
            copied.requires_grad_(self.requires_grad)
        if self.is_leaf and self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = copied
        return copied

    FakeTensor.__deepcopy__ = deep_copy


def install(notes):
    _skip_files(notes)
    _map_checkpoints()
    _load_without_workers(notes)
    _do_not_compile(notes)
    _swap_by_data()
    _copy_by_cloning()
