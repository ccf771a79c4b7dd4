"""Starts the device `soft` in this process, with its tensors under Ebbtide: what `cuda` is in programs.

    soft_device.start(build="build/release/tests", device_memory="8MiB", memory="64MiB", flash="/nvme")
    torch.ones(3, device="soft")
    soft_device.finish()        # waits for everything; raises if something went wrong that no operator has told

`build` is where the extension and the software driver have been built.
"""

import os
import sys
import types

import ebbtide
import torch
from ebbtide import _C as ebbtide_C

MACHINE_BYTES = 4 * 2**30  # of the machine; what Ebbtide may have of it is device_memory
_device = None


def _module():
    """What PyTorch wants to know of a device besides its kernels."""
    module = types.ModuleType("torch.soft")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    # Kernels draw from the generator of the CPU.
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16]
    module.synchronize = lambda device=None: _device.synchronize()
    return module


def start(*, build, block="64KiB", policy="foresight", strict=False, **options):
    global _device
    os.environ["EBB_CUDA_LIBRARY"] = os.path.join(build, "libcuda_soft.so")
    os.environ["EBB_DEVICE_STRICT"] = "1" if strict else "0"
    sys.path.insert(0, build)
    import _soft_device as _device

    torch.utils.rename_privateuse1_backend("soft")
    torch._register_device_module("soft", _module())
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _device.start(ebbtide_C.__file__, MACHINE_BYTES)
    given = dict.fromkeys(("memory", "flash", "policy", "block", "managed_min", "device_memory", "device"))
    ebbtide._enable({**given, "block": block, "policy": policy, **options}, "soft")


def touch(tensor, write=False):
    """A kernel that is no operator, and that nobody announces."""
    _device.touch(tensor.data_ptr(), tensor.nbytes, write)


def finish():
    _device.synchronize()
    violations = _device.violations()
    assert not violations, violations[:5]


def start_group():
    """torch.distributed with this process alone; its collectives double what they are given, in a stream of theirs."""
    from torch import distributed

    distributed.Backend.register_backend("softgroup", lambda store, rank, size, timeout: _device.make_group(rank, size),
                                         devices=["soft"])
    distributed.init_process_group("softgroup", store=distributed.HashStore(), rank=0, world_size=1)
    return distributed.group.WORLD


class Workspace:
    """Memory that a library has for its kernels, and that is no tensor's."""

    def __init__(self, nbytes):
        self.address, self.nbytes = _device.allocate(nbytes), nbytes

    def touch(self):
        _device.touch(self.address, self.nbytes, True)

    def record_stream(self):
        """It is in use in the current stream, too, until it is freed."""
        _device.record_stream(self.address)

    def free(self):
        _device.free(self.address)
