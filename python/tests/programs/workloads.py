"""Workloads: small models of the kinds people train, a few MiB to a hundred of tensors each.

`run(name, steps, seed)` trains one on random data and returns the bits of every loss and a hash over all parameters
and buffers at the end. Everything random follows from the seed, so two runs on one machine agree bit for bit, and a
managed run must agree with a stock one. Plain PyTorch: nothing here knows about Ebbtide. Builders import their model
library themselves, because importing transformers takes longer than most of these train.
"""

import contextlib
import hashlib
import struct

import torch
from torch import nn
from torch.nn import functional as F


def tensor_bytes(tensor):
    """The bytes of a tensor in index order, whatever its strides, layout or data type."""
    tensor = tensor.detach()
    if tensor.is_mkldnn:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor._is_zerotensor():  # autograd's zeros without memory
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.numel() == 0:
        return b""
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    flat.view(tensor.shape).copy_(tensor)  # resolves conjugates, negatives, strides and views of single elements
    return flat.view(torch.uint8).numpy().tobytes()


def hash_tensors(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


def loss_bits(loss):
    """The bit pattern of a loss: two floats that print alike may differ in it."""
    value = loss.item()
    return struct.pack(">f" if loss.dtype == torch.float32 else ">d", value).hex()


def _tokens(vocabulary, batch, length):
    return lambda: {"ids": torch.randint(0, vocabulary, (batch, length))}


def _images(batch, side, classes):
    return lambda: {"images": torch.randn(batch, 3, side, side), "labels": torch.randint(0, classes, (batch,))}


def build_gpt2(vocabulary=512, length=64, width=192, layers=3, heads=4, batch=4):
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_positions=length, n_embd=width, n_layer=layers,
                                       n_head=heads))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return (model, optimizer, _tokens(vocabulary, batch, length),
            lambda data: model(data["ids"], labels=data["ids"]).loss)


def build_bert(vocabulary=1000, length=64, width=128, layers=3, heads=4, batch=4):
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers,
                                       num_attention_heads=heads, intermediate_size=4 * width,
                                       max_position_embeddings=length))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return (model, optimizer, _tokens(vocabulary, batch, length),
            lambda data: model(data["ids"], labels=data["ids"]).loss)


def build_vit(side=64, patch=8, width=128, layers=3, heads=4, batch=4):
    from transformers import ViTConfig, ViTForImageClassification

    model = ViTForImageClassification(ViTConfig(
        image_size=side, patch_size=patch, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, num_labels=10, hidden_dropout_prob=0.1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return (model, optimizer, _images(batch, side, 10),
            lambda data: model(pixel_values=data["images"], labels=data["labels"]).loss)


def _classifier(model, batch, side, channels_last=False):
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return (model, optimizer, _images(batch, side, 10),
            lambda data: F.cross_entropy(model(data["images"]), data["labels"]))


def build_resnet():
    from torchvision.models.resnet import BasicBlock, ResNet

    return _classifier(ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10), 8, 64)


def build_resnet152(batch=4, side=64):
    from torchvision.models import resnet152

    return _classifier(resnet152(num_classes=10), batch, side, channels_last=True)


class Tagger(nn.Module):
    def __init__(self, vocabulary=1000, width=192):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(2 * width, vocabulary)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0])


def build_lstm(vocabulary=1000, width=192, batch=8, length=32):
    model = Tagger(vocabulary, width)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def loss(batch):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # of the step before: reads all gradients
        return F.cross_entropy(model(batch["ids"]).flatten(0, 1), batch["ids"].flatten())

    return model, optimizer, _tokens(vocabulary, batch, length), loss


class Recommender(nn.Module):
    """Two large embedding tables with sparse gradients and a small dense head."""

    def __init__(self, rows=40000, width=32):
        super().__init__()
        self.items = nn.Embedding(rows, width, sparse=True)
        self.bags = nn.EmbeddingBag(rows, width, mode="sum", sparse=True)
        self.head = nn.Sequential(nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, item, history):
        return self.head(torch.cat([self.items(item), self.bags(history)], 1)).squeeze(1)


class Together:
    """Several optimizers stepped as one."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self, set_to_none=True):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def build_embedding(rows=40000, width=32, batch=64):
    model = Recommender(rows, width)
    optimizer = Together(torch.optim.SparseAdam(list(model.items.parameters()), lr=1e-2),
                         torch.optim.SGD(model.bags.parameters(), lr=1e-1),
                         torch.optim.AdamW(model.head.parameters(), lr=1e-3))

    def data():
        return {"item": torch.randint(0, rows, (batch,)), "history": torch.randint(0, rows, (batch, 16)),
                "label": torch.rand(batch)}

    def loss(batch):
        return F.binary_cross_entropy_with_logits(model(batch["item"], batch["history"]), batch["label"])

    return model, optimizer, data, loss


def _mlp(width, depth, **options):
    layers = [module for _ in range(depth) for module in (nn.Linear(width, width), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(width, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)

    def data():
        return {"x": torch.randn(32, width), "y": torch.randint(0, 10, (32,))}

    return model, optimizer, data, lambda batch: F.cross_entropy(model(batch["x"]), batch["y"])


def build_mlp(width=640, depth=4):
    return _mlp(width, depth)


def build_mlp_fused(width=640, depth=4):
    return _mlp(width, depth, fused=True)


def build_mlp_foreach(width=640, depth=4):
    return _mlp(width, depth, foreach=True)


def build_mixed():
    """bfloat16 autocast with activation checkpointing and an average of the weights kept beside the model."""
    from torch.utils.checkpoint import checkpoint

    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4)))
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    model.add_module("average", average)

    def loss(batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = batch["x"]
            for block in list(model)[:4]:
                x = x + checkpoint(block, x, use_reentrant=False)
        average.update_parameters(nn.Sequential(*list(model)[:4]))
        return x.float().square().mean()

    return model, optimizer, lambda: {"x": torch.randn(128, 256, requires_grad=True)}, loss


FAST = ("gpt2", "bert", "vit", "resnet", "lstm", "embedding", "mlp", "mlp_fused", "mlp_foreach", "mixed")
SLOW = ("resnet152",)
# As they are published or as people train them: 0.7 to 3.5 GiB of tensors.
FULL_SIZE = {
    "gpt2": {"vocabulary": 50257, "length": 256, "width": 768, "layers": 12, "heads": 12, "batch": 2},
    "bert": {"vocabulary": 30522, "length": 128, "width": 768, "layers": 12, "heads": 12, "batch": 4},
    "vit": {"side": 224, "patch": 16, "width": 768, "layers": 12, "heads": 12, "batch": 4},
    "resnet152": {"batch": 4, "side": 224},
    "lstm": {"vocabulary": 20000, "width": 1024, "batch": 8, "length": 64},
    "embedding": {"rows": 2000000, "width": 64, "batch": 1024},
    "mlp_fused": {"width": 4096, "depth": 12},
    "mlp_foreach": {"width": 4096, "depth": 12},
}


def train(build, steps, seed, device="cpu"):
    """Trains what `build` makes; the result is comparable with == between two runs."""
    torch.manual_seed(seed)
    with torch.device(device) if device != "cpu" else contextlib.nullcontext():
        model, optimizer, data, loss_of = build()
        batches = [data() for _ in range(2)]  # few, so that inputs live across steps as a cached data set's do
    model.train()
    losses = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=step % 3 != 2)  # now and then the gradients stay where they are
        loss = loss_of(batches[step % 2])
        loss.backward()
        optimizer.step()
        losses.append(loss_bits(loss))
    return {"losses": losses, "parameters": hash_tensors(model.state_dict().values())}


def run(name, steps=5, seed=0, threads=None, full_size=False, **sizes):
    """Trains one of the models above; `sizes`: what differs from its usual ones."""
    if threads:
        torch.set_num_threads(threads)
    sizes = {**(FULL_SIZE[name] if full_size else {}), **sizes}
    return train(lambda: globals()[f"build_{name}"](**sizes), steps, seed)
