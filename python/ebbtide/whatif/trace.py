"""Trace: the events of one step as an ebb-trace (docs/trace.md), and the report that goes with it.

Which events: those between the last two boundaries of the session; before the second boundary, those from the first
call of a module on. What lives through the whole step, or is a weight or the state of an optimizer, is persistent. The
rest is declared when it is born, or at the beginning, and freed when it dies, or at the end. What an optimizer goes
through slice by slice is a tensor for each slice.
"""

import bisect
import json
import os
import resource
import time

from . import calibration, kinds, ranks
from .recorder import FREE, Launch
from .roofline import Roofline, Rough

_NEVER = 1 << 62
# `said`: what the program printed last may say why.
_NOTHING = {"error": "the program ended without computing anything with tensors; give the command that trains",
            "said": True}
_PIECES_MAX = 1024  # of one storage; it stays whole if there are more, as in `ebb run` (src/plan/parts.h)
_MMAP_BYTES = 32 << 20  # malloc maps, and unmaps, what is larger: it is fresh every time


class Window:
    """The events [begin, end) and what lives around them."""

    def __init__(self, session):
        recorder = session.recorder
        boundaries = session.boundaries
        first = session.first_call.event if session.first_call else 0
        self.steady = len(boundaries) > 1
        self.begin = boundaries[-2].event if self.steady else min(first, boundaries[-1].event if boundaries else first)
        self.end = boundaries[-1].event if boundaries else len(recorder.events)
        before = boundaries[-3].event if len(boundaries) > 2 else min(first, self.begin)
        self.views = (boundaries[-1].views if boundaries else recorder.views) - (
            boundaries[-2].views if self.steady else session.first_call.views if session.first_call else 0)
        self.kinds = {}
        for boundary in boundaries[-2:]:
            self.kinds.update(boundary.kinds)
        self.storages, self.events = recorder.storages, recorder.events
        self.dies = {event[1]: at for at, event in enumerate(self.events) if type(event) is tuple and event[0] == FREE}
        self.persistent = {number for number, each in enumerate(self.storages) if self._persists(number, each, before)}

    def _persists(self, number, storage, before):
        if storage.born >= self.end or self.dies.get(number, _NEVER) < self.end:
            return False
        kind = self.kinds.get(number)
        if kind in ("weight", "optimizer"):
            return True
        return storage.born < self.begin and (kind == "gradient" or storage.born < before)

    def bounds(self):
        """Where storages are cut: bytes from their beginning, both ends included, by id."""
        cuts = {}
        for event in self.events[self.begin:self.end]:
            for number, ends in event.slices.items() if isinstance(event, Launch) else ():
                cuts.setdefault(number, {0, self.storages[number].bytes}).update(ends)
        return {number: sorted(ends) for number, ends in cuts.items() if len(ends) <= _PIECES_MAX + 1}

    def kind(self, number):
        return self.kinds.get(number) or kinds.by_birth(self.storages[number], number in self.persistent)

    def lives_at_begin(self, number):
        return self.storages[number].born < self.begin and self.dies.get(number, _NEVER) >= self.begin


class Beginning(Window):
    """The events from the very first to the end of the last step; nothing was there before."""

    def __init__(self, session):
        super().__init__(session)
        self.begin = 0
        self.end = session.boundaries[-1].event if session.boundaries else len(self.events)
        self.persistent = frozenset()
        self.steps = [boundary.event for boundary in session.boundaries]


class _Writer:
    def __init__(self, file, window):
        self.file, self.window = file, window
        self.declared = set()
        self.bounds = window.bounds()
        self.pieces = self._number_pieces()
        self.launches = 0
        self.bytes, self.mapped_bytes = {}, 0

    def line(self, **value):
        self.file.write(json.dumps(value, separators=(",", ":")) + "\n")

    def _number_pieces(self):
        """The tensors that a storage which is cut is in; the first has the id of the storage."""
        pieces, free = {}, len(self.window.storages)
        for number, bounds in self.bounds.items():
            further = len(bounds) - 2
            pieces[number] = (number, *range(free, free + further))
            free += further
        return pieces

    def tensors(self, number, part=None):
        """All of a storage's, or those that a part of it overlaps."""
        pieces = self.pieces.get(number, (number,))
        if part is None or len(pieces) == 1:
            return pieces
        bounds = self.bounds[number]
        return pieces[bisect.bisect_right(bounds, part[0]) - 1:bisect.bisect_left(bounds, part[1])]

    def declare(self, number):
        if number in self.declared:
            return
        self.declared.add(number)
        size, kind = self.window.storages[number].bytes, self.window.kind(number)
        self.bytes[kind] = self.bytes.get(kind, 0) + size
        more = {"persistent": True} if number in self.window.persistent else {}
        if more and self.window.storages[number].file_address:
            more["mapped"] = True
            self.mapped_bytes += size
        bounds = self.bounds.get(number, (0, size))
        for piece, begin, end in zip(self.tensors(number), bounds, bounds[1:]):
            continues = {"continues": True} if begin > 0 else {}
            self.line(tensor=piece, bytes=end - begin, kind=kind, **more, **continues)

    def allocate(self, number):
        self.declare(number)
        for piece in self.tensors(number):
            self.line(alloc=piece)

    def free(self, number):
        for piece in self.tensors(number):
            self.line(free=piece)


def _first_launch(window):
    return next((at for at in range(window.begin, window.end) if isinstance(window.events[at], Launch)), None)


def _write_events(writer, window, recorder, durations, steps=()):
    """One line an event, and a mark where a step ends; returns the launches."""
    used = []
    marked = 0
    for at in range(window.begin, window.end):
        if at in steps and writer.launches > marked:
            writer.line(mark="step")
            marked = writer.launches
        event = window.events[at]
        if isinstance(event, Launch):
            reads, writes = ([number for number in each if window.storages[number].bytes > 0]
                             for each in (event.reads, event.writes))
            for number in (*reads, *writes):
                writer.declare(number)
            call = recorder.calls[event.call]
            pieces = [[piece for number in each for piece in writer.tensors(number, event.slices.get(number))]
                      for each in (reads, writes)]
            writer.line(launch=writer.launches, op=call.func._schema.name.removeprefix("aten::"),
                        ns=durations[event.call], reads=pieces[0], writes=pieces[1])
            writer.launches += 1
            used.append(event)
        elif event[1] not in window.persistent:
            if event[0] != FREE:
                if window.storages[event[1]].bytes > 0:
                    writer.allocate(event[1])
            elif event[1] in writer.declared:
                writer.free(event[1])
                writer.declared.discard(event[1])
    return used


def write_guide(session):
    """Writes guide.jsonl, the program from its beginning: what its first steps are going to do; returns the report."""
    recorder, window = session.recorder, Beginning(session)
    seconds = time.perf_counter() - session.started
    known = calibration.load()  # not worth a measurement
    estimate = Roofline(known).estimate if known else Rough().estimate
    durations = [max(1, round(estimate(call))) for call in recorder.calls]
    with open(os.path.join(session.folder, "guide.jsonl"), "w", encoding="utf-8") as file:
        writer = _Writer(file, window)
        model = {"model": session.model} if session.model else {}
        writer.line(format="ebb-trace", version=1, **model, source="fake run from the beginning, durations estimated")
        _write_events(writer, window, recorder, durations, frozenset(window.steps))
        for number in sorted(writer.declared):
            writer.free(number)
        writer.line(mark="step")
    if writer.launches == 0:
        return dict(_NOTHING)
    return {"seconds": round(seconds, 3), "steps": len(session.boundaries), "launches": writer.launches}


def _fresh_bytes(window):
    """Bytes that stock PyTorch gets anew from the kernel in a step, which costs a page fault each: what malloc maps,
    and the swing of its heap, whose top it gives back."""
    mapped = heap = low = high = 0
    for at in range(window.begin, window.end):
        event = window.events[at]
        if not isinstance(event, Launch):
            continue
        for number in event.writes:
            storage = window.storages[number]
            if storage.born < window.begin or storage.written:
                continue
            storage.written = True
            if storage.whole > _MMAP_BYTES:
                mapped += storage.bytes
    changes = []
    for number, storage in enumerate(window.storages):
        if storage.whole > _MMAP_BYTES or number in window.persistent:
            continue
        if window.begin <= storage.born < window.end:
            changes.append((storage.born, storage.bytes))
        if window.begin <= window.dies.get(number, _NEVER) < window.end:
            changes.append((window.dies[number], -storage.bytes))
    for _, change in sorted(changes):
        heap += change
        low, high = min(low, heap), max(high, heap)
    return mapped + high - low


def _what(session):
    if session.optimizers:
        return "step"
    return "program" if not session.boundaries else "token" if session.generates else "call"


def write(session):
    """Writes trace.jsonl and returns the report."""
    recorder, window = session.recorder, Window(session)
    faked = time.perf_counter() - session.started
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # before a calibration takes some
    first = _first_launch(window)
    if first is None:
        return dict(_NOTHING)
    measured = calibration.get()
    roofline = Roofline(measured)
    durations = [max(1, round(roofline.estimate(call))) for call in recorder.calls]
    with open(os.path.join(session.folder, "trace.jsonl"), "w", encoding="utf-8") as file:
        writer = _Writer(file, window)
        model = {"model": session.model} if session.model else {}
        writer.line(format="ebb-trace", version=1, **model, device=calibration.key(),
                    source="fake run, durations estimated")
        # What is mapped, in the order of the file: neighbours share blocks.
        for number in sorted(window.persistent, key=lambda each: (window.storages[each].file_address, each)):
            if window.storages[number].bytes > 0:
                writer.declare(number)
        for number in range(len(window.storages)):
            held = window.lives_at_begin(number) and number not in window.persistent
            # What dies before anything runs, as gradients do, was of the step before.
            if held and window.dies.get(number, _NEVER) > first and window.storages[number].bytes > 0:
                writer.allocate(number)
        used = _write_events(writer, window, recorder, durations)
        for number in sorted(writer.declared - window.persistent):
            writer.free(number)
        writer.line(mark="step")
    overhead = round(window.views * roofline.overhead_ns)
    kernels = sum(durations[event.call] for event in used)
    return {
        "seconds": round(faked, 3), "steady": window.steady, "steps": len(session.boundaries),
        "what": _what(session), "launches": writer.launches, "bytes": writer.bytes,
        "mapped_bytes": writer.mapped_bytes, "kernels_ns": kernels, "views_ns": overhead,
        "stock_ns": kernels + overhead + round(_fresh_bytes(window) * roofline.fault_ns_per_byte),
        "notes": session.notes.counts, "rss_peak_bytes": rss, "ranks_here": ranks.present()[0],
        "ranks": ranks.present()[1],
        "calibration": {"key": calibration.key(), "measured": measured.get("measured")},
    }
