"""A checkpoint of a language model: what is read while it is loaded, and what comes ahead of need in the first pass.

    first_pass.py FOLDER PASSES      makes the checkpoint if it is not there; prints one line of JSON

Each layer begins with a pause in which a slow disk can bring its weights: so small a model computes faster than any
disk reads, and whether a block was asked for before its operator would be a race.
"""

import json
import pathlib
import sys
import time

import ebbtide
import torch
import transformers


def make(folder):
    configuration = transformers.LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=6,
                                             num_attention_heads=4, vocab_size=512, dtype=torch.float32)
    transformers.AutoModelForCausalLM.from_config(configuration).save_pretrained(folder)


def pause(*_):
    time.sleep(0.03)


def main(folder, passes):
    folder = pathlib.Path(folder)
    if not folder.exists():
        make(folder)
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    before = ebbtide.stats()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    for layer in model.model.layers:
        layer.register_forward_pre_hook(pause)
    loaded = ebbtide.stats()
    tokens, first = torch.arange(9).unsqueeze(0), None
    with torch.no_grad():
        for _ in range(passes):
            logits = model(tokens).logits
            first = first or ebbtide.stats()
    print(json.dumps({"size": size, "loading": loaded["fetched_bytes"] - before["fetched_bytes"],
                      "first": first["fetched_bytes"] - loaded["fetched_bytes"],
                      "ahead": first["prefetched_bytes"] - loaded["prefetched_bytes"],
                      "logits": logits.float().sum().item()}))


main(sys.argv[1], int(sys.argv[2]))
