"""Ray Train with two workers. Nothing in it knows of Ebbtide:

    ebb run --memory 48MiB -- python examples/engines/ray_train.py

An MLP learns random numbers with DistributedDataParallel on gloo. Prints each rank's losses in full. Needs Ray
(`pip install 'ray[train]'`).
"""

import argparse
import tempfile

import ray
import ray.train
import ray.train.torch
import torch

LAYERS = 6


def train(config):
    rank, width = ray.train.get_context().get_world_rank(), config["width"]
    torch.manual_seed(0)
    layers = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(LAYERS)])
    model = ray.train.torch.prepare_model(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank + 1)
    lines = []
    for step in range(config["steps"]):
        loss = model(torch.randn(16, width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lines.append(f"rank {rank} step {step} loss {loss.item()!r}\n")
    with open(f"{config['folder']}/rank{rank}", "w", encoding="utf-8") as file:
        file.writelines(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ray.train.torch.TorchTrainer(
            train, train_loop_config={"width": arguments.width, "steps": arguments.steps, "folder": folder},
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            run_config=ray.train.RunConfig(storage_path=folder, name="run"))
        trainer.fit()
        for rank in range(2):
            with open(f"{folder}/rank{rank}", encoding="utf-8") as file:
                print(file.read(), end="", flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
