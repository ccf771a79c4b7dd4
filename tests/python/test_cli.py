"""End-to-end tests of the command line `ebb` and of the start-up hook, through the real executable.

Programs under test are small scripts. The managed program is stood in for by a fake `torch` and a fake `ebbtide`
package around the real hook, so all of this runs without building the extension; the last test uses the real one and is
skipped where it is missing. Pseudo-terminals stand in for a person at a terminal.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import termios
import textwrap
import time
from pathlib import Path

import pytest
from ebb_program import EBB, ROOT, needs_ebb

# A shell that starts us in the background has SIGINT ignored, and so would have our children.
signal.signal(signal.SIGINT, signal.default_int_handler)

HOOK = ROOT / "adapters/torch/ebbtide/hook/sitecustomize.py"
TIMEOUT_S = 60

pytestmark = needs_ebb

# The statistics page as include/ebb says it is; the fields of Stats are taken from the header itself.
MAGIC = int(re.search(r"kMagic = (0x\w+);", (ROOT / "include/ebb/stats_page.h").read_text()).group(1), 16)
STATS_FIELDS = re.findall(r"std::uint64_t (\w+) = 0;", (ROOT / "include/ebb/stats.h").read_text())
STEPS_MAX = 65536

FAKE_TORCH = "LOADER = type(__loader__).__name__\nVALUE = 42\n"

# Publishes what the test put into FAKE_STATS; records each call; fails as told.
FAKE_EBBTIDE = """
import json, os, struct
class Error(RuntimeError):
    pass
if os.environ.get("FAKE_FAILURE") == "import":
    raise ImportError("_C was built for another Python")
def _enable_from_environment():
    failure = os.environ.get("FAKE_FAILURE")
    if failure == "error":
        raise Error("no room on flash; name another directory")
    if failure == "bug":
        raise KeyError("surprise")
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write("%d\\n" % os.getpid())
    page = json.loads(os.environ["FAKE_STATS"]) if "FAKE_STATS" in os.environ else None
    if page:
        data = struct.pack("<QQQ", page["magic"], page["sequence"], os.getpid())
        data += struct.pack("<%dQ" % len(page["stats"]), *page["stats"])
        data += page["policy"].encode().ljust(32, b"\\0") + page["description"].encode().ljust(480, b"\\0")
        data += struct.pack("<Q", page["step_count"])
        data += struct.pack("<%dd" % len(page["steps"]), *page["steps"])
        with open(os.environ["EBB_STATS"], "wb") as file:
            file.write(data)
"""


@pytest.fixture
def box(tmp_path):
    """A directory with a fake torch and ebbtide, its own TMPDIR, and a clean environment that uses them."""
    package = tmp_path / "python/ebbtide"
    (package / "hook").mkdir(parents=True)
    shutil.copy(HOOK, package / "hook/sitecustomize.py")
    (package / "__init__.py").write_text(FAKE_EBBTIDE)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/torch.py").write_text(FAKE_TORCH)
    (tmp_path / "tmp").mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
    environment.update(
        TERM="xterm",
        TMPDIR=str(tmp_path / "tmp"),
        EBB_PYTHON_DIR=str(tmp_path / "python"),
        FAKE_LOG=str(tmp_path / "log"),
        PYTHONPATH=str(tmp_path / "site"),
    )
    environment.pop("NO_COLOR", None)
    return Box(tmp_path, environment)


class Box:
    def __init__(self, path, environment):
        self.path = path
        self.environment = environment

    def run(self, *arguments, stdin=b"", **changes):
        return subprocess.run(
            [EBB, *map(str, arguments)],
            input=stdin,
            capture_output=True,
            cwd=self.path,
            env={**self.environment, **changes},
            timeout=TIMEOUT_S,
        )

    def python(self, program, *options, **changes):
        return self.run("run", *options, "--", sys.executable, "-c", textwrap.dedent(program), **changes)

    def start(self, *arguments, **changes):
        return subprocess.Popen(
            [EBB, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.path,
            env={**self.environment, **changes},
        )

    def enabled(self):
        log = self.path / "log"
        return log.read_text().split() if log.exists() else []

    def leftovers(self):
        return list((self.path / "tmp").iterdir())


def fake_page(step_count=3, steps=(0.5, 0.3, 0.4), sequence=2, **values):
    stats = {name: 0 for name in STATS_FIELDS}
    stats.update(values, steps=step_count)
    return json.dumps(
        {
            "magic": MAGIC,
            "sequence": sequence,
            "stats": [stats[name] for name in STATS_FIELDS],
            "policy": "window",
            "description": "fake driver, rung A",
            "step_count": step_count,
            "steps": list(steps),
        }
    )


# Usage: one message, exit code 2, nothing started.


@pytest.mark.parametrize(
    "options, words",
    [
        ([], "command to run is missing"),
        (["--memory", "1GiB"], "command to run is missing"),
        (["--memory"], "--memory"),
        (["--memory", "lots", "--", "touch", "started"], "size 'lots'"),
        (["--memory", "-5GiB", "--", "touch", "started"], "size '-5GiB'"),
        (["--memory", "0", "--", "touch", "started"], "--memory"),
        (["--memory", "", "--", "touch", "started"], "--memory: the value is empty"),
        (["--memory", "1e9", "--", "touch", "started"], "unit"),
        (["--memroy", "1GiB", "--", "touch", "started"], "unknown option '--memroy'"),
        (["--policy", "magic", "--", "touch", "started"], "on_demand, window, deepum"),
        (["--block", "3MiB", "--", "touch", "started"], "power of two"),
        (["--block", "1KiB", "--", "touch", "started"], "power of two"),
        (["--managed-min", "few", "--", "touch", "started"], "--managed-min"),
        (["--flash", "nowhere", "--", "touch", "started"], "No such file"),
        (["--flash", "site/torch.py", "--", "touch", "started"], "not a directory"),
        (["--flash", "tmp:12parsecs", "--", "touch", "started"], "unknown unit"),
        (["--flash", ":5GiB", "--", "touch", "started"], "--flash"),
        (["--summary", "nowhere/s.json", "--", "touch", "started"], "cannot be written"),
        (["--summary", "tmp", "--", "touch", "started"], "is a directory"),
        (["--summary", "site/torch.py/s.json", "--", "touch", "started"], "cannot be written"),
    ],
)
def test_run_refuses_nonsense(box, options, words):
    result = box.run("run", *options)
    message = result.stderr.decode()
    assert result.returncode == 2
    assert words in message
    assert message.startswith("ebb: ") and message.count("\n") == 1
    assert result.stdout == b""
    assert not (box.path / "started").exists()
    assert box.leftovers() == []


def test_top_level_usage(box):
    assert box.run().returncode == 2
    assert b"unknown command" in box.run("walk").stderr
    assert box.run("walk").returncode == 2
    version = box.run("--version")
    assert version.returncode == 0 and re.fullmatch(rb"ebb \d+\.\d+\.\d+\S*\n", version.stdout)
    for arguments in (["--help"], ["run", "--help"], ["doctor", "--help"]):
        result = box.run(*arguments)
        assert result.returncode == 0 and b"Usage" in result.stdout and result.stderr == b""


def test_environment_variables_are_checked_like_options(box):
    result = box.run("run", "--", "true", EBB_MEMORY="plenty")
    assert result.returncode == 2 and b"plenty" in result.stderr
    assert box.run("run", "--memory", "1GiB", "--", "true", EBB_MEMORY="plenty").returncode == 0


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no /dev/shm")
def test_ram_disk_is_refused(box):
    result = box.run("run", "--flash", "/dev/shm", "--", "touch", "started")
    assert result.returncode == 2
    assert b"RAM disk" in result.stderr and b"--flash DIR" in result.stderr
    assert not (box.path / "started").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_places_are_refused(box):
    (box.path / "locked").mkdir(mode=0o500)
    for option in (["--flash", "locked"], ["--summary", "locked/s.json"]):
        result = box.run("run", *option, "--", "touch", "started")
        assert result.returncode == 2 and b"Permission denied" in result.stderr


def test_missing_python_package(box):
    result = box.run("run", "--", "true", EBB_PYTHON_DIR=str(box.path / "tmp"))
    assert result.returncode == 2 and b"EBB_PYTHON_DIR" in result.stderr


# Exit codes and signals.


@pytest.mark.parametrize("code", [0, 1, 2, 77, 255])
def test_exit_code_passes_through(box, code):
    assert box.run("run", "--", "sh", "-c", f"exit {code}").returncode == code


def test_commands_that_cannot_start(box):
    (box.path / "plain").write_text("not a program")
    missing = box.run("run", "--", "no-such-program-anywhere")
    assert missing.returncode == 127 and b"not found" in missing.stderr
    assert box.run("run", "--", "./plain").returncode == 126
    assert box.leftovers() == []


def test_double_dash_belongs_to_the_program_after_the_first(box):
    assert box.run("run", "--quiet", "--", "echo", "--", "--memory").stdout == b"-- --memory\n"
    assert box.run("run", "--quiet", "echo", "a", "--", "b").stdout == b"a -- b\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT])
def test_death_by_signal_passes_through(box, number):
    result = box.run("run", "--summary", "s.json", "--", "sh", "-c", f"kill -{int(number)} $$")
    assert result.returncode == -number
    summary = json.loads((box.path / "s.json").read_text())
    assert summary["exit_code"] == 128 + number and summary["signal"] == number
    assert box.leftovers() == []
    assert not list(box.path.glob("core*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_signals_are_forwarded(box, number):
    program = f"""
    import signal, sys, time
    signal.signal({int(number)}, lambda *_: sys.exit(9))
    print("ready", flush=True)
    time.sleep(60)
    """
    process = box.start("run", "--", sys.executable, "-c", textwrap.dedent(program))
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 9
    assert box.leftovers() == []


def test_signal_dispositions_are_inherited(box):
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGTSTP", "SIGCHLD", "SIGWINCH")
    program = f"""
    import signal
    print([signal.getsignal(getattr(signal, name)) == signal.SIG_IGN for name in {names}])
    print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """
    ours = [signal.getsignal(getattr(signal, name)) == signal.SIG_IGN for name in names]  # as under nohup
    assert box.python(program, "--quiet").stdout.decode().splitlines() == [str(ours), "set()"]


# What the program sees.


def test_streams_are_untouched(box):
    data = bytes(range(256)) * 4096
    result = box.run("run", "--quiet", "--", "cat", stdin=data)
    assert result.stdout == data and result.stderr == b""
    script = "import sys; sys.stdout.write('out'); sys.stderr.write('err')"
    result = box.run("run", "--quiet", "--", sys.executable, "-c", script)
    assert (result.stdout, result.stderr) == (b"out", b"err")


def test_environment_of_the_program(box):
    program = """
    import json, os, stat
    scratch = os.path.dirname(os.environ["EBB_STATS"])
    found = {k: v for k, v in os.environ.items() if k.startswith("EBB_")}
    found["mode"] = stat.S_IMODE(os.stat(scratch).st_mode)
    found["claim_beside"] = os.path.dirname(os.environ["EBB_CLAIM"]) == scratch
    found["path"] = os.environ["PYTHONPATH"].split(":")
    print(json.dumps(found))
    """
    options = ["--memory", "1.5GiB", "--flash", "tmp:2GiB", "--policy", "window", "--managed-min", "4k"]
    found = json.loads(box.python(program, "--quiet", *options).stdout)
    flash = (box.path / "tmp").resolve()
    assert found["EBB_MEMORY"] == str(3 << 29)
    assert found["EBB_FLASH"] == f"{flash}:{2 << 30}"
    assert found["EBB_POLICY"] == "window" and found["EBB_MANAGED_MIN"] == "4096"
    assert "EBB_BLOCK" not in found
    assert found["mode"] == 0o700 and found["claim_beside"]
    python = str(box.path / "python")
    assert found["path"] == [f"{python}/ebbtide/hook", python, str(box.path / "site")]


def test_default_budget_is_below_what_is_free(box):
    program = "import os; print(os.environ['EBB_MEMORY'], os.environ['EBB_FLASH'])"
    memory, flash = box.python(program, "--quiet").stdout.decode().split()
    free_kib = int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text()).group(1))
    assert 0 < int(memory) < free_kib * 1024
    assert flash == str((box.path / "tmp").resolve())


# The summary.


def test_unmanaged_program_is_reported(box):
    result = box.python("print('hi')")
    assert result.returncode == 0 and result.stdout == b"hi\n"
    assert b"no memory was managed" in result.stderr and b"never imported torch" in result.stderr
    assert b"\033" not in result.stderr


def test_summary_file(box):
    page = fake_page(budget_bytes=1 << 30, peak_resident_bytes=900, fetched_bytes=7, evicted_bytes=8, stall_ns=10**7)
    result = box.python("import torch, sys; sys.exit(3)", "--summary", "s.json", FAKE_STATS=page)
    assert result.returncode == 3
    summary = json.loads((box.path / "s.json").read_text())
    assert summary["managed"] is True and summary["exit_code"] == 3
    assert summary["policy"] == "window" and summary["description"] == "fake driver, rung A"
    assert summary["budget_bytes"] == 1 << 30 and summary["peak_resident_bytes"] == 900
    assert (summary["fetched_bytes"], summary["evicted_bytes"]) == (7, 8)
    assert summary["stall_seconds"] == pytest.approx(0.01)
    assert summary["step_seconds"] == [0.5, 0.3, 0.4] and summary["median_step_seconds"] == 0.4
    assert summary["wall_seconds"] > 0
    assert set(STATS_FIELDS) <= set(summary)
    table = result.stderr.decode()
    for words in ("policy", "window", "1.00 GiB", "exit code", "stalled", "median 400 ms"):
        assert words in table
    assert list(box.path.glob("s.json*")) == [box.path / "s.json"]
    assert stat.S_IMODE((box.path / "s.json").stat().st_mode) & 0o600 == 0o600


def test_summary_keeps_the_newest_steps_in_order(box):
    # Too large for an environment variable, so the program writes the page itself. Step 65536 overwrote step 0.
    (box.path / "page.json").write_text(fake_page(step_count=STEPS_MAX + 1, steps=()))
    program = f"""
    import json, os, struct
    page = json.load(open("page.json"))
    data = struct.pack("<QQQ", {MAGIC}, 2, os.getpid())
    data += struct.pack("<%dQ" % len(page["stats"]), *page["stats"]) + bytes(512)
    data += struct.pack("<Q{STEPS_MAX}d", page["step_count"], 99999.0, *range(1, {STEPS_MAX}))
    open(os.environ["EBB_STATS"], "wb").write(data)
    """
    box.python(program, "--quiet", "--summary", "s.json")
    steps = json.loads((box.path / "s.json").read_text())["step_seconds"]
    assert steps == [float(n) for n in range(1, STEPS_MAX)] + [99999.0]


def test_summary_survives_a_writer_killed_while_writing(box):
    program = "import torch, os; os.kill(os.getpid(), 9)"
    result = box.python(program, "--summary", "s.json", FAKE_STATS=fake_page(sequence=7, faults=5))
    assert result.returncode == -9
    summary = json.loads((box.path / "s.json").read_text())
    assert summary["managed"] and summary["faults"] == 5


@pytest.mark.parametrize("content", [b"", b"short", bytes(100), bytes(2000)])
def test_damaged_page_is_no_page(box, content):
    program = f"import os; open(os.environ['EBB_STATS'], 'wb').write({content!r})"
    result = box.python(program, "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["managed"] is False


def test_json_on_stdout_replaces_the_table(box):
    result = box.python("import torch; raise SystemExit(4)", "--json", FAKE_STATS=fake_page())
    assert result.returncode == 4 and result.stderr == b""
    assert json.loads(result.stdout)["exit_code"] == 4


def test_refused_run_leaves_an_old_summary_alone(box):
    (box.path / "s.json").write_text("old")
    assert box.run("run", "--summary", "s.json", "--policy", "magic", "--", "true").returncode == 2
    assert box.run("run", "--summary", "s.json", "--", "no-such-program-anywhere").returncode == 127
    assert (box.path / "s.json").read_text() == "old"


def test_summary_into_what_is_not_a_file(box):
    assert box.run("run", "--quiet", "--summary", "/dev/null", "--", "true").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    (box.path / "real.json").write_text("old")
    (box.path / "link.json").symlink_to("real.json")
    box.run("run", "--quiet", "--summary", "link.json", "--", "true")
    assert (box.path / "link.json").is_symlink()
    assert json.loads((box.path / "real.json").read_text())["exit_code"] == 0


# The hook.


def test_hook_enables_once_in_the_first_process_that_imports_torch(box):
    program = """
    import os, subprocess, sys
    import torch, importlib
    assert torch.VALUE == 42
    importlib.reload(torch)
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    if os.fork() == 0:
        sys.modules.pop("torch")
        import torch
        os._exit(0)
    assert os.wait()[1] == 0
    print(os.getpid())
    """
    result = box.python(program, "--quiet")
    assert result.returncode == 0, result.stderr
    assert box.enabled() == [result.stdout.decode().strip()]


def test_hook_reaches_a_program_behind_a_launcher(box):
    launcher = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import torch']))"
    assert box.run("run", "--", "sh", "-c", f'{sys.executable} -c "{launcher}"').returncode == 0
    assert len(box.enabled()) == 1


def test_hook_survives_a_program_that_replaces_itself(box):
    program = """
    import os, sys
    import torch
    if "AGAIN" not in os.environ:
        os.environ["AGAIN"] = "1"
        os.execv(sys.executable, [sys.executable, "-c", "import torch"])
    """
    assert box.python(program).returncode == 0
    pids = box.enabled()
    assert len(pids) == 2 and pids[0] == pids[1]


def test_hook_leaves_python_as_it_was(box):
    (box.path / "site/sitecustomize.py").write_text("import builtins\nbuiltins.chained = __file__\n")
    program = """
    import sys
    finders = len(sys.meta_path)
    import torch
    print(chained, sys.modules["sitecustomize"].__file__)
    print(torch.__loader__ is torch.__spec__.loader, type(torch.__loader__).__name__, len(sys.meta_path) == finders - 1)
    print(any(entry.endswith("hook") for entry in sys.path))
    """
    own = str(box.path / "site/sitecustomize.py")
    lines = box.python(program, "--quiet").stdout.decode().splitlines()
    assert lines == [f"{own} {own}", "True SourceFileLoader True", "False"]
    assert len(box.enabled()) == 1


def test_hook_passes_on_errors_that_are_not_its_own(box):
    (box.path / "site/sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    result = box.python("print('ran')", "--quiet")
    assert result.returncode == 0 and result.stdout == b"ran\n" and b"theirs" in result.stderr
    (box.path / "site/torch.py").write_text("raise ValueError('broken torch')\n")
    result = box.python("""
        try:
            import torch
        except ValueError as error:
            print(error)
        """, "--quiet")
    assert result.stdout == b"broken torch\n" and box.enabled() == []


@pytest.mark.parametrize(
    "failure, words",
    [
        ("import", "cannot be loaded into this Python"),
        ("error", "ebb: no room on flash; name another directory"),
        ("bug", "KeyError"),
    ],
)
def test_hook_stops_a_program_that_cannot_be_managed(box, failure, words):
    program = """
    try:
        import torch
    except BaseException:
        pass
    print("ran unmanaged")
    """
    result = box.python(program, FAKE_FAILURE=failure)
    assert result.returncode == 2
    assert words in result.stderr.decode() and b"unmanaged" not in result.stdout
    assert b"did not start" in result.stderr
    if failure == "import":
        assert b"build it for this Python" in result.stderr


# The terminal.


class Terminal:
    """Runs a command on a new pseudo-terminal that it controls, and collects what it writes there."""

    def __init__(self, command, cwd, environment, rows=24, columns=100):
        self.output = b""
        self.position = 0  # what read_until has returned already
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # The size is set here, before anything asks for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            os.execvpe(command[0], command, environment)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys)

    def read_until(self, words=None):
        """The next output up to and with `words`; without words, all until the other side closes."""
        begin = self.position
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            found = -1 if words is None else self.output.find(words, begin)
            if found >= 0:
                self.position = found + len(words)
                return self.output[begin : self.position]
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:  # the other side is closed
                    piece = b""
                if not piece:
                    break
                self.output += piece
        assert words is None, f"{words!r} never came; got {self.output!r}"
        return self.output[begin:]

    def finish(self):
        self.read_until()
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def terminal(box, *arguments, rows=24, columns=100, **changes):
    environment = {**box.environment, **changes}
    return Terminal([EBB, *map(str, arguments)], box.path, environment, rows, columns)


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
    assert output.count(b"\0337") == output.count(b"\0338")
    last_set = output.rindex(b"\033[1;23r")
    restored = output.index(b"\033[r", last_set)
    assert b"ebb summary" in output[restored:]  # the table comes after the terminal is whole again
    assert b"\033[7m" in output


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


def test_doctor_json(box):
    result = box.run("doctor", "--json", "--quick", EBB_PYTHON=sys.executable)
    found = json.loads(result.stdout)
    assert result.returncode == (0 if found["can_run"] else 1)
    checks = {check["id"]: check for check in found["checks"]}
    expected = {"kernel", "userfaultfd", "uffdio_move", "huge_pages", "max_map_count", "io_uring", "flash_directory"}
    expected |= {"flash_space", "flash_features", "memory", "processor", "swap", "memlock", "trial", "opencl",
                 "python"}
    assert expected == set(checks)
    for check in checks.values():
        assert check["verdict"] in ("good", "warning", "blocking") and check["found"]
        assert check["verdict"] == "good" or check["remedy"]
    assert checks["userfaultfd"]["details"]["rung"] in ("A", "B", "C")
    assert checks["memory"]["details"]["default_budget_bytes"] > 0
    assert found["can_run"] == all(check["verdict"] != "blocking" for check in checks.values())
    assert result.stderr == b""


def test_doctor_measures_and_leaves_nothing_behind(box):
    result = box.run("doctor", "--flash", "tmp", EBB_PYTHON="/bin/false")
    text = result.stdout.decode()
    assert "flash speed" in text and ("MB/s" in text or "not measured" in text)
    assert "trial" in text and "192 MiB" in text
    assert result.returncode == 1 and "✗ Python" in text and "/bin/false does not run" in text
    assert "\033" not in text
    assert box.leftovers() == []


def test_doctor_finds_what_blocks(box):
    result = box.run("doctor", "--quick", "--json", "--flash", "nowhere", EBB_PYTHON=sys.executable)
    checks = {check["id"]: check for check in json.loads(result.stdout)["checks"]}
    assert result.returncode == 1 and checks["flash_directory"]["verdict"] == "blocking"
    assert box.run("doctor", "--frobnicate").returncode == 2
    assert box.run("doctor", "--flash", "tmp:12parsecs").returncode == 2


def test_doctor_shows_progress_on_a_terminal(box):
    screen = terminal(box, "doctor", "--quick", EBB_PYTHON=sys.executable)
    screen.finish()
    assert b"examining" in screen.output and screen.output.rindex(b"\r\033[K") > screen.output.rindex(b"examining")


# The real thing.


def real_extension():
    directory = ROOT / "adapters/torch"
    probe = "import torch, ebbtide._C"
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    return subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True).returncode == 0


def test_unmodified_training_script(tmp_path):
    if not real_extension():
        pytest.skip("ebbtide._C is not built for this Python")
    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            """
            import torch
            torch.manual_seed(0)
            model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(24)])
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(4):
                loss = model(torch.randn(64, 1024)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                print(repr(loss.item()))
            """
        )
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
    run = dict(capture_output=True, cwd=tmp_path, env=environment, timeout=600)
    plain = subprocess.run([sys.executable, "train.py"], **run)
    options = ["--memory", "256MiB", "--flash", str(tmp_path), "--summary", "s.json"]
    managed = subprocess.run([EBB, "run", *options, "--", sys.executable, "train.py"], **run)
    assert managed.returncode == 0, managed.stderr.decode()
    assert managed.stdout == plain.stdout
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["managed"] and summary["evicted_bytes"] > 0
    assert summary["peak_resident_bytes"] <= summary["budget_bytes"]
