"""Fixtures of the suites of the command line."""

import signal

import pytest
from fake_program import make_box

# A shell that starts us in the background has SIGINT ignored, and so would have our children.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def box(tmp_path):
    return make_box(tmp_path)
