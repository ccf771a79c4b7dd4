"""when_imported(): something to do with a module as soon as the program has imported it, if it ever does.

The module keeps its own loader, and once nothing is waited for any more, Python's import system is as it was. Kept free
of syntax that old interpreters reject, like the start-up hook beside it, which uses it.
"""

import sys

_waiting = {}  # by name of the module, what to call with it


class _Loader(object):
    """A module's own loader, and then what waits for it."""

    def __init__(self, loader, name):
        self._loader = loader
        self._name = name

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        callbacks = _waiting.pop(self._name, ())
        if not _waiting and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        for callback in callbacks:
            callback(module)


class _Finder(object):
    """Finds what is waited for as the finders after it do, but with a loader that tells when the import is complete."""

    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, name)
                return spec
        return None


_finder = _Finder()


def when_imported(name, callback):
    if name in sys.modules:
        callback(sys.modules[name])
        return
    _waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
