"""A network cut between its layers: torch.distributed.pipelining. Nothing in it knows of Ebbtide:

    ebb run --memory 24MiB -- torchrun --nproc-per-node 2 examples/engines/pipeline.py

Each rank has a stage; microbatches pass through them, one forward, one backward (1F1B). The last rank knows the losses,
each the gradients of its own stage: both are printed in full.
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

LAYERS, MICROBATCHES = 4, 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    width = arguments.width
    layers = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(LAYERS)])
    stage = PipelineStage(layers, rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)
    torch.manual_seed(100)
    for step in range(arguments.steps):
        batch, target, losses = torch.randn(32, width), torch.randn(32, width), []
        optimizer.zero_grad()
        given = (batch,) if rank == 0 else ()
        schedule.step(*given, **({"target": target, "losses": losses} if rank == ranks - 1 else {}))
        optimizer.step()
        numbers = [loss.item() for loss in losses] or [layers[0].weight.grad.square().sum().item()]
        print(f"rank {rank} step {step} {'losses' if losses else 'gradient'} {numbers}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
