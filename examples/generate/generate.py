"""Generates text from a checkpoint larger than memory. Nothing in it knows of Ebbtide:

    ebb run --memory 256MiB -- python examples/generate/generate.py
    python examples/generate/generate.py          # the same tokens, with as much memory as there is

A checkpoint of a Llama of 0.7 GiB in bfloat16, of random weights, is made first, in the folder named or a temporary one
that is removed again. So what it "writes" are numbers of tokens; seconds a token are what it shows. `--dtype float32`
makes one for training, which in bfloat16 PyTorch does many times slower on a processor without AVX-512.
Needs transformers (`pip install transformers`).
"""

import argparse
import pathlib
import sys
import tempfile
import time

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

PROMPT = 8


def make(folder, layers, dtype):
    print(f"making a checkpoint in {folder}", flush=True)
    configuration = transformers.LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=layers,
                                             num_attention_heads=16, num_key_value_heads=4, vocab_size=16000,
                                             dtype=dtype)
    torch.manual_seed(1)
    transformers.AutoModelForCausalLM.from_config(configuration).save_pretrained(folder)


class Progress(BaseStreamer):
    """Prints each token as it comes, and how long it took."""

    def __init__(self):
        self.last, self.seconds = time.perf_counter(), []

    def put(self, value):
        if value.numel() > 1:  # the prompt
            return
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now
        print(f"token {value.item():5d}   {self.seconds[-1]:.2f} s", flush=True)

    def end(self):
        after = sorted(self.seconds[2:]) or self.seconds
        print(f"median of those after the second: {after[len(after) // 2]:.2f} s a token")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="of the checkpoint; it is made if it is not there")
    parser.add_argument("--layers", type=int, default=7, help="80 MiB each (default 7)")
    parser.add_argument("--tokens", type=int, default=12, help="to generate (default 12)")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16", help="of what is made here")
    arguments = parser.parse_args()
    if arguments.layers < 1 or arguments.tokens < 1:
        parser.error("at least one layer and one token")
    with tempfile.TemporaryDirectory(prefix="generate-") as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        if not (folder / "config.json").is_file():
            make(folder, arguments.layers, getattr(torch, arguments.dtype))
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
        prompt = torch.arange(PROMPT).unsqueeze(0)
        model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=arguments.tokens,
                       min_new_tokens=arguments.tokens, do_sample=False, pad_token_id=0, streamer=Progress())


if __name__ == "__main__":
    sys.exit(main())
