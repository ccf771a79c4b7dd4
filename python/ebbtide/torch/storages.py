"""Storages that Python code makes itself, as copy.deepcopy() of a module does for each parameter.

torch.UntypedStorage(nbytes) takes memory from the allocator that PyTorch comes with, whatever is registered in its
place: a copied model would be outside the budget, and its tensors would stay in memory. While tensors are managed it is
made as a tensor's is.
"""

from __future__ import annotations

import torch

from .. import _C


def _on_cpu(options: dict) -> bool:
    if not options.keys() <= {"device"}:
        return False
    device = options.get("device")
    return device is None or torch.device(device).type == "cpu"


def start() -> None:
    """Once in a process; nothing else changes while Ebbtide is not enabled."""
    if "__new__" in vars(torch.UntypedStorage):
        return
    make = torch.UntypedStorage.__new__

    def new(cls, *args, **options):
        sized = len(args) == 1 and isinstance(args[0], int)
        if not (cls is torch.UntypedStorage and sized and _on_cpu(options) and _C.enabled()):
            return make(cls, *args, **options)
        # A real one, also amid modes that make other tensors of what is asked for.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return torch.empty(args[0], dtype=torch.uint8, device="cpu").untyped_storage()

    torch.UntypedStorage.__new__ = staticmethod(new)
