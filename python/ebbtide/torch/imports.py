"""when_imported(): something to do with a module as soon as the program has imported it, if it ever does."""

from __future__ import annotations

import importlib.abc
import sys

_waiting: dict = {}  # by name of the module, what to call with it


class _Loader(importlib.abc.Loader):
    """A module's own loader, and then what waits for it."""

    def __init__(self, loader, name: str):
        self._loader = loader
        self._name = name

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for callback in _waiting.pop(self._name, ()):
            callback(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, name)
                return spec
        return None


_finder = _Finder()


def when_imported(name: str, callback) -> None:
    if name in sys.modules:
        callback(sys.modules[name])
        return
    _waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
