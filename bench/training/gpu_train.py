"""The training script of the GPU benchmark, the same for every contender; it knows nothing of Ebbtide.

Prints JSON lines: each step's duration, with all its kernels over, and the bits of its loss; at the end the most GPU
memory that tensors had. `--save-on-cpu` is PyTorch's own way to need less of it.
"""

import argparse
import contextlib
import json
import struct
import time

import torch
from torch import nn
from torch.nn import functional as F


def build_gpt2(quick, batch):
    """GPT-2 large: 36 layers of 1280, 774 million parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    width, layers, vocabulary, tokens = (128, 2, 512, 32) if quick else (1280, 36, 50257, 1024)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_positions=tokens, n_embd=width, n_layer=layers,
                                       n_head=width // 64, bos_token_id=0, eos_token_id=0))
    return model, lambda: torch.randint(0, vocabulary, (batch, tokens)), lambda ids: model(ids, labels=ids).loss


def _images(model, side, batch, quick):
    side = 64 if quick else side
    return (model, lambda: (torch.randn(batch, 3, side, side), torch.randint(0, 1000, (batch,))),
            lambda data: F.cross_entropy(model(data[0]), data[1]))


def build_vit(quick, batch):
    """ViT-Large with patches of 16 pixels."""
    from torchvision.models import VisionTransformer, vit_l_16

    return _images(VisionTransformer(64, 16, 1, 2, 64, 128) if quick else vit_l_16(), 224, batch, quick)


def build_resnet152(quick, batch):
    from torchvision.models import resnet18, resnet152

    return _images(resnet18() if quick else resnet152(), 224, batch, quick)


def build_bert(quick, batch):
    """BERT-large for masked language modelling."""
    from transformers import BertConfig, BertForMaskedLM

    width, layers, tokens = (128, 2, 32) if quick else (1024, 24, 512)
    model = BertForMaskedLM(BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
                                       intermediate_size=4 * width, max_position_embeddings=tokens))
    return model, lambda: torch.randint(0, 30522, (batch, tokens)), lambda ids: model(ids, labels=ids).loss


def build_mlp(quick, batch):
    """Little arithmetic, 10 GiB of parameters and their optimizer's state."""
    width, depth = (256, 4) if quick else (8192, 10)
    model = nn.Sequential(*(module for _ in range(depth) for module in (nn.Linear(width, width), nn.GELU())))
    return model, lambda: torch.randn(batch, width), lambda x: (model(x) - x).square().mean()


MODELS = {"gpt2": build_gpt2, "vit": build_vit, "resnet152": build_resnet152, "bert": build_bert, "mlp": build_mlp}


def _on(device, data):
    return tuple(_on(device, part) for part in data) if isinstance(data, tuple) else data.to(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--memory", type=int, default=0, help="bytes that PyTorch's own allocator may take; 0: all")
    parser.add_argument("--save-on-cpu", action="store_true")
    parser.add_argument("--inference", action="store_true", help="the forward pass alone")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()

    cuda = arguments.device == "cuda"
    if arguments.memory:
        torch.cuda.set_per_process_memory_fraction(arguments.memory / torch.cuda.mem_get_info()[1])
    torch.manual_seed(0)
    with torch.device(arguments.device):  # where a thousandth of the time is needed for random numbers
        model, make_batch, loss_of = MODELS[arguments.model](arguments.quick, arguments.batch)
    model.train(not arguments.inference)
    torch.set_grad_enabled(not arguments.inference)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(arguments.steps):
        started = time.perf_counter()
        with (torch.autograd.graph.save_on_cpu(pin_memory=cuda) if arguments.save_on_cpu
              else contextlib.nullcontext()):
            loss = loss_of(_on(arguments.device, make_batch()))
        if not arguments.inference:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        bits = struct.pack(">f", loss.item()).hex()  # waits for the forward pass alone
        if cuda:
            torch.cuda.current_stream().synchronize()  # the program's kernels, not who copies behind them
        print(json.dumps({"step": step, "bits": bits, "seconds": time.perf_counter() - started}), flush=True)
    print(json.dumps({"peak_bytes": torch.cuda.max_memory_allocated() if cuda else 0}), flush=True)


if __name__ == "__main__":
    main()
