"""ebbtide._C for the torch that is here, or what to do where it is for another one or was not built."""

from __future__ import annotations

import sys
import types

import torch

from .. import Error


def load() -> types.ModuleType:
    try:
        from .. import _built_for
    except ImportError:
        raise _unusable("was installed where it found no PyTorch") from None
    # Its C++ interface changes with minor versions.
    if _built_for.__version__.split(".")[:2] != torch.__version__.split(".")[:2]:
        raise _unusable(f"was compiled against PyTorch {_built_for.__version__}")
    try:
        from .. import _C
    except ImportError as problem:
        raise _unusable(f"cannot be loaded ({problem})") from problem
    return _C


def _unusable(what: str) -> Error:
    # pip keeps what it has compiled from an archive, for any torch.
    return Error(f"Ebbtide {what}; here is PyTorch {torch.__version__} in {sys.executable}. Install Ebbtide for it: in "
                 f"Ebbtide's source folder, `{sys.executable} -m pip install --force-reinstall --no-cache-dir .` (uv "
                 "needs --no-build-isolation), and use the `ebb` that this installs (docs/install.md)")
