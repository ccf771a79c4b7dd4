"""Children: run a program to its end, within a time limit and perhaps a memory cgroup, and read what it printed.

The one place that starts programs for the benchmarks, the demo and the tests of the PyTorch adapter. A child speaks
in JSON objects, one a line on standard output; every other line is kept as text and otherwise ignored. A child that
outlives its limit is killed together with everything it started. Standard library only; single-threaded callers.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ADAPTER = REPOSITORY / "python"
TURN_S = 1


class ChildError(RuntimeError):
    """A child that failed or took too long; the message holds the end of what it wrote."""

    def reason(self):
        """The last line, in which programs say what went wrong."""
        return str(self).strip().splitlines()[-1].strip()


@dataclasses.dataclass
class Child:
    argv: list
    returncode: int
    stdout: str
    stderr: str
    seconds: float
    records: list  # the JSON objects on standard output, in order

    def find(self, key):
        """The value of `key` in the last record that has it."""
        for record in reversed(self.records):
            if key in record:
                return record[key]
        raise ChildError(f"no record with {key!r} from {' '.join(self.argv)}\n{self.tail()}")

    def all(self, key):
        return [record[key] for record in self.records if key in record]

    def tail(self, lines=40):
        return "\n".join((self.stdout + "\n" + self.stderr).strip().splitlines()[-lines:])

    def check(self):
        if self.returncode != 0:
            raise ChildError(f"{' '.join(self.argv)} ended with {describe_exit(self.returncode)}\n{self.tail()}")
        return self


def describe_exit(returncode):
    if returncode < 0:
        return f"signal {signal.Signals(-returncode).name}"
    return f"code {returncode}"


def environment(extra=None, with_adapter=False):
    """This process's environment without any EBB_* setting but the drivers', plus `extra`."""
    kept = ("EBB_MEMORY_DRIVER", "EBB_FLASH_DRIVER")
    env = {key: value for key, value in os.environ.items() if not key.startswith("EBB_") or key in kept}
    if with_adapter:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ADAPTER), env.get("PYTHONPATH")]))
    env.update(extra or {})
    return env


def run(argv, *, env=None, timeout, cgroup=None, on_record=None, interrupt_when=None, start=None):
    """Runs `argv` to its end. `cgroup`: a MemoryCgroup to run in. `on_record`: called with each JSON object as it
    comes. `interrupt_when`: called likewise; the first time it returns true the child gets one SIGINT, as from Ctrl-C.
    `start`: makes the process in another way, with what is used here of subprocess.Popen. Raises ChildError after
    `timeout` seconds, of which those do not count while this process is stopped, as by a cgroup's freezer, that stops
    its child with it; the exit code is the caller's to judge (Child.check).
    """
    argv = [str(word) for word in argv]
    command = cgroup.wrap(argv) if cgroup else argv
    started = time.monotonic()
    process = start() if start else subprocess.Popen(
        command, env=env, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True)
    stderr_lines = []
    reader = threading.Thread(target=lambda: stderr_lines.extend(process.stderr), daemon=True)
    reader.start()
    expired, over = threading.Event(), threading.Event()

    def kill_late():
        if _passes(timeout, over):
            expired.set()
            _kill_group(process.pid)

    threading.Thread(target=kill_late, daemon=True).start()
    stdout_lines, records = [], []
    try:
        for line in process.stdout:
            stdout_lines.append(line)
            record = _parse(line)
            if record is None:
                continue
            records.append(record)
            if on_record:
                on_record(record)
            if interrupt_when and interrupt_when(record):
                interrupt_when = None
                process.send_signal(signal.SIGINT)
        process.wait()
    except BaseException:
        _kill_group(process.pid)
        process.wait()
        raise
    finally:
        over.set()
    reader.join(timeout=5)
    child = Child(argv, process.returncode, "".join(stdout_lines), "".join(stderr_lines),
                  time.monotonic() - started, records)
    if expired.is_set():
        raise ChildError(f"{' '.join(argv)} did not end within {timeout:g} s\n{child.tail()}")
    return child


def _passes(seconds, over):
    """Whether so many seconds pass before it is over; by turns, of which a stop of this process takes one."""
    while seconds > 0:
        if over.wait(min(seconds, TURN_S)):
            return False
        seconds -= TURN_S
    return not over.is_set()


def _parse(line):
    if not line.startswith("{"):
        return None
    try:
        return json.loads(line)
    except ValueError:
        return None


def _kill_group(pid):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


# -- `ebb run` --------------------------------------------------------------------------------------------------------


def ebb_binary():
    """The command line built in this checkout, or EBB_BINARY. Raises ChildError with the remedy."""
    named = os.environ.get("EBB_BINARY")
    candidates = [pathlib.Path(named)] if named else [REPOSITORY / "build" / "release" / "cli" / "ebb"]
    for path in candidates:
        if path.is_file():
            return path
    raise ChildError(f"{candidates[0]} is missing: build it with `make`, or name one in EBB_BINARY")


def ebb_run(argv, *, memory, flash=None, policy=None, record=None, guide=None, more=(), **options):
    """`ebb run --memory … -- argv`: returns (Child, summary); the summary has every counter of ebb/stats.h as a key.
    `more`: further options of `ebb run`."""
    with tempfile.TemporaryDirectory(prefix="ebb-summary-") as folder:
        summary_path = os.path.join(folder, "summary.json")
        command = [ebb_binary(), "run", "--memory", str(memory), "--summary", summary_path]
        command += ["--flash", str(flash)] if flash else []
        command += ["--policy", policy] if policy else []
        command += ["--record", record] if record else []
        command += ["--guide", guide] if guide else []
        command += more
        child = run([*command, "--", *argv], **options)
        child.check()
        try:
            with open(summary_path, encoding="utf-8") as file:
                summary = json.load(file)
        except (OSError, ValueError) as error:
            raise ChildError(f"no summary from {' '.join(child.argv)}: {error}\n{child.tail()}") from None
    return child, summary


# -- Memory cgroups ---------------------------------------------------------------------------------------------------


class MemoryCgroup:
    """A temporary cgroup with a limit on memory, and on memory and swap together; removed on exit.

    `swap_bytes`: None lets the group swap without a limit, where the machine has swap; 0 forbids it.
    Raises ChildError from __enter__ with the reason where this process may not make one.
    """

    def __init__(self, limit_bytes, swap_bytes=0):
        self.limit_bytes = int(limit_bytes)
        self.swap_bytes = swap_bytes
        self.path = None

    def __enter__(self):
        base, version = _own_cgroup()
        self.version = version
        self.path = base / f"ebb-{os.getpid()}-{time.monotonic_ns()}"
        try:
            self.path.mkdir()
            self._set_limits()
        except OSError as error:
            self.__exit__()
            raise ChildError(f"no memory cgroup can be made under {base}: {error.strerror}") from None
        return self

    def _set_limits(self):
        if self.version == 1:
            (self.path / "memory.limit_in_bytes").write_text(str(self.limit_bytes))
            total = self.path / "memory.memsw.limit_in_bytes"
            if self.swap_bytes is not None and total.exists():
                total.write_text(str(self.limit_bytes + self.swap_bytes))
        else:
            (self.path / "memory.max").write_text(str(self.limit_bytes))
            swap = self.path / "memory.swap.max"
            if self.swap_bytes is not None and swap.exists():
                swap.write_text(str(self.swap_bytes))

    def wrap(self, argv):
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *argv]

    def peak_bytes(self):
        """The most memory the group ever held, page cache included; None where the kernel does not say."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        with contextlib.suppress(OSError):
            return int((self.path / name).read_text())
        return None

    def __exit__(self, *_):
        for _ in range(50):  # the kernel needs a moment after the last process has gone
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)
        print(f"warning: the cgroup {self.path} could not be removed", file=sys.stderr)


def _own_cgroup():
    """The cgroup folder that a child group with a memory limit may be made in, and the version of its interface."""
    groups = {}  # controllers, as the kernel lists them, to the path of our group
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        groups[controllers] = path.lstrip("/")
    v1 = pathlib.Path("/sys/fs/cgroup/memory")
    if (v1 / "cgroup.procs").exists():
        own = v1 / next((path for names, path in groups.items() if "memory" in names.split(",")), "")
        return (own if own.is_dir() else v1), 1  # a container may show its own group as the root
    root = pathlib.Path("/sys/fs/cgroup")
    if not (root / "cgroup.controllers").exists():
        raise ChildError("this machine has no cgroup file system at /sys/fs/cgroup")
    own = root / groups.get("", "")
    # Version 2 lets no group have both processes and limited children: look upwards for one that delegates memory.
    for folder in [own, *own.parents]:
        control = folder / "cgroup.subtree_control"
        if control.exists() and "memory" in control.read_text().split():
            return folder, 2
        if folder == root:
            break
    raise ChildError("no cgroup above this process delegates the memory controller to its children")


# -- Places and sizes -------------------------------------------------------------------------------------------------


def is_ram_disk(path):
    """Whether `path` lies on tmpfs or ramfs, which the flash tier refuses."""
    best, kind = "", ""
    resolved = os.path.realpath(path)
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            _, point, type_name = line.split()[:3]
            inside = resolved == point or resolved.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, type_name
    return kind in ("tmpfs", "ramfs")


def flash_directory(wanted=None):
    """A directory on a real file system: `wanted`, or the first of $TMPDIR, /tmp, /var/tmp that is one."""
    for path in [wanted] if wanted else [os.environ.get("TMPDIR"), "/tmp", "/var/tmp", str(REPOSITORY)]:
        if path and os.path.isdir(path) and not is_ram_disk(path):
            return path
    raise ChildError(f"{wanted or '$TMPDIR, /tmp, /var/tmp'}: no directory on a real file system; name one")


def format_size(count):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:.0f} {unit}"
    return f"{count:.0f} B"
