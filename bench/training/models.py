"""Models: what the training benchmark trains. Plain PyTorch; nothing here knows about Ebbtide.

`build(name, quick)` returns (model, optimizer, batch, loss_of): `batch()` makes one batch, `loss_of(batch)` the loss.
`quick` is the same architecture at a size that trains in moments, to see that the benchmark works.
"""

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


def _mlp(quick, **options):
    width, depth = (1024, 8) if quick else (4096, 12)
    model = nn.Sequential(*(module for _ in range(depth) for module in (nn.Linear(width, width), nn.ReLU())))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)
    return (model, optimizer, lambda: torch.randn(64, width), lambda batch: (model(batch) - batch).square().mean())


def build_mlp(quick):
    """Twelve layers of 4096, batch 64: little arithmetic, 3 GiB of AdamW state to walk in every step."""
    return _mlp(quick)


def build_mlp_fused(quick):
    """The same with the fused AdamW, one operator over all 3 GiB: bound by the disk, the hardest kind."""
    return _mlp(quick, fused=True)


NAMES = ("gpt2", "resnet152", "mlp", "mlp_fused")


def build(name, quick=False):
    return {"gpt2": build_gpt2, "resnet152": build_resnet152, "mlp": build_mlp,
            "mlp_fused": build_mlp_fused}[name](quick)
