"""Tensors on a GPU: the allocator of `cuda`, and what PyTorch does there that no operator tells of.

`start()` is for enable(). Kernels need what they touch to be announced (docs/cuda.md): operators are, by the extension;
here are Triton's kernels, storages that are resized, and what PyTorch asks an allocator of its own that ours does not
keep.
"""

from __future__ import annotations

import functools
import pathlib
import warnings

import torch

from .. import _C, Error, _lists
from ..hook import imports

# Of GPU memory, what calls on lists of tensors (foreach, fused optimizers) may touch at once.
SHARE = 32
ALLOCATOR = "ebb_device_allocate", "ebb_device_free"


def start(options: _C.Options, device_type: str) -> None:
    cuda = device_type == "cuda"
    if cuda:
        _check_cuda()
        options.nvrtc_library = options.nvrtc_library or _nvrtc_of_torch()
    _C.enable(options, device_type)
    if cuda:
        _install_allocator()
        _replace_statistics(options.device_memory)
        _refuse_graphs()
        _leave_benchmark_off()
    _lists.split(device_type, options.device_memory // SHARE)
    _announce_resizing(device_type)
    imports.when_imported("triton.runtime.jit", lambda module: _announce_kernels(module.JITFunction))
    imports.when_imported("torch._inductor.runtime.triton_heuristics",
                           lambda module: _announce_kernels(module.CachingAutotuner))


def _check_cuda() -> None:
    if torch.version.cuda is None:
        raise Error("this PyTorch is built without CUDA: install one with it, or leave --device-memory out")
    if torch.cuda.is_initialized():
        raise Error("CUDA has been used in this process already: call ebbtide.enable(device_memory=...) before the "
                    "first tensor on the GPU")


def _nvrtc_of_torch() -> str:
    """CUDA's compiler at run time, which PyTorch brings along where the loader does not look; empty: it does not."""
    folder = pathlib.Path(torch.__file__).parents[1] / "nvidia"
    return next((str(path) for path in sorted(folder.glob("*/lib/libnvrtc.so.[0-9]*"), reverse=True)), "")


def _install_allocator() -> None:
    library = _C.__file__
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, *ALLOCATOR)
    allocator.allocator().set_record_stream_fn(_C.record_stream_address())
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise Error(f"PyTorch does not take another CUDA allocator any more: {str(error).splitlines()[0]}") from None


def _pools(current: int, peak: int) -> dict:
    pool = {"current": current, "peak": peak, "allocated": current, "freed": 0}
    return {name: dict(pool) for name in ("all", "small_pool", "large_pool")}


def _statistics(device=None) -> dict:
    """What torch.cuda.memory_stats() is made of, from our own counters: live tensors, and GPU memory in use."""
    known = _C.stats()
    live = _pools(known["live_bytes"], known["peak_live_bytes"])
    held = _pools(known["resident_bytes"], known["peak_resident_bytes"])
    none = _pools(0, 0)
    return {"allocated_bytes": live, "requested_bytes": live, "active_bytes": live, "reserved_bytes": held,
            "inactive_split_bytes": none, "allocation": none, "segment": none, "active": none, "inactive_split": none,
            "oversize_allocations": none["all"], "oversize_segments": none["all"],
            "num_alloc_retries": 0, "num_ooms": 0, "num_sync_all_streams": 0, "num_device_alloc": 0,
            "num_device_free": 0, "max_split_size": -1}


def _replace_statistics(budget: int) -> None:
    memory = torch.cuda.memory
    # What a program may count on: that is how much it makes at once, not how much there can be.
    memory.mem_get_info = torch.cuda.mem_get_info = lambda device=None: (
        max(budget - _C.stats()["live_bytes"], 0), budget)
    memory.memory_stats_as_nested_dict = torch.cuda.memory_stats_as_nested_dict = _statistics
    for name in ("reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
                 "reset_max_memory_cached"):
        # Peaks are those of the whole run: `ebb run` sums it up by them.
        setattr(memory, name, lambda device=None: None)
        setattr(torch.cuda, name, getattr(memory, name))


def _refuse_graphs() -> None:
    def capture_begin(self, *_, **__):
        raise Error("CUDA graphs are not supported with --device-memory: a graph's kernels are started again without "
                    "anybody being told what they use. Run without graphs (torch.compile without "
                    "mode='reduce-overhead')")

    torch.cuda.CUDAGraph.capture_begin = capture_begin


def _leave_benchmark_off() -> None:
    """cuDNN's search for the fastest kernel asks how much memory there is, which PyTorch's pluggable allocators cannot
    tell: it would end the first convolution."""
    set_benchmark = torch._C._set_cudnn_benchmark

    def stay_off(on):
        if on:
            warnings.warn("ebbtide: torch.backends.cudnn.benchmark stays off with --device-memory: PyTorch lets no "
                          "allocator but its own tell cuDNN how much memory it may try kernels in", stacklevel=3)
        set_benchmark(False)

    torch._C._set_cudnn_benchmark = stay_off
    kind = type(torch.backends.cudnn)
    kind.benchmark = property(lambda self: torch._C._get_cudnn_benchmark(), lambda self, on: stay_off(on))
    set_benchmark(False)


def _announce_resizing(device_type: str) -> None:
    resize = torch.UntypedStorage.resize_

    @functools.wraps(resize)
    def resize_(self, nbytes):
        if self.nbytes() == 0 or nbytes == 0 or self.device.type in ("cpu", "meta"):
            return resize(self, nbytes)
        with launch(torch.empty(0, dtype=torch.uint8, device=self.device).set_(self), name="resize"):
            return resize(self, nbytes)

    torch.UntypedStorage.resize_ = resize_


def _tensors_in(values) -> list:
    """Tensors among a kernel's arguments: also in tuples, and behind descriptors of Triton's (their `base`)."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += _tensors_in(value)
        elif isinstance(value, dict):
            found += _tensors_in(value.values())
        elif isinstance(getattr(value, "base", None), torch.Tensor):
            found.append(value.base)
    return found


def _announce_kernels(kind: type) -> None:
    """Wraps kind.run(*arguments, **others), which starts a kernel on the tensors among its arguments."""
    run = kind.run

    @functools.wraps(run)
    def announced(self, *args, **kwargs):
        tensors = _tensors_in((*args, *kwargs.values()))
        if not tensors:
            return run(self, *args, **kwargs)
        with launch(*tensors, name=getattr(self, "__name__", None) or type(self).__name__):
            return run(self, *args, **kwargs)

    kind.run = announced


class launch:
    """See ebbtide.launch()."""

    def __init__(self, *tensors: torch.Tensor, name: str = "launch"):
        self._tensors = list(tensors)
        self._name = name

    def __enter__(self) -> None:
        self._ticket = _C.begin_launch(self._tensors, self._name)

    def __exit__(self, *_) -> None:
        _C.end_launch(self._ticket)
