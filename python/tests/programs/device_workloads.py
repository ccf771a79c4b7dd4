"""Small models for tests of tensors on a device: many tensors, none of them large, because a kernel needs all that it
touches in the device's memory at once. What is decomposed in one way on every device, so that the CPU gives the same
bits.

`run(name, device)` is as workloads.run().
"""

import os

import torch
import workloads
from torch import nn
from torch.nn import functional as F


def build_mlp(width=192, depth=20, **options):
    return workloads._mlp(width, depth, **options)


def build_mlp_single():
    return build_mlp(foreach=False)


def build_mlp_fused():
    return build_mlp(fused=True)


def build_wide():
    """For a real GPU: 300 MiB of weights and their optimizer's state."""
    return build_mlp(1024, 20)


class Block(nn.Module):
    """Of a transformer, with attention written out."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.attention(self.before(x)).split(width, dim=2))
        scores = (q @ k.transpose(2, 3) / (width / self.heads) ** 0.5).masked_fill(mask, float("-inf"))
        kept = torch.empty_like(scores).bernoulli_(0.9).div_(0.9)  # dropout, which is fused on some devices alone
        attended = (scores.softmax(3) * kept) @ v
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, width, layers, heads):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


def build_gpt(vocabulary=512, length=32, width=96, layers=6, heads=4, batch=4):
    model = Gpt(vocabulary, length, width, layers, heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss(data):
        return F.cross_entropy(model(data["ids"])[:, :-1].flatten(0, 1), data["ids"][:, 1:].flatten())

    return model, optimizer, lambda: {"ids": torch.randint(0, vocabulary, (batch, length))}, loss


def build_conv(side=16, channels=64, depth=12, batch=8):
    layers = [layer for _ in range(depth)
              for layer in (nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())]
    model = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), *layers, nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(channels * side * side // 4, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return model, optimizer, workloads._images(batch, side, 10), lambda data: F.cross_entropy(
        model(data["images"]), data["labels"])


class Lstm(nn.Module):
    """An LSTM by hand: nn.LSTM is a kernel of its own on a GPU, and another one here."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.inner = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(layers))

    def forward(self, ids):
        x = list(self.embedding(ids).unbind(1))
        for gates in self.inner:
            hidden = cell = torch.zeros_like(x[0])
            for time, value in enumerate(x):
                i, f, g, o = gates(torch.cat([value, hidden], 1)).chunk(4, 1)
                cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
                hidden = x[time] = o.sigmoid() * cell.tanh()
        return self.head(torch.stack(x, 1))


def build_lstm(vocabulary=512, width=96, layers=8, batch=16, length=5):
    model = Lstm(vocabulary, width, layers)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def loss(data):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # of the step before: reads all gradients
        return F.cross_entropy(model(data["ids"]).flatten(0, 1), data["ids"].flatten())

    return model, optimizer, lambda: {"ids": torch.randint(0, vocabulary, (batch, length))}, loss


NAMES = ("mlp", "mlp_single", "mlp_fused", "gpt", "conv", "lstm")


def run(name, device="cpu", steps=3, seed=0):
    if device == "cuda":  # where two runs may differ otherwise; and with the smaller of the workspaces that do not
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"
        os.environ["CUBLASLT_WORKSPACE_SIZE"] = "1024"  # KiB
        torch.use_deterministic_algorithms(True)
    return workloads.train(globals()[f"build_{name}"], steps, seed, device)
