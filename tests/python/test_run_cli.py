"""End-to-end tests of `ebb run`: its options, the program that it starts, its summary. The last one trains with the
real extension and is skipped where that is missing.
"""

import json
import os
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from ebb_program import EBB, ROOT, needs_ebb
from fake_program import MAGIC, STATS_FIELDS, STEPS_MAX, TIMEOUT_S, fake_page

pytestmark = needs_ebb

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
        (["--memory", "1.5", "--", "touch", "started"], "fraction of bytes"),
        (["--memory", "1GiB", "--memory", "2GiB", "--", "touch", "started"], "--memory is given more than once"),
        (["--memroy", "1GiB", "--", "touch", "started"], "unknown option '--memroy'"),
        (["--policy", "magic", "--", "touch", "started"], "on_demand, window, deepum"),
        (["--device-memory", "lots", "--", "touch", "started"], "size 'lots'"),
        (["--device", "1", "--", "touch", "started"], "--device-memory SIZE"),
        (["--device-memory", "1GiB", "--device", "one", "--", "touch", "started"], "not the number of a GPU"),
        (["--device-memory", "1GiB", "--guide", "g", "--", "touch", "started"], "--guide: not with --device-memory"),
        (["--block", "3MiB", "--", "touch", "started"], "power of two"),
        (["--block", "1KiB", "--", "touch", "started"], "power of two"),
        (["--verify", "nothing", "--", "touch", "started"], "--verify: 'nothing' is unknown"),
        (["--device-memory", "1GiB", "--verify", "content", "--", "touch", "started"], "not with --device-memory"),
        (["--managed-min", "few", "--", "touch", "started"], "--managed-min"),
        (["--record-iterations", "3", "--", "touch", "started"], "--record-iterations: say where"),
        (["--record", "t.jsonl", "--record-iterations", "0", "--", "touch", "started"], "number from 1"),
        (["--record", "t.jsonl", "--record-iterations", "3x", "--", "touch", "started"], "'3x'"),
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


def test_more_memory_than_there_is(box):
    result = box.run("run", "--quiet", "--memory", "900TiB", "--", "true")
    assert result.returncode == 0 and b"ebb: --memory 900TiB is more than there is; it is" in result.stderr


def test_top_level_usage(box):
    assert box.run().returncode == 2
    assert b"unknown command" in box.run("walk").stderr
    assert box.run("walk").returncode == 2
    version = box.run("--version")
    package = re.search('^__version__ = "(.+)"$', (ROOT / "python/ebbtide/__init__.py").read_text(), re.MULTILINE)
    assert version.returncode == 0 and version.stdout.decode() == f"ebb {package[1]}\n"
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


def test_who_may_see_what_is_told_to_the_program(box):
    program = """
    import json, os
    print(json.dumps([os.environ.get("EBB_" + each) for each in ("ENCRYPT", "VERIFY", "CORE_DUMPS")]))
    """
    assert json.loads(box.python(program, "--quiet").stdout) == [None, None, None]
    options = ["--encrypt", "--verify", "content", "--no-core-dumps"]
    assert json.loads(box.python(program, "--quiet", *options).stdout) == ["1", "content", "0"]
    assert json.loads(box.python(program, "--quiet", EBB_ENCRYPT="1").stdout)[0] == "1"


def test_without_libcrypto_nothing_is_missed_but_encryption(box):
    (box.path / "libcrypto.so.3").write_text("no library")
    without = {"LD_LIBRARY_PATH": str(box.path)}
    result = box.run("run", "--encrypt", "--", "touch", "started", **without)
    assert result.returncode == 2 and not (box.path / "started").exists()
    assert result.stderr.startswith(b"ebb: flash cannot be encrypted: ") and b"install it" in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert box.run("run", "--", "touch", "started", **without).returncode == 0
    checks = json.loads(box.run("doctor", "--quick", "--json", **without).stdout)["checks"]
    check = next(each for each in checks if each["id"] == "encryption")
    assert check["verdict"] == "good" and not check["details"]["available"] and "install it" in check["remedy"]


def test_idle_threads_of_openmp_sleep_soon(box):
    """Unless the user has said how they wait."""
    program = "import os; print(os.environ.get('GOMP_SPINCOUNT'))"

    def spins(**environment):
        return box.python(program, "--quiet", **environment).stdout.strip()

    assert spins() == b"20000"
    assert spins(GOMP_SPINCOUNT="7") == b"7"
    assert spins(OMP_WAIT_POLICY="active") == b"None"


def test_device_memory_reaches_the_program_and_the_summary(box):
    program = "import os, torch; print(*(os.environ.get('EBB_' + n) for n in ('DEVICE_MEMORY', 'DEVICE', 'MEMORY')))"
    options = ["--device-memory", "20GiB", "--device", "1"]
    result = box.python(program, *options, "--memory", "3GiB", FAKE_STATS=fake_page(budget_bytes=20 << 30))
    assert result.stdout.decode().split() == [str(20 << 30), "1", str(3 << 30)]
    table = result.stderr.decode()
    assert "GPU memory" in table and "20.0 GiB" in table and "evicted to host and flash" in table
    assert box.python(program, "--quiet", *options).stdout.decode().split()[2] == "0"  # the runtime's choice
    summary = json.loads(box.python(program.replace("print", "str"), "--json", *options).stdout)
    assert summary["on_device"] is True and summary["budget_bytes"] == 20 << 30


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


def calibrate(cache, flash, read_bps, write_bps=1e9):
    """A cache in which `ebb calibrate` has measured the disk of this folder."""
    mixed_bps = min(read_bps, write_bps)
    rates = {"read_bps": read_bps, "write_bps": write_bps, "read_mixed_bps": mixed_bps, "write_mixed_bps": mixed_bps}
    measured = {str(flash.resolve()): {**rates, "busy": rates, "toll_bps": 1e10}}
    (cache / "ebbtide").mkdir(parents=True)
    (cache / "ebbtide/calibration.json").write_text(json.dumps({"version": 1, "flash": measured}))


def calibrated(box, read_bps):
    calibrate(box.path / "cache", box.path / "tmp", read_bps)


def test_summary_tells_of_steps_that_were_found(box):
    # 1.2 s in which 1.2 GB came from a disk of 4 GB/s.
    page = fake_page(told=False, fetched_bytes=5 * 10**9, steps_fetched_bytes=12 * 10**8)
    calibrated(box, 4e9)
    result = box.python("import torch", "--summary", "s.json", FAKE_STATS=page, XDG_CACHE_HOME=str(box.path / "cache"))
    table = result.stderr.decode()
    assert "3 found, such as tokens or batches (median 400 ms)" in table
    assert "1.00 GB/s, 25 % of what was measured in" in table
    summary = json.loads((box.path / "s.json").read_text())
    assert summary["steps"] == 0 and summary["steps_found"] == 3 and summary["steps_fetched_bytes"] == 12 * 10**8
    assert summary["disk_read_bps"] == 4e9 and summary["disk_read_share"] == pytest.approx(0.25)


def test_summary_invents_no_share_of_a_disk_that_was_not_measured(box):
    page = fake_page(steps_fetched_bytes=12 * 10**8)
    result = box.python("import torch", "--summary", "s.json", FAKE_STATS=page, XDG_CACHE_HOME=str(box.path / "cache"))
    table = result.stderr.decode()
    assert "1.00 GB/s; what share of the disk's speed that is, `ebb calibrate --flash" in table and "found" not in table
    summary = json.loads((box.path / "s.json").read_text())
    assert summary["steps_found"] == 0 and summary["disk_read_bps"] is None and summary["disk_read_share"] is None
    calibrated(box, 4e9)
    nothing_read = box.python("import torch", FAKE_STATS=fake_page(), XDG_CACHE_HOME=str(box.path / "cache"))
    assert b"during steps" not in nothing_read.stderr


def test_summary_keeps_the_newest_steps_in_order(box):
    # Too large for an environment variable, so the program writes the page itself. Step 65536 overwrote step 0.
    (box.path / "page.json").write_text(fake_page(step_count=STEPS_MAX + 1, steps=()))
    program = f"""
    import json, os, struct
    page = json.load(open("page.json"))
    data = struct.pack("<QQQ", {MAGIC}, 2, os.getpid())
    data += struct.pack("<%dQ" % len(page["stats"]), *page["stats"]) + bytes(512)
    data += struct.pack("<QQ{STEPS_MAX}d", 0, page["step_count"], 99999.0, *range(1, {STEPS_MAX}))
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


def real_extension():
    directory = ROOT / "python"
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


def test_out_of_memory_names_a_limit_on_files(tmp_path):
    if not real_extension():
        pytest.skip("ebbtide._C is not built for this Python")

    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    command = [EBB, "run", "--quiet", "--memory", "64MiB", "--flash", str(tmp_path), "--", sys.executable, "-c",
               "import torch; torch.ones(50 << 20)"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
    result = subprocess.run(command, capture_output=True, env=environment, timeout=600, preexec_fn=limit_files)
    assert result.returncode == 1
    assert b"(`ulimit -f` limits each file to 1.00 MiB: lift it)" in result.stderr, result.stderr.decode()


def test_disk_with_less_left_than_it_says(tmp_path):
    """As where a quota ends that the file system does not tell: an allocation is refused, rather than a touch."""
    if not real_extension():
        pytest.skip("ebbtide._C is not built for this Python")
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import resource, torch
        before = torch.full((1 << 20,), 0.5)
        resource.setrlimit(resource.RLIMIT_FSIZE, (320 << 20, resource.RLIM_INFINITY))
        try:
            torch.full((160 << 20,), 1.0)
        except RuntimeError as error:
            print(error)
        after = torch.full((40 << 20,), 2.0)  # there is room for this
        print((before == 0.5).all().item(), (after == 2.0).all().item())
    """))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
    result = subprocess.run([EBB, "run", "--quiet", "--memory", "64MiB", "--flash", str(tmp_path), "--",
                             sys.executable, "program.py"],
                            capture_output=True, cwd=tmp_path, env=environment, timeout=600, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("out of memory: 640 MiB asked for"), result.stdout
    assert result.stdout.endswith("True True\n"), result.stdout


def test_program_that_imports_ebbtide_before_torch(tmp_path):
    if not real_extension():
        pytest.skip("ebbtide._C is not built for this Python")
    program = "import ebbtide, torch; print(ebbtide.enabled(), ebbtide.manages(torch.ones(1 << 20)))"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
    managed = subprocess.run([EBB, "run", "--quiet", "--memory", "64MiB", "--flash", str(tmp_path), "--",
                              sys.executable, "-c", program], capture_output=True, env=environment, timeout=120)
    assert managed.stdout == b"True True\n", managed.stderr.decode()
