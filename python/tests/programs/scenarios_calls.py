"""Scenarios of system calls whose buffers are tensors: what a program saves, loads, sends and shares.

Each makes more tensors than the budget holds, so that a part of them is absent whenever the kernel is asked to read or
write them, checks what arrives bit for bit, and returns what must be the same on stock PyTorch. They are imported by
the processes that they start, too.
"""

import contextlib
import ctypes
import faulthandler
import hashlib
import io
import mmap
import multiprocessing
import os
import pathlib
import pickle
import socket
import subprocess
import sys
import tempfile
import threading

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

TENSORS, ELEMENTS = 24, 2**18  # of 1 MiB each


def some_tensors(count=TENSORS, elements=ELEMENTS):
    return {f"t{i}": torch.arange(elements, dtype=torch.float32).mul_(i + 1).sin_() for i in range(count)}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def digest_of(tensors):
    return digest(b"".join(tensor.numpy().tobytes() for tensor in tensors.values()))


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@contextlib.contextmanager
def folder():
    """Where this process may write; the test names it in $EBB_TEST_FOLDER."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("EBB_TEST_FOLDER")) as path:
        yield pathlib.Path(path)


def checkpoint():
    """torch.save and torch.load in both formats, by path and through a file object: the bytes are stock's."""
    state, files = some_tensors(), []
    with folder() as path:
        for name, save in {
            "by_path": lambda target: torch.save(state, target),
            "by_file": lambda target: _through_file(lambda file: torch.save(state, file), target),
            "legacy": lambda target: torch.save(state, target, _use_new_zipfile_serialization=False),
        }.items():
            target = path / "checkpoint"
            save(target)
            if name != "legacy":  # which writes the addresses of storages as their keys
                files.append(digest(target.read_bytes()))
            assert_same(torch.load(target), state)
            with target.open("rb") as file:
                assert_same(torch.load(file), state)
            if name != "legacy":
                assert_same(torch.load(target, mmap=True), state)
            target.unlink()
    return files + [digest_of(state)]


def _through_file(save, target):
    with target.open("wb") as file:
        save(file)


def full_disk():
    """A save that fails raises, as stock does."""
    try:
        torch.save(some_tensors(), "/dev/full")
    except RuntimeError:
        return "raised"
    return "lost"


def safetensors():
    from safetensors.torch import load_file, save, save_file

    state = some_tensors()
    with folder() as path:
        save_file(state, path / "model.safetensors")
        assert_same(load_file(path / "model.safetensors"), state)
        written = (path / "model.safetensors").read_bytes()
        assert written == save(state)
    return digest(written)


def numpy_files():
    arrays = {name: tensor.numpy() for name, tensor in some_tensors().items()}
    whole = torch.stack([torch.from_numpy(array) for array in arrays.values()]).numpy()  # more than the budget
    found = []
    with folder() as path:
        numpy.save(path / "whole.npy", whole)
        numpy.savez(path / "arrays.npz", **arrays)
        whole.tofile(path / "whole.raw")
        found.append(digest((path / "whole.npy").read_bytes()))
        found.append(digest((path / "whole.raw").read_bytes()))
        again = numpy.load(path / "whole.npy")
        assert (torch.from_numpy(again) == torch.from_numpy(whole)).all()
        into = torch.zeros(whole.shape)  # NumPy's own memory is not managed: read into a tensor, too
        with (path / "whole.raw").open("rb", buffering=0) as file:
            view = memoryview(into.numpy()).cast("B")
            done = 0
            while done < len(view):
                got = file.readinto(view[done:])
                assert got > 0
                done += got
        assert torch.equal(into, torch.from_numpy(whole))
        assert (numpy.fromfile(path / "whole.raw", dtype=numpy.float32) == whole.ravel()).all()
        with numpy.load(path / "arrays.npz") as loaded:
            assert all((loaded[name] == array).all() for name, array in arrays.items())
    return found


def pickles():
    state = some_tensors()
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    found = []
    with folder() as path:
        for kept in (state, arrays):
            with (path / "kept.pickle").open("wb") as file:
                pickle.dump(kept, file, protocol=5)
            with (path / "kept.pickle").open("rb") as file:
                loaded = pickle.load(file)
            assert all((loaded[name] == kept[name]).all() for name in kept)
            found.append((path / "kept.pickle").stat().st_size)
    # Of the arrays: what PyTorch pickles of tensors has addresses in it, with more digits in one run than in another.
    return found[-1]


def positions():
    """Calls at offsets and in vectors, with a file's position between them."""
    tensors = some_tensors()
    views = [memoryview(tensor.numpy()).cast("B") for tensor in tensors.values()]
    total = sum(len(view) for view in views)
    back = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    back_views = [memoryview(tensor.numpy()).cast("B") for tensor in back.values()]
    with folder() as path:
        fd = os.open(path / "file", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        assert os.writev(fd, views) == total
        assert os.write(fd, views[0]) == len(views[0])
        assert os.lseek(fd, 0, os.SEEK_CUR) == total + len(views[0])
        os.lseek(fd, 0, os.SEEK_SET)
        assert os.readv(fd, back_views) == total
        assert_same(back, tensors)
        assert os.preadv(fd, [back_views[1], back_views[2]], total) == len(views[0])
        assert torch.equal(back["t1"], tensors["t0"])
        os.close(fd)
        fd = os.open(path / "file", os.O_RDWR)
        assert os.pwrite(fd, views[5], 12345) == len(views[5])
        with mmap.mmap(fd, 0) as mapped:
            assert digest(mapped[12345:12345 + len(views[5])]) == digest(views[5])
            found = digest(mapped)
        os.close(fd)
    return found


def sockets():
    tensors = some_tensors()
    back = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    one, other = socket.socketpair()

    def send():
        for tensor in tensors.values():
            one.sendall(memoryview(tensor.numpy()).cast("B"))

    _while(send, lambda: [_receive(other, tensor) for tensor in back.values()])
    assert_same(back, tensors)
    # Vectors, and all of a buffer at once.
    views = [memoryview(tensor.numpy()).cast("B") for tensor in tensors.values()]
    _while(lambda: _send_vectors(one, views),
           lambda: [_receive_all(other, tensor.zero_()) for tensor in back.values()])
    assert_same(back, tensors)
    messages, ends = socket.socketpair(type=socket.SOCK_SEQPACKET)
    for i, tensor in enumerate(tensors.values()):
        messages.send(memoryview(tensor.numpy()).cast("B")[:60000 + i])
        assert ends.recv_into(memoryview(back["t0"].numpy()).cast("B")) == 60000 + i
        assert torch.equal(back["t0"][:15000], tensor[:15000])
    return digest_of(back)


def _receive(end, tensor):
    view = memoryview(tensor.numpy()).cast("B")
    done = 0
    while done < len(view):
        got = end.recv_into(view[done:])
        assert got > 0
        done += got


def _receive_all(end, tensor):
    view = memoryview(tensor.numpy()).cast("B")
    assert end.recv_into(view, len(view), socket.MSG_WAITALL) == len(view)


def _send_vectors(end, views):
    views = list(views)
    while views:
        sent = end.sendmsg(views[:8])
        while views and sent >= len(views[0]):
            sent -= len(views.pop(0))
        if views:
            views[0] = views[0][sent:]


def _while(other, mine):
    failed = []

    def guarded():
        try:
            other()
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    mine()
    thread.join(60)
    assert not thread.is_alive() and not failed


def pipes():
    tensors = some_tensors()
    back = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    end, start = os.pipe()

    def write():
        for tensor in tensors.values():
            view = memoryview(tensor.numpy()).cast("B")
            while view:
                view = view[os.write(start, view):]

    def read():
        for tensor in back.values():
            view = memoryview(tensor.numpy()).cast("B")
            while view:
                view = view[os.readv(end, [view]):]

    _while(write, read)
    assert_same(back, tensors)
    # A program's standard input and output.
    whole = torch.cat(list(tensors.values()))
    done = subprocess.run(["cat"], input=memoryview(whole.numpy()).cast("B"), stdout=subprocess.PIPE, check=True)
    assert digest(done.stdout) == digest(whole.numpy().tobytes())
    connection, child = multiprocessing.Pipe()
    _while(lambda: connection.send_bytes(memoryview(whole.numpy()).cast("B")),
           lambda: child.recv_bytes_into(memoryview(whole.numpy()).cast("B")))
    assert digest(done.stdout) == digest(whole.numpy().tobytes())
    return digest(done.stdout)


def _reduce(rank, path, tensors):
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    for tensor in tensors.values():
        torch.distributed.all_reduce(tensor)
    whole = torch.cat(list(tensors.values()))
    torch.distributed.broadcast(whole, src=0)
    torch.distributed.destroy_process_group()
    return digest_of({**tensors, "whole": whole})


def gloo():
    """Two ranks, of which this one is managed."""
    with folder() as path:
        code = ("import sys, scenarios_calls as s; "
                "print(s._reduce(1, sys.argv[1], s.some_tensors()))")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        other = subprocess.Popen([sys.executable, "-c", code, str(path / "meet")], stdout=subprocess.PIPE, text=True,
                                 env=environment)
        mine = _reduce(0, path / "meet", some_tensors())
        assert other.communicate(timeout=100)[0].strip() == mine
        assert other.returncode == 0
    return mine


class Rows(Dataset):
    def __init__(self, tensors):
        self.tensors = list(tensors.values())

    def __len__(self):
        return 4 * len(self.tensors)

    def __getitem__(self, index):
        return self.tensors[index // 4][index % 4::4]


def loader(start):
    """Workers of each kind, which stay for two epochs."""
    rows = Rows(some_tensors())
    batches = DataLoader(rows, batch_size=8, num_workers=2, multiprocessing_context=start, persistent_workers=True,
                         timeout=100)
    seen = hashlib.sha256()
    for _ in range(2):
        for batch in batches:
            seen.update(batch.numpy().tobytes())
    return seen.hexdigest()


def _double(jobs, results):
    while (tensor := jobs.get()) is not None:
        results.put(tensor * 2)


def queue(start):
    """Tensors through queues to a process and back."""
    context = torch.multiprocessing.get_context(start)
    jobs, results = context.Queue(), context.Queue()
    process = context.Process(target=_double, args=(jobs, results), daemon=True)
    process.start()
    tensors = some_tensors()
    found = []
    for tensor in tensors.values():
        jobs.put(tensor)
        twice = results.get(timeout=100)
        assert torch.equal(twice, tensor * 2)
        found.append(digest(twice.numpy().tobytes()))
    jobs.put(None)
    process.join(100)
    assert process.exitcode == 0
    return digest("".join(found).encode())


PAGE = mmap.PAGESIZE
# Of <sys/mman.h>: advice that must not be noticed, but for the first of them.
DONTNEED, UNNOTICED = 4, {"DONTFORK": 10, "DOFORK": 11, "HUGEPAGE": 14, "NOHUGEPAGE": 15, "DONTDUMP": 16, "COLD": 20,
                          "PAGEOUT": 21, "POPULATE_WRITE": 23}


def own_memory():
    """What a program may do to the memory of its tensors, while they come and go."""
    libc = ctypes.CDLL(None, use_errno=True)
    tensors = some_tensors()
    for i, tensor in enumerate(tensors.values()):
        begin = -(-tensor.data_ptr() // PAGE) * PAGE
        pages = (tensor.data_ptr() + tensor.nbytes - begin) // PAGE
        address, size = ctypes.c_void_p(begin), ctypes.c_size_t(pages * PAGE)
        for name, advice in UNNOTICED.items():
            assert libc.madvise(address, size, advice) == 0, (name, os.strerror(ctypes.get_errno()))
        if i % 3 == 0:
            first = ctypes.c_void_p(begin + 2 * PAGE)
            assert libc.madvise(first, ctypes.c_size_t(PAGE), DONTNEED) == 0
            start = (begin + 2 * PAGE - tensor.data_ptr()) // tensor.element_size()
            assert not tensor[start:start + PAGE // tensor.element_size()].any()
        locked = libc.mlock(address, size) == 0  # that there is room for it is not promised
        assert not locked or libc.munlock(address, size) == 0
        assert libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    # Where it lies differs from run to run, so the bytes do; what comes back is what was there.
    found = digest_of(tensors)
    for _ in range(2):
        assert digest_of(tensors) == found
    return len(tensors)


def handlers():
    """A program that has a handler for segmentation faults: where faults are signals it must not take ours away."""
    tensors = some_tensors()
    faulthandler.enable()
    assert faulthandler.is_enabled()
    found = digest_of(tensors)
    faulthandler.disable()
    assert digest_of(tensors) == found
    return found


def memory_file():
    """A checkpoint in memory: no call sees a tensor, and nothing may change for it."""
    state = some_tensors()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    assert_same(torch.load(buffer), state)
    return digest(buffer.getvalue())


def adopted():
    import ebbtide  # of managed runs alone

    array = numpy.arange(TENSORS * ELEMENTS, dtype=numpy.float32)
    copy = array.copy()
    with ebbtide.adopt(array), folder() as path:
        array.tofile(path / "array")
        assert digest((path / "array").read_bytes()) == digest(copy.tobytes())
        array[:] = 0
        view = memoryview(array).cast("B")
        with (path / "array").open("rb", buffering=0) as file:
            done = 0
            while done < len(view):
                got = file.readinto(view[done:])
                assert got > 0
                done += got
        assert (array == copy).all()
        one, other = socket.socketpair()
        array[:] = 0
        _while(lambda: one.sendall(memoryview(copy).cast("B")), lambda: _receive(other, torch.from_numpy(array)))
        assert (array == copy).all()
        _while(lambda: one.sendall(view), lambda: _receive(other, torch.from_numpy(copy)))
    assert (array == copy).all()
