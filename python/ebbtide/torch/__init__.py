"""Ebbtide under PyTorch: what `import ebbtide` offers as soon as something of it is asked for."""

from __future__ import annotations

import contextlib
import os
import warnings

from .. import Error
from .._notebook import Statistics

try:
    import torch  # the extension is linked against its libraries
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise Error("PyTorch is not installed here: `pip install torch`, then install Ebbtide again, which is compiled "
                "against it; or use ebbtide.array, which needs none") from None

from . import extension

_C = extension.load()

from .. import _calls, _lists  # noqa: E402
from . import compiled, first_calls, remote, storages, waiting  # noqa: E402

_options: dict | None = None
_step_hook = None


def _size(value: int | str, name: str) -> int:
    if isinstance(value, str):
        try:
            return _C.parse_size(value)
        except Error as error:
            raise Error(f"{name}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Error(f"{name}: {value!r} is not a size; give bytes as an int, or text such as '1.5GiB'")
    return value


def _start(options: _C.Options, device_type: str = "cuda") -> None:
    global _step_hook
    first_calls.settle()
    if options.encrypt:
        # A process has one libcrypto.so.3: that of this Python, which may need a newer one than the system has.
        with contextlib.suppress(ImportError):
            import _hashlib  # noqa: F401
    if options.device_memory > 0:
        from . import device

        device.start(options, device_type)
    else:
        _calls.bring_in()
        _C.enable(options)
        if not _C.threads_prepared():
            warnings.warn("ebbtide: without userfaultfd faults are signals, which overwrite memory in threads whose "
                          "kernels use the stack pointer for something else, as oneDNN's do, and a thread that was "
                          "computing could not be given a stack for them: call enable() before others compute, or "
                          "start the program with `ebb run`", stacklevel=4)
        compiled.start()
        remote.start()
        storages.start()
        _lists.split("cpu", min(options.memory // _lists.MEMORY_SHARE or _lists.BYTES_MAX, _lists.BYTES_MAX),
                     in_slices=not os.environ.get("EBB_GUIDE"))
        waiting.start()
    if _step_hook is None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        _step_hook = register_optimizer_step_post_hook(_after_step)


def _after_step(*_) -> None:
    if _C.enabled():
        _C.step()
        _calls.stand_before()
        waiting.stepped()


_after_step._torchdynamo_disable = True  # in a compiled optimizer it is called, not looked into


def enable(
    memory: int | str | None = None,
    flash: str | None = None,
    policy: str | None = None,
    block: int | str | None = None,
    managed_min: int | str | None = None,
    device_memory: int | str | None = None,
    device: int | None = None,
    memory_max: int | str | None = None,
    encrypt: bool | None = None,
) -> None:
    """Manages the storage of tensors made from now on: those of the CPU, or with `device_memory` those of a GPU.

    memory       the budget: bytes or text such as "1.5GiB"; default: EBB_MEMORY, or 80 % of what is free
    flash        a directory on a disk, or "DIR:SIZE" to bound its use; default: EBB_FLASH, $TMPDIR or /tmp
    policy       "foresight", "window" or "on_demand"
    block        unit of residency, a power of two; default: a 64th of memory, from 64 KiB to 2 MiB
    managed_min  smaller tensors stay in ordinary memory, counted against the budget; default 64 KiB
    device_memory  bytes of GPU memory for `cuda` tensors, before the first of them; `memory` is then host memory that
                   is pinned for what does not fit there. docs/cuda.md says what has been seen on which GPU
    device       which GPU; default: EBB_DEVICE, or 0
    memory_max   what set_memory() may grow the budget to; default: EBB_MEMORY_MAX, or `memory`
    encrypt      what goes to flash is encrypted, with a key that ends with the process; default: EBB_ENCRYPT, or False

    Raises Error, a RuntimeError, whose text says what to change.
    """
    _enable({"memory": memory, "flash": flash, "policy": policy, "block": block, "managed_min": managed_min,
             "device_memory": device_memory, "device": device, "memory_max": memory_max,
             "encrypt": encrypt})


def _enable(given: dict, device_type: str = "cuda") -> None:
    global _options
    if _C.enabled():
        raise Error("Ebbtide is enabled already; call disable() first")
    if _C.opened() and _options is not None and given != _options:
        raise Error("Ebbtide was enabled with other options before, and its space stays for the life of the process")
    _start(_options_with(**given), device_type)
    _options = given


def _options_with(memory, flash, policy, block, managed_min, device_memory, device,
                  memory_max=None, encrypt=None) -> _C.Options:
    """The options of the environment, with those that are given in their place."""
    options = _C.Options.from_environment()
    options.map_files = options.map_files or "EBB_MAP_FILES" not in os.environ
    if memory == "auto":
        raise Error("memory: only a job's budget follows what other programs leave: start the program with "
                    "`ebb run --memory auto -- PROGRAM`, or give a size, and change it with set_memory()")
    if memory is not None:
        options.memory = _size(memory, "memory")
        if options.memory == 0:
            raise Error("memory: a budget of 0 bytes holds nothing; give a size such as '1.5GiB'")
    if memory_max is not None:
        options.memory_max = _size(memory_max, "memory_max")
    if block is not None:
        options.block_bytes = _size(block, "block")
    if managed_min is not None:
        options.managed_bytes_min = _size(managed_min, "managed_min")
    if flash is not None:
        options.set_flash(str(flash))
    if policy is not None:
        options.policy = policy
    if device_memory is not None:
        options.device_memory = _size(device_memory, "device_memory")
    if device is not None:
        options.device = device
    if encrypt is not None:
        options.encrypt = bool(encrypt)
    return options


def _enable_from_environment() -> None:
    """What `ebb run` calls in the program that it runs, as soon as torch has been imported."""
    if not _C.enabled():
        _start(_C.Options.from_environment())
        if "EBB_JOB" in os.environ:
            os.register_at_fork(after_in_child=_join_after_fork)


def _join_after_fork() -> None:
    """A child of a process that had nothing yet may be a rank: it joins the job itself."""
    page = os.environ.get("EBB_STATS", "")
    folder, name = os.path.split(page)
    os.environ["EBB_STATS"] = os.path.join(folder, f"{name.split('.')[0]}.p{os.getpid()}")
    try:
        _C.join_after_fork()
    except Error as error:
        os.write(2, f"ebb: {error}\n".encode())
        os._exit(2)
    finally:
        os.environ["EBB_STATS"] = page


def disable() -> None:
    """New tensors are ordinary again; those that exist stay managed until they are freed."""
    _C.disable()


def enabled() -> bool:
    return _C.enabled()


def set_memory(memory: int | str) -> None:
    """Changes the budget while the program runs, at most to `memory_max`.

    Less: blocks leave in steps, and the system has their memory when this returns; other threads go on meanwhile.
    More: memory is taken as it is needed. Raises Error where the budget cannot be that, with the reason.
    """
    _C.set_memory(_size(memory, "memory"))


def step() -> None:
    """Marks the end of an iteration, where no optimizer of torch.optim does."""
    _C.step()


def launch(*tensors: torch.Tensor, name: str = "launch"):
    """A context in which kernels that are no operators of PyTorch's may use these tensors of a GPU (CuPy's, Numba's).

    What they touch besides ends the CUDA context: it may be anywhere. Nothing to do where no GPU is managed.
    """
    if not _C.manages_device():
        return contextlib.nullcontext()
    from . import device

    return device.launch(*tensors, name=name)


def manages(tensor: torch.Tensor) -> bool:
    """Whether this tensor's storage lies in the managed space."""
    return _C.manages(tensor)


def stats() -> dict:
    """Counters so far; see ebb/stats.h for their meaning. Also policy, description and step_seconds, and `waits`: for
    whom the time was waited (the five worst operators and modules), for what kinds of tensors, and why. A notebook
    shows it as a table; `%load_ext ebbtide` adds the line magic %ebb."""
    return Statistics(_C.stats())


if "_when_imported" in globals():  # by `ebb run`, whose hook found this import half done
    globals().pop("_when_imported")()
