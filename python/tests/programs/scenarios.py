"""Scenarios: uses of tensors that a training loop seldom shows, each a function whose result is the same on stock
PyTorch and under Ebbtide. Run by child.py; the sizes suit a budget of 8 MiB, which all of them exceed several times.
"""

import copy
import ctypes
import os
import shutil
import threading

import numpy
import torch
from torch import nn
from workloads import Recommender, build_mlp, hash_tensors, loss_bits

MIB = 2**20
COUNT = 16  # tensors of 2 MiB each
WORDS = 2 * MIB // 4


def some_tensors(seed=0, count=COUNT, words=WORDS):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(words, generator=generator) for _ in range(count)]


def numpy_loop(passes):
    """Over twice the budget, in NumPy, which announces nothing."""
    array = torch.arange(4 << 20, dtype=torch.float32).numpy()
    for _ in range(passes):
        array += 1
    return float(array[-1]), float(array.sum())


def numpy_views():
    """Writes that no operator announces: through NumPy, a raw pointer and a memory view."""
    tensors = some_tensors()
    arrays = [tensor.numpy() for tensor in tensors]
    for turn in range(3):
        for index, array in enumerate(arrays):
            array[index::7] += turn
            numpy.multiply(array, 1.5, out=array)
        for index, tensor in enumerate(tensors):
            words = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())
            words[index * 1000] = 42.0 + turn
            ctypes.memset(tensor.data_ptr() + 4096 * index, turn, 4096)
        for array in arrays:
            memoryview(array).cast("B")[-1] = 0x40
    borrowed = torch.from_numpy(numpy.arange(WORDS, dtype=numpy.float32))
    tensors[0].add_(borrowed)
    return hash_tensors(tensors)


def kept_tensors():
    """Tensors that live across iterations beside short-lived ones; views, aliases and storages that grow."""
    kept = some_tensors()
    generator = torch.Generator().manual_seed(1)
    for turn in range(40):
        index = int(torch.randint(COUNT, (1,), generator=generator))
        other = int(torch.randint(COUNT, (1,), generator=generator))
        scratch = kept[index].view(512, -1).t().contiguous()
        kept[other].view(-1)[::3].mul_(0.5)
        kept[index].add_(scratch.flatten(), alpha=0.25)
        if turn % 10 == 9:
            kept[index] = kept[index].clone()
        if turn % 10 == 4:
            kept[other].resize_(WORDS + 4096)[WORDS:] = turn
            kept[other] = kept[other][:WORDS]
    alias = torch.empty(0).set_(kept[0].untyped_storage(), 128, (100, 100))
    alias.fill_(3.0)
    return hash_tensors(kept)


def opaque_layouts():
    """oneDNN's opaque tensors and sparse ones, which hold memory that no strided tensor names."""
    torch.manual_seed(0)
    ballast = some_tensors()
    results = []
    image = torch.randn(4, 16, 64, 64)
    convolution = nn.Conv2d(16, 32, 3, padding=1)
    with torch.no_grad():
        for _ in range(3):
            opaque = image.to_mkldnn()
            for tensor in ballast:
                tensor.add_(1)
            weight, bias = convolution.weight.to_mkldnn(), convolution.bias.to_mkldnn()
            product = torch.mkldnn_convolution(opaque, weight, bias, (1, 1), (1, 1), (1, 1), 1)
            results.append(torch.relu(product).to_dense())
            image = results[-1][:, :16].contiguous()
    dense = torch.randn(1024, 1024)
    dense[dense.abs() < 1.5] = 0
    other = torch.randn(1024, 256)
    for sparse in (dense.to_sparse(), dense.to_sparse_csr()):
        for tensor in ballast:
            tensor.mul_(0.5)
        results.append(sparse @ other)
    coalesced = (dense.to_sparse() + dense.t().to_sparse()).coalesce()
    results += [coalesced.indices(), coalesced.values()]
    return hash_tensors(results + ballast)


def python_threads():
    """Operators from several Python threads at once, over their own tensors and over shared ones."""
    shared = torch.randn(512, 512, generator=torch.Generator().manual_seed(7))
    hashes, errors = {}, []

    def work(number):
        try:
            tensors = some_tensors(number, count=6)
            for turn in range(6):
                for index, tensor in enumerate(tensors):
                    square = tensor.view(-1, 512)
                    tensors[index] = torch.tanh(square @ shared).flatten().add_(tensors[index - 1], alpha=0.1)
                if turn == 3:
                    tensors[0] = torch.sort(tensors[0]).values
            hashes[number] = hash_tensors(tensors)
        except Exception as error:  # noqa: BLE001: reported by the main thread
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return [hashes[number] for number in range(4)]


def save_and_load(folder):
    """A checkpoint of more bytes than the budget, written and read back four ways."""
    path = os.path.join(folder, f"checkpoint-{os.getpid()}")
    os.mkdir(path)
    try:
        torch.manual_seed(0)
        model, optimizer, data, loss_of = build_mlp()
        loss_of(data()).backward()
        optimizer.step()
        file = os.path.join(path, "all.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        for tensor in model.state_dict().values():
            tensor.zero_()
        loaded = torch.load(file, weights_only=True)
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
        mapped = torch.load(file, weights_only=True, mmap=True)
        assert hash_tensors(mapped["model"].values()) == hash_tensors(loaded["model"].values())
        raw = os.path.join(path, "raw.npy")
        weight = model.state_dict()["0.weight"]
        numpy.save(raw, weight.numpy())  # the kernel reads these pages itself, in write()
        with open(raw, "r+b") as source:
            source.seek(-weight.nbytes, os.SEEK_END)
            source.readinto(memoryview(weight.numpy()).cast("B"))  # and writes them, in read()
        loss = loss_of(data())
        return [loss_bits(loss), hash_tensors(model.state_dict().values()), os.path.getsize(file)]
    finally:
        shutil.rmtree(path)


def compiled():
    """A function through torch.compile, whose kernels call the allocator from generated C++."""
    torch.manual_seed(0)
    tensors = some_tensors()

    @torch.compile
    def mix(a, b):
        return torch.tanh(a * 2 + b).cumsum(0) * a.mean()

    with torch.no_grad():
        for _ in range(2):
            for index in range(COUNT):
                tensors[index] = mix(tensors[index], tensors[index - 1])
    return hash_tensors(tensors)


def compiled_training():
    """A model larger than the budget, compiled forwards and backwards: its kernels are no operators."""
    torch.manual_seed(0)
    layers = ((torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256), torch.nn.LayerNorm(256))
              for _ in range(6))
    model = torch.nn.Sequential(*(torch.nn.Sequential(*layer) for layer in layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step, data, losses = torch.compile(model), torch.randn(512, 256), []
    for _ in range(6):
        optimizer.zero_grad()
        loss = step(data).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss_bits(loss))
    return [losses, hash_tensors(model.state_dict().values())]


def deep_copies(count=6):
    """Modules copied as averages of weights, layers made of one another, and ensembles are."""
    torch.manual_seed(0)
    model, *_ = build_mlp()
    models = [model, *(copy.deepcopy(model) for _ in range(count))]
    models += [model.__class__(*(copy.copy(layer) for layer in model))]  # shares
    with torch.no_grad():
        for index, each in enumerate(models):
            for parameter in each.parameters():
                parameter.add_(index)
        storage = torch.UntypedStorage(2 * MIB)
        storage.fill_(7)
        copied = copy.deepcopy(storage)
    return [hash_tensors(each.parameters()) for each in models] + [copied.nbytes(), copied[0], copied[-1]]


def inference():
    """A model larger than the budget serving requests, without gradients."""
    torch.manual_seed(0)
    model, _, data, _ = build_mlp()
    lookup = Recommender()
    model.eval()
    results = []
    with torch.no_grad():
        results += [model(data()["x"]) for _ in range(4)]
    with torch.inference_mode():
        results += [model(data()["x"]) for _ in range(4)]
        results.append(lookup(torch.arange(0, 40000, 7), torch.arange(0, 40000, 7).repeat(4, 1).t().contiguous()))
    return hash_tensors(result.clone() for result in results)


def lookups():
    """A few rows of a table larger than memory, again and again; and what is no row of it."""
    table = torch.arange(65536 * 256, dtype=torch.float32).view(65536, 256)
    found = []
    for i in range(20):
        rows = torch.tensor([i * 3001 + 7, 65535 - i, i * 3001 + 7])
        found += [torch.nn.functional.embedding(rows, table), torch.index_select(table, 0, rows.int())]
    try:
        torch.nn.functional.embedding(torch.tensor([65536]), table)
    except IndexError as error:
        found.append(torch.tensor(len(str(error))))
    return hash_tensors(found)


def tables(optimizer="SGD", steps=12):
    """A recommender: rows of tables many times memory, looked up in bags, and sparse gradients added to them."""
    generator = torch.Generator().manual_seed(0)
    bags = [nn.EmbeddingBag(rows, 256, mode="sum", sparse=True, _weight=torch.full((rows, 256), 0.5))
            for rows in (65536, 20000, 50)]
    parameters = [bag.weight for bag in bags]
    if optimizer == "SparseAdam":
        step = torch.optim.SparseAdam(parameters, lr=0.01)
    else:
        step = getattr(torch.optim, optimizer)(parameters, lr=0.1)
    losses = []
    for _ in range(steps):
        rows = [torch.randint(0, bag.num_embeddings, (4, 3), generator=generator) for bag in bags]
        loss = sum(bag(row).square().mean() for bag, row in zip(bags, rows, strict=True))
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.detach())
    with torch.no_grad():
        kept = parameters[1]
        kept.index_add_(0, torch.tensor([5, 19999, 5]), torch.ones(3, 256))
        kept[torch.tensor([7, -1])] = 2.0
        kept.index_put_((torch.tensor([7, 8]),), torch.ones(2, 256), accumulate=True)
        kept.index_copy_(0, torch.tensor([100, 300]), torch.zeros(2, 256))
    return [*map(loss_bits, losses), hash_tensors(kept[i] for i in (5, 7, 8, 100, 300, 19999))]


def experts():
    """A few matrices of a stack larger than memory, by their numbers, and multiplied group by group."""
    torch.manual_seed(0)
    stack = torch.empty(64, 512, 1024, dtype=torch.bfloat16)
    for expert in stack:
        expert.normal_()
    x = torch.randn(5, 512).bfloat16()
    found = []
    for i in range(10):
        first, second = i * 6 + 1, 63 - i // 2
        found.append(stack[torch.tensor([first, -i - 1])].float().sum((1, 2)))
        ends = torch.zeros(64, dtype=torch.int32)
        ends[first:], ends[second:] = 2, 5
        found.append(torch.nn.functional.grouped_mm(x, stack, offs=ends))
        found.append(torch.nn.functional.grouped_mm(found[-1], stack.transpose(-2, -1), offs=ends))
    try:
        stack[torch.tensor([64])]
    except IndexError as error:
        found.append(torch.tensor(len(str(error))))
    every = torch.arange(1, 65, dtype=torch.int32)
    found.append(torch.nn.functional.grouped_mm(x[:1].expand(64, 512).contiguous(), stack, offs=every))
    return hash_tensors(found)


def operator_beyond_the_budget():
    """Single operators that touch several times the budget."""
    tensors = some_tensors()
    together = torch.cat(tensors)
    stacked = torch.stack(tensors).view(COUNT, -1)
    gram = stacked @ stacked.t()
    torch._foreach_add_(tensors, 1.0)
    order = torch.argsort(together)
    return hash_tensors([together, gram, order, *tensors])


def allocation_beyond_the_budget():
    """One tensor of five times the budget, written and read in several orders."""
    big = torch.zeros(40 * MIB // 4)
    big[::2] = 1.0
    big += torch.arange(big.numel()) % 17
    total = big.sum(dtype=torch.float64).item()
    transposed = big.view(2560, -1).t().contiguous()
    return [total, hash_tensors([big, transposed])]


class _Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("raised in backward")


def exceptions():
    """Operators that fail half-way: what they had announced is retired all the same, again and again."""
    tensors = some_tensors()
    matrix = tensors[0].view(512, -1)
    messages = []

    def attempt(function):
        try:
            function()
            messages.append("no error")
        except (RuntimeError, IndexError, ValueError) as error:
            messages.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")

    for turn in range(50):
        leaf = matrix.clone().requires_grad_()
        attempt(lambda: matrix @ matrix)
        attempt(lambda: matrix[torch.tensor([0, 100000])])
        attempt(lambda: torch.cat([matrix, tensors[1]]))
        attempt(lambda: torch.linalg.cholesky(-torch.eye(512)))
        attempt(lambda: _Fails.apply(leaf).sum().backward())
        tensors[turn % COUNT].add_(1)
    return [messages, hash_tensors(tensors)]


def deep_graph():
    """A long chain of saved activations, freed in reverse by backward, with hooks that look at gradients."""
    torch.manual_seed(0)
    x = torch.randn(256, 512, requires_grad=True)
    weight = torch.randn(512, 512).div_(23).requires_grad_()
    seen = []
    y = x
    for _ in range(60):
        y = torch.tanh(y @ weight)
        y.register_hook(lambda gradient: seen.append(loss_bits(gradient.abs().sum())))
    y.square().mean().backward()
    return [seen, hash_tensors([x.grad, weight.grad, y])]
