"""Recorder: what a program with fake tensors does to memory, as a list of events.

A dispatch mode above FakeTensorMode sees every operator of the thread that runs the program, of backward passes and
optimizers too, with the storages it reads and writes. A storage gets an id when it is first seen, and its death is told
by a weak reference, so that ids are never reused though addresses are.

Events, in program order: Launch; (ALLOC, storage id): made without a kernel; (FREE, storage id).
Invariant: a storage stands in no event after its FREE.
"""

import dataclasses
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from . import answers

ALLOC, FREE = 0, 1

_LIFTS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default)
_EMPTIES = ("aten::empty", "aten::new_empty")
# Update in place without looking at what was there.
_BLIND = ("aten::zero_", "aten::fill_", "aten::copy_", "aten::normal_", "aten::uniform_", "aten::random_",
          "aten::bernoulli_", "aten::exponential_")
# Namespaces of operators that only ask or mark something.
_SILENT = ("prim", "profiler", "prims")
# Look up rows of a table: where its indices stand. What `ebb run` fetches row by row (python/bindings/torch/rows.cc) is
# no use of the table.
_LOOKUPS = {"aten::embedding": 1, "aten::index_select": 2, "aten::index": 1}
_ROWS_MAX, _ROW_COST = 64, 4 << 20
_CUT_MIN = 8 << 20  # bytes of a storage that `ebb run` takes for several if it is used in slices: four blocks
_MAPPING_MIN = 4 << 20  # bytes of a mapping that `ebb run` serves: two blocks
_MAPPED_MIN = 1024  # bytes; smaller ones are counted as tensors of the program's


@dataclasses.dataclass
class Phase:
    """Where in a step the program is; tells kinds of tensors apart."""

    depth: int = 0  # of calls of modules
    optimizer: int = 0  # of calls of optimizers


@dataclasses.dataclass(slots=True)
class Storage:
    bytes: int
    born: int  # index of an event
    phase: str  # "input", "optimizer", "compute" or "other"
    whole: int  # bytes; more if an optimizer made it of a slice: what stock PyTorch, which has no slices, makes at once
    written: bool = False
    file_address: int = 0  # where the program has mapped it, if it lies in a file; else 0


@dataclasses.dataclass(slots=True, frozen=True)
class Tensor:
    """What the duration of a kernel depends on."""

    shape: tuple
    dtype: torch.dtype
    contiguous: bool


@dataclasses.dataclass(slots=True)
class Launch:
    call: int  # index into Recorder.calls
    reads: tuple  # of storage ids
    writes: tuple
    backward: bool  # during a backward pass
    slices: dict  # of what an optimizer goes through slice by slice, by storage id: (first, end) in bytes


@dataclasses.dataclass(slots=True)
class Call:
    """An operator with the shapes of its arguments; equal ones are one."""

    func: object
    args: tuple
    kwargs: dict
    out: object
    bytes: int  # of its tensors, each counted once
    fresh: int  # of which are in storages that it made


class _Schema:
    """What is written, by position and by name."""

    def __init__(self, func):
        arguments = func._schema.arguments
        self.writes = [bool(each.alias_info and each.alias_info.is_write) for each in arguments]
        self.named = {each.name for each, write in zip(arguments, self.writes) if write}
        # Whether what was there before is not looked at.
        self.blind = func._schema.name in _BLIND or any(each.is_out for each in arguments)
        returns = [each.alias_info for each in func._schema.returns]
        self.views = bool(returns) and func not in _LIFTS and all(each and not each.is_write for each in returns)
        self.silent = func.namespace in _SILENT
        self.empty = func._schema.name.startswith(_EMPTIES)


class Recorder(TorchDispatchMode):
    def __init__(self, fake_mode, notes):
        super().__init__()
        self.fake_mode, self.notes, self.phase = fake_mode, notes, Phase()
        self.events, self.storages, self.calls = [], [], []
        self.views = 0  # how many operators that touch no memory, for their overhead
        self._ids, self._references = {}, {}
        self._stand_ins = {}  # for real storages that live, by their addresses: the fake one, and a weak reference
        self._schemas, self._call_index = {}, {}

    @classmethod
    def ignore_compile_internals(cls):
        return True

    # Storages

    def id_of(self, tensor):
        """The id of a tensor's storage, or None if it has never been seen."""
        while not isinstance(tensor, FakeTensor) and hasattr(tensor, "__tensor_flatten__"):
            tensor = getattr(tensor, tensor.__tensor_flatten__()[0][0])
        address = tensor.untyped_storage()._cdata
        if address in self._stand_ins and not isinstance(tensor, FakeTensor):
            address = self._stand_ins[address][0]._cdata
        return self._ids.get(address)

    def _died(self, address, number):
        if self._ids.get(address) == number:
            del self._ids[address]
        self._references.pop(number, None)
        self.events.append((FREE, number))

    def _enter(self, storage, phase):
        number = len(self.storages)
        address = storage._cdata
        self.storages.append(Storage(storage.nbytes(), len(self.events), phase, storage.nbytes()))
        self._ids[address] = number
        self._references[number] = weakref.ref(storage, lambda _: self._died(address, number))
        return number

    def resized(self, storage):
        """A storage has lost its memory, or got some, though it lives on: fully_shard does so with whole parameters."""
        number = self._ids.pop(storage._cdata, None)
        if number is not None:
            self._references.pop(number, None)
            self.events.append((FREE, number))
        if storage.nbytes() > 0:
            self.events.append((ALLOC, self._enter(storage, "compute")))

    def _phase_now(self, given):
        if self.phase.optimizer:
            return "optimizer"
        if self.phase.depth or torch._C._current_graph_task_id() != -1:
            return "compute"
        return "input" if all(self.storages[each].phase == "input" for each in given) else "other"

    # Operators

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented  # made of other tensors, as DTensor: what it does with these comes here
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if isinstance(device, torch.device) and device.type == "cpu" and device.index is not None:
            kwargs = {**kwargs, "device": torch.device("cpu")}  # the same, but not to a FakeTensorMode
        schema = self._schemas.get(func)
        if schema is None:
            schema = self._schemas[func] = _Schema(func)
        if schema.silent:
            return func(*args, **kwargs)
        if func is answers.SCALAR:
            return answers.scalar(args[0], self.notes)
        if func not in _LIFTS:
            args, kwargs = self._fake(args), self._fake(kwargs)
        elif func is _LIFTS[0] and _is_mapped(args[0]):  # as torch.from_numpy() has it; what it holds is not asked for
            return self._stand_in_for(args[0])
        given = []
        for position, argument in enumerate(args):
            _collect(argument, schema.writes[position] if position < len(schema.writes) else False, given)
        for name, argument in kwargs.items():
            _collect(argument, name in schema.named, given)
        table = _table_of_rows(func, args)
        given_whole = [each for each in given if each[0] is not table]
        reads, writes = self._accesses(given_whole, schema.blind)
        slices = self._slices(given_whole) if self.phase.optimizer else {}
        out = answers.call(func, args, kwargs, self.notes)
        answers.mark(func, out)
        results = []
        _collect(out, True, results)
        self._record(func, schema, args, kwargs, out, (reads, writes), (given, results), slices)
        return out

    def _fake(self, value):
        """Tensors from elsewhere (NumPy, files, other threads) as fake ones."""
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor) or type(value) not in (torch.Tensor, torch.nn.Parameter):
                return value
            return self._stand_in_for(value)
        if isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value):
            return type(value)(self._fake(each) for each in value)
        if isinstance(value, dict):
            return {name: self._fake(each) for name, each in value.items()}
        return value

    def _stand_in_for(self, tensor):
        """The fake one of a real tensor. All of one storage share one that lives as long: the weights of a mapped
        checkpoint are the same tensors in every step."""
        fake, real = self.fake_mode.from_tensor(tensor), tensor.untyped_storage()
        storage, address = fake.untyped_storage(), real._cdata
        if storage._cdata not in self._ids:
            number = self._enter(storage, "input")
            self.events.append((ALLOC, number))
            if _is_mapped(tensor):
                self.storages[number].file_address = real.data_ptr()
        if address not in self._stand_ins:
            self._stand_ins[address] = (storage, weakref.ref(real, lambda _: self._stand_ins.pop(address, None)))
        return fake

    def _accesses(self, given, blind):
        """Ids that arguments read, and that they write."""
        reads, writes = {}, {}
        for tensor, write in given:
            storage = tensor.untyped_storage()
            number = self._ids.get(storage._cdata)
            if number is None:
                number = self._enter(storage, "input")
            if write:
                writes[number] = True
                if blind and _covers(tensor, storage):
                    continue
            reads[number] = True
        return reads, writes

    def _slices(self, given):
        """What is touched of storages of which an optimizer's tensors are slices (ebbtide._lists)."""
        found = {}
        for tensor, _ in given:
            storage, size = tensor.untyped_storage(), tensor.numel() * tensor.element_size()
            first = tensor.storage_offset() * tensor.element_size()
            if storage.nbytes() < _CUT_MIN or not tensor.is_contiguous():
                first, size = 0, storage.nbytes()
            number = self._ids[storage._cdata]
            before = found.get(number, (first, first + size))
            found[number] = (min(first, before[0]), max(first + size, before[1]))
        return {number: part for number, part in found.items() if part[1] - part[0] < self.storages[number].bytes}

    def _note_whole(self, number, reads, slices):
        """How large a result would be without slices: made of one of these, or of a result of one."""
        made = self.storages[number]
        for each in reads:
            of, (first, end) = self.storages[each], slices.get(each, (0, self.storages[each].bytes))
            if end - first == made.bytes:
                made.whole = max(made.whole, of.whole)

    def _record(self, func, schema, args, kwargs, out, accesses, tensors, slices):
        (reads, writes), (given, results) = accesses, tensors
        fresh = []
        for tensor, _ in results:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._ids:
                fresh.append(self._enter(storage, self._phase_now(reads)))
                self._note_whole(fresh[-1], reads, slices)
        if schema.empty:
            self.events.extend((ALLOC, number) for number in fresh)
            return
        if schema.views or (not writes and not fresh):
            # A view of a tensor whose content is known comes with a storage of its own, which really is not there.
            for number in fresh:
                self.storages[number].bytes = 0
            self.views += 1
            return
        key = (func, _key(args), _key(kwargs))
        index = self._call_index.get(key)
        if index is None:
            index = self._call_index[key] = len(self.calls)
            self.calls.append(_call(func, args, kwargs, out, (given, results),
                                    [self.storages[i].bytes for i in fresh], schema.blind))
        backward = torch._C._current_graph_task_id() != -1
        self.events.append(Launch(index, tuple(reads), (*writes, *fresh), backward, slices))


def _table_of_rows(func, args):
    """The table of which an operator looks up so few rows that these alone are fetched; None if it is no such."""
    position = _LOOKUPS.get(func._schema.name)
    if position is None or len(args) <= position or (position == 2 and args[1] != 0):
        return None
    table, indices = args[0], args[position]
    if isinstance(indices, (list, tuple)):
        indices = indices[0] if len(indices) == 1 else None
    if not isinstance(indices, torch.Tensor) or indices.dtype not in (torch.int64, torch.int32):
        return None
    if not 1 <= indices.numel() <= _ROWS_MAX or table.dim() < 2:
        return None
    size = table.numel() * table.element_size()
    return table if size and indices.numel() * max(_ROW_COST, size // table.shape[0]) <= size else None


def _is_mapped(tensor):
    """Whether a real tensor is a part of a mapped file, and large enough for `ebb run` to plan by it."""
    real = tensor.untyped_storage()
    return real.nbytes() >= _MAPPED_MIN and not isinstance(tensor, FakeTensor) and _in_mapped_file(real.data_ptr())


def _in_mapped_file(address):
    """Whether `ebb run` would serve a mapping of a file that this address lies in (docs/files.md)."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if "/" not in line:
                    continue
                addresses, allowed, _, _, inode = line.split(None, 5)[:5]
                begin, end = (int(each, 16) for each in addresses.split("-"))
                if not begin <= address < end:
                    continue
                kernels = "x" in allowed or ("w" in allowed and "s" in allowed)
                return inode != "0" and not kernels and end - begin >= _MAPPING_MIN
    except OSError:
        pass
    return False


def _covers(tensor, storage):
    return tensor.numel() * tensor.element_size() == storage.nbytes()


def _collect(value, write, into):
    """Tensors with plain storage in an argument or a result."""
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided:
            into.append((value, write))
    elif isinstance(value, (list, tuple)):
        for each in value:
            _collect(each, write, into)


def _key(value):
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.dtype, value.is_contiguous() if value.layout == torch.strided else None)
    if isinstance(value, (list, tuple)):
        return tuple(_key(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    return value if isinstance(value, (int, bool, str, torch.dtype)) else type(value)


def _describe(value):
    if isinstance(value, torch.Tensor):
        return Tensor(tuple(value.shape), value.dtype, value.layout == torch.strided and value.is_contiguous())
    if isinstance(value, (list, tuple)):
        return tuple(_describe(each) for each in value)
    if isinstance(value, dict):
        return {name: _describe(each) for name, each in value.items()}
    return value if isinstance(value, (int, float, bool, str, torch.dtype)) else None


def _call(func, args, kwargs, out, tensors, fresh, blind):
    given, results = tensors
    touched = {}
    for tensor, _ in (*given, *results):
        size = min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
        place = (tensor.untyped_storage()._cdata, tensor.storage_offset())
        touched[place] = max(touched.get(place, 0), size)
    if not blind:  # what is updated in place is read and written
        touched["again"] = sum(tensor.numel() * tensor.element_size() for tensor, write in given if write)
    return Call(func, _describe(args), _describe(kwargs), _describe(out), sum(touched.values()), sum(fresh))
