#!/usr/bin/env python3
"""Generation from a checkpoint larger than memory: Ebbtide beside what one would use without it, in one table.

    bench/inference.py                     a half, a third, a quarter and an eighth of a checkpoint of 2.1 GiB
    bench/inference.py --shares 3 --rounds 5
    bench/inference.py --llama PYTHON      llama.cpp instead: a Python that has llama-cpp-python and gguf
    bench/inference.py --lora              an adapter is trained on the checkpoint (peft)
    bench/inference.py --pipeline          images in place of text: three models of 1.99 GiB, at a third (diffusers)

Contenders: stock PyTorch with all memory; the same, in a memory cgroup, where transformers maps the checkpoint and the
kernel reads it again and again; Accelerate's offloading to disk; AirLLM, where it is installed; `ebb run`. All but the
first are in a cgroup of the budget and 700 MiB for Python and its libraries. They take turns, and the checkpoint is
dropped from the page cache before each. Reported are medians of all tokens from the third on. llama.cpp is the same
program with and without `ebb run`, on a GGUF file of the same size in f16.
The bound of a token is the longer of what it takes with all memory, and of reading by fio what exceeds the budget. fio
reads the checkpoint before and after each turn of Ebbtide's.
With --lora a step of training goes through the weights twice, forwards and backwards, beside 900 MiB.
An image pipeline runs a text encoder, six steps of a denoiser, and a decoder for each prompt. Its prompts count from
the second on. Each step must read what of the denoiser exceeds the budget, and each prompt what it uses of the others.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "training"))

import children  # noqa: E402
import fio  # noqa: E402
from children import ChildError, MemoryCgroup, flash_directory, format_size  # noqa: E402
from output import print_table, progress_line, save, sitting  # noqa: E402
from reports.inference import table  # noqa: E402

MIB = 2**20
RESULTS = ("tokens", "logits", "images", "losses", "adapter")  # of a child, where it has them
TIMEOUT_S = 1800
LAYERS, QUICK_LAYERS = 22, 4
CHANNELS, QUICK_CHANNELS = 320, 96


def drop_from_cache(folder):
    for path in [*folder.rglob("*.safetensors"), *folder.glob("*.gguf")]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Generation:
    """A program that makes one thing after the other, here tokens, from a checkpoint of `size` bytes."""

    name, kinds = "PyTorch", ("mapped", "Accelerate", "AirLLM", "Ebbtide")
    beside = 700 * MIB  # for Python and its libraries
    warm_up, made, first_counted = 2, "tokens, logits", "third token"  # the first so many do not count

    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.model = arguments, folder, folder
        self.script = [sys.executable, HERE / "inference" / "generate.py"]
        self.environment = children.environment({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"})
        self.number = arguments.tokens

    def make(self):
        layers = QUICK_LAYERS if self.arguments.quick else LAYERS
        children.run([*self.script, "make", self.folder, layers], env=self.environment, timeout=TIMEOUT_S).check()
        self.size = sum(path.stat().st_size for path in self.folder.glob("*.safetensors"))
        self.kinds = tuple(kind for kind in self.kinds if kind != "AirLLM" or importlib.util.find_spec("airllm"))
        return self

    def must_read(self, budget):
        """Bytes for each thing that it makes, whoever plans."""
        return self.size - budget

    def shard(self):
        """The file that fio reads."""
        return self.model if self.model.is_file() else next(self.folder.glob("*.safetensors"))

    def turn(self, kind, budget=None):
        """One run of a contender: what the child printed, the cgroup's peak, and the summary of `ebb run`."""
        drop_from_cache(self.folder)
        way = {"Accelerate": "offload", "AirLLM": "airllm"}.get(kind, "run")
        words = [*self.script, way, self.model, self.number]
        options = {"env": self.environment, "timeout": TIMEOUT_S}
        if budget is None:
            return children.run(words, **options).check().records[-1], None, None
        with MemoryCgroup(budget + self.beside) as group:
            summary = None
            if kind == "Ebbtide":
                child, summary = children.ebb_run(words, memory=budget, flash=self.arguments.flash, cgroup=group,
                                                  **options)
            else:
                more = [budget] if kind == "Accelerate" else []
                child = children.run([*words, *more], cgroup=group, **options).check()
            return child.records[-1], group.peak_bytes(), summary


class Llama(Generation):
    """The same by llama.cpp, from a GGUF file."""

    name, kinds = "llama.cpp", ("mapped", "Ebbtide")

    def make(self):
        self.script = [self.arguments.llama, HERE / "inference" / "llama.py"]
        self.model = self.folder / "model.gguf"
        layers = QUICK_LAYERS if self.arguments.quick else LAYERS
        self.folder.mkdir()
        children.run([*self.script, "make", self.model, layers], env=self.environment, timeout=TIMEOUT_S).check()
        self.size = self.model.stat().st_size
        return self


class Adapter(Generation):
    """Steps of training an adapter (LoRA) on the same checkpoint."""

    name, kinds = "peft", ("mapped", "Ebbtide")
    beside = 900 * MIB
    made, first_counted = "losses", "third step"

    def make(self):
        super().make()
        self.script = [sys.executable, HERE / "inference" / "lora.py"]
        return self

    def must_read(self, budget):
        return 2 * super().must_read(budget)


class Pipeline(Generation):
    """Images, each made by a text encoder, some steps of a denoiser, and a decoder."""

    name, kinds = "diffusers", ("mapped", "Ebbtide")
    warm_up, made, first_counted = 1, "images", "second prompt"

    def __init__(self, arguments, folder):
        super().__init__(arguments, folder)
        self.script = [sys.executable, HERE / "inference" / "pipeline.py"]
        self.number = arguments.prompts

    def make(self):
        words = ["make", self.folder, QUICK_CHANNELS if self.arguments.quick else CHANNELS]
        self.used = children.run([*self.script, *words], env=self.environment, timeout=TIMEOUT_S).check().records[-1]
        self.size = sum(path.stat().st_size for path in self.folder.rglob("*.safetensors"))
        return self

    def must_read(self, budget):
        # A budget is all that can be there when a step begins; the first one's time goes on to the models before it.
        denoiser, others = self.used["denoiser"], self.used["others"]
        return (self.used["steps"] - 1) * max(0, denoiser - budget) + max(0, denoiser + others - budget)

    def shard(self):
        return max(self.folder.glob("unet/*.safetensors"), key=lambda path: path.stat().st_size)


def read_by_fio(path):
    """Bytes a second of a gigabyte, or of the file."""
    return fio.bandwidth(path, ("read",), min(2**30, path.stat().st_size // MIB * MIB))


def measure(generation, arguments):
    size, kinds = generation.size, generation.kinds
    shares = [{"share": share, "budget": size // share, "must_read": generation.must_read(size // share),
               **{kind: [] for kind in kinds}} for share in arguments.shares]
    results = {"size": size, "kinds": kinds, "warm_up": generation.warm_up, "made": generation.made,
               "first_counted": generation.first_counted, "all": [], "shares": shares}
    progress = progress_line(arguments.json)
    expected = None
    shard = generation.shard()
    for turn in range(arguments.rounds):
        progress(f"round {turn + 1} of {arguments.rounds}: all memory")
        record, _, _ = generation.turn("stock")
        expected = expected or record
        results["all"].append(record["seconds"])
        for share in results["shares"]:
            for kind in kinds:
                progress(f"round {turn + 1} of {arguments.rounds}: {kind} at 1/{share['share']}")
                disk = [read_by_fio(shard)] if kind == "Ebbtide" else []
                try:
                    record, peak, summary = generation.turn(kind, share["budget"])
                except ChildError as error:
                    print(f"{kind} at 1/{share['share']}: {error.reason()}", file=sys.stderr)
                    continue
                same = all(record.get(what) == expected.get(what) for what in RESULTS)
                share[kind].append({"seconds": record["seconds"], "load": record["load"], "peak": peak, "same": same})
                if kind == "Ebbtide":
                    share[kind][-1] |= {"rewritten": summary["rewritten_bytes"], "disk": [*disk, read_by_fio(shard)]}
    progress("")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shares", help="of the checkpoint: 3 is a third (default 2,3,4,8; with --pipeline 3)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contender (default 5)")
    parser.add_argument("--tokens", type=int, default=12, help="tokens a turn, of which the first two do not count")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pipeline", dest="program", action="store_const", const=Pipeline, default=Generation,
                       help="images by diffusers in place of text")
    which.add_argument("--lora", dest="program", action="store_const", const=Adapter,
                       help="trains an adapter (peft) instead; tokens are steps")
    which.add_argument("--llama", metavar="PYTHON", help="llama.cpp instead, with this Python's llama_cpp")
    parser.add_argument("--prompts", type=int, default=4, help="images a turn, of which the first does not count")
    parser.add_argument("--flash", help="directory for the checkpoint and for flash")
    parser.add_argument("--quick", action="store_true", help="a small model and one round, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the raw results instead of a table")
    parser.add_argument("--save", action="store_true", help="write the raw results to bench/results/")
    arguments = parser.parse_args()
    if arguments.llama:
        arguments.program = Llama
    arguments.shares = arguments.shares or ("3" if arguments.program is Pipeline else "2,3,4,8")
    if not all(word.isdecimal() and int(word) > 0 for word in arguments.shares.split(",")):
        parser.error(f"--shares {arguments.shares}: numbers, as 2,3,4,8")
    arguments.shares = [int(word) for word in arguments.shares.split(",")]
    for name, least in (("tokens", Generation.warm_up + 1), ("prompts", Pipeline.warm_up + 1)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name} {getattr(arguments, name)}: at least {least}")
    if arguments.quick:
        arguments.rounds = 1
    head = sitting()
    arguments.flash = flash_directory(arguments.flash)
    folder = pathlib.Path(arguments.flash) / f"ebb-checkpoint-{os.getpid()}"
    programs = {}
    try:
        fio.find()
        generation = arguments.program(arguments, folder).make()
        programs[generation.name] = measure(generation, arguments)
    except (ChildError, OSError) as error:
        sys.exit(f"inference: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    whole = {**head, "quick": arguments.quick, "programs": programs}
    if arguments.save:
        kind = {Generation: "inference", Llama: "llama", Adapter: "adapter", Pipeline: "pipeline"}[arguments.program]
        print(f"saved {save(whole, kind)}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(whole, indent=1))
    else:
        print(f"{whole['machine']}; {whole['date']}\n")
    for name, results in programs.items():
        disk = [rate / 1e9 for share in results["shares"] for turn in share["Ebbtide"] for rate in turn["disk"]]
        print(f"{name}, {format_size(results['size'])} of weights, disk {min(disk):.2f} to {max(disk):.2f} GB/s",
              file=sys.stderr)
        if not arguments.json:
            print_table(table(results))
    turns = [share["Ebbtide"] for results in programs.values() for share in results["shares"]]
    return 0 if all(some and all(turn["same"] for turn in some) for some in turns) else 1


if __name__ == "__main__":
    sys.exit(main())
