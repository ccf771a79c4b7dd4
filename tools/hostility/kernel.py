"""What the kernel, and other processes, may do to a program at any time: one class for each.

A Hostility lasts while its `around(settings)` does, beside one child; `started(pid)` tells it which. `why_not(allowed)`
says why it cannot be had here. What a program does to itself (signals, limits) is in the child: hostile_workloads.py.
"""

import contextlib
import os
import pathlib
import random
import re
import threading

VM = pathlib.Path("/proc/sys/vm")
THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage")
DAMON = pathlib.Path("/sys/kernel/mm/damon/admin/kdamonds")
NUMA = pathlib.Path("/proc/sys/kernel/numa_balancing")
NOT_ROOT = "needs root"
NOT_ALLOWED = "changes a setting of the kernel: --change-settings"


class Hostility:
    """Nothing at all; the base of the others."""

    name = "calm"
    changes = ()  # the settings that it writes
    root = False
    inside = None  # what the child does to itself
    limits = None  # limits of the child, before Ebbtide starts in it
    may_refuse = False  # an error that says so is as good as the right result
    rungs = ("full", "user", "remap")
    period_s = None  # how often poke() is called

    def why_not(self, allowed):
        if (self.root or self.changes) and os.geteuid() != 0:
            return NOT_ROOT
        missing = [str(path) for path in self.changes if not path.exists()]
        if missing:
            return f"this kernel has no {missing[0]}"
        return NOT_ALLOWED if self.changes and not allowed else None

    def poke(self, settings):
        """Called again and again, in a thread of its own."""

    def started(self, pid):
        """The child is this process."""

    @contextlib.contextmanager
    def around(self, settings):
        stop = threading.Event()

        def poke_on():
            while not stop.wait(self.period_s):
                self.poke(settings)

        thread = threading.Thread(target=poke_on)
        if self.period_s is not None:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            if self.period_s is not None:
                thread.join()


class Compaction(Hostility):
    name, root, period_s = "compaction", True, 0.001

    def poke(self, settings):
        with contextlib.suppress(OSError):  # interrupted
            (VM / "compact_memory").write_text("1")  # a command, no setting


class DropCaches(Hostility):
    name, root, period_s = "drop_caches", True, 0.05

    def poke(self, settings):
        (VM / "drop_caches").write_text("3")  # a command, too


class Khugepaged(Hostility):
    name = "khugepaged"
    changes = (THP / "enabled", THP / "khugepaged/scan_sleep_millisecs", THP / "khugepaged/alloc_sleep_millisecs",
               THP / "khugepaged/pages_to_scan")

    @contextlib.contextmanager
    def around(self, settings):
        for path, value in zip(self.changes, ("always", 0, 0, 1 << 20)):
            settings.set(path, value)
        yield


class HugePages(Hostility):
    """Huge pages of any size, given and refused by turns."""

    name, period_s = "THP by turns", 0.05
    changes = (THP / "enabled",)
    sizes = tuple(sorted(THP.glob("hugepages-*/enabled")))

    def poke(self, settings):
        settings.set(self.changes[0], random.choice(("never", "madvise", "always")))
        if self.sizes:
            settings.set(random.choice(self.sizes), random.choice(("always", "inherit", "madvise", "never")))


class NumaBalancing(Hostility):
    name = "NUMA balancing"
    changes = (NUMA,)

    def why_not(self, allowed):
        nodes = len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")))
        return super().why_not(allowed) or ("this machine has one node" if nodes < 2 else None)

    @contextlib.contextmanager
    def around(self, settings):
        settings.set(NUMA, 1)
        yield


class Damon(Hostility):
    """DAMON, which takes away what it finds cold; where the machine runs it for itself, that is in every row."""

    name = "DAMON pageout"
    changes = (DAMON / "nr_kdamonds",)

    def why_not(self, allowed):
        if why := super().why_not(allowed):
            return why
        running = [path for path in DAMON.glob("*/state") if path.read_text().strip() == "on"]
        actions = {path.read_text().strip() for path in DAMON.glob("*/contexts/*/schemes/*/action")}
        return f"the machine runs DAMON itself ({', '.join(actions)}), beside every row" if running else None

    @contextlib.contextmanager
    def around(self, settings):
        settings.set(DAMON / "nr_kdamonds", 1)
        context = DAMON / "0/contexts/0"
        for path, value in ((DAMON / "0/contexts/nr_contexts", 1), (context / "operations", "paddr"),
                            (context / "targets/nr_targets", 1), (context / "targets/0/regions/nr_regions", 1),
                            *self._regions(context / "targets/0/regions/0"),
                            (context / "monitoring_attrs/intervals/sample_us", 5000),
                            (context / "monitoring_attrs/intervals/aggr_us", 100000),
                            (context / "schemes/nr_schemes", 1), (context / "schemes/0/action", "pageout")):
            path.write_text(str(value))
        (DAMON / "0/state").write_text("on")
        try:
            yield
        finally:
            (DAMON / "0/state").write_text("off")

    @staticmethod
    def _regions(folder):
        """The largest piece of memory."""
        found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) : System RAM$", pathlib.Path("/proc/iomem").read_text(), re.M)
        start, end = max(((int(a, 16), int(b, 16)) for a, b in found), key=lambda piece: piece[1] - piece[0])
        return (folder / "start", start), (folder / "end", end)


class Reclaim(Hostility):
    """A memory cgroup from which as much is taken as can be, again and again; the pages of Python's own files, too, so
    that oftener would leave a busy machine no time for anything else."""

    name, root, period_s = "cgroup reclaim", True, 0.1

    def __init__(self, make_group):
        self.make_group = make_group
        self.group = None

    def why_not(self, allowed):
        if why := super().why_not(allowed):
            return why
        try:
            with self.make_group():
                return None
        except RuntimeError as error:
            return str(error)

    @contextlib.contextmanager
    def around(self, settings):
        with self.make_group() as self.group, super().around(settings):
            yield

    def started(self, pid):
        (self.group.path / "cgroup.procs").write_text(str(pid))

    def poke(self, settings):
        command = ("memory.force_empty", "0") if self.group.version == 1 else ("memory.reclaim", str(1 << 30))
        with contextlib.suppress(OSError):  # less could be taken than was asked for
            (self.group.path / command[0]).write_text(command[1])


class Swap(Reclaim):
    name = "swap"

    def why_not(self, allowed):
        if len(pathlib.Path("/proc/swaps").read_text().splitlines()) < 2:
            return "this machine has no swap"
        return super().why_not(allowed)


class Inside(Hostility):
    """What the child does to itself once its training is under way."""

    def __init__(self, name, inside, rungs=Hostility.rungs):
        self.name, self.inside, self.rungs = name, inside, rungs


class Limit(Hostility):
    """A limit that the child has from before Ebbtide starts in it."""

    def __init__(self, name, limits, may_refuse=False):
        self.name, self.limits, self.may_refuse = name, limits, may_refuse
