"""Hugging Face's Trainer as its users run it: BERT, data from workers, evaluation, checkpoints, and a run that goes on
from one. Run by child.py; needs `accelerate`, which Trainer does."""

import os
import pathlib
import tempfile

import torch
import transformers
from torch.utils.data import Dataset
from workloads import hash_tensors

EXAMPLES, TOKENS, VOCABULARY = 48, 24, 2000
STEPS, STEPS_BETWEEN_CHECKPOINTS = 12, 4
WORKERS = 2


class Sentences(Dataset):
    """Random tokens, which a worker makes from their number."""

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"input_ids": torch.randint(VOCABULARY, (TOKENS,), generator=generator), "labels": index % 2}


def trainer(folder):
    transformers.set_seed(0)
    config = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                     intermediate_size=1024)
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=STEPS, per_device_train_batch_size=4, dataloader_num_workers=WORKERS,
        eval_strategy="steps", eval_steps=STEPS_BETWEEN_CHECKPOINTS, save_steps=STEPS_BETWEEN_CHECKPOINTS,
        logging_steps=1, report_to="none", disable_tqdm=True, use_cpu=True, seed=0)
    return transformers.Trainer(model=transformers.BertForSequenceClassification(config), args=arguments,
                                train_dataset=Sentences(), eval_dataset=Sentences())


def _numbers(history):
    return [entry[key] for entry in history for key in ("loss", "eval_loss") if key in entry]


def run():
    """Losses of a whole run and of one that goes on from its first checkpoint, and their parameters' digests."""
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory(dir=os.environ.get("EBB_TEST_FOLDER")) as folder:
        whole = trainer(folder)
        whole.train()
        first = pathlib.Path(folder) / f"checkpoint-{STEPS_BETWEEN_CHECKPOINTS}"
        resumed = trainer(folder)
        resumed.train(resume_from_checkpoint=str(first))
        runs = [[_numbers(each.state.log_history), hash_tensors(each.model.parameters())] for each in (whole, resumed)]
    assert runs[0][1] == runs[1][1], "the run that goes on from a checkpoint ends elsewhere"
    return runs
