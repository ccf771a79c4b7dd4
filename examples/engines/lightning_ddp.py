"""Lightning's Trainer with its strategy `ddp`. Nothing in it knows of Ebbtide:

    ebb run --memory 48MiB -- torchrun --nproc-per-node 2 examples/engines/lightning_ddp.py
    ebb run --memory 48MiB -- python examples/engines/lightning_ddp.py     # Lightning starts the second rank itself

An MLP learns random numbers. Prints each rank's losses in full. Needs lightning (`pip install lightning`).
"""

import argparse

import lightning
import torch


class Network(lightning.LightningModule):
    def __init__(self, width, layers=6):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])

    def training_step(self, batch, index):
        loss = self.layers(batch[0]).square().mean()
        print(f"rank {self.global_rank} step {index} loss {loss.item()!r}\n", end="", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    lightning.seed_everything(0, verbose=False)
    numbers = torch.utils.data.TensorDataset(torch.randn(32 * arguments.steps, arguments.width))
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=arguments.steps,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(Network(arguments.width), torch.utils.data.DataLoader(numbers, batch_size=16))


if __name__ == "__main__":
    main()
