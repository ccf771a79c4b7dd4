"""The `ebb` under test, for every suite of the command line: EBB_BIN, or the one that was built."""

import contextlib
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def find_ebb():
    candidates = [os.environ.get("EBB_BIN"), ROOT / "build/release/cli/ebb", ROOT / ".venv/bin/ebb"]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return str(Path(candidate).resolve())
    return None


EBB = find_ebb()
needs_ebb = pytest.mark.skipif(EBB is None, reason="no ebb: build it, or name it in EBB_BIN")


def read_terminal(terminal):
    """All that was written to a pseudo-terminal whose other end is closed; closes this one. It may come in parts."""
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody has the other end any more
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    return shown
