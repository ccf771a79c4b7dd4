"""A network cut within its layers: torch.distributed.tensor.parallel. Nothing in it knows of Ebbtide:

    ebb run --memory 24MiB -- torchrun --nproc-per-node 2 examples/engines/tensor_parallel.py

Each rank has half the columns of one layer of a pair, and half the rows of the other. Prints losses in full.
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

PAIRS = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    width = arguments.width
    pairs = [(torch.nn.Linear(width, 2 * width), torch.nn.ReLU(), torch.nn.Linear(2 * width, width))
             for _ in range(PAIRS)]
    model = torch.nn.Sequential(*[layer for pair in pairs for layer in pair])
    cut = {}
    for pair in range(PAIRS):
        cut[str(3 * pair)], cut[str(3 * pair + 2)] = ColwiseParallel(), RowwiseParallel()
    parallelize_module(model, dist.init_device_mesh("cpu", (dist.get_world_size(),)), cut)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(arguments.steps):
        loss = model(torch.randn(16, width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {dist.get_rank()} step {step} loss {loss.item()!r}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
