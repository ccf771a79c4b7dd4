"""DistributedDataParallel on several machines, from checkpoint to checkpoint. Nothing in it knows of Ebbtide; README.md
has the commands.

Every machine keeps checkpoints in a folder of its own. Where a launcher has started the ranks again, they go on from
the newest one that all machines have. Batches depend on step and rank alone, so losses are those of a run that nothing
has interrupted. Prints each rank's losses in full.
"""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist

LAYERS = 6
KEPT = 2  # a machine may have ended before it wrote the newest


def path_of(folder, step):
    return folder / f"step-{step}.pt"


def steps_in(folder):
    return sorted(int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.pt"))


def save(folder, step, model, optimizer):
    """Whole or not at all."""
    part = folder / f"part-{os.getpid()}"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, part)
    part.rename(path_of(folder, step))
    for old in steps_in(folder)[:-KEPT]:
        path_of(folder, old).unlink()


def resume(folder, model, optimizer):
    """The step to go on with: after the newest checkpoint of the machine that is behind."""
    step = torch.tensor(max(steps_in(folder), default=0))
    dist.all_reduce(step, dist.ReduceOp.MIN)
    if step := int(step):
        state = torch.load(path_of(folder, step))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True, help="a folder of this machine")
    parser.add_argument("--every", type=int, default=5, help="steps between two checkpoints (default 5)")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    arguments.checkpoints.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    width = arguments.width
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(LAYERS)]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(resume(arguments.checkpoints, model, optimizer), arguments.steps):
        batch = torch.randn(16, width, generator=torch.Generator().manual_seed(step * 1000 + rank))
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
        if (step + 1) % arguments.every == 0 and os.environ["LOCAL_RANK"] == "0":
            save(arguments.checkpoints, step + 1, model, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
