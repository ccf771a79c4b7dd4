"""Trains a perceptron of 16 layers, with 264 MiB of tensors at the peak. Nothing in it knows of Ebbtide:

    python examples/train/train.py
    ebb run --memory 96MiB -- python examples/train/train.py          # the same losses, to the last digit
"""

import argparse

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(16)])
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(1, arguments.steps + 1):
        loss = model(torch.randn(64, 1024)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}  loss {loss.item():.9g}", flush=True)  # nine digits tell any two numbers of float32 apart


if __name__ == "__main__":
    main()
