"""FaultedRun: `ebb run` over plain_training.py while something goes wrong, and what became of it.

A Place knows what stock PyTorch makes of the program, and starts runs; Place.judge() says how one has ended, or raises
Wrong: a loss that is not stock's, an end without a word, no end, or anything that is left behind. Whatever a fault
does, every run has folders of its own, a session of its own, and a limit of time.
"""

import contextlib
import os
import pathlib
import pwd
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import job_processes
import rungs

ROOT = pathlib.Path(__file__).resolve().parents[3]
EBB = os.environ.get("EBB_BIN") or str(ROOT / "build/release/cli/ebb")
PROGRAM = str(ROOT / "python/tests/programs/plain_training.py")
STEPS = 10
LIMIT_S = 180
ATTEMPTS = 3  # where the program may end before the fault comes
AFTER_S = 10  # until all that a run has left is gone
MEMORY = "12MiB"
MESSAGE = re.compile(r"^(?:ebb: |ebbtide\.Error: |\w*Error: |Fatal Python error: )(.+)$", re.MULTILINE)


class Wrong(AssertionError):
    """What a run has done and must not."""


class FaultedRun:
    """One run, started. `place`: its folders `flash` and `tmp`; `limits`: {"NOFILE": 20, …}."""

    def __init__(self, command, place, limits):
        self.place, self.lines, self.err = place, [], ""
        self._news = threading.Condition()
        self.over = threading.Event()

        def limit():
            for name, value in limits.items():
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TMPDIR": str(place / "tmp"),
                       "OMP_WAIT_POLICY": "PASSIVE", "EBB_REMEMBER": "0"}
        self.process = subprocess.Popen(list(map(str, command)), env=environment, text=True, errors="replace",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True, preexec_fn=limit)
        self._readers = [threading.Thread(target=read) for read in (self._read_lines, self._read_err)]
        for reader in self._readers:
            reader.start()

    def _read_lines(self):
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.over.set()
            self._news.notify_all()

    def _read_err(self):
        self.err = self.process.stderr.read()

    def after(self, step):
        """Waits for the end of a step; False if the program has ended before."""
        with self._news:
            self._news.wait_for(lambda: len(self.lines) > step or self.over.is_set(), timeout=LIMIT_S)
            return len(self.lines) > step

    def program(self):
        """The process id of the program itself; raises ProcessLookupError if it has ended."""
        for pid in job_processes.of_run(self.process.pid):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if PROGRAM.encode() in words and words[0].endswith(b"python"):
                    return pid
        raise ProcessLookupError("the program has ended")

    def of_session(self):
        """The processes that there are of it."""
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, _, session = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:4]
                if int(session) == self.process.pid and state not in "ZX":
                    found.append(int(stat.parent.name))
        return found

    def end(self):
        """Waits for all processes that write; kills them if they do not end. The exit code."""
        for _ in range(LIMIT_S):  # by turns: whoever stops this process for a while makes no hang of it
            for reader in self._readers:
                reader.join(timeout=1 / len(self._readers))
            if not any(reader.is_alive() for reader in self._readers):
                break
        hangs = any(reader.is_alive() for reader in self._readers)
        if hangs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        for reader in self._readers:
            reader.join()
        if hangs:
            raise Wrong(f"no end within {LIMIT_S} s:\n" + "\n".join(self.lines[-2:]) + f"\n{self.err[-2000:]}")
        return code


class Place:
    """Where runs take place."""

    def __init__(self, folder, steps=STEPS):
        self.folder, self.steps = pathlib.Path(folder), steps
        os.chmod(folder, 0o711)  # for an ordinary user
        command = [sys.executable, PROGRAM, str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True,
                              env={"PATH": "/usr/bin:/bin", "OMP_WAIT_POLICY": "PASSIVE"})
        self.expected = done.stdout.splitlines()
        self._count = 0

    @contextlib.contextmanager
    def new(self, user):
        """Folders for a run, which are gone afterwards."""
        self._count += 1
        place = self.folder / f"run{self._count}"
        for name in (".", "flash", "tmp"):
            (place / name).mkdir()
            if user and os.geteuid() == 0:
                owner = pwd.getpwnam(rungs.ORDINARY_USER)
                os.chown(place / name, owner.pw_uid, owner.pw_gid)
        try:
            yield place
        finally:
            shutil.rmtree(place)

    def run(self, fault, user=False):
        """One run with the fault, as root or as an ordinary user: (how it ended, what it said)."""
        for _ in range(ATTEMPTS):
            if (outcome := self._run(fault, user)) is not None:
                return outcome
        raise Wrong(f"{fault.name} came too late {ATTEMPTS} times")

    def _run(self, fault, user):
        """None: the program had ended before the fault came."""
        with self.new(user) as place, fault.around(place):
            command = [EBB, "run", "--quiet", "--memory", MEMORY, "--block", "64KiB", "--managed-min", "16KiB",
                       "--flash", fault.flash(place), "--", sys.executable, PROGRAM, self.steps]
            prefix = rungs.as_user() if user else []
            run = FaultedRun([*fault.outside(place), *prefix, *fault.inside(place), *command], place, fault.limits)
            try:
                came = fault.during(run)
            finally:
                code = run.end()
            how, said = self.judge(run, code)
            self._look_for_leftovers(run)
        if came is False:
            return None
        if how not in fault.ends:
            raise Wrong(f"{how} (exit code {code}), which {fault.name} must not come to: {said}\n{run.err[-2000:]}")
        if how in ("refused", "stopped") and not re.search(fault.said, said):
            raise Wrong(f"not the message of {fault.name}: {said}\n{run.err[-2000:]}")
        return how, said

    def judge(self, run, code):
        """How a run has ended, and its messages; whether it may end so is the fault's to say."""
        lines = run.lines
        if lines != self.expected[:len(lines)]:
            raise Wrong(f"other losses than stock's: {lines}, not {self.expected}")
        if lines == self.expected and code == 0:
            return "equal", ""
        if code == -signal.SIGKILL or code == 128 + signal.SIGKILL:
            return "killed", ""
        said = list(dict.fromkeys(MESSAGE.findall(run.err)))
        if code == 0 or not said:
            raise Wrong(f"an end without a word: exit code {code}, {len(lines)} lines\n{run.err[-2000:]}")
        return ("stopped" if lines else "refused"), "\n".join(said)

    def _look_for_leftovers(self, run):
        until = time.monotonic() + AFTER_S
        while True:
            left = [f"process {pid}" for pid in run.of_session()]
            left += [str(path) for path in (run.place / "flash").iterdir()]
            left += [str(path) for path in (run.place / "tmp").glob("*ebb*")]
            if not left:
                return
            if time.monotonic() > until:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(run.process.pid, signal.SIGKILL)
                raise Wrong(f"left behind: {', '.join(left)}\n{run.err[-2000:]}")
            time.sleep(0.02)
