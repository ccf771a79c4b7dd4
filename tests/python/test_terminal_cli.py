"""Tests of `ebb run` at a terminal: the status line, keys, stop and continue."""

import json
import os
import re
import signal
import sys
import textwrap
import time

import pytest
from ebb_program import EBB, needs_ebb
from fake_program import fake_page
from test_run_cli import calibrated
from terminal import Terminal, terminal

pytestmark = needs_ebb

SLEEPER = "import torch, time; print('ready', flush=True); time.sleep(%s)"


def test_status_line_on_a_terminal(box):
    page = fake_page(resident_bytes=1 << 30, budget_bytes=3 << 29, flash_bytes=5 << 30)
    screen = terminal(box, "run", "--", sys.executable, "-c", SLEEPER % 1.2, FAKE_STATS=page)
    assert screen.finish() == 0
    output = screen.output
    assert b"\033[1;23r" in output  # the last of 24 rows is kept
    assert b"\033[24;1H" in output
    for words in (b"1.00 GiB / 1.50 GiB", b"flash 5.00 GiB", b"MB/s", b"stalled", b"step 3", b"400 ms"):
        assert words in output
    assert b"found" not in output and b"auto" not in output and b"% of disk" not in output
    assert output.count(b"\0337") == output.count(b"\0338")
    last_set = output.rindex(b"\033[1;23r")
    restored = output.index(b"\033[r", last_set)
    assert b"ebb summary" in output[restored:]  # the table comes after the terminal is whole again
    assert b"\033[7m" in output


def test_status_line_of_steps_that_are_found(box):
    calibrated(box, 4e9)
    page = fake_page(told=False, steps=(0.5, 0.3, 0.1), budget_bytes=3 << 29)
    screen = terminal(box, "run", "--", sys.executable, "-c", SLEEPER % 1.2, columns=160, FAKE_STATS=page,
                      XDG_CACHE_HOME=str(box.path / "cache"))
    assert screen.finish() == 0
    for words in (b"fetch 0 MB/s (0 % of disk)", b"found step 3  100 ms  median 300 ms"):
        assert words in screen.output


def test_status_line_says_that_the_budget_is_automatic(box):
    screen = terminal(box, "run", "--memory", "auto", "--", sys.executable, "-c", SLEEPER % 1.2,
                      FAKE_STATS=fake_page(resident_bytes=1 << 30, budget_bytes=3 << 29))
    assert screen.finish() == 0
    assert b"1.00 GiB / 1.50 GiB auto" in screen.output


@pytest.mark.parametrize(
    "options, changes",
    [(["--quiet"], {}), ([], {"TERM": "dumb"})],
)
def test_no_status_line_where_it_is_not_wanted(box, options, changes):
    screen = terminal(box, "run", *options, "--", sys.executable, "-c", SLEEPER % 0.6, **changes)
    assert screen.finish() == 0
    assert b"\033[1;" not in screen.output and b"\0337" not in screen.output


def test_no_colour_when_refused_and_no_line_on_a_tiny_terminal(box):
    screen = terminal(box, "run", "--", sys.executable, "-c", SLEEPER % 0.6, NO_COLOR="1")
    assert screen.finish() == 0
    assert b"\033[1;23r" in screen.output and not re.search(rb"\033\[\d*m", screen.output)
    screen = terminal(box, "run", "--", sys.executable, "-c", SLEEPER % 0.6, rows=2)
    assert screen.finish() == 0
    assert b"\0337" not in screen.output


def test_resize_moves_the_status_line(box):
    screen = terminal(box, "run", "--", sys.executable, "-c", SLEEPER % 30)
    screen.read_until(b"ready")
    screen.resize(40, 30)
    moved = screen.read_until(b"\033[40;1H\033[7m")
    assert b"\033[r" in moved and b"\033[1;39r" in moved
    assert 0 < len(screen.read_until(b"\033[K")) < 30 + len(b"\033[K")
    screen.type(b"\x03")
    assert screen.finish() == -signal.SIGINT
    assert screen.output.rindex(b"\033[r") > screen.output.rindex(b"\033[1;39r")


def test_interrupt_from_the_terminal(box):
    program = "import time; print('ready', flush=True); time.sleep(60)"
    screen = terminal(box, "run", "--summary", "s.json", "--", sys.executable, "-c", program)
    screen.read_until(b"ready")
    screen.type(b"\x03")
    assert screen.finish() == -signal.SIGINT
    assert b"KeyboardInterrupt" in screen.output
    assert json.loads((box.path / "s.json").read_text())["signal"] == signal.SIGINT
    assert box.leftovers() == []


def test_program_may_handle_the_interrupt(box):
    program = """
    import time
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.5)  # saving a checkpoint: ebb waits for it
        raise SystemExit(5)
    """
    screen = terminal(box, "run", "--", sys.executable, "-c", textwrap.dedent(program))
    screen.read_until(b"ready")
    screen.type(b"\x03")
    assert screen.finish() == 5


# A shell as far as job control goes: runs argv in the foreground, says when it stops, and continues it.
SHELL = """
import os, signal, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
status = os.waitpid(pid, os.WUNTRACED)[1]
os.tcsetpgrp(0, os.getpgrp())
print("stopped by", os.WSTOPSIG(status) if os.WIFSTOPPED(status) else None, flush=True)
os.tcsetpgrp(0, pid)
os.killpg(pid, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_stop_gives_the_terminal_back_and_continue_takes_it(box):
    program = "import time; print('ready', flush=True); time.sleep(1.5); raise SystemExit(6)"
    command = [sys.executable, "-c", SHELL, EBB, "run", "--", sys.executable, "-c", program]
    screen = Terminal(command, box.path, box.environment)
    screen.read_until(b"ready")
    screen.read_until(b"waiting for torch")
    screen.type(b"\x1a")
    stopped = screen.read_until(b"stopped by %d" % signal.SIGTSTP)
    assert b"\033[r" in stopped
    resumed = screen.read_until(b"\033[1;23r")
    assert b"no memory" not in resumed
    assert screen.finish() == 6


# The doctor.
