"""Scenarios about who could see what a program computes with. Run by child.py, like scenarios.py."""

import os

import torch

MIB = 1 << 20
PHRASE = b"The magic words are squeamish ossifrage. "


def phrases_on_flash(folder):
    """How often a phrase that fills tensors is found in the flash file, of which nobody else has the name."""
    size = 4 * MIB
    text = bytearray((PHRASE * (size // len(PHRASE) + 1))[:size])
    tensors = [torch.frombuffer(text, dtype=torch.uint8).clone() for _ in range(16)]
    for number, tensor in enumerate(tensors):
        tensor[0] = number  # no two alike
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{fd}"
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith(f"{folder}/") and target.endswith(" (deleted)"):
            with open(path, "rb") as file:
                found += file.read().count(PHRASE)
    return found, [int(tensor[0]) for tensor in tensors], all(bytes(t[1:].tolist()) == text[1:] for t in tensors[:2])
