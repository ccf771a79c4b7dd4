"""Programs of which it is known what waits: a layer that does not stay while a tensor of its size is used in turn."""

import numpy
import torch

WIDE, FEATURES = 6144, 2048  # a weight of 48 MiB


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.small = torch.nn.Linear(FEATURES, FEATURES, bias=False)
        self.body = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Linear(FEATURES, WIDE, bias=False))

    def forward(self, x):
        return self.body(self.small(x))


def _net_and_filler():
    torch.manual_seed(0)
    return Net(), torch.ones(FEATURES * WIDE), torch.randn(4, FEATURES)


def infer(rounds):
    net, filler, x = _net_and_filler()
    with torch.no_grad():
        for _ in range(rounds):
            net(x)
            filler.add_(1)
    return rounds


def profile(rounds):
    """Nanoseconds in which PyTorch's profiler has seen waits, and how many kernels began or ended amid one."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        infer(rounds)
    events = seen.profiler.kineto_results.events()
    waits = [(each.start_ns(), each.start_ns() + each.duration_ns()) for each in events
             if each.name() == "ebbtide::wait"]
    kernels = [(each.start_ns(), each.start_ns() + each.duration_ns()) for each in events
               if each.name() in ("aten::mm", "aten::add_")]
    return {"waits": len(waits), "ns": sum(end - begin for begin, end in waits), "kernels": len(kernels),
            "astride": sum(begin < edge < end for begin, end in waits for kernel in kernels for edge in kernel)}


def train(rounds):
    net, filler, x = _net_and_filler()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(rounds):
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return rounds


def touch(rounds):
    """By NumPy, which announces nothing."""
    net, filler, x = _net_and_filler()
    view = filler.numpy()
    with torch.no_grad():
        for _ in range(rounds):
            net(x)
            numpy.add(view, 1, out=view)
    return rounds


def interrupt(rounds):
    """A signal comes while a wait is being named: what its handler raises is the program's."""
    import signal

    from ebbtide.torch import waiting

    def handler(*_):
        raise TimeoutError("the program's own")

    signal.signal(signal.SIGUSR1, handler)
    find, asked = waiting._find, []

    def find_amid_signals():
        asked.append(len(asked))
        signal.raise_signal(signal.SIGUSR1)
        return find()

    net, filler, x = _net_and_filler()
    raised = []
    for _ in range(rounds):
        waiting._find = find_amid_signals
        try:
            with torch.no_grad():
                net(x)
                filler.add_(1)
        except TimeoutError as error:
            raised.append(str(error))
        waiting._find = find
    return {"asked": len(asked), "raised": raised}
