"""Scenarios of ebbtide.adopt() and release(); run by child.py."""

import gc
import os
import tempfile

import ebbtide
import numpy as np
import process_memory
import torch

MIB = 2**20


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def fails(call, *arguments):
    try:
        call(*arguments)
    except ebbtide.Error as error:
        return str(error)
    return ""


def sum_larger_than_budget(words):
    array = np.arange(words, dtype=np.int64)
    address = array.ctypes.data
    record = {"before": resident_bytes(), "sums": []}
    handle = ebbtide.adopt(array)
    assert handle.nbytes > 8 * words - 4 * 2 * MIB, handle
    record["after_adopt"] = resident_bytes()
    record["sums"].append(int(array.sum()))
    array += 1
    record["sums"].append(int(array.sum()))
    record["after_sums"] = resident_bytes()
    ebbtide.release(array)
    record["sums"].append(int(array.sum()))
    record["same_address"] = array.ctypes.data == address
    return record


def many_arrays(count, words):
    """Their sums, and the memory of the process before there was one."""
    ebbtide.adopt(np.zeros(MIB))  # what adopting itself needs
    before = process_memory.read()["own"]
    arrays = []
    for i in range(count):
        arrays.append(np.full(words, i, dtype=np.int64))
        ebbtide.adopt(arrays[-1])
    return {"sums": [int(array.sum()) for array in arrays], "before": before}


def owners_end():
    array = np.ones(16 * MIB)
    view = array[1024:]
    handle = ebbtide.adopt(view)
    del array
    gc.collect()
    assert "adopted" in repr(handle) and view.sum() == 16 * MIB - 1024
    del view  # the last reference to the memory
    gc.collect()
    assert "released" in repr(handle)
    assert ebbtide.stats()["flash_bytes"] == 0
    with ebbtide.adopt(np.ones(16 * MIB)):
        pass
    tensor = torch.ones(16 * MIB, dtype=torch.float64)  # managed already
    assert "manages it already" in fails(ebbtide.adopt, tensor)
    return "ok"


def guests_keep_their_memory():
    """A storage of PyTorch's that is a guest in an array: its end must not take the array's content along."""
    array = np.arange(16 * MIB, dtype=np.float64)
    expected = array.sum()
    tensor = torch.from_numpy(array)
    handle = ebbtide.adopt(tensor)
    assert ebbtide.manages(tensor)
    assert tensor.sum().item() == expected
    filler = torch.zeros(24 * MIB)  # everything else leaves
    del tensor
    gc.collect()
    assert "released" in repr(handle)
    assert array.sum() == expected
    again = torch.from_numpy(array)
    shared = again.numpy()
    ebbtide.adopt(shared)
    del shared, filler
    gc.collect()
    assert again.sum().item() == expected
    return "ok"


def buffers():
    buffer = bytearray(b"7" * (128 * MIB))
    handle = ebbtide.adopt(buffer)
    assert buffer.count(b"7") == 128 * MIB
    try:
        buffer.append(1)
        raise AssertionError("resized while adopted")
    except BufferError:
        pass
    ebbtide.release(buffer)
    buffer.append(1)
    assert "released" in repr(handle) and buffer.count(b"7") == 128 * MIB
    handle.release()
    assert ebbtide.adopt(np.ones(10)).nbytes == 0
    return "ok"


def refusals():
    array = np.ones((4096, 4096))
    assert "with gaps" in fails(ebbtide.adopt, array[:, ::2])
    array.flags.writeable = False
    assert "read-only" in fails(ebbtide.adopt, array)
    array.flags.writeable = True
    assert "buffer protocol" in fails(ebbtide.adopt, 5)
    assert "read-only" in fails(ebbtide.adopt, b"x" * (8 * MIB))
    assert "is adopted" in fails(ebbtide.release, array)
    ebbtide.adopt(array)
    assert "adopted already" in fails(ebbtide.adopt, array)
    assert "goes beyond" in fails(ebbtide.release, array[:2048])
    with tempfile.TemporaryFile() as file:
        assert "maps a file" in fails(ebbtide.adopt, np.memmap(file, dtype=np.uint8, mode="w+", shape=(8 * MIB,)))
    return "ok"


def forks():
    array = np.arange(24 * MIB, dtype=np.int64)
    expected = int(array.sum())
    ebbtide.adopt(array)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(read, 1)
        same = int(array.sum()) == expected
        array[:] = 1
        os._exit(0 if same and int(array.sum()) == array.size else 1)
    array += 5
    os.write(write, b"x")
    assert os.waitpid(pid, 0)[1] == 0
    assert int(array.sum()) == expected + 5 * array.size
    return "ok"


def runtime_of_arrays(flash):
    import ebbtide.array as xp

    array = np.arange(16 * MIB, dtype=np.float64)
    expected = array.sum()
    assert "open_runtime" in fails(ebbtide.adopt, array)
    xp.open_runtime(memory="64MiB", flash=flash)
    ebbtide.adopt(array)
    assert float(xp.sum(xp.from_dlpack(array))) == expected
    assert array.sum() == expected
    ebbtide.release(array)
    assert array.sum() == expected
    return "ok"
