"""What decoder-only Transformers do to memory, as roofline traces: a training step, and tokens that are generated.

Each class fills one `roofline.Trace`, launch by launch, in the order in which PyTorch would run it. Tensors that are
made in an iteration die after their last launch.
"""

import dataclasses
import random

from roofline import flops_of_attention

HEAD_TOKENS = 2048  # that the loss works on at a time, so that logits need no memory for all


@dataclasses.dataclass
class Parameter:
    count: int
    weight: list
    state: list  # tensors of 4 bytes a parameter each
    gradient: list = dataclasses.field(default_factory=list)


class Training:
    """A training step: forward, backward with or without recomputation, AdamW. Weights, gradients and activations of 16
    bits with a copy of the weights and two moments of 32: 16 bytes a parameter; or all in 32 bits (`single`), also 16.

    Of a mixture experts are taken in `groups`, all of one at once, and each gets as many tokens as any other.
    What the optimizer works on lies in parts of `part` bytes, as Ebbtide goes through large parameters. With
    `in_backward` each layer is updated as soon as its gradients are there, and they are freed.
    """

    def __init__(self, model, trace, batch, length, *, recompute=True, in_backward=False, single=False, part=2**30,
                 groups=2):
        self.model, self.trace, self.batch, self.length = model, trace, batch, length
        self.tokens = batch * length
        self.recompute, self.in_backward, self.single = recompute, in_backward, single
        self.width = 4 if single else 2
        self.part = max(part // 16, 2**18)  # parameters
        self.groups = groups if model.experts else 1
        head = None if model.tied else self.parameter(model.vocabulary * model.hidden)
        self.embedding = self.parameter(model.vocabulary * model.hidden)
        self.head = head or self.embedding
        self.layers = [self.layer() for _ in range(model.layers)]

    def parameter(self, count):
        def tensor(width, kind):
            return self.trace.tensor(count * width, kind, True, self.part * width)

        states = 2 if self.single else 3
        return Parameter(count, tensor(self.width, "weight"), [tensor(4, "optimizer") for _ in range(states)])

    def layer(self):
        model = self.model
        layer = {"qkv": self.parameter(model.hidden * model.qkv),
                 "out": self.parameter(model.heads * model.head * model.hidden)}
        if model.experts:
            layer["router"] = self.parameter(model.hidden * model.experts)
        for group in range(self.groups):
            experts = max(model.experts // self.groups, 1)
            layer["up", group] = self.parameter(experts * model.hidden * model.up)
            layer["down", group] = self.parameter(experts * model.ffn * model.hidden)
        return layer

    def make(self, columns, rows=None):
        return self.trace.tensor((rows or self.tokens) * columns * self.width)

    def gradient(self, parameter):
        if not parameter.gradient:
            parameter.gradient = self.trace.tensor(parameter.count * self.width, "gradient", False,
                                                   self.part * self.width)
        return parameter.gradient

    # -- The parts of a layer: what they make is in a dictionary, for the way back ---------------------------------

    def forward(self, layer, x):
        model, trace, tokens = self.model, self.trace, self.tokens
        made = {"x": x, "n1": self.make(model.hidden), "qkv": self.make(model.qkv),
                "o": self.make(model.heads * model.head), "h": self.make(model.hidden), "n2": self.make(model.hidden)}
        trace.launch("norm", [x], [made["n1"]])
        trace.product("qkv", [made["n1"], layer["qkv"].weight], [made["qkv"]], tokens, model.qkv, model.hidden)
        if not model.positions:
            trace.launch("rotate", [made["qkv"]], [made["qkv"]])
        trace.launch("attention", [made["qkv"]], [made["o"]], flops_of_attention(model, self.batch, self.length),
                     attention=True)
        out = self.make(model.hidden)
        trace.product("out", [made["o"], layer["out"].weight], [out], tokens, model.hidden, model.heads * model.head)
        trace.launch("add", [x, out], [made["h"]])
        trace.launch("norm", [made["h"]], [made["n2"]])
        sent, sums = self.dispatch(layer, made), []
        for group, inputs in enumerate(sent):
            sums.append(self.feed_forward(layer, made, group, inputs))
        made["y"] = self.make(model.hidden)
        trace.launch("combine" if model.experts else "add", [made["h"], *sums], [made["y"]])
        return made

    def rows(self):
        """Of the inputs of a group of experts; of a dense model all tokens."""
        return self.tokens * self.model.chosen // self.groups if self.model.experts else self.tokens

    def dispatch(self, layer, made):
        """The inputs of each group. The host reads how many tokens each expert gets before it goes on."""
        if not self.model.experts:
            return [made["n2"]]
        made["choice"] = self.trace.tensor(self.tokens * self.model.chosen * 8)
        self.trace.product("router", [made["n2"], layer["router"].weight], [made["choice"]], self.tokens,
                           self.model.experts, self.model.hidden, sync=True)
        sent = [self.make(self.model.hidden, self.rows()) for _ in range(self.groups)]
        self.trace.launch("dispatch", [made["n2"], made["choice"]], sent)
        return sent

    def feed_forward(self, layer, made, group, inputs):
        model, trace, rows = self.model, self.trace, self.rows()
        up, narrow, out = self.make(model.up, rows), self.make(model.ffn, rows), self.make(model.hidden, rows)
        made["in", group], made["up", group], made["narrow", group] = inputs, up, narrow
        trace.product("up", [inputs, layer["up", group].weight], [up], rows, model.up, model.hidden)
        kept = []
        if not model.gated:  # 0.5 x (1 + tanh(c (x + 0.04 x^3))): eight kernels, of which autograd keeps three results
            kept = [self.make(model.ffn, rows) for _ in range(3)]
            for one in (*kept, *[self.make(model.ffn, rows) for _ in range(4)]):
                trace.launch("gelu", [up], [one])
        made["kept", group] = kept
        trace.launch("activate", kept or [up], [narrow])
        trace.product("down", [narrow, layer["down", group].weight], [out], rows, model.hidden, model.ffn)
        return out

    def backward(self, layer, made, dy):
        model, trace, tokens = self.model, self.trace, self.tokens
        dn2 = self.make(model.hidden)
        parts = [self.feed_forward_backward(layer, made, group, dy) for group in range(self.groups)]
        if model.experts:
            trace.launch("combine_back", [*parts, made["choice"]], [dn2])
            self.back("router", made["n2"], layer["router"], dn2, None, tokens, model.experts, model.hidden)
        dh = self.make(model.hidden)
        trace.launch("norm_back", [made["h"], dn2 if model.experts else parts[0], dy], [dh])
        do, dqkv, dn1, dx = (self.make(model.heads * model.head), self.make(model.qkv), self.make(model.hidden),
                             self.make(model.hidden))
        self.back("out", made["o"], layer["out"], dh, do, tokens, model.hidden, model.heads * model.head)
        trace.launch("attention_back", [made["qkv"], made["o"], do], [dqkv],
                     2.5 * flops_of_attention(model, self.batch, self.length), attention=True)
        if not model.positions:
            trace.launch("rotate", [dqkv], [dqkv])
        self.back("qkv", made["n1"], layer["qkv"], dqkv, dn1, tokens, model.qkv, model.hidden)
        trace.launch("norm_back", [made["x"], dn1, dh], [dx])
        return dx

    def feed_forward_backward(self, layer, made, group, dy):
        model, rows = self.model, self.rows()
        if model.experts:
            sent = self.make(model.hidden, rows)
            self.trace.launch("dispatch", [dy, made["choice"]], [sent])
            dy = sent
        dnarrow, dup, dinputs = self.make(model.ffn, rows), self.make(model.up, rows), self.make(model.hidden, rows)
        self.back("down", made["narrow", group], layer["down", group], dy, dnarrow, rows, model.hidden, model.ffn)
        self.trace.launch("activate_back", [*made["kept", group], made["up", group], dnarrow], [dup])
        self.back("up", made["in", group], layer["up", group], dup, dinputs, rows, model.up, model.hidden)
        return dinputs

    def back(self, op, inputs, parameter, doutput, dinputs, rows, columns, inner):
        """Both products of a matrix: by its inputs and by itself."""
        if dinputs is not None:
            self.trace.product(op + "_back", [doutput, parameter.weight], [dinputs], rows, inner, columns)
        reads = [inputs, doutput] + ([parameter.gradient] if parameter.gradient else [])
        self.trace.product(op + "_weight", reads, [self.gradient(parameter)], inner, columns, rows)

    # -- The step ----------------------------------------------------------------------------------------------------

    def update(self, parameter):
        """AdamW, part by part: all parts lie alike."""
        tensors = [parameter.weight, *parameter.state]
        for index, gradient in enumerate(parameter.gradient):
            of_part = [[tensor[index]] for tensor in tensors]
            reads = of_part if self.single else of_part[1:]  # there, weights are made of their copies
            self.trace.launch("adamw", [*reads, [gradient]], of_part)
        parameter.gradient = []

    def update_layer(self, layer):
        for parameter in layer.values():
            self.update(parameter)

    def loss(self, x):
        """The head and its gradient, some tokens at a time; the gradient of the last layer's output."""
        model, dx = self.model, self.make(self.model.hidden)
        for begin in range(0, self.tokens, HEAD_TOKENS):
            rows = min(HEAD_TOKENS, self.tokens - begin)
            logits = self.trace.tensor(rows * model.vocabulary * 4)
            weight = self.head.weight
            self.trace.product("logits", [x, weight], [logits], rows, model.vocabulary, model.hidden)
            self.trace.launch("loss", [logits], [logits])
            self.trace.product("logits_back", [logits, weight], [dx], rows, model.hidden, model.vocabulary)
            reads = [logits, x] + ([self.head.gradient] if self.head.gradient else [])
            self.trace.product("logits_weight", reads, [self.gradient(self.head)], model.hidden, model.vocabulary, rows)
        return dx

    def step(self):
        model, trace = self.model, self.trace
        x = self.make(model.hidden)
        rows = 2 * self.tokens * model.hidden * self.width  # that are read of the table, and written
        trace.launch("embedding", [self.embedding.weight], [x], moved=rows)
        kept = []
        for layer in self.layers:
            made = self.forward(layer, x)
            kept.append(x if self.recompute else made)
            x = made["y"]
        dx = self.loss(x)
        if self.in_backward and not model.tied:
            self.update(self.head)
        for layer, made in zip(reversed(self.layers), reversed(kept)):
            dx = self.backward(layer, self.forward(layer, made) if self.recompute else made, dx)
            if self.in_backward:
                self.update_layer(layer)
        trace.launch("embedding_back", [dx], [self.gradient(self.embedding)])
        if not self.in_backward:
            for layer in self.layers:
                self.update_layer(layer)
            if not model.tied:
                self.update(self.head)
        self.update(self.embedding)
        trace.end_iteration()
        return trace


class Generation:
    """Tokens from a model of 16 bits: all weights once a token, and the keys and values of `context` tokens. Of a
    mixture each token takes other experts, drawn at random and alike, so its tokens are a sequence; what the router has
    chosen is read back by the host before it launches the experts. After each token the host reads what it was."""

    def __init__(self, model, trace, batch, context, tokens=1, seed=0):
        self.model, self.trace, self.batch, self.context, self.tokens = model, trace, batch, context, tokens
        self.rng = random.Random(seed)
        if model.experts:
            trace.header["sequence"] = True
        self.table = self.weight(model.vocabulary * model.hidden)
        self.head = self.table if model.tied else self.weight(model.vocabulary * model.hidden)
        self.layers = [{"qkv": self.weight(model.hidden * model.qkv),
                        "out": self.weight(model.heads * model.head * model.hidden),
                        "router": self.weight(model.hidden * model.experts) if model.experts else None,
                        "experts": [self.weight(model.expert_parameters) for _ in range(model.experts or 1)],
                        "kv": trace.tensor(batch * context * 2 * model.kv_heads * model.head * 2, "other", True)}
                       for _ in range(model.layers)]

    def weight(self, count):
        return self.trace.tensor(count * 2, "weight", True)

    def experts(self):
        """Of one layer for one token of each sequence of the batch, in their order."""
        if not self.model.experts:
            return [0]
        return sorted({expert for _ in range(self.batch)
                       for expert in self.rng.sample(range(self.model.experts), self.model.chosen)})

    def layer(self, layer, x):
        model, trace, batch = self.model, self.trace, self.batch
        qkv, o, h, y = (trace.tensor(batch * columns * 2) for columns in (model.qkv, model.heads * model.head,
                                                                         model.hidden, model.hidden))
        trace.product("qkv", [x, layer["qkv"]], [qkv], batch, model.qkv, model.hidden)
        trace.launch("attention", [qkv, layer["kv"]], [o, layer["kv"]],
                     4 * batch * self.context * model.heads * model.head, attention=True,
                     moved=trace.sizes[layer["kv"][0]])
        trace.product("out", [o, layer["out"], x], [h], batch, model.hidden, model.heads * model.head)
        if model.experts:
            choice = trace.tensor(batch * model.chosen * 8)
            trace.product("router", [h, layer["router"]], [choice], batch, model.experts, model.hidden, sync=True)
        taken = self.experts()
        rows = batch * (model.chosen or 1) / len(taken)
        for expert in taken:
            trace.product("feed_forward", [h, layer["experts"][expert]], [y], rows, model.expert_parameters, 1)
        return y

    def token(self):
        trace, model = self.trace, self.model
        x = trace.tensor(self.batch * model.hidden * 2)
        trace.launch("embedding", [self.table], [x], moved=2 * trace.sizes[x[0]])
        for layer in self.layers:
            x = self.layer(layer, x)
        logits = trace.tensor(self.batch * model.vocabulary * 4)
        trace.product("logits", [x, self.head], [logits], self.batch, model.vocabulary, model.hidden, sync=True)
        trace.end_iteration()

    def run(self):
        for _ in range(self.tokens):
            self.token()
        return self.trace
