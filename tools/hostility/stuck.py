"""What the threads of a process are doing, for a run that does not end: a hang, or only slow?"""

import contextlib
import pathlib
import threading
import time

SAMPLE_S = 2


def _read(path):
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return ""


def _ticks(task):
    fields = _read(task / "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) if fields else 0  # user and system


def describe(pid):
    """One line a thread: its name, its state, the time it took while we looked, and where in the kernel it is."""
    tasks = sorted(pathlib.Path(f"/proc/{pid}/task").glob("*"))
    before = {task: _ticks(task) for task in tasks}
    time.sleep(SAMPLE_S)
    lines = []
    for task in tasks:
        state = (_read(task / "stat").rpartition(")")[2].split() or ["gone"])[0]
        where = [line.split()[-1].partition("+")[0] for line in _read(task / "stack").splitlines()[:6]]
        took = f"{_ticks(task) - before[task]} ticks in {SAMPLE_S} s"
        lines.append(f"{_read(task / 'comm')} ({task.name}) {state}, {took}: "
                     f"{' < '.join(where) or _read(task / 'wchan')}")
    return "\n".join(lines)


class Watch:
    """Describes the child once, `seconds` after it started, if it is still there then."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.report = ""
        self.timer = None

    def started(self, pid):
        def look():
            self.report = describe(pid)

        self.timer = threading.Timer(self.seconds, look)
        self.timer.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()
