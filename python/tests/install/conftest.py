"""Fixtures of the tests of installing."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import runner
from clean_machine import BUILD_REQUIREMENTS, LIMIT_S, Machine


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    probe = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp_path / "tmp",
                            BUILD_REQUIREMENTS[0]], capture_output=True, timeout=LIMIT_S)
    if probe.returncode != 0:
        pytest.skip("pip reaches no index to take its build requirements from")
    return machine


@pytest.fixture
def flash(tmp_path):
    path = pathlib.Path(runner.flash_folder()) / f"ebb-install-{os.getpid()}"
    path.mkdir()
    yield path
    shutil.rmtree(path)
