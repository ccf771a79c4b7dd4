"""One rank of a job, for test_collectives.py: every collective of gloo on tensors larger than memory, and DDP.

    collectives.py [--mib N]

Prints a line for each: rank, name, and a digest of all that it has given. Under Ebbtide also, as JSON on stderr, what
was announced, faulted for and fetched meanwhile.
"""

import argparse
import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist

MIB = 2**20
PARTS = 4  # tensors of each kind, alive together
EXAMPLES = 3  # lists that objects are


def digest(tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.numpy())
    return found.hexdigest()


class Rank:
    """Each method: one collective, over and over, on tensors of which all are used again in the end."""

    def __init__(self, nbytes):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._elements = nbytes // 4

    def _made(self, seed, elements=None):
        generator = torch.Generator().manual_seed(100 * seed + self.rank)
        return [torch.randn(elements or self._elements, generator=generator) for _ in range(PARTS)]

    def all_reduce(self):
        tensors = self._made(1)
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()
        return tensors

    def all_gather(self):
        found = []
        for tensor in self._made(2):
            found.append([torch.empty_like(tensor) for _ in range(self.size)])
            dist.all_gather(found[-1], tensor)
        return [tensor for gathered in found for tensor in gathered]

    def all_gather_into_tensor(self):
        found = []
        for tensor in self._made(3):
            found.append(torch.empty(self.size * tensor.numel()))
            dist.all_gather_into_tensor(found[-1], tensor)
        return found

    def all_to_all(self):
        found = [torch.empty(self._elements) for _ in range(PARTS)]
        for into, tensor in zip(found, self._made(4)):
            dist.all_to_all_single(into, tensor)
        return found

    def broadcast(self):
        tensors = self._made(5)
        for number, tensor in enumerate(tensors):
            dist.broadcast(tensor, number % self.size)
        return tensors

    def broadcast_object(self):
        objects = [{"weights": tensor} for tensor in self._made(6)[:EXAMPLES]]
        dist.broadcast_object_list(objects, 0)
        return [each["weights"] for each in objects]

    def send_and_receive(self):
        tensors, other = self._made(7), (self.rank + 1) % self.size
        found = [torch.empty_like(tensor) for tensor in tensors]
        for into, tensor in zip(found, tensors):
            if self.rank == 0:
                dist.send(tensor, other)
                dist.recv(into, other)
            else:
                dist.recv(into, other)
                dist.send(tensor, other)
        works = [dist.isend(tensor, other) for tensor in found] + [dist.irecv(into, other) for into in tensors]
        for work in works:
            work.wait()
        return [*tensors, *found]

    def gather_and_scatter(self):
        tensors, found = self._made(8), []
        for tensor in tensors:
            gathered = [torch.empty_like(tensor) for _ in range(self.size)] if self.rank == 0 else None
            dist.gather(tensor, gathered)
            found.append(torch.empty_like(tensor))
            dist.scatter(found[-1], [each + 1 for each in gathered] if gathered else None)
        return found

    def ddp(self):
        torch.manual_seed(0)
        width = 512
        layers = PARTS * self._elements // (4 * width * width)
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)]))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step in range(3):
            batch = torch.randn(16, width, generator=torch.Generator().manual_seed(10 * step + self.rank))
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [parameter.detach() for parameter in model.parameters()]


def counters():
    ebbtide = sys.modules.get("ebbtide")
    stats = ebbtide.stats() if ebbtide is not None and ebbtide.enabled() else {}
    return {name: stats[name] for name in ("launches", "faults", "fetched_bytes") if stats}


NAMES = [name for name in vars(Rank) if not name.startswith("_")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=4, help="of a tensor")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank = Rank(arguments.mib * MIB)
    for name in NAMES:
        before = counters()
        tensors = getattr(rank, name)()
        if before:
            more = {key: value - before[key] for key, value in counters().items()}
            os.write(sys.stderr.fileno(), (json.dumps({"rank": rank.rank, "name": name, **more}) + "\n").encode())
        os.write(sys.stdout.fileno(), f"{rank.rank} {name} {digest(tensors)}\n".encode())
        del tensors
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
