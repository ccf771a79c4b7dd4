"""A budget that changes while a program trains. Stock, these programs change nothing and compute the same."""

import random
import sys
import threading

import torch
import workloads


def _managed():
    ebbtide = sys.modules.get("ebbtide")
    return ebbtide if ebbtide is not None and ebbtide.enabled() else None


class Changes:
    """While it lasts the budget is set to something else every few milliseconds."""

    def __init__(self, least, most, seed=0):
        self._least, self._most = least, most
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._change)
        self.count, self.refused, self.beyond = 0, 0, 0

    def _change(self):
        ebbtide = _managed()
        while not self._over.wait(self._random.random() / 200):
            try:
                ebbtide.set_memory(self._random.randint(self._least, self._most))
            except ebbtide.Error:
                self.refused += 1
                continue
            self.count += 1
            stats = ebbtide.stats()
            self.beyond = max(self.beyond, stats["resident_bytes"] - stats["budget_bytes"])

    def __enter__(self):
        if _managed() is not None:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        if _managed() is not None:
            self._thread.join()


def train(name, steps, least, most, seed=0):
    with Changes(least, most, seed) as changes:
        result = workloads.run(name, steps)
    if _managed() is not None:
        from child import emit

        emit(changes={"count": changes.count, "refused": changes.refused, "beyond": changes.beyond})
    return result


def grow_and_shrink(sizes):
    """Sets each of these budgets and touches all there is; waits for a line of input after each, to be measured."""
    torch.manual_seed(0)
    tensors = [torch.randn(1 << 20) for _ in range(48)]
    sums = []
    for size in sizes:
        if _managed() is not None:
            _managed().set_memory(size)
        sums.append(sum(tensor.sum().item() for tensor in tensors))
        print("ready", flush=True)
        sys.stdin.readline()
    return sums


def refused():
    ebbtide = _managed()
    texts = []
    for size in (65 << 20, "1MiB", -1):
        try:
            ebbtide.set_memory(size)
        except ebbtide.Error as error:
            texts.append(str(error))
        assert ebbtide.stats()["budget_bytes"] == 32 << 20
    return texts
