"""Traces of models that nobody has recorded: what each operator would take by the roofline, as `ebb sim` reads it.

An operator takes as long as its arithmetic at a share of the device's peak, or as its bytes at a share of its
bandwidth, whichever is longer, and no less than a kernel takes to start. The shares are those of `Efficiency`;
bench/simulated/scale.py checks them against the recorded step of bench/data/gpu. Sizes are bytes, times nanoseconds,
rates flops and bytes a second. What the traces are for: docs/scale.md; their format: docs/trace.md.
"""

import dataclasses
import gzip
import json


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoder-only Transformer. Biases are left out: less than 0.2 % of the parameters of those below."""
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int  # width of one
    ffn: int  # of one expert, where there are experts
    vocabulary: int
    experts: int = 0
    chosen: int = 0  # experts a token
    gated: bool = True  # SwiGLU; else GELU, spelled out as transformers' NewGELU does
    tied: bool = False
    positions: int = 0  # learned ones

    @property
    def qkv(self):
        return (self.heads + 2 * self.kv_heads) * self.head

    @property
    def up(self):  # columns of the first matrices of the feed-forward part, side by side
        return (2 if self.gated else 1) * self.ffn

    @property
    def attention_parameters(self):
        return self.hidden * self.qkv + self.heads * self.head * self.hidden

    @property
    def expert_parameters(self):
        return self.hidden * (self.up + self.ffn)

    def parameters(self, experts=None):
        """All of them, or those that a token meets which is sent to so many experts a layer."""
        experts = (self.experts or 1) if experts is None else experts
        layer = self.attention_parameters + experts * self.expert_parameters + self.hidden * (self.experts + 2)
        ends = (1 if self.tied else 2) * self.vocabulary + self.positions + 1
        return self.layers * layer + ends * self.hidden

    @property
    def active_parameters(self):
        return self.parameters(self.chosen or 1)


LLAMA_8B = Model("Llama 3.1 8B", 32, 4096, 32, 8, 128, 14336, 128256)
QWEN_14B = Model("Qwen3 14B", 40, 5120, 40, 8, 128, 17408, 151936)
LLAMA_70B = Model("Llama 3.1 70B", 80, 8192, 64, 8, 128, 28672, 128256)
QWEN_235B = Model("Qwen3 235B-A22B", 94, 4096, 64, 4, 128, 1536, 151936, experts=128, chosen=8)
GPT2_LARGE = Model("GPT-2 large", 36, 1280, 20, 20, 64, 5120, 50257, gated=False, tied=True, positions=1024)
MODELS = (LLAMA_8B, QWEN_14B, LLAMA_70B, QWEN_235B, GPT2_LARGE)


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    half_flops: float  # dense products of 16-bit floats that are summed up in 32 bits
    single_flops: float  # of 32-bit floats
    bandwidth: float


@dataclasses.dataclass(frozen=True)
class Efficiency:
    """What of a peak a kernel reaches: of arithmetic in products and in attention, of bandwidth in everything else."""
    product: float
    attention: float
    bandwidth: float


KERNEL_NS = 2000  # the least that one takes on the device


def flops_of_attention(model, batch, length):
    """Forward, causal: two products of half a square each."""
    return 2 * batch * length**2 * model.heads * model.head


def flops_of_step(model, batch, length):
    """Of a training step without recomputation: what a share of the peak is usually said of."""
    matrices = model.active_parameters - (0 if model.tied else model.vocabulary * model.hidden)
    return 6 * matrices * batch * length + 3.5 * model.layers * flops_of_attention(model, batch, length)


def touched_experts(model, tokens):
    """How many experts of a layer so many tokens are expected to be sent to, if all are alike."""
    return model.experts * (1 - (1 - model.chosen / model.experts) ** tokens)


class Trace:
    """Lines of a trace. Tensors are lists of ids: one, or the pieces of one allocation."""

    def __init__(self, device, efficiency, single=False, **header):
        self.device, self.efficiency = device, efficiency
        self.peak = device.single_flops if single else device.half_flops
        self.header = {"format": "ebb-trace", "version": 1, "device": device.name, "source": "roofline", **header}
        self.lines, self.sizes, self.launches = [], [], 0

    def tensor(self, size, kind="activation", persistent=False, piece=None):
        """Of `size` bytes; of pieces of `piece` bytes if that is given."""
        ids = []
        for begin in range(0, size, piece or size):
            ids.append(len(self.sizes))
            self.sizes.append(min(piece or size, size - begin))
            self.lines.append({"tensor": ids[-1], "bytes": self.sizes[-1], "kind": kind, "persistent": persistent,
                               **({"continues": True} if begin else {})})
        return ids

    def launch(self, op, reads, writes, flops=0, *, attention=False, moved=None, sync=False):
        """`moved`: bytes, if not all of what is read and written."""
        reads, writes = sum(reads, []), sum(writes, [])
        if moved is None:
            moved = sum(self.sizes[each] for each in reads) + sum(self.sizes[each] for each in writes)
        share = self.efficiency.attention if attention else self.efficiency.product
        seconds = max(flops / (self.peak * share), moved / (self.device.bandwidth * self.efficiency.bandwidth))
        self.lines.append({"launch": self.launches, "op": op, "ns": max(round(seconds * 1e9), KERNEL_NS),
                           **({"sync": True} if sync else {}), "reads": reads, "writes": writes})
        self.launches += 1

    def product(self, op, reads, writes, rows, columns, inner, **more):
        self.launch(op, reads, writes, 2 * rows * columns * inner, **more)

    def end_iteration(self):
        self.lines.append({"mark": "step"})

    def write(self, path):
        opened = gzip.open(path, "wt", compresslevel=1) if str(path).endswith(".gz") else open(path, "w")
        with opened as file:
            for line in (self.header, *self.lines):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def kernel_ns(self):
        return sum(line["ns"] for line in self.lines if "launch" in line)
