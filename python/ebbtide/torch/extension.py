"""ebbtide._C for the torch that is here, or what to do where it is for another one or was not built.

`pip install` in a checkout compiles one, for the torch that it finds. A wheel has one for each of several minor
versions, because torch's C++ interface changes with them: in adapters/2.13 and the like.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import sys
import types

import torch

from .. import Error

PACKAGE = __package__.rpartition(".")[0]
NAME = f"{PACKAGE}._C"
PACKED = pathlib.Path(__file__).parents[1] / "adapters"


def load() -> types.ModuleType:
    minor = ".".join(torch.__version__.split(".")[:2])
    packed = _packed()
    if packed:
        if minor not in packed:
            raise _unusable(f"has adapters for PyTorch {', '.join(packed)}")
        return _imported(lambda: _from_file(packed[minor]))
    try:
        from .. import _built_for
    except ImportError:
        raise _unusable("was installed where it found no PyTorch") from None
    if _built_for.__version__.split(".")[:2] != minor.split("."):
        raise _unusable(f"was compiled against PyTorch {_built_for.__version__}")
    return _imported(lambda: importlib.import_module(NAME))


def _packed() -> dict[str, pathlib.Path]:
    """The adapters of a wheel, by minor version of torch."""
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    found = {path.parent.name: path for path in PACKED.glob(f"*/_C{suffix}")}
    return dict(sorted(found.items(), key=lambda entry: [int(number) for number in entry[0].split(".")]))


def _from_file(path: pathlib.Path) -> types.ModuleType:
    """As if it lay in the package."""
    spec = importlib.util.spec_from_file_location(NAME, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[NAME]
        raise
    sys.modules[PACKAGE]._C = module
    return module


def _imported(load_it) -> types.ModuleType:
    try:
        return load_it()
    except ImportError as problem:
        raise _unusable(f"cannot be loaded ({problem})") from problem


def _unusable(what: str) -> Error:
    # pip keeps what it has compiled from an archive, for any torch.
    return Error(f"Ebbtide {what}; here is PyTorch {torch.__version__} in {sys.executable}. Install Ebbtide for it: in "
                 f"Ebbtide's source folder, `{sys.executable} -m pip install --force-reinstall --no-cache-dir .` (uv "
                 "needs --no-build-isolation), and use the `ebb` that this installs (docs/install.md)")
