"""torch.distributed.rpc between managed processes: tensors go through a connection.

TensorPipe's channel `cma` has the kernel copy from one process's tensors to another's, past the C library. What is
absent of either is not brought for that (docs/system-calls.md). A program that names its channels, or devices, keeps
them.
"""

from __future__ import annotations

import functools

from ..hook import imports

CHANNELS = ["mpt_uv", "basic"]


def start() -> None:
    imports.when_imported("torch.distributed.rpc.options", _through_connections)


def _through_connections(module) -> None:
    options = module.TensorPipeRpcBackendOptions
    if hasattr(options.__init__, "__wrapped__"):  # enabled twice
        return
    init = options.__init__

    @functools.wraps(init)
    def __init__(self, *args, _channels=None, device_maps=None, **kwargs):
        if _channels is None and not device_maps:
            _channels = CHANNELS
        init(self, *args, _channels=_channels, device_maps=device_maps, **kwargs)

    options.__init__ = __init__
