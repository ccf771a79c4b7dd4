"""What bench/reliability/soak.py runs, stock and under `ebb run`: rounds of training, each followed by something else
that programs do, chosen by a seed: generating, evaluating, saving and loading, threads, forks, worker processes.

    soak_program.py --seed 7 (--seconds 3600 | --rounds 900) [--size small]

Prints an object a line: of each round what was done and the bits that came of it, which follow from seed and number of
the round alone; and what the process has then of memory, descriptors, threads and mappings. Where Ebbtide manages it,
a thread sets another budget every quarter of a second on average.
"""

import argparse
import contextlib
import copy
import gc
import hashlib
import json
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

# Width, layers, words, batch.
SIZES = {"small": (128, 2, 512, 4), "usual": (384, 6, 4096, 8)}
LENGTH = 32
STEPS = 4  # of a round
KIB = 2**10


def digest(tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


class Language(nn.Module):
    def __init__(self, width, layers, words):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
                                    for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        hidden = self.words(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


class Program:
    """The state that rounds change. Everything random is drawn from the seed."""

    def __init__(self, size, seed, folder):
        self.shape, self.folder = SIZES[size], folder
        self.dice = random.Random(seed)
        torch.manual_seed(seed)
        self.model, self.optimizer = self._new()
        self.texts = torch.randint(0, self.shape[2], (64, LENGTH))
        self.others = [self.generate, self.evaluate, self.save_and_load, self.threads, self.fork, self.workers]

    def _new(self):
        model = Language(*self.shape[:3])
        return model, torch.optim.AdamW(model.parameters(), lr=1e-4)

    def round(self):
        """What was done, and the bits of it."""
        other = self.dice.choice(self.others)
        return {"what": other.__name__, "losses": self.train(), "bits": other()}

    def _step(self, ids):
        loss = F.cross_entropy(self.model(ids).flatten(0, 1), ids.roll(-1, 1).flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.dice.random() < 0.7)
        return loss.item().hex()

    def train(self):
        self.model.train()
        return [self._step(self.texts[torch.randint(0, len(self.texts), (self.shape[3],))]) for _ in range(STEPS)]

    @torch.no_grad()
    def generate(self, tokens=12):
        self.model.eval()
        ids = self.texts[:1, :4]
        for _ in range(tokens):
            ids = torch.cat([ids, self.model(ids)[:, -1:].argmax(2)], 1)
        return digest([ids])

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        losses = [F.cross_entropy(self.model(part).flatten(0, 1), part.flatten()) for part in self.texts.split(16)]
        return digest([torch.stack(losses)])

    def save_and_load(self):
        """What was saved is loaded into new objects, which training goes on with; mapped every other time."""
        path = pathlib.Path(self.folder) / "checkpoint.pt"
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)
        random_state = torch.get_rng_state()  # making the new objects draws from it
        loaded = torch.load(path, mmap=self.dice.random() < 0.5, weights_only=True)
        self.model, self.optimizer = self._new()
        self.model.load_state_dict(loaded["model"])
        self.optimizer.load_state_dict(copy.deepcopy(loaded["optimizer"]))
        del loaded
        torch.set_rng_state(random_state)
        path.unlink()
        return digest(self.model.parameters())

    def threads(self, count=3):
        found = [None] * count

        def work(index):
            draw = torch.Generator().manual_seed(index)
            mine = [torch.randn(64 * KIB, generator=draw) for _ in range(8)]
            for tensor in mine:
                tensor.mul_(2).add_(mine[0])
            found[index] = digest(mine)

        working = [threading.Thread(target=work, args=(index,)) for index in range(count)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
        return found

    def fork(self):
        """A child tells what it sees of the parameters, while its parent changes them."""
        answer, told = os.pipe()
        arrays = [tensor.detach().numpy() for tensor in self.model.parameters()]
        pid = os.fork()
        if pid == 0:
            seen = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
            os.write(told, seen[:16].encode())
            os._exit(0)
        os.close(told)
        losses = self.train()
        with os.fdopen(answer) as reader:
            seen = reader.read()
        return [seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), losses]

    def workers(self):
        data = TensorDataset(self.texts.clone())
        return digest([batch for (batch,) in DataLoader(data, batch_size=16, num_workers=2)])


class Budgets(threading.Thread):
    """Sets other budgets, from a half of it on, until it is told to stop; nothing where nothing is managed."""

    def __init__(self, most):
        super().__init__()
        self.ebbtide = sys.modules.get("ebbtide")
        self.over, self.most = threading.Event(), most
        self.changes = self.refused = 0

    def run(self):
        while self.ebbtide is not None and not self.over.wait(random.random() / 2):
            try:
                self.ebbtide.set_memory(random.randint(self.most // 2, self.most))
                self.changes += 1
            except self.ebbtide.Error:  # too much is in use just now
                self.refused += 1

    def stop(self):
        self.over.set()
        self.join()


def threads():
    """Without the kernel's own workers of io_uring, which come when the disk is slow, and go."""
    count = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            count += not (task / "comm").read_text(encoding="utf-8").startswith("iou-")
    return count


def sample(ebbtide):
    """What the process has; of memory what is neither a file's nor in the budget."""
    gc.collect()
    text = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in text.splitlines())
    size = sum(int(fields[name].split()[0]) * KIB for name in ("RssAnon", "RssShmem"))
    stats = ebbtide.stats() if ebbtide is not None else None
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {"memory": size - (stats["resident_bytes"] if stats else 0), "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": threads(), "mappings": len(maps),
            "live": stats["live_bytes"] if stats else None}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--size", choices=SIZES, default="usual")
    arguments = parser.parse_args()
    ebbtide = sys.modules.get("ebbtide")
    most = int(os.environ["EBB_MEMORY"]) if ebbtide is not None else 0
    until = time.monotonic() + (arguments.seconds or 0)
    with tempfile.TemporaryDirectory(prefix="ebb-soak-") as folder:
        program = Program(arguments.size, arguments.seed, folder)
        budgets = Budgets(most)
        budgets.start()
        done = 0
        while done < arguments.rounds if arguments.rounds else time.monotonic() < until:
            print(json.dumps({"round": done, **program.round()}), flush=True)
            print(json.dumps({"sample": sample(ebbtide)}), flush=True)
            done += 1
        budgets.stop()
        model = digest(program.model.parameters())
    stats = ebbtide.stats() if ebbtide is not None else None
    print(json.dumps({"model": model, "stats": stats, "changes": budgets.changes, "refused": budgets.refused}))


if __name__ == "__main__":
    main()
