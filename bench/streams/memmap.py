#!/usr/bin/env python3
"""The programs of bench_streams over np.memmap: what one would write without Ebbtide.

    memmap.py PROGRAM DATA_BYTES DIRECTORY

Makes its data in files, which are unlinked at once, then does one iteration, timed; prints one JSON object. The kernel
pages; the caller limits memory with a cgroup. Same data and same sums as the C++ programs, up to rounding.
"""

import json
import os
import sys
import tempfile
import time

import numpy as np

CHUNK = 2 * 1024 * 1024  # floats


def noise(begin, count):
    x = (np.arange(begin, begin + count, dtype=np.uint64) * 2654435761 & 0xffffffff).astype(np.uint32)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    return x.view(np.int32).astype(np.float32) * np.float32(1 / 2147483648)


def array(directory, count, scale):
    """A file-backed array of so many floats, filled."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.truncate(count * 4)
        data = np.memmap(file.name, dtype=np.float32, mode="r+", shape=(count,))
    for at in range(0, count, CHUNK):
        part = data[at:at + CHUNK]
        part[:] = np.float32(scale) * noise(at, len(part))
    return data


class Reductions:
    def __init__(self, directory, size):
        self.x = array(directory, size // 4 // CHUNK * CHUNK, 1)

    def iterate(self):
        sums = [0.0, 0.0, -1e30, 0.0]
        for at in range(0, len(self.x), CHUNK):
            x = self.x[at:at + CHUNK]
            sums = [sums[0] + float(x.sum()), sums[1] + float((x * x).sum()), max(sums[2], float(x.max())),
                    sums[3] + float(np.exp(x).sum())]
        return sums[0] + sums[1] + sums[2] + np.log(sums[3])


class Pca:
    COLUMNS, COMPONENTS = 1024, 8

    def __init__(self, directory, size):
        self.x = array(directory, size // 4 // CHUNK * CHUNK, 1).reshape(-1, self.COLUMNS)
        self.v = noise(0, self.COMPONENTS * self.COLUMNS).reshape(self.COMPONENTS, self.COLUMNS)

    def iterate(self):
        total = np.zeros_like(self.v)
        rows = CHUNK // self.COLUMNS
        for at in range(0, len(self.x), rows):
            x = self.x[at:at + rows]
            total += (x @ self.v.T).T @ x
        return float((total.reshape(-1) * (1 + np.arange(total.size) % 7)).sum(dtype=np.float64))


class Convolution:
    SIDE, CHANNELS, LAYERS = 256, 4, 3

    def __init__(self, directory, size):
        count = size // 4 // (self.LAYERS + 1) // CHUNK * CHUNK
        shape = (-1, self.CHANNELS, self.SIDE, self.SIDE)
        self.layers = [array(directory, count, 1).reshape(shape) for _ in range(self.LAYERS + 1)]
        self.weights = (np.float32(0.3) * noise(0, self.CHANNELS * self.CHANNELS * 9)).reshape(
            self.CHANNELS, self.CHANNELS, 3, 3)

    def iterate(self):
        batch = CHUNK // (self.CHANNELS * self.SIDE * self.SIDE)
        inner = self.SIDE - 2
        for before, after in zip(self.layers, self.layers[1:]):
            for at in range(0, len(before), batch):
                x = before[at:at + batch]
                y = np.zeros((len(x), self.CHANNELS, self.SIDE, self.SIDE), dtype=np.float32)
                for row in range(3):
                    for column in range(3):
                        part = x[:, :, row:row + inner, column:column + inner]
                        y[:, :, 1:-1, 1:-1] += np.einsum("oc,ncij->noij", self.weights[:, :, row, column], part,
                                                         optimize=True)
                after[at:at + batch] = np.maximum(y, 0)
        return float(self.layers[-1].reshape(-1)[::4099].sum())


class Network:
    WIDTH, BATCH = 1024, 16

    def __init__(self, directory, size):
        shape = (self.WIDTH, self.WIDTH)
        layers = max(size // 4 // 4 // (self.WIDTH * self.WIDTH), 1)
        self.state = [[array(directory, self.WIDTH * self.WIDTH, scale).reshape(shape)
                       for scale in (0.07, 0.01, 0.01, 0.01)] for _ in range(layers)]
        self.x = noise(0, self.BATCH * self.WIDTH).reshape(self.BATCH, self.WIDTH)
        self.dy = np.float32(0.01) * noise(7, self.BATCH * self.WIDTH).reshape(self.BATCH, self.WIDTH)

    def iterate(self):
        activations = [self.x]
        for w, _, _, _ in self.state:
            activations.append(np.maximum(activations[-1] @ w, 0))
        dy = self.dy
        for index in reversed(range(len(self.state))):
            w, dw, m, v = self.state[index]
            x = activations[index]
            dw[:] = x.T @ dy
            dy = (dy @ w.T) * (x > 0)
            m[:] = np.float32(0.9) * m + np.float32(0.1) * dw
            v[:] = np.float32(0.999) * np.abs(v) + np.float32(0.001) * dw * dw
            w -= np.float32(0.001) * m / (np.sqrt(v) + np.float32(1e-8))
        return float(sum(w.reshape(-1)[::4099].sum() for w, _, _, _ in self.state) + dy.sum())


PROGRAMS = {"network": Network, "convolution": Convolution, "reductions": Reductions, "pca": Pca}


def main():
    name, size, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    program = PROGRAMS[name](directory, size)
    os.sync()  # what the making of the data left to write is not a part of the iteration
    started = time.perf_counter()
    answer = program.iterate()
    print(json.dumps({"program": name, "policy": "memmap", "seconds": time.perf_counter() - started,
                      "answer": float(answer)}))


if __name__ == "__main__":
    main()
