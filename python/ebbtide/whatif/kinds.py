"""Kinds: what a storage is to the program. Modules and optimizers say it of what they hold; the rest follows from
when a storage was born (recorder.Storage.phase). Stateless."""

import torch

_BORN = {"compute": "activation", "other": "activation", "input": "input", "optimizer": "other"}


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def declared(recorder, modules, optimizers):
    """Kinds by storage id, of everything that modules and optimizers hold now."""
    found = {}

    def note(tensor, kind):
        if tensor.layout != torch.strided:
            return
        number = recorder.id_of(tensor)
        if number is not None:
            found.setdefault(number, kind)

    parameters = {}
    parts = {id(part): part for module in list(modules) for part in module.modules()}
    for module in parts.values():
        for parameter in module._parameters.values():
            if parameter is not None:
                parameters[id(parameter)] = parameter
        for buffer in module._buffers.values():
            if buffer is not None:
                note(buffer, "weight")
    for optimizer in list(optimizers):
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group["params"]:
                parameters[id(parameter)] = parameter
    for parameter in parameters.values():
        note(parameter, "weight")
        if parameter.grad is not None:
            note(parameter.grad, "gradient")
    for optimizer in list(optimizers):
        for tensor in _tensors(dict(getattr(optimizer, "state", {}))):
            note(tensor, "optimizer")
    return found


def by_birth(storage, persistent):
    """Of what nobody declares. What stays, such as a copy of a model or a data set, could be anything."""
    return "other" if persistent else _BORN[storage.phase]
