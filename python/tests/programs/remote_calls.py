"""Two workers of torch.distributed.rpc: calls with tensors, results, remote references, of a few sizes; prints bits."""

import hashlib
import os
import sys

import torch
import torch.distributed.rpc as rpc

SIZES = (1000, 300_000, 2_000_000)  # the largest takes several blocks
KEPT = {}


def scaled(tensor, by):
    return tensor * by + torch.arange(tensor.numel(), dtype=tensor.dtype) % 7


def keep(name, tensor):
    KEPT[name] = tensor.clone()
    return tensor.numel()


def kept(name):
    return KEPT[name]


def bits(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()[:16]


def first():
    here = [torch.randn(size, generator=torch.Generator().manual_seed(size)) for size in SIZES]
    for tensor in here:
        print(0, tensor.numel(), "there and back", bits(rpc.rpc_sync("other", scaled, (tensor, 3))))
        print(0, tensor.numel(), "kept", rpc.rpc_sync("other", keep, (str(tensor.numel()), tensor)))
    later = [rpc.rpc_async("other", scaled, (tensor, by)) for by in range(2) for tensor in here]
    more = [torch.full((2_000_000,), float(i)) for i in range(4)]  # what was sent leaves, where there is less
    print(0, "at once", *(bits(each.wait()) for each in later), sum(float(each[0]) for each in more))
    for tensor in here:
        print(0, tensor.numel(), "fetched", bits(rpc.rpc_sync("other", kept, (str(tensor.numel()),))))
        print(0, tensor.numel(), "reference", bits(rpc.remote("other", scaled, (tensor, 5)).to_here()))


def main():
    rank = int(os.environ["RANK"])
    rpc.init_rpc(("first", "other")[rank], rank=rank, world_size=2)
    if rank == 0:
        first()
        sys.stdout.flush()
    rpc.shutdown()


if __name__ == "__main__":
    main()
