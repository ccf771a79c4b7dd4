"""Scenarios on a device: what PyTorch does with memory there beside training loops. Run by child.py.

Those that take `device` give the same on every device; the others are about Ebbtide's answer.
"""

import ebbtide
import torch
from workloads import hash_tensors

MIB = 2**20
WORDS = 64 * 1024  # 256 KiB: four blocks
COUNT = 40  # 10 MiB of them


def _some(device, count=COUNT):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(WORDS, generator=generator).to(device) for _ in range(count)]


def operators_that_hide(device):
    """Tensors in lists, optional lists and results that are made inside; storages that grow; kernels without inputs."""
    torch.manual_seed(0)
    tensors = _some(device)
    results = [torch.tril_indices(200, 200, device=device), torch.randperm(1000, device=device),
               torch.cat(tensors[:4]), torch.stack(tensors[8:12]).amax(0)]
    at = torch.arange(0, 256, 3, device=device)
    square = tensors[12].view(256, 256)
    results += [square[at], square[:, at], square[at, at], torch.where(square > 0, square, -square)]
    square[at] = 1.0
    square[:, at] = 2.0
    grown = torch.empty(0, device=device)
    for tensor in tensors[13:17]:
        torch.mul(tensor, 2.0, out=grown)
        grown.resize_(2 * WORDS)[WORDS:] = 3.0
        results.append(grown)
        grown = torch.empty(0, device=device)
    storage = tensors[17].untyped_storage()
    storage.resize_(2 * storage.nbytes())
    whole = torch.empty(0, device=device).set_(storage, 0, (2 * WORDS,))
    whole[WORDS:] = 4.0
    results += [whole, torch.empty(0, 3, device=device) + 1, torch.zeros((), device=device) + 1]
    results += list(torch._foreach_mul(tensors, 0.5))
    return hash_tensors([*tensors, *results])


def gradients(device):
    """Double backward, checkpoints, hooks, gradients that accumulate, saved tensors on the way to the host."""
    from torch.utils.checkpoint import checkpoint

    weights = [tensor.view(256, 256).div_(16).requires_grad_() for tensor in _some(device, 16)]
    x = torch.ones(64, 256, device=device)
    seen = []
    for turn in range(3):
        y = x
        for weight in weights:
            y = checkpoint(lambda a, b: torch.tanh(a @ b), y, weight, use_reentrant=turn == 1)
        y.register_hook(lambda gradient: seen.append(gradient.abs().sum()))
        (y.square().mean() + (weights[0] @ weights[0]).sum() * 1e-3).backward()  # a gradient with two contributions
    y = torch.tanh(x @ weights[1]).sum()
    (first,) = torch.autograd.grad(y, weights[1], create_graph=True)
    first.square().sum().backward()
    with torch.autograd.graph.save_on_cpu():
        (x @ weights[2] @ weights[3]).relu().sum().backward()
    return hash_tensors([weight.grad for weight in weights] + seen)


def streams(device):
    """Work in three streams, ordered as a program does it; memory freed in one while it is used in another."""
    side = [torch.Stream(device=device) for _ in range(2)] if device != "cpu" else [None, None]
    tensors = _some(device)

    def within(stream, waits_for, function):
        if stream is None:
            return function()
        stream.wait_stream(waits_for)
        with stream:
            return function()

    main = torch.accelerator.current_stream() if device != "cpu" else None
    for turn in range(3):
        for index, tensor in enumerate(tensors):
            stream = side[index % 2]
            doubled = within(stream, main, lambda: (tensor * 2.0 + turn))
            if stream is not None:
                tensor.record_stream(stream)  # and is let go here, while it may be in use there
                main.wait_stream(stream)
                doubled.record_stream(main)
            tensors[index] = doubled - tensor
            del tensor, doubled
    return hash_tensors(tensors)


def several_threads(device):
    """Operators from several threads of Python's at once."""
    import threading

    shared = torch.randn(256, 256, generator=torch.Generator().manual_seed(2)).to(device)
    results, errors = {}, []

    def work(number):
        try:
            mine = [tensor.view(256, 256) for tensor in _some(device, 4)]
            for _ in range(5):
                mine = [torch.tanh(tensor @ shared).mul_(0.5 + number) for tensor in mine]
            results[number] = hash_tensors(mine)
        except Exception as error:  # noqa: BLE001: reported by the main thread
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return [results[number] for number in range(3)]


def compiled(device):
    """Triton's kernels, by way of torch.compile."""

    @torch.compile
    def mix(a, b):
        return torch.tanh(a * 2 + b) * a.mean()

    tensors = _some(device)
    for turn in range(2):
        for index in range(COUNT):
            tensors[index] = mix(tensors[index], tensors[index - 1])
    return hash_tensors(tensors)


def refused():
    """An operator that does not fit raises, and nothing else has changed. Under 2 MiB of device memory."""
    tensors = _some("soft", 16)
    before = hash_tensors(tensors)
    messages = []
    for attempt in (lambda: torch.cat(tensors), lambda: torch.empty(4 * MIB, device="soft"),
                    lambda: torch.stack(tensors, out=torch.empty(0, device="soft")),
                    lambda: torch._foreach_norm([torch.ones(MIB, device="soft")])):
        try:
            attempt()
            messages.append("")
        except RuntimeError as error:
            messages.append(f"{type(error).__name__}: {error}")
    return {"messages": messages, "intact": hash_tensors(tensors) == before,
            "usable": (tensors[0] + tensors[1]).isfinite().all().item()}


def kernels_of_others(announced):
    """A kernel that is no operator, on a tensor that is elsewhere: with ebbtide.launch(), or without."""
    import soft_device

    tensors = _some("soft")
    for tensor in tensors:
        if announced:
            with ebbtide.launch(tensor, name="touch"):
                soft_device.touch(tensor, write=True)
        else:
            soft_device.touch(tensor, write=True)
    return all(bool((tensor.view(torch.uint8) == 1).all()) for tensor in tensors)


def kernels_of_triton():
    """Those who start Triton's kernels announce the kernels' tensors, in the versions installed here, too."""
    import soft_device
    from ebbtide.torch import device as managed

    class Descriptor:
        def __init__(self, base):
            self.base = base

    class Kernel:
        def run(self, given, count, *, grid):
            tensor = given[0] if isinstance(given, tuple) else getattr(given, "base", given)
            soft_device.touch(tensor, write=True)
            return count

    managed._announce_kernels(Kernel)
    tensors = _some("soft")
    given = [(lambda x: x, lambda x: (x, 1), Descriptor)[index % 3](tensor) for index, tensor in enumerate(tensors)]
    assert [Kernel().run(each, 3, grid=(1,)) for each in given] == [3] * COUNT

    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from triton.runtime.jit import JITFunction

    assert all(hasattr(kind.run, "__wrapped__") for kind in (CachingAutotuner, JITFunction))
    return all(bool((tensor.view(torch.uint8) == 1).all()) for tensor in tensors)


def forked_worker():
    """Workers of a DataLoader, forked beside a device in use, make their batches."""
    from torch.utils.data import DataLoader, TensorDataset

    tensors = _some("soft", 8)
    data = TensorDataset(torch.arange(4000.0).view(40, 100))
    loader = DataLoader(data, batch_size=10, num_workers=2, multiprocessing_context="fork")
    total = torch.zeros(100, device="soft")
    for (batch,) in loader:
        total += batch.to("soft").sum(0)
        for tensor in tensors:
            tensor.add_(1)
    return torch.equal(total.cpu(), data.tensors[0].sum(0))


def collectives():
    """Collectives while memory is short; what they use is neither moved nor copied before they are over."""
    from torch import distributed

    import soft_device

    group = soft_device.start_group()
    tensors, pending = _some("soft"), []
    expected = hash_tensors([tensor.cpu() * 2 + 1 for tensor in tensors])
    for tensor in tensors:
        pending.append((distributed.all_reduce(tensor, async_op=True), tensor))
        torch.ones(4 * WORDS, device="soft").sum()  # takes the place of others
        if len(pending) > 4:
            work, done = pending.pop(0)
            work.wait()
            done.add_(1)
    for work, done in pending:
        work.wait()
        done.add_(1)
    try:
        group.send([tensors[0]], 0, 0)
        message = ""
    except RuntimeError as error:
        message = str(error)
    return {"equal": hash_tensors(tensors) == expected, "message": message}


def recorded_streams():
    """Memory freed while a stream that it was recorded for still uses it, and taken anew at once."""
    import soft_device

    side, main = torch.Stream(device="soft"), torch.accelerator.current_stream()
    for _ in range(10):
        memory = soft_device.Workspace(WORDS)
        memory.touch()
        side.wait_stream(main)
        with side:
            memory.touch()
            memory.record_stream()
        memory.free()
        again = soft_device.Workspace(WORDS)
        assert again.address == memory.address
        again.touch()
        again.free()


def unseen_memory():
    """What no operator shows as a tensor's, as a library's workspace, stays where it is however full memory is."""
    import soft_device

    workspace = soft_device.Workspace(WORDS)
    tensors = _some("soft")
    for tensor in tensors:
        tensor.add_(1)
        workspace.touch()
    workspace.free()
    return hash_tensors(tensors)
