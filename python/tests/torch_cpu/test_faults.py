"""What goes wrong around an ordinary program under `ebb run`, on the real kernel and disk: its losses are stock's to
the bit, or one message says what to do; it ends, and nothing stays of it.

The faults: support/faults.py. How a run is judged: support/faulted_run.py. bench/reliability/real.py counts them.
"""

import os
import re
import shutil
import tempfile

import faulted_run
import faults
import pytest
import runner

KILLS = 20
DAILY = ("full disk", "RLIMIT_FSIZE", "flash file cut off", "userfaultfd + io_uring_setup refused",
         "userfaultfd + io_uring_setup + memfd_create refused", "SIGKILL of the program", "SIGSTOP, SIGCONT",
         "memory cgroup", "time of day")
# Where the two differ: what the kernel offers to an ordinary user, and what only he has.
DAILY_USER = ("RLIMIT_FSIZE", "userfaultfd + io_uring_setup + memfd_create refused")


@pytest.fixture(scope="module")
def place(ebbtide_built):
    folder = tempfile.mkdtemp(prefix="ebb-faults-", dir=runner.flash_folder())
    yield faulted_run.Place(folder)
    left = os.listdir(folder)
    shutil.rmtree(folder)
    assert not left


def cases():
    for fault in faults.catalogue():
        for user in fault.users:
            daily = fault.name in (DAILY_USER if user else DAILY)
            name = f"{fault.name}, {fault.happens[:40]}{', ordinary user' if user else ''}"
            yield pytest.param(fault, user, id=name, marks=[] if daily else pytest.mark.slow)


@pytest.mark.parametrize("fault,user", list(cases()))
def test_fault(place, fault, user):
    if why := fault.why_not():
        pytest.skip(why)
    place.run(fault, user)


@pytest.mark.slow
@pytest.mark.parametrize("whom", faults.Killed.WHOM)
def test_killed_again_and_again(place, whom):
    """At random moments: nothing stays on flash, and no process."""
    ends = [place.run(faults.Killed(whom))[0] for _ in range(KILLS)]
    assert whom == "ebb run" or ends.count("killed") >= KILLS // 2, ends


class Ended:
    """What judge() looks at of a run."""

    def __init__(self, lines, err=""):
        self.lines, self.err = lines, err


def test_what_would_be_noticed(place):
    good = place.expected
    assert place.judge(Ended(good), 0) == ("equal", "")
    assert place.judge(Ended(good[:3], "RuntimeError: so it is\n"), 1) == ("stopped", "so it is")
    other = good[:-1] + ["model 00"]
    wrong = [(good[:2] + [good[3]], "", 0), (other, "", 0), (other, "ebb: a\n", 1), (good[:3], "", 1),
             (good[:3], "", 0), (good[:3], "ebb: a\n", 0), (good[:3], "Segmentation fault", -11)]
    for lines, err, code in wrong:
        with pytest.raises(faulted_run.Wrong):
            place.judge(Ended(lines, err), code)


def test_a_file_that_stays_is_noticed(place):
    class Leaves(faults.Fault):
        def during(self, run):
            (run.place / "flash/left").touch()

    with pytest.raises(faulted_run.Wrong, match="left behind: .*flash/left"):
        place.run(Leaves())


def test_nothing_waits_by_the_time_of_day():
    """Which can be set at any moment. Where it is asked for, that is to show it, or for the age of a file."""
    known = {"cli/top/top_table.cc", "cli/run/run_command.cc", "src/drivers/linux/files/opened_files.cc"}
    asks = re.compile(r"system_clock|CLOCK_REALTIME|gettimeofday|high_resolution_clock|\btime\((nullptr|NULL)\)")
    root = runner.children.REPOSITORY
    found = {str(path.relative_to(root)) for folder in ("src", "cli", "include", "python/bindings")
             for path in (root / folder).rglob("*") if path.suffix in (".cc", ".h") and "/test/" not in str(path)
             if asks.search(path.read_text(encoding="utf-8"))}
    assert found == known
