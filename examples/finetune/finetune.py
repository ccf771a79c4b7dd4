"""Trains a LoRA adapter on a checkpoint. Nothing in it knows of Ebbtide:

    python examples/finetune/finetune.py FOLDER
    ebb run --memory 320MiB -- python examples/finetune/finetune.py FOLDER      # the same losses

The weights are only read, so under `ebb run` they stay in their files. The text is a row of numbers, as the checkpoints
of examples/generate have no tokenizer. Needs transformers and peft (`pip install transformers peft`).
"""

import argparse
import pathlib

import peft
import torch
import transformers

TOKENS = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="of the checkpoint")
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(arguments.folder, dtype="auto")
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    text = torch.arange(TOKENS).unsqueeze(0)
    for step in range(1, arguments.steps + 1):
        loss = model(input_ids=text, labels=text).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}  loss {loss.item():.9g}", flush=True)


if __name__ == "__main__":
    main()
