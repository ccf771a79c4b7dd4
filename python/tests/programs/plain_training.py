"""A training as anybody would write it, which knows nothing of Ebbtide: a line for each step with the bits of its loss,
and at the end one with a hash over the model. Both follow from the arguments alone.

    plain_training.py STEPS [WIDTH]         34 MiB of parameters, gradients and optimizer state at the usual width
"""

import hashlib
import sys

import torch


def main(steps, width=736):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [torch.randn(16, width) for _ in range(2)]
    for step in range(steps):
        loss = model(batches[step % 2]).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item().hex()}", flush=True)
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    print(f"model {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
