"""Training programs whose iterations are not all alike; the same for every contender, and they know nothing of Ebbtide.

lengths: a transformer on sequences of random length. experts: layers of eight experts, of which each step takes two at
random. phases: four steps of training, then two of evaluation, again and again. Prints JSON lines as train.py does, one
for each step or evaluation.
"""

import argparse
import json
import random
import struct
import time

import torch
from torch import nn

PROGRAMS = ("lengths", "experts", "phases")


def build_lengths(quick):
    width, layers = (128, 2) if quick else (1024, 8)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return model, lambda: torch.randn(2, 32 * random.randint(2, 8), width)


class Experts(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(8)) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            first, second = random.sample(range(len(layer)), 2)
            x = torch.relu(layer[first](x) + layer[second](x)) + x
        return x


def build_experts(quick):
    width = 128 if quick else 1536
    return Experts(width, 4), lambda: torch.randn(512, width)


def build_phases(quick):
    width = 256 if quick else 3072
    model = nn.Sequential(*(module for _ in range(8) for module in (nn.Linear(width, width), nn.ReLU())))
    return model, lambda: torch.randn(512, width)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", choices=PROGRAMS, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    random.seed(0)
    model, make_batch = {"lengths": build_lengths, "experts": build_experts,
                         "phases": build_phases}[arguments.program](arguments.quick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(arguments.steps):
        evaluates = arguments.program == "phases" and step % 6 >= 4
        started = time.perf_counter()
        batch = make_batch()
        with torch.set_grad_enabled(not evaluates):
            loss = (model(batch) - batch).square().mean()
        if not evaluates:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        bits = struct.pack(">f", loss.item()).hex()
        print(json.dumps({"step": step, "bits": bits, "seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
