"""Child of bench/inference.py: trains an adapter on a checkpoint with peft, and prints how long each step took.

    lora.py run FOLDER STEPS      LoRA on the projections of attention, AdamW, one text of 64 tokens a step
"""

import hashlib
import json
import sys
import time

import peft
import torch
import transformers

TOKENS = 64


def main():
    folder, steps = sys.argv[2], int(sys.argv[3])
    started = time.perf_counter()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    torch.manual_seed(0)
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    times, losses = [time.perf_counter()], []
    load = times[0] - started
    for _ in range(steps):
        text = torch.randint(0, model.config.vocab_size, (1, TOKENS))
        loss = model(input_ids=text, labels=text).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        times.append(time.perf_counter())
    with torch.no_grad():
        adapter = hashlib.sha256(b"".join(each.numpy().tobytes() for each in trained)).hexdigest()
    print(json.dumps({"load": load, "seconds": [after - before for before, after in zip(times, times[1:])],
                      "losses": losses, "adapter": adapter}), flush=True)


if __name__ == "__main__":
    main()
