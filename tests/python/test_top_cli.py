"""Tests of `ebb top`: which runs are found and which are not, the numbers, the screen and its keys, and that the
terminal is given back however it ends.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from ebb_program import EBB, needs_ebb
from fake_program import PAGE_BYTES, STATS_FIELDS, TIMEOUT_S, fake_page
from terminal import Terminal, terminal
from test_terminal_cli import SHELL

pytestmark = needs_ebb

ENTER, LEAVE = b"\033[?1049h", b"\033[?1049l"
# Waits until its standard input is closed; with a number, writes the page anew with so many bytes fetched.
PROGRAM = """
import torch, os, struct, sys
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    with open(os.environ["EBB_STATS"], "r+b") as file:
        file.seek(24 + 8 * %d)
        file.write(struct.pack("<Q", int(line)))
    print("written", flush=True)
"""
PRIVATE = 0o700
SEEMING = os.getpid()  # of a run that is none; tests of another process have another


class Run:
    """A run that goes on until it is told to end."""

    def __init__(self, box, *options, page=None, command=(), **changes):
        page = page or fake_page(budget_bytes=3 << 29, resident_bytes=1 << 30, flash_bytes=5 << 30)
        program = [sys.executable, "-c", PROGRAM % STATS_FIELDS.index("fetched_bytes"), *command]
        environment = {**box.environment, "FAKE_STATS": page, "FAKE_WHOLE_PAGE": str(PAGE_BYTES), **changes}
        self.process = subprocess.Popen([EBB, "run", "--quiet", *options, "--", *program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, cwd=box.path, env=environment)
        self.pid = self.process.pid
        words = self.process.stdout.readline().split()
        assert words[0] == b"ready"
        self.child = int(words[1])

    def fetch(self, total):
        self.process.stdin.write(b"%d\n" % total)
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"written\n"

    def end(self):
        self.process.stdin.close()
        return self.process.wait(TIMEOUT_S)


@pytest.fixture
def runs(box):
    started = []

    def start(*options, **changes):
        started.append(Run(box, *options, **changes))
        return started[-1]

    yield start
    for run in started:
        run.end()


def look(box, *options, **changes):
    """The runs that `ebb top` sees, of those that tests of this process have started or could have."""
    result = box.run("top", "--json", "--interval", "0.1", *options, **changes)
    assert result.returncode == 0 and result.stderr == b"", result.stderr
    return {run["pid"]: run for run in json.loads(result.stdout)["runs"]}


def until(condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("options, words", [(["--interval", "0"], "0.1 to 3600"), (["--interval", "soon"], "'soon'"),
                                            (["--interval", ""], "the value is empty"), (["--what"], "--what"),
                                            (["7"], "7")])
def test_usage(box, options, words):
    result = box.run("top", *options)
    assert result.returncode == 2 and result.stdout == b""
    assert words in result.stderr.decode() and result.stderr.count(b"\n") == 1


def test_a_run_with_its_numbers(box, runs):
    run = runs("--memory", "2GiB", command=["with", "words"])
    run.fetch(1000)
    seen = look(box)[run.pid]
    assert seen["command"][0] == sys.executable and seen["command"][-2:] == ["with", "words"]
    assert seen["budget_bytes"] == 2 << 30 and not seen["budget_automatic"] and not seen["on_device"]
    assert seen["resident_bytes"] == 1 << 30 and seen["flash_bytes"] == 5 << 30
    assert 0 <= seen["elapsed_seconds"] < TIMEOUT_S
    assert seen["fetch_bps"] == 0 and seen["stalled_share"] == 0 and seen["disk_read_bps"] is None
    (process,) = seen["processes"]
    assert process["pid"] == run.child and process["rank"] is None and process["policy"] == "window"
    assert process["fetched_bytes"] == 1000 and process["step_count"] == 3 and process["last_step_seconds"] == 0.4
    assert process["waits"]["stall_seconds"] == 0


def test_rates_are_of_the_interval(box, runs):
    run = runs()
    run.fetch(1 << 30)
    top = box.start("top", "--json", "--interval", "2")
    time.sleep(1)  # between its two looks
    run.fetch((1 << 30) + 500_000_000)
    seen = json.loads(top.communicate(timeout=TIMEOUT_S)[0])
    (mine,) = [each for each in seen["runs"] if each["pid"] == run.pid]
    assert mine["fetch_bps"] * seen["interval_seconds"] == pytest.approx(500_000_000)
    assert mine["processes"][0]["fetch_bps"] == mine["fetch_bps"]


def test_a_table_where_there_is_no_terminal(box, runs):
    run = runs("--memory", "2GiB")
    for options in ([], ["--once"]):
        lines = box.run("top", "--interval", "0.1", *options).stdout.decode()
        assert re.search(rf"^run {run.pid}  0:\d\d  \S+ -c  import torch", lines, re.MULTILINE)
        assert "[||||||||||          ] 1.00 GiB / 2.00 GiB  flash 5.00 GiB  fetch 0 MB/s  evict 0 MB/s" in lines
        row = rf"^ *{run.child}[ \d]* 1.00 GiB 1.50 GiB 5.00 GiB .* 400 ms +python$"
        assert re.search(row, lines, re.MULTILINE)
        assert "\033" not in lines


def test_commands_cannot_write_to_the_terminal(box, runs):
    runs(command=["\033]0;title\007", "\u009b31m"])
    text = box.run("top", "--once", "--interval", "0.1").stdout
    assert b"?]0;title?" in text and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", text)


def test_nothing_runs(box):
    result = box.run("top")
    if b"run " not in result.stdout:  # of somebody else's tests, perhaps
        assert result.stdout == b"no program of yours runs under `ebb run`\n"
    assert result.returncode == 0


def test_a_run_is_found_whatever_its_directory(box, runs, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    run = runs(TMPDIR=str(tmp_path / "elsewhere"))
    assert run.pid in look(box)
    run.end()
    assert run.pid not in look(box)


def test_a_run_that_was_killed_is_gone(box, runs):
    run = runs()
    assert run.pid in look(box)
    run.process.kill()
    until(lambda: run.pid not in look(box))


def test_ranks_are_rows(box, runs):
    run = runs(LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
    (process,) = look(box)[run.pid]["processes"]
    assert process["rank"] == 1
    assert re.search(r"PID\S? +(RUN +)?RANK ", box.run("top", "--interval", "0.1").stdout.decode())


def test_a_budget_that_follows(box, runs):
    run = runs("--memory", "auto")
    seen = until(lambda: look(box)[run.pid])
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert seen["budget_automatic"] and 0 < seen["budget_bytes"] < total, "what is free, not all that there is"
    assert " GiB auto  flash" in box.run("top", "--interval", "0.1").stdout.decode()


class Pretender:
    """A process that shows itself as the guard of a run does, with a directory of this test's making."""

    def __init__(self, directory):
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(os.open(directory, os.O_RDONLY), 1)
            ctypes.CDLL(None).prctl(15, b"ebb-guard", 0, 0, 0)  # PR_SET_NAME
            while True:
                signal.pause()
        until(lambda: open(f"/proc/{self.pid}/comm").read() == "ebb-guard\n")

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def directory(box, runs):
    """A copy of a run's directory, shown by a pretender, and the number of the run that it seems to be."""
    run = runs()
    (original,) = box.leftovers()
    copy = box.path / "copy"
    copy.mkdir(mode=PRIVATE)
    for name in ("run.budget", "stats"):
        (copy / name).write_bytes((original / name).read_bytes())
    facts = json.loads((original / "run").read_text())
    (copy / "run").write_text(json.dumps({**facts, "pid": SEEMING}))
    pretender = Pretender(copy)
    assert len(look(box)[SEEMING]["processes"]) == 1, "as it is, it would do"
    yield copy
    pretender.end()
    assert run.pid in look(box), "others are not disturbed"


def spoil(name, damage):
    def change(copy):
        path = copy / name
        content = path.read_bytes()
        path.unlink()
        damage(path, content)
    return change


def link(path, content):
    (path.parent / "other").write_bytes(content)
    path.symlink_to("other")


# What is left of it: nothing, or a run without that process.
@pytest.mark.parametrize("change, left", [
    (lambda copy: copy.chmod(0o755), None),
    (spoil("run", link), None),
    (spoil("run", lambda path, content: path.write_bytes(content[:-5])), None),
    (spoil("run", lambda path, content: path.write_bytes(b"[]")), None),
    (spoil("run", lambda path, content: path.write_bytes(content.replace(b'"command": [', b'"command": [[],'))), None),
    (spoil("run", lambda path, content: path.write_bytes(b" " * 100_000 + content)), None),
    (spoil("run.budget", lambda path, content: path.write_bytes(content + b"x")), None),
    (spoil("run.budget", lambda path, content: os.mkfifo(path)), None),
    (spoil("stats", link), 0),
    (spoil("stats", lambda path, content: path.write_bytes(content[:-1])), 0),
    (spoil("stats", lambda path, content: path.write_bytes(content + b"x")), 0),
    (spoil("stats", lambda path, content: path.write_bytes(b"x" * len(content))), 0),
    (spoil("stats", lambda path, content: os.mkfifo(path)), 0),
    (spoil("stats", lambda path, content: path.mkdir()), 0),
    (spoil("stats", lambda path, content: path.write_bytes(content[:8] + b"\1" + content[9:])), 0),
    (spoil("stats", lambda path, content: path.write_bytes(content[:16] + b"\xff" * 8 + content[24:])), 0),
])
def test_what_is_not_as_a_run_makes_it_is_ignored(box, directory, change, left):
    change(directory)
    seen = look(box)
    assert SEEMING not in seen if left is None else len(seen[SEEMING]["processes"]) == left


@pytest.mark.parametrize("name", ["", "run", "run.budget", "stats"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_ignored(box, directory, name):
    os.chown(directory / name, 65534, 65534)
    assert (SEEMING not in look(box)) if name != "stats" else look(box)[SEEMING]["processes"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_runs_of_another_user_are_not_visible(box, runs):
    run = runs()
    result = subprocess.run([EBB, "top", "--json", "--interval", "0.1"], capture_output=True, user=65534, group=65534,
                            cwd="/", timeout=TIMEOUT_S)
    assert result.returncode == 0 and run.pid not in {each["pid"] for each in json.loads(result.stdout)["runs"]}


def test_noise_in_a_page_is_survived(box, directory):
    page = directory / "stats"
    content = page.read_bytes()
    page.write_bytes(content[:24] + os.urandom(len(content) - 24))
    assert len(look(box)[SEEMING]["processes"]) == 1
    assert box.run("top", "--interval", "0.1").returncode == 0
    screen = terminal(box, "top", "--interval", "0.2")
    screen.read_until(b"run %d " % SEEMING)
    screen.type(b"q")
    assert screen.finish() == 0


# At a terminal.


HOME = b"\033[H"  # begins each frame


def frame(screen, words):
    """The lines of the first whole frame with these words in it that is drawn from now on."""
    screen.read_until(HOME)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        drawn = screen.read_until(HOME)
        screen.position -= len(HOME)
        text = re.sub(r"\033\[[\d;?]*[a-zA-Z]", "", drawn.decode())
        if words in text:
            return re.split("\r*\n", text)
        assert time.monotonic() < deadline, f"{words!r} never came; the last frame is\n{text}"
        screen.position += len(HOME)


@pytest.fixture
def screen(box, runs):
    run = runs("--memory", "2GiB")
    shown = terminal(box, "top", "--interval", "0.1", rows=30, columns=140)
    shown.run = run
    yield shown
    try:
        os.kill(shown.pid, signal.SIGKILL)
        shown.finish()
    except (ProcessLookupError, OSError):
        pass


def test_the_screen(screen):
    screen.read_until(ENTER)
    lines = frame(screen, f"run {screen.run.pid}")
    assert lines[0].startswith("ebb top  ") and "every 0.1 s" in lines[0]
    head = next(line for line in lines if "PID" in line)
    assert re.search(r"PID\+ +(RUN +)?(RANK +)?MEMORY +BUDGET +FLASH +FETCH +EVICT +STALLED", head) and len(head) == 140
    row = next(line for line in lines if line.lstrip().startswith(str(screen.run.child)))
    assert "1.00 GiB 1.50 GiB 5.00 GiB" in row
    screen.type(b"q")
    assert screen.finish() == 0
    assert screen.output.endswith(LEAVE) and screen.output.count(ENTER) == screen.output.count(LEAVE) == 1


@pytest.mark.parametrize("keys, mark", [(b"M", "MEMORY-"), (b"F", "FLASH-"), (b"R", "FETCH-"), (b"W", "EVICT-"),
                                        (b"S", "STALLED-"), (b"SI", "STALLED+"), (b"SN", "PID+"), (b"NI", "PID-"),
                                        (b"M\033[C", "BUDGET-"), (b"B\033OD", "MEMORY-"), (b"M>>", "FLASH-"),
                                        (b"F<", "BUDGET-")])
def test_keys_sort(screen, keys, mark):
    frame(screen, "PID+")
    screen.type(keys)
    frame(screen, mark)


def test_a_sequence_in_pieces_is_one_key(screen):
    frame(screen, "PID+")
    screen.type(b"M")
    frame(screen, "MEMORY-")
    for piece in (b"\033", b"[", b"C"):
        screen.type(piece)
    frame(screen, "BUDGET-")


def test_help_comes_and_goes(screen):
    for keys in (b"h", b"?", b"\033OP", b"\033[11~"):
        screen.type(keys)
        assert any("sort by MEMORY" in line for line in frame(screen, "ebb top: keys"))
        screen.type(b"x")
        frame(screen, "PID+")


def chosen(lines):
    """The process whose waits are shown, and those of the table."""
    (process,) = [int(line.split()[1]) for line in lines if line.startswith("process ")]
    return process, [int(line.split()[0]) for line in lines if re.match(r" *\d+ ", line)]


def test_arrows_choose_the_process_whose_waits_are_shown(runs, screen):
    """Among those that other tests may have started meanwhile."""
    first, second = sorted([screen.run.child, runs().child])
    until(lambda: second in chosen(frame(screen, "process "))[1])

    def go(keys, there):
        def arrived():
            screen.type(keys)
            return there(*chosen(frame(screen, "process ")))
        until(arrived)

    go(b"\033[F", lambda process, table: process == table[-1])
    go(b"\033[H", lambda process, table: process == table[0])
    go(b"\033[B", lambda process, table: process == second)
    go(b"\033[A", lambda process, table: process == first)
    go(b"j", lambda process, table: process == second)
    go(b"k", lambda process, table: process == first)


def fits(lines, rows, columns):
    return len(lines) <= rows and all(len(line) <= columns for line in lines)


@pytest.mark.parametrize("rows, columns", [(5, 20), (2, 10), (1, 1), (50, 200), (12, 60)])
def test_any_size(screen, rows, columns):
    frame(screen, "PID")
    screen.resize(rows, columns)
    assert until(lambda: fits(frame(screen, ""), rows, columns))
    assert all(fits(frame(screen, ""), rows, columns) for _ in range(3))
    screen.resize(30, 100)
    frame(screen, "STALLED")


@pytest.mark.parametrize("end", [b"q", b"Q", b"\x03", b"\033[21~"])
def test_keys_end_it(screen, end):
    frame(screen, "PID")
    screen.type(end)
    assert screen.finish() == 0
    assert screen.output.endswith(LEAVE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_give_the_terminal_back(screen, number):
    frame(screen, "PID")
    os.kill(screen.pid, number)
    assert screen.finish() == (0 if number == signal.SIGINT else -number)
    assert screen.output.endswith(LEAVE)


# A shell as far as this goes: says whether the terminal's modes are afterwards as they were before.
MODES = """
import os, subprocess, sys, termios
before = termios.tcgetattr(0)
code = subprocess.call(sys.argv[1:])
print("code", code, "same" if termios.tcgetattr(0) == before else "changed")
"""


@pytest.mark.parametrize("keys", [b"q", b"\x03"])
def test_modes_are_restored(box, keys):
    shell = Terminal([sys.executable, "-c", "import signal; signal.signal(2, signal.SIG_IGN)" + MODES, EBB, "top"],
                     box.path, box.environment)
    shell.read_until(b"\033[H")
    shell.type(keys)
    shell.read_until(b"code 0 same")
    assert shell.finish() == 0


def test_stop_gives_the_terminal_back_and_continue_takes_it(box):
    screen = Terminal([sys.executable, "-c", SHELL, EBB, "top"], box.path, box.environment)
    screen.read_until(b"\033[H")
    screen.type(b"\x1a")
    assert LEAVE in screen.read_until(b"stopped by %d" % signal.SIGTSTP)
    screen.read_until(ENTER)
    screen.read_until(b"\033[H")
    screen.type(b"q")
    assert screen.finish() == 0
    assert screen.output.endswith(LEAVE)


def test_a_dumb_terminal_gets_the_table(box):
    screen = terminal(box, "top", "--interval", "0.1", TERM="dumb")
    assert screen.finish() == 0 and b"\033" not in screen.output


def test_without_colour(box):
    screen = terminal(box, "top", NO_COLOR="1")
    screen.read_until(b"\033[H")
    screen.type(b"q")
    assert screen.finish() == 0 and not re.search(rb"\033\[3\d", screen.output)
