"""For test_shared_tensors.py: tensors in shared memory, by share_memory_() and out of queues of workers.

Prints what came of them, as stock PyTorch does; under Ebbtide, on stderr, which of them are managed.
"""

import sys

import torch
import torch.multiprocessing as multiprocessing

ELEMENTS = 1 << 20
TENSORS = 6


def managed(what, tensor):
    ebbtide = sys.modules.get("ebbtide")
    if ebbtide is not None and ebbtide.enabled():
        print(f"{what}: {ebbtide.manages(tensor)}", file=sys.stderr, flush=True)


def change(tensors, queue, done):
    """A child: changes what its parent sees, and sends something of its own."""
    for number, tensor in enumerate(tensors):
        tensor += number
    queue.put(torch.full((ELEMENTS,), 7.0))
    done.get()  # what was sent has been received


def main():
    context = multiprocessing.get_context(sys.argv[1])
    torch.set_num_threads(1)  # a forked child of GNU's OpenMP waits for threads that it has not
    torch.manual_seed(0)
    tensors = [torch.randn(ELEMENTS) for _ in range(TENSORS)]
    managed("made", tensors[0])
    for tensor in tensors[::2]:
        tensor.share_memory_()
    managed("shared", tensors[0])
    managed("not shared", tensors[1])
    queue, done = context.Queue(), context.Queue()
    child = context.Process(target=change, args=(tensors[::2], queue, done))
    child.start()
    received = queue.get()
    managed("received", received)
    print(0, "received", received.sum().item())
    received = received.clone()
    managed("copied", received)
    done.put(None)
    child.join()
    for number, tensor in enumerate(tensors):
        print(number, tensor.sum().item().hex())


if __name__ == "__main__":
    main()
