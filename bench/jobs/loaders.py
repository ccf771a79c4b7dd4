#!/usr/bin/env python3
"""What the start of an epoch costs when a DataLoader starts its workers then: stock beside `ebb run`.

    bench/jobs/loaders.py --flash /nvme

A training (an MLP, AdamW) is run twice, on stock PyTorch and within a third of what it has alive. Epochs of a few
steps take turns: first one stock, then the same one managed, the other process waiting meanwhile; first without
workers, then with four that are forked, spawned, or kept from epoch to epoch. What a start costs is the time of the
whole epoch less that of the one without workers in the same round, so that what a fork makes of later steps is in it.
Printed: the median over rounds, and how much more it is than stock's, as a part of a step. Losses must be equal.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "training")]

MIB = 2**20
KINDS = ("none", "fork", "spawn", "persistent")
COPIES = 4  # of a weight: its gradient and two moments besides


class Samples:
    """Made where they are asked for, from their number; as long a computation as decoding a small image."""

    def __init__(self, count, width):
        self._count, self._width = count, width

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        import torch

        return torch.randn(self._width, generator=torch.Generator().manual_seed(index))


def train(arguments):
    """An epoch for each line of standard input, which says of which kind; answers with how long its parts took."""
    import torch

    warnings.filterwarnings("ignore", message="This DataLoader will create")  # more workers than cores
    torch.manual_seed(0)
    width = arguments.width
    layers = arguments.size // (COPIES * 4 * width * width)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    samples = Samples(arguments.steps * arguments.batch, width)
    loaders = {}

    def loader(kind):
        if kind not in loaders:
            workers = {} if kind == "none" else {"num_workers": 4, "persistent_workers": kind == "persistent",
                                                 "multiprocessing_context": "spawn" if kind == "spawn" else "fork"}
            loaders[kind] = torch.utils.data.DataLoader(samples, batch_size=arguments.batch, **workers)
        return loaders[kind]

    for line in sys.stdin:
        marks, losses = [time.perf_counter()], []
        batches = iter(loader(line.strip()))
        marks.append(time.perf_counter())
        for batch in batches:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
            marks.append(time.perf_counter())
        del batches  # ends the workers, unless they are kept
        marks.append(time.perf_counter())
        print(json.dumps({"parts": [b - a for a, b in zip(marks, marks[1:])], "losses": losses}), flush=True)


class Training:
    """One of the two processes."""

    def __init__(self, words, prefix=()):
        self._process = subprocess.Popen([*map(str, prefix), sys.executable, __file__, "--role", "train", *words],
                                         text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.parts, self.losses = {kind: [] for kind in KINDS}, []

    def epoch(self, kind, counts):
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        self.losses += answer["losses"]
        print(kind, " ".join(f"{part:.3f}" for part in answer["parts"]), file=sys.stderr, flush=True)
        if counts:
            self.parts[kind].append(answer["parts"])

    def end(self):
        self._process.stdin.close()
        return self._process.wait()

    def step(self):
        """Of epochs without workers; the first step has the first batch in it."""
        return statistics.median(step for parts in self.parts["none"] for step in parts[2:-1])

    def costs(self, kind):
        """Of each round: the epoch less the one without workers."""
        return [sum(parts) - sum(base) for parts, base in zip(self.parts[kind], self.parts["none"])]


def tell(trainings, kinds):
    steps = {name: training.step() for name, training in trainings.items()}
    print(f"step: {steps['stock']:.3f} s stock, {steps['managed']:.3f} s managed")
    results = []
    for kind in kinds[1:]:
        costs = {name: statistics.median(training.costs(kind)) for name, training in trainings.items()}
        more = statistics.median(b - a for a, b in zip(*(trainings[name].costs(kind) for name in trainings)))
        results.append({"kind": kind, **costs, "more": more, "part_of_a_step": more / steps["managed"]})
        for name, training in trainings.items():
            making, first = (statistics.median(parts[i] for parts in training.parts[kind]) for i in (0, 1))
            spread = sorted(training.costs(kind))
            print(f"{kind}, {name}: {costs[name]:+.3f} s an epoch ({spread[0]:+.3f} to {spread[-1]:+.3f}), "
                  f"making the iterator {making:.3f} s, first step {first:.3f} s")
        print(f"{kind}: {more:+.3f} s more than stock, {100 * more / steps['managed']:+.0f} % of a step", flush=True)
    return {"steps": steps, "kinds": results}


def compare(arguments):
    from children import ebb_binary, flash_directory

    kinds = ["none", *arguments.kinds.split(",")]
    words = [f"--{name}={getattr(arguments, name)}" for name in ("size", "width", "batch", "steps")]
    with tempfile.TemporaryDirectory(prefix="ebb-loaders-", dir=flash_directory(arguments.flash)) as flash:
        run = [ebb_binary(), "run", "--quiet", "--memory", arguments.size // arguments.part, "--flash", flash, "--"]
        trainings = {"stock": Training(words), "managed": Training(words, run)}
        end = time.monotonic() + arguments.seconds
        for turn in range(-arguments.warm_up, arguments.rounds):
            if turn > 0 and time.monotonic() > end:
                break
            for kind in kinds if turn >= -1 else ["none"]:
                for training in trainings.values():
                    training.epoch(kind, turn >= 0)
        codes = [training.end() for training in trainings.values()]
    result = tell(trainings, kinds)
    equal = trainings["stock"].losses == trainings["managed"].losses
    print(f"losses of {len(trainings['stock'].losses)} steps " + ("equal" if equal else "DIFFER"))
    if arguments.json:
        print(json.dumps({**result, "losses_equal": equal}))
    return 0 if equal and codes == [0, 0] else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", type=int, default=768 * MIB, help="bytes of weights, gradients and moments")
    parser.add_argument("--part", type=int, default=3, help="memory is so much less than that (default 3)")
    parser.add_argument("--width", type=int, default=2048, help="of a layer (default 2048)")
    parser.add_argument("--batch", type=int, default=64, help="samples in a step (default 64)")
    parser.add_argument("--steps", type=int, default=3, help="in an epoch (default 3)")
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each kind (default 5)")
    parser.add_argument("--seconds", type=float, default=1e6, help="no round but the first begins later than that")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds before; all but the last without workers")
    parser.add_argument("--kinds", default="fork,spawn,persistent", help="which workers (default all)")
    parser.add_argument("--flash", help="directory for flash [a temporary one]")
    parser.add_argument("--json", action="store_true", help="the result also as one JSON object")
    parser.add_argument("--role", choices=("compare", "train"), default="compare", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return train(arguments) if arguments.role == "train" else compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
