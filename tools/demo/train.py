"""An ordinary PyTorch training script: a GPT-2 model from transformers learns a text, byte by byte.

It knows nothing of Ebbtide. Everything random follows from one seed, so every run prints the same losses. Prints one
JSON object a line: the model and its text first, then each step's duration and its loss as the bits of a float32, and
the most memory the process ever had at the end.
"""

import argparse
import contextlib
import importlib.util
import json
import pathlib
import struct
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

BATCH, CONTEXT, BYTES = 4, 256, 256


def find_text():
    """English prose that is on this machine already: the chapters of Python's own manual, as help() shows them, or a
    text that Debian ships. Returns its name and its bytes."""
    with contextlib.suppress(Exception):
        from pydoc_data.topics import topics

        return "Python's manual (pydoc_data.topics)", "\n\n".join(topics[name] for name in sorted(topics)).encode()
    candidates = [pathlib.Path("/usr/share/common-licenses/GPL-3"), pathlib.Path("/usr/share/perl/5.36.0/pod/perl.pod")]
    for module in ("torch", "transformers", "numpy"):  # the longest file of a package that must be here
        folder = pathlib.Path(importlib.util.find_spec(module).origin).parent
        candidates.append(max(folder.glob("*.py"), key=lambda path: path.stat().st_size))
    for path in candidates:
        with contextlib.suppress(OSError):
            text = path.read_bytes()
            if len(text) > 16 * CONTEXT:
                return str(path.name), text
    raise SystemExit("no text to learn was found; name a file with --text")


def peak_bytes():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--text", type=pathlib.Path, help="a file to learn instead of the one found")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    name, text = (str(arguments.text), arguments.text.read_bytes()) if arguments.text else find_text()
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=BYTES, n_positions=CONTEXT, n_embd=arguments.width, n_layer=arguments.layers,
        n_head=arguments.width // 64, bos_token_id=0, eos_token_id=0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    print(json.dumps({"text": name, "text_bytes": len(text), "parameters": model.num_parameters()}), flush=True)

    model.train()
    for step in range(arguments.steps):
        started = time.perf_counter()
        starts = torch.randint(len(data) - CONTEXT, (BATCH,))
        batch = torch.stack([data[start:start + CONTEXT] for start in starts]).long()
        loss = model(batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
        print(json.dumps({"step": step, "loss": value, "bits": struct.pack(">f", value).hex(),
                          "seconds": time.perf_counter() - started}), flush=True)
    print(json.dumps({"peak_rss_bytes": peak_bytes()}), flush=True)


if __name__ == "__main__":
    main()
