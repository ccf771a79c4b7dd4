"""Perfetto's page and trace processor, where `make site` and Chromium with its driver are: tools/site/perfetto.py."""

import json
import os
import shutil
import subprocess

import pytest
from ebb_program import ROOT

PYTHON = ROOT / "build/site/venv/bin/python"
NO_COMPLAINT = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def lacks():
    if not os.access(PYTHON, os.X_OK):
        return "make site has not been run"
    missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"no {' and no '.join(missing)} here" if missing else None


needs_perfetto = pytest.mark.skipif(lacks() is not None, reason=str(lacks()))


def ask_perfetto(trace, *queries):
    """The rows of each query, of a trace that Perfetto has read without an error."""
    options = [option for sql in (NO_COMPLAINT, *queries) for option in ("--query", sql)]
    run = subprocess.run([PYTHON, ROOT / "tools/site/perfetto.py", trace, *options], capture_output=True, timeout=240)
    assert run.returncode == 0, run.stderr.decode()
    complaints, *rows = map(json.loads, run.stdout.splitlines())
    assert complaints == []
    return rows
