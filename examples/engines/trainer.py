"""Hugging Face's Trainer on the ranks that a launcher starts. Nothing in it knows of Ebbtide:

    ebb run --memory 64MiB -- torchrun --nproc-per-node 2 examples/engines/trainer.py
    ebb run --memory 64MiB -- accelerate launch --multi_gpu --num_processes 2 examples/engines/trainer.py

A GPT-2 of random weights learns random tokens on the CPU (to Accelerate, "multi_gpu" is what starts ranks on one
machine). Prints each rank's losses in full. Needs transformers and accelerate.
"""

import argparse
import tempfile

import torch
import torch.distributed as dist
import transformers

EXAMPLES, VOCABULARY = 256, 4096


class Tokens(torch.utils.data.Dataset):
    """Random ones, made from their number."""

    def __init__(self, length):
        self._length = length

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        tokens = torch.randint(VOCABULARY, (self._length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class Printing(transformers.Trainer):
    """Prints what each rank computes; Trainer's own log has the mean of all, rounded."""

    def compute_loss(self, *arguments, **named):
        computed = super().compute_loss(*arguments, **named)
        loss = computed[0] if isinstance(computed, tuple) else computed
        print(f"rank {dist.get_rank()} step {self.state.global_step} loss {loss.item()!r}\n", end="", flush=True)
        return computed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        options = transformers.TrainingArguments(
            output_dir=folder, max_steps=arguments.steps, per_device_train_batch_size=2, save_strategy="no",
            report_to="none", disable_tqdm=True, use_cpu=True, seed=0)
        shape = transformers.GPT2Config(n_embd=arguments.width, n_layer=4, n_head=4, vocab_size=VOCABULARY)
        trainer = Printing(model=transformers.GPT2LMHeadModel(shape), args=options, train_dataset=Tokens(32))
        trainer.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
