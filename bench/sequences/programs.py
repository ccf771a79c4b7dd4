"""Programs whose iterations are not alike; ordinary PyTorch, which knows nothing of Ebbtide.

Each is a function that takes the size, 1 or `QUICK`, and returns `step(number)`, which runs one iteration and returns a
loss or another number. Whatever is random about an iteration is drawn from its number, so that a program does the same
however it is run.
"""

import random

import torch
from torch import nn
from torch.nn import functional

QUICK = 0.125  # of the width


def trainer(model, rate=1e-4):
    """AdamW tensor by tensor, as PyTorch does it on the CPU; returns a function that trains on some losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, foreach=False)

    def train(losses):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for make_loss in losses:
            loss = make_loss()
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return train


def batch_of(number, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(number))


def multiple(size, of):
    return max(int(size) // of, 1) * of


# -- Mixtures of experts ----------------------------------------------------------------------------------------------


class Experts(nn.Module):
    """Tokens go to `top` of the experts each; with a capacity, those that find theirs full go on as they are."""

    def __init__(self, width, count, top, capacity):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count))
        self.top, self.capacity = top, capacity

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(self.top)
        result = x
        for index, expert in enumerate(self.experts):
            rows, places = (chosen == index).nonzero(as_tuple=True)
            if self.capacity is not None:
                rows, places = rows[:self.capacity], places[:self.capacity]
            if len(rows) > 0:
                out = expert(x[rows]) * weights[rows, places].unsqueeze(1)
                result = result.index_add(0, rows, out)
        return result


def experts(size, top, capacity):
    width, tokens = multiple(512 * size, 16), 384
    model = nn.Sequential(*(Experts(width, 8, top, capacity) for _ in range(5)))
    train = trainer(model, 1e-3)

    def step(number):
        # Batches are of one kind of token each, so that some experts have nothing to do.
        kind = batch_of(1000 + number, 1, width)
        x = batch_of(number, tokens, width) * 0.3 + kind * 1.5
        return train([lambda: (model(x) - x).square().mean()])

    return step


def experts_top1(size):
    return experts(size, 1, None)


def experts_top2_capacity(size):
    return experts(size, 2, 96)


# -- Sequences of any length ------------------------------------------------------------------------------------------


def encoder(size, layers):
    width = multiple(768 * size, 64)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), width


def lengths(size, bucket):
    model, width = encoder(size, 8)
    train = trainer(model)

    def step(number):
        length = random.Random(number).randint(48, 448)
        x = batch_of(number, 1, -(-length // bucket) * bucket, width)
        return train([lambda: (model(x) - x).square().mean()])

    return step


def lengths_random(size):
    return lengths(size, 1)


def lengths_in_buckets(size):
    return lengths(size, 128)


def packed_lstm(size):
    width = multiple(1024 * size, 16)
    layers = nn.ModuleList(nn.LSTM(width, width) for _ in range(5))
    train = trainer(layers)

    def step(number):
        draw = random.Random(number)
        sizes = sorted((draw.randint(4, 24) for _ in range(12)), reverse=True)
        packed = nn.utils.rnn.pack_padded_sequence(batch_of(number, sizes[0], len(sizes), width), sizes)

        def loss():
            y = packed
            for layer in layers:
                y, _ = layer(y)
            return (y.data - packed.data).square().mean()

        return train([loss])

    return step


# -- Generation -------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A layer of a decoder, whose keys and values grow by a token each time."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache):
        rows, count, width = x.shape
        query, key, value = (part.view(rows, count, self.heads, -1).transpose(1, 2)
                             for part in self.project(self.norm(x)).chunk(3, dim=-1))
        if cache is not None:
            key, value = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, count, width))
        return x + self.mlp(self.norm_mlp(x)), (key, value)


def generation(size):
    width, rows, prompt = multiple(1024 * size, 64), 4, 256
    blocks = nn.ModuleList(Block(width, 8) for _ in range(12)).eval()
    caches = [None] * len(blocks)
    x = batch_of(0, rows, prompt, width)

    @torch.no_grad()
    def step(_number):
        nonlocal x
        for index, block in enumerate(blocks):
            x, caches[index] = block(x, caches[index])
        x = functional.layer_norm(x[:, -1:], (width,))
        return x.sum().item()

    return step


# -- The same model in several ways -----------------------------------------------------------------------------------


def perceptron(width, depth):
    return nn.Sequential(*(module for _ in range(depth) for module in (nn.Linear(width, width), nn.ReLU())))


def training_and_evaluation(size):
    """An iteration ends with training; before some of them the model is evaluated."""
    width = multiple(2048 * size, 16)
    model = perceptron(width, 10)
    train = trainer(model)

    def step(number):
        if number % 4 == 3:
            with torch.no_grad():
                for part in range(3):
                    model(batch_of(5000 + 3 * number + part, 512, width))
        x = batch_of(number, 256, width)
        return train([lambda: (model(x) - x).square().mean()])

    return step


def early_exit(size):
    """Layers are left out from some depth on, forward and backward."""
    model, width = encoder(size, 8)
    layers, exits = model.layers, nn.ModuleList(nn.Linear(width, width) for _ in range(len(model.layers)))
    train = trainer(nn.ModuleList([model, exits]))

    def step(number):
        depth = random.Random(number).randint(2, len(layers))
        x = batch_of(number, 1, 224, width)

        def loss():
            y = x
            for layer in layers[:depth]:
                y = layer(y)
            return (exits[depth - 1](y) - x).square().mean()

        return train([loss])

    return step


def accumulation(size):
    """Gradients of one to four batches are summed up before a step."""
    model, width = encoder(size, 6)
    train = trainer(model)

    def step(number):
        parts = random.Random(number).randint(1, 4)

        def loss(part):
            x = batch_of(10 * number + part, 1, 128, width)
            return (model(x) - x).square().mean()

        return train([lambda part=part: loss(part) for part in range(parts)])

    return step


class Residual(nn.Module):
    """A block as ResNet-34 has."""

    def __init__(self, before, channels, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels),
                                  nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(channels))
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(before, channels, 1, stride, bias=False)

    def forward(self, x):
        return functional.relu(self.short(x) + self.body(x))


def image_sizes(size):
    """Images grow from iteration to iteration and begin again, as in a curriculum that is short."""
    channels = multiple(64 * size, 8)
    layers = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, blocks in enumerate((3, 4, 12, 3)):
        for block in range(blocks):
            narrows = stage > 0 and block == 0
            layers.append(Residual(channels, channels * (2 if narrows else 1), 2 if narrows else 1))
            channels *= 2 if narrows else 1
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    train = trainer(model)

    def step(number):
        side = 64 + 32 * (number // 2 % 5)
        x = batch_of(number, 6, 3, side, side)
        return train([lambda: model(x).square().mean()])

    return step


# -- Tables -----------------------------------------------------------------------------------------------------------


def neighbours(size):
    """Nodes of a graph learn from neighbours of neighbours, a few of each at random."""
    width, nodes = multiple(512 * size, 16), 240_000
    tables = [torch.randn(nodes // 20, width, generator=torch.Generator().manual_seed(9)) for _ in range(20)]
    own, other = (nn.ModuleList(nn.Linear(width, width) for _ in range(2)) for _ in range(2))
    train = trainer(nn.ModuleList([own, other]))

    def features(indices):
        """Of nodes, whose tables lie apart, as those of a large graph do."""
        rows = torch.empty(len(indices), width)
        for index, table in enumerate(tables):
            here = indices % len(tables) == index
            if here.any():
                rows[here] = table[indices[here] // len(tables)]
        return rows

    def step(number):
        draw = torch.Generator().manual_seed(number)
        count, fan = 192 + 48 * random.Random(number).randint(0, 8), random.Random(number).randint(4, 12)
        seeds = torch.randint(0, nodes, (count,), generator=draw)
        near = torch.randint(0, nodes, (count * fan,), generator=draw)
        far = torch.randint(0, nodes, (count * fan * 4,), generator=draw)

        def loss():
            x0, x1, x2 = features(seeds), features(near), features(far)
            y1 = functional.relu(own[0](x1) + other[0](x2.view(len(near), 4, width).mean(1)))
            y0 = functional.relu(own[0](x0) + other[0](x1.view(count, fan, width).mean(1)))
            return (own[1](y0) + other[1](y1.view(count, fan, width).mean(1)) - x0).square().mean()

        return train([loss])

    return step


def recommender(size):
    """Every example looks up rows of some of the tables: which of them, depends on the kind of the batch."""
    width, count = multiple(128 * size, 16), 24
    rows = [18_000 + 3_000 * (index % 7) for index in range(count)]
    tables = nn.ModuleList(nn.EmbeddingBag(size_of, width, sparse=True, mode="sum") for size_of in rows)
    top = nn.Sequential(nn.Linear(count * width, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1))
    sparse = torch.optim.Adagrad(tables.parameters(), lr=1e-2)
    dense = torch.optim.AdamW(top.parameters(), lr=1e-4, foreach=False)

    def step(number):
        draw = random.Random(number)
        batch = 2048
        used = set(draw.sample(range(count), 14))
        parts = []
        for index, table in enumerate(tables):
            if index not in used:
                parts.append(torch.zeros(batch, width))
                continue
            indices = torch.randint(0, rows[index], (batch, 4), generator=torch.Generator().manual_seed(number + index))
            parts.append(table(indices))
        loss = (top(torch.cat(parts, 1)) - 1).square().mean()
        dense.zero_grad(set_to_none=True)
        sparse.zero_grad(set_to_none=True)
        loss.backward()
        sparse.step()
        dense.step()
        return loss.item()

    return step


PROGRAMS = {program.__name__: program for program in (
    experts_top1, experts_top2_capacity, lengths_random, lengths_in_buckets, packed_lstm, generation,
    training_and_evaluation, early_exit, accumulation, image_sizes, neighbours, recommender)}
