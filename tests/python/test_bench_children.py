"""What the benchmarks start: ended when it outlives its limit, which does not run while all of it is stopped."""

import os
import signal
import subprocess
import sys
import time

import bench_modules  # noqa: F401
import children
import pytest

RUNNER = f"""
import sys
sys.path.insert(0, {str(children.REPOSITORY / "bench/training")!r})
import children
children.TURN_S = 0.1
print("began", flush=True)
children.run([sys.executable, "-c", "import time; time.sleep(7)"], timeout=4).check()
"""


def test_a_child_that_outlives_its_limit_is_ended():
    began = time.monotonic()
    with pytest.raises(children.ChildError, match="did not end within 0.5 s"):
        children.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.5)
    assert time.monotonic() - began < 30


def test_the_time_for_which_a_runner_is_stopped_does_not_count():
    with subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as runner:
        runner.stdout.readline()
        time.sleep(0.5)
        os.kill(runner.pid, signal.SIGSTOP)
        time.sleep(5)
        os.kill(runner.pid, signal.SIGCONT)
        assert runner.wait() == 0, runner.stderr.read().decode()
