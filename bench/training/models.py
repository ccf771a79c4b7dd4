"""Models: what the training benchmark trains. Plain PyTorch; nothing here knows about Ebbtide.

`build(name, quick)` returns (model, optimizer, batch, loss_of): `batch()` makes one batch, `loss_of(batch)` the loss.
`quick` is the same architecture at a size that trains in moments, to see that the benchmark works. The iterations of
some are not all alike: sequences of random length, experts of which each step takes two at random, evaluation in turns
with training (`evaluates(name, step)`).
"""

import random

import torch
from torch import nn
from torch.nn import functional as F


def build_gpt2(quick):
    """GPT-2's architecture with 12 layers: 160 million parameters, 2.5 GiB of training state with Adam."""
    from transformers import GPT2Config, GPT2LMHeadModel

    width, layers, vocabulary, tokens = (384, 4, 512, 64) if quick else (1024, 12, 8192, 512)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=vocabulary, n_positions=tokens, n_embd=width, n_layer=layers, n_head=width // 64,
        n_inner=4 * width, activation_function="gelu_new", resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1,
        bos_token_id=0, eos_token_id=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    return (model, optimizer, lambda: torch.randint(0, vocabulary, (4, tokens)),
            lambda batch: model(batch, labels=batch).loss)


def build_resnet152(quick):
    """torchvision's ResNet-152 on images of 224 pixels: many activations of all sizes, few parameters."""
    from torchvision.models import resnet18, resnet152

    model = (resnet18 if quick else resnet152)()
    count, side = (2, 64) if quick else (8, 224)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return (model, optimizer, lambda: (torch.randn(count, 3, side, side), torch.randint(0, 1000, (count,))),
            lambda batch: F.cross_entropy(model(batch[0]), batch[1]))


def _mlp(quick, depth=None, **options):
    width, depth = (1024, depth or 8) if quick else (4096, depth or 12)
    model = nn.Sequential(*(module for _ in range(depth) for module in (nn.Linear(width, width), nn.ReLU())))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)
    return (model, optimizer, lambda: torch.randn(64, width), lambda batch: (model(batch) - batch).square().mean())


def build_mlp(quick):
    """Twelve layers of 4096, batch 64: little arithmetic, 3 GiB of AdamW state to walk in every step."""
    return _mlp(quick)


def build_mlp_deep(quick):
    """The same, three times as deep: 9 GiB."""
    return _mlp(quick, depth=8 if quick else 36)


def build_mlp_fused(quick):
    """The same with the fused AdamW, one operator over all 3 GiB: bound by the disk, the hardest kind."""
    return _mlp(quick, fused=True)


def _to_itself(model, make_batch):
    """Trained to give back its input."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return model, optimizer, make_batch, lambda batch: (model(batch) - batch).square().mean()


def build_lengths(quick):
    """A transformer on sequences of 64 to 256 tokens, another length in each step."""
    width, layers = (128, 2) if quick else (1024, 8)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return _to_itself(model, lambda: torch.randn(2, 32 * random.randint(2, 8), width))


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
    """Four layers of eight experts, of which each step takes two at random."""
    width = 128 if quick else 1536
    return _to_itself(Experts(width, 4), lambda: torch.randn(512, width))


def build_phases(quick):
    """A perceptron, of which each four steps of training are followed by two of evaluation."""
    width = 256 if quick else 3072
    model = nn.Sequential(*(module for _ in range(8) for module in (nn.Linear(width, width), nn.ReLU())))
    return _to_itself(model, lambda: torch.randn(512, width))


def evaluates(name, step):
    return name == "phases" and step % 6 >= 4


BUILDERS = {"gpt2": build_gpt2, "resnet152": build_resnet152, "mlp": build_mlp, "mlp_deep": build_mlp_deep,
            "mlp_fused": build_mlp_fused, "experts": build_experts, "lengths": build_lengths, "phases": build_phases}


def build(name, quick=False):
    return BUILDERS[name](quick)
