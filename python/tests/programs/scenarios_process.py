"""Scenarios about the process around the tensors: forks, signals, exits, switching off, memory that runs out.

Run by child.py, like scenarios.py. Those that use ebbtide's own functions import it inside.
"""

import os
import signal
import subprocess
import sys
import threading

import process_memory
import torch
from child import emit
from scenarios import COUNT, MIB, WORDS, some_tensors
from torch.utils.data import DataLoader, TensorDataset
from workloads import build_mlp, hash_tensors, loss_bits


def train(steps, before_step=lambda step: None):
    torch.manual_seed(0)
    model, optimizer, data, loss_of = build_mlp()
    bits = []
    for step in range(steps):
        before_step(step)
        optimizer.zero_grad()
        loss = loss_of(data())
        loss.backward()
        optimizer.step()
        bits.append(loss_bits(loss))
    return bits


def data_loader(workers=2):
    """Workers that were forked after the data set was made read it while the parent keeps training."""
    inputs = torch.randn(4096, 640, generator=torch.Generator().manual_seed(3))
    labels = torch.arange(4096) % 10
    torch.manual_seed(0)
    model, optimizer, _, loss_of = build_mlp()
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=256, shuffle=True, num_workers=workers)
    bits, seen = [], []
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of({"x": x, "y": y})
            loss.backward()
            optimizer.step()
            bits.append(loss_bits(loss))
            seen.append(hash_tensors([x, y]))
    return [bits, seen, hash_tensors(model.parameters())]


def fork_snapshot():
    """A forked child sees the values of the moment of the fork, whatever its parent writes afterwards."""
    tensors = some_tensors()
    answer_read, answer_write = os.pipe()
    go_read, go_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(go_read, 1)
        for tensor in tensors[::2]:
            tensor.mul_(3)  # the child may write, too; the parent must not see it
        os.write(answer_write, hash_tensors(tensors).encode())
        os._exit(0)
    for tensor in tensors:
        tensor.fill_(-1.0)
    os.write(go_write, b"g")
    seen = os.read(answer_read, 64).decode()
    _, status = os.waitpid(pid, 0)
    return [seen, os.waitstatus_to_exitcode(status), hash_tensors(tensors)]


def fork_repeatedly():
    """Forks from a thread while another thread keeps tensors moving. The children read memory, and call nothing of
    PyTorch's: stock PyTorch has hung there."""
    tensors = some_tensors()
    arrays = [tensor.numpy() for tensor in tensors[:COUNT // 2]]
    expected = [tensor[0].item() for tensor in some_tensors(count=COUNT // 2)]  # others of the same content
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for tensor in tensors[COUNT // 2:]:
                tensor.add_(1)

    thread = threading.Thread(target=churn)
    thread.start()
    codes = []
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            os._exit(7 if [float(array[0]) for array in arrays] == expected else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    stop.set()
    thread.join()
    return [codes, hash_tensors(tensors[:COUNT // 2])]


@torch.jit.script
def _count(tensor: torch.Tensor, times: int):
    for _ in range(times):  # without the interpreter's lock: nothing but operators
        tensor.add_(1)


def fork_amid_operators(forks=60, limit_s=20):
    """Forks while other threads run one operator after the other: no child may inherit something of theirs that its
    own first operator would wait for. How the children ended."""
    def run():
        while not stop.is_set():
            _count(torch.zeros(4), 10**4)

    _count(torch.zeros(4), 10)
    stop = threading.Event()
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    tensor = torch.zeros(4)
    ends = set()
    for _ in range(forks):
        pid = os.fork()
        if pid == 0:
            signal.alarm(limit_s)
            tensor.add_(1)
            os._exit(0)
        ends.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if ends != {0}:
            break
    stop.set()
    for thread in threads:
        thread.join()
    return sorted(ends)


def subprocesses():
    """fork and exec, in the ways Python does it, from a process whose tensors are partly on flash."""
    tensors = some_tensors()
    outputs = [subprocess.run([sys.executable, "-c", f"print({n})"], capture_output=True, check=True).stdout.decode()
               for n in range(3)]
    code = subprocess.run(["/bin/sh", "-c", "exit 3"], preexec_fn=lambda: None).returncode  # forces fork, not vfork
    outputs.append(os.popen("echo popen").read())
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_spawned, args=(queue, tensors[0][:1000].clone()))
    process.start()
    outputs.append(queue.get(timeout=60))
    process.join()
    return [outputs, code, process.exitcode, hash_tensors(tensors)]


def _spawned(queue, tensor):
    queue.put(hash_tensors([tensor]))


def forever():
    """Trains until somebody presses Ctrl-C."""
    train(10**6, lambda step: emit(step=step))


def leave(way):
    """Ends the program right after a step, with transfers under way, in one of the ways a program can."""
    train(3)
    kept = some_tensors()
    globals()["kept_until_exit"] = kept  # freed, if at all, while modules are torn down
    emit(leaving=way)
    if way == "sys.exit":
        sys.exit(0)
    if way == "os._exit":
        os._exit(0)
    if way == "exception":
        raise ValueError("the program's own error")
    if way == "cycle":
        kept.append(kept)
    return way


def switch_off():
    """disable(): new tensors are stock's, old ones stay managed and keep their values."""
    import ebbtide

    def big():
        return torch.ones(WORDS)

    before = some_tensors()
    record = {"enabled": [ebbtide.enabled()], "before": ebbtide.manages(before[0])}
    record["small"] = ebbtide.manages(torch.ones(1))
    ebbtide.disable()
    record["enabled"].append(ebbtide.enabled())
    record["after"] = ebbtide.manages(big())
    record["before_still"] = ebbtide.manages(before[0])
    for tensor in before:
        tensor.add_(1)
    record["hash"] = hash_tensors(before)
    record["live"] = ebbtide.stats()["live_bytes"]
    record["expected"] = hash_tensors(tensor + 1 for tensor in some_tensors())
    del before, tensor
    record["live_at_end"] = ebbtide.stats()["live_bytes"]
    return record


def enable_again(first, second):
    """enable() while enabled is refused; after disable() it takes the same options, and no others."""
    import ebbtide

    def attempt(options):
        try:
            ebbtide.enable(**options)
        except ebbtide.Error as error:
            return str(error)
        return None

    messages = [attempt(first)]
    ebbtide.disable()
    messages += [attempt(second), attempt(first)]
    return {"messages": messages, "managed": ebbtide.manages(torch.ones(WORDS))}


def steps():
    """Explicit steps are counted and timed."""
    import ebbtide

    tensors = some_tensors()
    for _ in range(4):
        for tensor in tensors:
            tensor.add_(1)
        ebbtide.step()
    stats = ebbtide.stats()
    return {"steps": stats["steps"], "seconds": stats["step_seconds"]}


def run_out(mib):
    """Allocates until nothing is left; then everything must still be there, and freed memory usable again."""
    tensors, message, kind = [], None, None
    try:
        for index in range(mib):
            tensors.append(torch.full((MIB // 4,), float(index)))
    except Exception as error:  # noqa: BLE001: the test looks at the type
        message, kind = str(error), [base.__name__ for base in type(error).__mro__]
    intact = all(bool((tensor == index).all()) for index, tensor in enumerate(tensors))
    allocated = len(tensors)
    del tensors[allocated // 2:]
    again = torch.ones(4 * MIB // 4).sum().item() if message else None
    intact_later = all(bool((tensor == index).all()) for index, tensor in enumerate(tensors))
    return {"message": message, "kind": kind, "allocated": allocated, "intact": intact and intact_later,
            "again": again}


def train_large(steps, width=2816):
    """By default 1.5 GiB of parameters, gradients and optimizer state."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(12)))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    bits = []
    for _ in range(steps):
        loss = model(torch.randn(8, width)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        bits.append(loss_bits(loss))
    return bits


def train_large_and_measure(steps, width=2816):
    train_large(steps, width)
    return process_memory.read()
