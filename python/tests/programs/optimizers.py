"""Optimizers and operators on lists of tensors, as all of torch.optim has them: results that stock PyTorch must have,
too. Run by child.py; the sizes suit a budget of 8 MiB, of which the lists are several times."""

import warnings

import torch
from workloads import hash_tensors

# What torch.optim has in a variant on lists besides the loop over parameters, and what each is made with.
BOTH = {
    "Adadelta": {}, "Adafactor": {}, "Adagrad": {}, "Adam": {"amsgrad": True}, "AdamW": {}, "Adamax": {}, "ASGD": {},
    "NAdam": {"decoupled_weight_decay": True}, "RAdam": {}, "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {}, "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
}
FUSED = {"Adagrad": {}, "Adam": {"amsgrad": True}, "AdamW": {}, "SGD": {"momentum": 0.9, "dampening": 0.1}}
# Sizes that no vector divides, among them a large tensor and a layout that is not contiguous; tiny ones.
SHAPES = [(1000003,), (700, 901), (3,), (16, 24, 40, 41), (513, 257), (1,), (400001,), (299, 1001)]


def parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    made = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]
    made[3] = made[3].contiguous(memory_format=torch.channels_last)
    return [torch.nn.Parameter(tensor) for tensor in made]


def set_gradients(params, turn):
    generator = torch.Generator().manual_seed(100 + turn)
    for i, parameter in enumerate(params):
        # One has none in some turns, as what a step does not use.
        gradient = torch.randn(parameter.shape, generator=generator).to(parameter)
        parameter.grad = None if i == 4 and turn % 2 else gradient


def train(name, kind, dtype="float32"):
    """Some steps with gradients that are clipped, as lists too."""
    params = parameters(getattr(torch, dtype))
    settings = (FUSED if kind == "fused" else BOTH)[name]
    variant = {"foreach": False} if kind == "loop" else {kind: True}
    optimizer = getattr(torch.optim, name)(params, lr=1e-2, **variant, **settings)
    norms = []
    for turn in range(4):
        set_gradients(params, turn)
        norms.append(torch.nn.utils.clip_grad_norm_(params, 100.0, foreach=True))
        torch.nn.utils.clip_grad_value_(params, 2.5, foreach=True)
        optimizer.step()
    state = [value for entry in optimizer.state.values() for value in entry.values() if torch.is_tensor(value)]
    return hash_tensors([*params, *state, *norms])


def train_scaled(name):
    """With a scaler of losses, one of whose steps overflows and is left out."""
    params = parameters()
    optimizer = getattr(torch.optim, name)(params, lr=torch.tensor(1e-2), fused=True, **FUSED[name])
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for turn in range(4):
        scaler.scale(torch.ones(1))  # makes its tensors
        set_gradients(params, turn)
        if turn == 2:
            params[1].grad[5, 5] = float("inf")
        scaler.step(optimizer)
        scaler.update()
    state = [value for entry in optimizer.state.values() for value in entry.values() if torch.is_tensor(value)]
    return [hash_tensors([*params, *state]), scaler.get_scale()]


def lists():
    """Operators on lists with something for each tensor besides: numbers, a tensor of them, and what they refuse."""
    first = [parameter.detach() for parameter in parameters()]
    second = [torch.full_like(tensor, 3.0) for tensor in first]
    numbers = [float(i + 1) for i in range(len(first))]
    found = [*torch._foreach_mul(first, numbers), *torch._foreach_norm(first), *torch._foreach_max(first)]
    found += torch._foreach_addcdiv(first, first, second, torch.tensor(numbers))
    torch._foreach_addcmul_(first, second, second, value=0.5)
    torch._foreach_lerp_(first, second, 0.25)
    torch._foreach_copy_(second, first)
    for bad in ((first, second[:-1]), (first, numbers[:-1])):
        try:
            torch._foreach_add(*bad)
        except RuntimeError as error:
            found.append(torch.tensor(len(str(error))))
    try:
        torch._fused_sgd_(first, second, [])
    except TypeError as error:
        found.append(torch.tensor(len(str(error))))
    return hash_tensors([*found, *first, *second])


def compiled():
    """A step of an optimizer on lists through torch.compile, which must know what it finds there and not warn."""
    generator = torch.Generator().manual_seed(5)
    params = [torch.nn.Parameter(torch.randn(500, 301, generator=generator)) for _ in range(6)]
    optimizer = torch.optim.AdamW(params, lr=1e-2, foreach=True)
    step = torch.compile(optimizer.step)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for turn in range(3):
            for parameter in params:
                parameter.grad = torch.full_like(parameter, turn + 1.0)
            step()
    said = sorted(str(each.message) for each in warned if "Dynamo" in str(each.message))
    return [hash_tensors(params), said]


def compiled_whole():
    """What is compiled of a step over one large matrix: the graph that stock PyTorch has, not one of slices."""
    parameter = torch.nn.Parameter(torch.randn(1500, 1024, generator=torch.Generator().manual_seed(6)))
    optimizer, nodes = torch.optim.AdamW([parameter], lr=1e-2), []

    def count_nodes(graph, _):
        nodes.append(len(list(graph.graph.nodes)))
        return graph.forward

    step = torch.compile(optimizer.step, backend=count_nodes)
    for turn in range(3):
        parameter.grad = torch.full_like(parameter, turn + 1.0)
        step()
    return [hash_tensors([parameter]), nodes]


def sparse(name):
    """Gradients of a few rows, which no slice of a table has."""
    table = torch.nn.Parameter(torch.randn(20000, 100, generator=torch.Generator().manual_seed(1)))
    optimizer = getattr(torch.optim, name)([table], lr=0.1)
    for turn in range(4):
        rows = torch.tensor([[turn, 7, 19999, 7]])
        table.grad = torch.sparse_coo_tensor(rows, torch.full((4, 100), turn + 1.0), table.shape)
        optimizer.step()
    return hash_tensors([table, *(value for entry in optimizer.state.values() for value in entry.values())])


def large_state(kind):
    """An optimizer over 48 MiB of matrices with what belongs to them, twelve of them, or one ("one", a loop): what
    flash is read, in steps."""
    shapes = [(512 * 12, 512)] if kind == "one" else [(512, 512)] * 12
    params = [torch.nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(i)))
              for i, shape in enumerate(shapes)]
    optimizer = torch.optim.AdamW(params, **({"foreach": False} if kind == "one" else {kind: True}))
    for turn in range(8):
        for parameter in params:
            parameter.grad = torch.full_like(parameter, turn + 1.0)
        optimizer.step()
    return hash_tensors(params)
