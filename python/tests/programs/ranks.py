"""One rank of a job, for test_jobs.py: trains with DistributedDataParallel or fully_shard, on gloo.

    ranks.py KIND [--width N] [--steps N] [--spawn N [--method fork]] [--uneven] [--workers KIND]

With --spawn this process starts the ranks itself (torch.multiprocessing). --uneven: rank 0 has three times the layers,
and nothing is exchanged. --workers fork or spawn: batches come from two worker processes of a DataLoader.
"""

import argparse
import os
import sys
import tempfile

import torch
import torch.distributed as dist

LAYERS = 6


class Batches(torch.utils.data.Dataset):
    """Made where they are asked for: large enough to be managed."""

    def __init__(self, width, rank):
        self._width, self._rank = width, rank

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(self._width, generator=torch.Generator().manual_seed(index * 1000 + self._rank))


def build(arguments, rank):
    layers = LAYERS * (3 if arguments.uneven and rank == 0 else 1)
    model = torch.nn.Sequential(*[torch.nn.Linear(arguments.width, arguments.width) for _ in range(layers)])
    if arguments.uneven:
        return model
    if arguments.kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def batches(arguments, rank):
    if not arguments.workers:
        torch.manual_seed(rank + 1)
        while True:
            yield torch.randn(16, arguments.width)
    loader = torch.utils.data.DataLoader(Batches(arguments.width, rank), batch_size=16, num_workers=2,
                                         multiprocessing_context=arguments.workers, persistent_workers=True)
    while True:
        yield from loader


def train(arguments):
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = build(arguments, rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lines = ""
    for step, batch in zip(range(arguments.steps), batches(arguments, rank)):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lines += f"{rank} {step} {loss.item().hex()}\n"
        if step == 0 and rank == 0:
            os.write(sys.stderr.fileno(), f"pid {os.getpid()} trains\n".encode())
    os.write(sys.stdout.fileno(), lines.encode())  # whole, although the other rank writes, too
    dist.destroy_process_group()


def spawned(rank, arguments, file):
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=arguments.spawn)
    train(arguments)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--method", default="spawn")
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--workers", default="")
    arguments = parser.parse_args()
    if arguments.spawn:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.start_processes(spawned, (arguments, f"{folder}/store"), arguments.spawn,
                                                  start_method=arguments.method)
        return
    dist.init_process_group("gloo")
    train(arguments)


if __name__ == "__main__":
    main()
