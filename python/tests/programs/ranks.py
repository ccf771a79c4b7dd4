"""One rank of a job, for test_jobs.py: trains with DistributedDataParallel or fully_shard, on gloo."""

import os
import sys

import torch
import torch.distributed as dist

LAYERS, WIDTH, STEPS = 6, 512, 4


def build(kind):
    layers = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(layers)
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(layers, mesh=mesh)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = build(sys.argv[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank + 1)
    lines = ""
    for step in range(STEPS):
        loss = model(torch.randn(16, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lines += f"{rank} {step} {loss.item().hex()}\n"
    os.write(sys.stdout.fileno(), lines.encode())  # whole, although the other rank writes, too
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
