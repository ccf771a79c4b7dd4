"""The processes of a job of `ebb run`, seen from outside: who they are, and how much memory they have together."""

import os
import pathlib
import threading


def of_run(pid):
    """Process ids of what was started under the `ebb run` of this process id."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, left = [], list(children.get(pid, []))
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def pss(pid):
    """What of a process's memory is no file's, each page counted by its share; 0: it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return 0
    fields = dict(line.split(":") for line in lines)
    return sum(int(fields[name].split()[0]) * 1024 for name in ("Pss_Anon", "Pss_Shmem") if name in fields)


class Watch(threading.Thread):
    """Until stop(): the most that all processes of a run had together."""

    def __init__(self, pid):
        super().__init__()
        self._pid, self._over = pid, threading.Event()
        self.peak = 0
        self.start()

    def run(self):
        while not self._over.wait(0.05):
            self.peak = max(self.peak, sum(pss(pid) for pid in of_run(self._pid)))

    def stop(self):
        self._over.set()
        self.join()
        return self.peak


def parent(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
