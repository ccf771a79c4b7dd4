#!/usr/bin/env python3
"""A mixture of experts larger than memory: what a token reads, beside the best that any cache could do.

    bench/inference/experts.py                     a quarter of a checkpoint of 1.1 GiB, 48 tokens
    bench/inference/experts.py --share 3 --skew 1  a third; some experts are liked much more than others

The model has Qwen3's architecture with 32 experts in each of 5 layers, of which a token uses two. Its checkpoint has
the experts of a layer in one tensor, as transformers has them in memory (`save_original_format=False`): so they
stay mapped. A checkpoint with a tensor for each expert is put together in memory of the program's when it is loaded.

A run of stock PyTorch records which blocks of 2 MiB of the checkpoint each module reads. Over this sequence caches are
simulated with as many blocks as the budget has: the optimal one, which knows what comes (Belady), the one that keeps
what was used last, and the one that always holds what is used most often. None has anything in it but weights. It
also tells how well the experts of a layer foretell those of the next: whether these could be read while it computes.
"""

import argparse
import collections
import heapq
import json
import os
import pathlib
import shutil
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "training")]

MIB = 2**20
BLOCK = 2 * MIB
BESIDE = 700 * MIB
WARM_UP_TOKENS = 2
PROMPT = 16
TIMEOUT_S = 900


# -- Children ----------------------------------------------------------------------------------------------------------


def make(folder, layers, skew):
    import torch
    import transformers

    torch.manual_seed(1)
    configuration = transformers.Qwen3MoeConfig(
        vocab_size=8000, hidden_size=1024, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=4,
        head_dim=128, moe_intermediate_size=1024, num_experts=32, num_experts_per_tok=2, tie_word_embeddings=False)
    model = transformers.Qwen3MoeForCausalLM(configuration)
    with torch.no_grad():
        model.model.embed_tokens.weight *= 25  # or else each token has the same experts
        for layer in model.model.layers:
            layer.mlp.gate.weight *= torch.exp(skew * torch.randn(configuration.num_experts, 1))
        model.to(torch.bfloat16).save_pretrained(folder, save_original_format=False, max_shard_size="100GB")


def blocks_of(tensor, mapped):
    """Of a tensor in the mapped file (its address, end and offset)."""
    first = tensor.data_ptr()
    assert mapped[0] <= first < mapped[1], "not in the file"
    last = first + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) * tensor.itemsize
    return range((first - mapped[0] + mapped[2]) // BLOCK, (last - mapped[0] + mapped[2]) // BLOCK + 1)


def record_blocks(model):
    """The list that is returned grows by the blocks of each tensor that a module reads, as it is run."""
    import torch

    line = next(line for line in open("/proc/self/maps", encoding="utf-8") if ".safetensors" in line).split()
    mapped = [int(word, 16) for word in (*line[0].split("-"), line[2])]
    uses = []

    def before(module, inputs):
        rows = None
        if isinstance(module, torch.nn.Embedding):
            rows = inputs[0].unique().tolist()
        elif hasattr(module, "gate_up_proj"):
            rows = inputs[1].unique().tolist()
        for weight in module.parameters(recurse=False):
            parts = [weight] if rows is None else [weight[row] for row in rows]
            uses.append(sorted({block for part in parts for block in blocks_of(part, mapped)}))

    for module in model.modules():
        if next(module.parameters(recurse=False), None) is not None:
            module.register_forward_pre_hook(before)
    return uses


def generate(folder, tokens, way, trace):
    import time

    import torch
    import transformers
    from generate import Times

    class Readings(Times):
        """Also what had been fetched by then, or the uses of blocks."""

        def put(self, value):
            super().put(value)
            counted.append(ebbtide.stats()["fetched_bytes"] if ebbtide else len(uses))

    ebbtide = sys.modules.get("ebbtide")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16,
                                                              experts_implementation=way).eval()
    uses, counted, times = record_blocks(model) if trace else [], [], Readings()
    torch.manual_seed(0)
    prompt = torch.randint(0, model.config.vocab_size, (1, PROMPT))
    started = time.perf_counter()
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens,
                          do_sample=True, top_k=0, pad_token_id=0, streamer=times)
    seen = [started, *times.seen[1:]]
    print(json.dumps({"seconds": [after - before for before, after in zip(seen, seen[1:])], "counted": counted,
                      "tokens": made[0, PROMPT:].tolist()} | ({"uses": uses} if trace else {})), flush=True)


# -- Caches ------------------------------------------------------------------------------------------------------------


def optimal(sequence, size):
    """Which of the uses miss in a cache that evicts what is needed last."""
    following, latest = [0] * len(sequence), {}
    for at in range(len(sequence) - 1, -1, -1):
        following[at] = latest.get(sequence[at], len(sequence) + sequence[at])
        latest[sequence[at]] = at
    cached, heap, misses = {}, [], []
    for at, block in enumerate(sequence):
        misses.append(block not in cached)
        while misses[-1] and len(cached) >= size:
            needed, last = heapq.heappop(heap)
            if cached.get(last) == -needed:
                del cached[last]
        cached[block] = following[at]
        heapq.heappush(heap, (-following[at], block))
    return misses


def least_recent(sequence, size):
    cached, misses = collections.OrderedDict(), []
    for block in sequence:
        misses.append(block not in cached)
        if misses[-1] and len(cached) >= size:
            cached.popitem(last=False)
        cached[block] = True
        cached.move_to_end(block)
    return misses


def most_often(sequence, size):
    """One place is for the others in turn."""
    kept = {block for block, _ in collections.Counter(sequence).most_common(size - 1)}
    return [block not in kept for block in sequence]


def simulate(record, frames):
    """Mean bytes a token after the first two."""
    ends = record["counted"][1:]
    sequence = [block for use in record["uses"] for block in use]
    token_of = [next(token for token, end in enumerate(ends) if at < end) for at, use in enumerate(record["uses"])
                for _ in use]
    counted = [token >= WARM_UP_TOKENS for token in token_of]
    tokens = len(ends) - WARM_UP_TOKENS
    touched = len({(token, block) for token, block in zip(token_of, sequence) if token >= WARM_UP_TOKENS})
    results = {"touched": touched * BLOCK / tokens}
    for cache in (optimal, least_recent, most_often):
        misses = sum(miss for miss, counts in zip(cache(sequence, frames), counted) if counts)
        results[cache.__name__] = misses * BLOCK / tokens
    return results


def guess_next(record):
    """How well the experts of a layer tell those of the next one, learned as tokens go by: of as many blocks as a layer
    uses, those that have most often followed the blocks of the layer before. The share that is right, after half of the
    tokens; and that of those used most often in that layer, whatever came before."""
    ends = [0, *record["counted"][1:]]
    tokens = [[set(use) for use in record["uses"][begin:end]] for begin, end in zip(ends[1:], ends[2:])]
    varies = [k for k in range(len(tokens[0])) if any(token[k] != tokens[0][k] for token in tokens)]
    followed, used = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    right, always_right, guessed = 0, 0, 0
    for number, token in enumerate(tokens):
        for before, after in zip(varies, varies[1:]):
            if not token[before].isdisjoint(token[after]):
                continue  # two tensors of the same experts
            likely = sum((followed[before, block] for block in token[before]), collections.Counter())
            if number >= len(tokens) // 2:
                guessed += len(token[after])
                right += len(token[after] & {block for block, _ in likely.most_common(len(token[after]))})
                common = used[after].most_common(len(token[after]))
                always_right += len(token[after] & {block for block, _ in common})
            for block in token[before]:
                followed[before, block].update(token[after])
            used[after].update(token[after])
    return right / max(guessed, 1), always_right / max(guessed, 1)


# -- The measurement ---------------------------------------------------------------------------------------------------


def measure(arguments, folder):
    import children

    script = [sys.executable, __file__]
    options = {"timeout": TIMEOUT_S,
               "env": children.environment({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"})}
    children.run([*script, "make", folder, arguments.layers, arguments.skew], **options).check()
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    budget = size // arguments.share
    words = [*script, "run", folder, arguments.tokens, "eager" if arguments.eager else "grouped_mm"]
    recorded = children.run([*words, "trace"], **options).check().records[-1]
    stock = children.run(words, **options).check().records[-1]
    with children.MemoryCgroup(budget + BESIDE) as group:
        child, summary = children.ebb_run(words, memory=budget, flash=arguments.flash, cgroup=group, **options)
    mine = child.records[-1]
    fetched = mine["counted"]
    results = simulate(recorded, budget // BLOCK)
    results["guessed"] = guess_next(recorded)
    results["fetched"] = (fetched[-1] - fetched[WARM_UP_TOKENS]) / (len(fetched) - 1 - WARM_UP_TOKENS)
    seconds = [statistics.median(record["seconds"][WARM_UP_TOKENS:]) for record in (stock, mine)]
    return {"size": size, "budget": budget, "seconds": seconds, "rewritten": summary["rewritten_bytes"],
            "same": stock["tokens"] == mine["tokens"], **results}


def main():
    if sys.argv[1:2] == ["make"]:
        return make(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    if sys.argv[1:2] == ["run"]:
        return generate(sys.argv[2], int(sys.argv[3]), sys.argv[4], len(sys.argv) > 5)
    from children import flash_directory, format_size
    from output import print_table

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--share", type=int, default=4, help="of the checkpoint: 4 is a quarter (default)")
    parser.add_argument("--tokens", type=int, default=48, help="of which the first two do not count (default 48)")
    parser.add_argument("--layers", type=int, default=5, help="200 MiB each (default 5)")
    parser.add_argument("--skew", type=float, default=0, help="how much the router prefers some experts (default 0)")
    parser.add_argument("--eager", action="store_true", help="experts are called one by one, each a tensor of its own")
    parser.add_argument("--flash", help="directory for the checkpoint and for flash")
    arguments = parser.parse_args()
    arguments.flash = flash_directory(arguments.flash)
    folder = pathlib.Path(arguments.flash) / f"ebb-experts-{os.getpid()}"
    try:
        found = measure(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    names = ("touched", "optimal", "least_recent", "most_often", "fetched")
    print(f"{format_size(found['size'])} of weights, {format_size(found['budget'])} of memory; a token takes "
          f"{found['seconds'][0]:.2f} s with all memory and {found['seconds'][1]:.2f} s in that\n")
    print_table([["bytes a token", *(name.replace("_", " ") for name in names), "of the optimal", "weights written",
                  "tokens"],
                 ["", *(format_size(found[name]) for name in names), f"{found['fetched'] / found['optimal']:.2f}",
                  format_size(found["rewritten"]), "equal" if found["same"] else "NOT equal"]])
    print("\nof the next layer's blocks, guessed by the experts of the layer before: {:.0%} right; by what that layer "
          "uses most often: {:.0%}".format(*found["guessed"]))
    return 0 if found["same"] else 1


if __name__ == "__main__":
    sys.exit(main())
