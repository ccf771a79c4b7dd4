"""Accumulate: gradients that meet in a backward pass. PyTorch's engine adds one into the other if nobody else holds it;
of tensor subclasses, which fake tensors are, it makes a third. Here those sums become what they are with real tensors.

`in_place()` changes a recorder's events, once, when the program is over; their number and order stay. A sum counts as
the engine's if it was made during a backward pass and one of its operands died with it.
"""

import dataclasses

import torch

from .recorder import FREE, Launch

_ADD, _ADD_INTO = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor


def _dies_with(events, at, operands, becomes):
    """The operand that is freed before the next launch, and where; None if none is."""
    freed = {}
    for after in range(at + 1, len(events)):
        if isinstance(events[after], Launch):
            break
        kind, number = events[after]
        if kind == FREE:
            freed[becomes.get(number, number)] = after
    return next(((each, freed[each]) for each in operands if each in freed), None)


def in_place(recorder):
    events, storages, calls = recorder.events, recorder.storages, recorder.calls
    becomes, variants = {}, {}  # a sum's storage -> the operand's; a call -> its variant in place

    skipped = set()

    def now(numbers):
        return tuple(dict.fromkeys(becomes.get(each, each) for each in numbers))

    for at, event in enumerate(events):
        if not isinstance(event, Launch):
            if event[1] in becomes and at not in skipped:
                events[at] = (event[0], becomes[event[1]])
            continue
        if becomes:
            event = events[at] = dataclasses.replace(event, reads=now(event.reads), writes=now(event.writes),
                                                     slices={becomes.get(each, each): part
                                                             for each, part in event.slices.items()})
        call = calls[event.call]
        if call.func is not _ADD or not event.backward or len(event.reads) != 2 or len(event.writes) != 1:
            continue
        made, found = event.writes[0], _dies_with(events, at, event.reads, becomes)
        if found is None or storages[found[0]].bytes != storages[made].bytes or storages[made].born < at:
            continue
        operand, freed_at = found
        if event.call not in variants:
            variants[event.call] = len(calls)
            calls.append(dataclasses.replace(call, func=_ADD_INTO, fresh=0))
        events[at] = dataclasses.replace(event, call=variants[event.call], writes=(operand,))
        becomes.pop(events[freed_at][1], None)
        events[freed_at] = (FREE, made)  # which was never there
        skipped.add(freed_at)
        becomes[made] = operand
