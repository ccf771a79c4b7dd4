"""adopt() and release(): memory that exists already comes under the budget where it is, and leaves it again.

What is adopted may be freed by its owner at any time: before its memory goes, the owner's death ends the adoption. Only
where the owner is known to have the memory alone is what it held given up; anything else is brought home.
"""

from __future__ import annotations

import threading
import weakref

_lock = threading.RLock()  # an owner may die while its own thread holds it
_adopted: dict[int, Adopted] = {}  # by address; of those that have not been released


class Adopted:
    """What adopt() returns. Ends with release(), with a `with` statement, or with the array itself.

    `nbytes` are under the budget: the whole blocks inside the array. The rest of it, less than two blocks, stays as it
    is.
    """

    def __init__(self, module, address: int, nbytes: int):
        self._module = module
        self._address = address
        self.nbytes = nbytes
        self._finalizer = None  # watches the owner of the memory
        self._export = None  # or keeps it, where an owner cannot be watched

    def release(self) -> None:
        """Brings everything home: plain memory again. Does nothing the second time."""
        with _lock:
            if self._address not in _adopted or _adopted[self._address] is not self:
                return
        self._module.release(self._address, self.nbytes)
        self._forget()

    def _forget(self) -> None:
        with _lock:
            _adopted.pop(self._address, None)
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._export is not None:
            self._export.release()

    def __enter__(self) -> Adopted:
        return self

    def __exit__(self, *_) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "adopted" if _adopted.get(self._address) is self else "released"
        return f"<ebbtide.Adopted: {self.nbytes} bytes at {self._address:#x}, {state}>"


def _owner_died(module, address: int, nbytes: int, alone: bool) -> None:
    with _lock:
        _adopted.pop(address, None)
    if alone:
        module.discard(address, nbytes)
    else:
        module.release(address, nbytes)


def _has_alone(owner) -> bool:
    """Whether the memory ends with this object; a storage of PyTorch's may be a guest in somebody else's."""
    return hasattr(owner, "__array_interface__") and hasattr(owner, "flags") and owner.flags.owndata


def _of_numpy(array, error):
    interface = array.__array_interface__
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise error("adopt: the array is a view with gaps; adopt the array that it is a view of")
    if not array.flags.writeable:
        raise error("adopt: the array is read-only; adopt memory that may be written")
    owner = array
    while getattr(owner, "base", None) is not None and hasattr(owner.base, "__array_interface__"):
        owner = owner.base
    if owner.base is not None and not owner.flags.owndata:
        owner = owner.base  # what NumPy was given the memory by
    return interface["data"][0], array.nbytes, owner


def _of_tensor(tensor, error):
    if tensor.device.type != "cpu":
        raise error(f"adopt: the tensor is on {tensor.device}; only memory of the CPU can be adopted")
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes(), storage


def _locate(array, error):
    """Address and size of the memory behind `array`, and whose end is its end."""
    if hasattr(array, "untyped_storage"):
        return _of_tensor(array, error)
    if hasattr(array, "__array_interface__") and hasattr(array, "flags"):
        return _of_numpy(array, error)
    try:
        view = memoryview(array)
    except TypeError:
        raise error(f"adopt: {type(array).__name__} has no memory to adopt; pass a NumPy array, a tensor of the CPU, "
                    "or what has the buffer protocol") from None
    if view.readonly or not view.c_contiguous:
        raise error("adopt: the buffer is read-only or has gaps; adopt writable memory in one piece")
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(view)) if view.nbytes else 0, view.nbytes, view


def adopt(array, module, error) -> Adopted:
    address, nbytes, owner = _locate(array, error)
    begin, adopted_bytes = module.adopt(address, nbytes)
    handle = Adopted(module, begin, adopted_bytes)
    if adopted_bytes == 0:
        return handle
    with _lock:
        _adopted[begin] = handle
    try:
        handle._finalizer = weakref.finalize(owner, _owner_died, module, begin, adopted_bytes, _has_alone(owner))
        handle._finalizer.atexit = False  # a process that ends needs nothing brought home
        if isinstance(owner, memoryview):
            handle._finalizer.detach()
            handle._finalizer = None
            handle._export = owner
    except TypeError:
        handle._export = memoryview(owner)
    return handle


def release(array, error) -> None:
    if isinstance(array, Adopted):
        return array.release()
    address, nbytes, _ = _locate(array, error)
    with _lock:
        inside = [handle for begin, handle in _adopted.items()
                  if begin < address + nbytes and address < begin + handle.nbytes]
    for handle in inside:
        if handle._address < address or handle._address + handle.nbytes > address + nbytes:
            raise error("release: what was adopted there goes beyond this array; release all of it")
    if not inside:
        raise error("release: nothing of this array is adopted")
    for handle in inside:
        handle.release()
