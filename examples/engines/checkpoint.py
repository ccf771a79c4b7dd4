"""Distributed checkpoints: saved by so many ranks, loaded by so many others. Nothing in it knows of Ebbtide:

    ebb run --memory 24MiB -- torchrun --nproc-per-node 2 examples/engines/checkpoint.py --save FOLDER
    ebb run --memory 24MiB -- torchrun --nproc-per-node 3 examples/engines/checkpoint.py --load FOLDER

A model cut by fully_shard trains; model and optimizer are saved with torch.distributed.checkpoint. Prints each rank's
losses in full, and a digest of each whole parameter after saving or loading: that must be the same on any number of
ranks.
"""

import argparse
import hashlib
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

LAYERS = 6


def train(model, optimizer, steps, width):
    for step in range(steps):
        loss = model(torch.randn(16, width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {dist.get_rank()} step {step} loss {loss.item()!r}\n", end="", flush=True)


def state(model, optimizer):
    parameters, moments = get_state_dict(model, optimizer)
    return {"model": parameters, "optimizer": moments}


def print_digest(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().full_tensor().numpy().tobytes())
    if dist.get_rank() == 0:
        print(f"parameters {digest.hexdigest()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--save", metavar="FOLDER")
    parser.add_argument("--load", metavar="FOLDER")
    parser.add_argument("--beside", action="store_true", help="save while training goes on (async_save)")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    dist.init_process_group("cpu:gloo")
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0 if arguments.save else 1)
    model = torch.nn.Sequential(*[torch.nn.Linear(arguments.width, arguments.width) for _ in range(LAYERS)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if arguments.load:
        loaded = state(model, optimizer)
        checkpoint.load(loaded, checkpoint_id=arguments.load)
        set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
        print_digest(model)
    train(model, optimizer, arguments.steps, arguments.width)
    if arguments.save:
        print_digest(model)
        if arguments.beside:
            group = dist.new_group(backend="gloo")  # its messages would mix with the training's in one group
            saving = checkpoint.async_save(state(model, optimizer), checkpoint_id=arguments.save, process_group=group)
            train(model, optimizer, arguments.steps, arguments.width)
            saving.result()
        else:
            checkpoint.save(state(model, optimizer), checkpoint_id=arguments.save)
    dist.destroy_process_group()
    # Gloo's thread lets go of the last message's tensors, which it cannot do once Python ends (PyTorch 2.13 aborts).
    time.sleep(0.2)


if __name__ == "__main__":
    main()
