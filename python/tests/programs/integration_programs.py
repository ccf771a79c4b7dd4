"""The snippets of docs/integrations.md as programs. What they take for granted (a model, data, a logger) is made here;
what came of them is printed as one line of JSON.

`--stock`: trains without the snippet and without Ebbtide, for comparison.
"""

import argparse
import csv
import functools
import http.client
import importlib.util
import json
import pathlib
import re
import socket
import sys
import tempfile

import torch
from workloads import hash_tensors

ROOT = pathlib.Path(__file__).resolve().parents[3]
STEPS, BATCH = 6, 2
WIDTH, VOCABULARY, TOKENS = 256, 4096, 16


def snippets(heading):
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\b.*?\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL).group(1)
    found = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found


def run(heading, names, instead=None):
    for text in snippets(heading):
        for words, others in (instead or {}).items():
            assert words in text
            text = text.replace(words, others)
        exec(text, names)


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        tokens = torch.randint(VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def transformers_(folder, stock):
    import transformers
    from transformers.integrations import integration_utils

    reported = []

    class Reporter(transformers.TrainerCallback):
        """Where TensorBoard's and W&B's are."""

        def on_log(self, args, state, control, logs=None, **kwargs):
            reported.append(dict(logs))

    integration_utils.INTEGRATION_TO_CALLBACK["reporter"] = Reporter
    board = importlib.util.find_spec("tensorboard") or importlib.util.find_spec("tensorboardX")
    transformers.utils.logging.set_verbosity_error()
    transformers.set_seed(0)
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=STEPS, per_device_train_batch_size=BATCH, logging_steps=2, save_strategy="no",
        eval_strategy="steps", eval_steps=3, report_to=["reporter", *["tensorboard"] * bool(board)], use_cpu=True,
        seed=0)
    shape = transformers.GPT2Config(n_embd=WIDTH, n_layer=4, n_head=4, vocab_size=VOCABULARY)
    model = transformers.GPT2LMHeadModel(shape)

    def trainer(**named):
        return transformers.Trainer(**named, eval_dataset=Tokens())

    def result(**more):
        losses = [logs["loss"] for logs in reported if "loss" in logs]
        return {"losses": losses, "digest": hash_tensors(model.parameters()), **more}

    if stock:
        trainer(model=model, args=arguments, train_dataset=Tokens()).train()
        return result()
    names = {"Trainer": trainer, "model": model, "arguments": arguments, "dataset": Tokens()}
    run("transformers", names)
    handler = names["trainer"].callback_handler
    events = b"".join(path.read_bytes() for path in pathlib.Path(folder).rglob("events.*"))
    return result(reported=reported, history=names["trainer"].state.log_history,
                  callbacks=[type(callback).__name__ for callback in handler.callbacks],
                  board=b"train/ebbtide/fetched_bytes" in events if board else None)


def lightning_(folder, stock):
    import lightning
    from lightning.pytorch.loggers import CSVLogger

    class Network(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
            self.losses = []

        def training_step(self, batch, index):
            loss = self.layers(batch[0]).square().mean()
            self.losses.append(loss.item())
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def trainer(**named):
        return lightning.Trainer(**named, accelerator="cpu", devices=1, enable_checkpointing=False,
                                 enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder)

    lightning.seed_everything(0, verbose=False)
    numbers = torch.utils.data.TensorDataset(torch.randn(STEPS * 4, 1024))
    model, loader = Network(), torch.utils.data.DataLoader(numbers, batch_size=4)
    logger = CSVLogger(folder)
    if stock:
        trainer(max_epochs=1, log_every_n_steps=2, logger=logger).fit(model, loader)
    else:
        run("Lightning", {"Trainer": trainer, "model": model, "loader": loader, "logger": logger})
    rows = list(csv.DictReader((pathlib.Path(logger.log_dir) / "metrics.csv").open(encoding="utf-8")))
    return {"losses": model.losses, "digest": hash_tensors(model.parameters()), "rows": rows}


class Loop:
    """An ordinary training loop."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.batches = torch.randn(STEPS, 4, 1024)
        self.losses = []

    def train(self, batch):
        self.optimizer.zero_grad()
        loss = self.model(batch).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return self.losses[-1]

    def epoch(self, after_step=lambda: None):
        for batch in self.batches:
            self.train(batch)
            after_step()

    def result(self, **more):
        return {"losses": self.losses, "digest": hash_tensors(self.model.parameters()), **more}


def by_hand(folder, stock):
    loop, logged, written = Loop(), [], []
    if stock:
        for _ in range(2):
            loop.epoch()
        return loop.result()

    class Writer:
        def add_scalar(self, name, value, step):
            written.append((name, value, step))

    run("W&B, MLflow, TensorBoard", {"batches": loop.batches, "train": loop.train, "writer": Writer(),
                                     "log": lambda values, step: logged.append({**values, "step": step})})
    return loop.result(logged=logged, written=written)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scrape(port, path="/metrics", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.headers["Content-Type"], body


def prometheus_(folder, stock):
    loop, scraped, port = Loop(), [], free_port()
    if stock:
        loop.epoch()
        return loop.result()
    import ebbtide

    train = functools.partial(loop.epoch, lambda: scraped.append(scrape(port)))
    run("Prometheus", {"train": train}, {"9464": str(port)})
    try:
        scrape(port)
        closed = False
    except ConnectionRefusedError:
        closed = True
    return loop.result(scraped=scraped, closed=closed, stats=ebbtide.stats())


PROGRAMS = {"transformers": transformers_, "lightning": lightning_, "by_hand": by_hand, "prometheus": prometheus_}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--stock", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = PROGRAMS[arguments.name](folder, arguments.stock)
    assert not arguments.stock or "ebbtide" not in sys.modules
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main()
