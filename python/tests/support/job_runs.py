"""Runs of `ebb run` over several processes, as tests start them: what they printed, and what they had together."""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
EBB = os.environ.get("EBB_BIN") or ROOT / "build/release/cli/ebb"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
LIMIT_S = 300


class Run:
    """`ebb run` over a program, started. `folder`: its private directory is made there. `prefix`: starts it."""

    def __init__(self, folder, flash, budget, words, *, block="64KiB", more=(), prefix=(), env=None):
        self.summary_path = folder / "summary.json"
        options = ["--memory", budget, "--block", block, "--flash", flash, "--summary", self.summary_path, *more]
        env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT / "python"), **(env or {})}
        self.process = subprocess.Popen(list(map(str, [*prefix, EBB, "run", *options, "--", *words])),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.out = self.err = ""

    def until(self, pattern):
        """The first match in what it says on stderr from now on."""
        for line in self.process.stderr:
            self.err += line
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"ended before {pattern}: {self.err}")

    def end(self, timeout=LIMIT_S):
        self.out, err = self.process.communicate(timeout=timeout)
        self.err += err
        return self.process.returncode

    def losses(self):
        assert self.process.returncode == 0, self.err
        return losses(self.out)

    def summary(self):
        return json.loads(self.summary_path.read_text(encoding="utf-8"))


def losses(text):
    """The lines of all ranks, in an order that does not depend on who was first."""
    return sorted(line for line in text.splitlines() if re.match(r"rank \d+ step |parameters |\d ", line))


def stock(*words, limit_s=LIMIT_S):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=limit_s,
                          check=False)
    assert done.returncode == 0, done.stderr
    return losses(done.stdout)


def users(summary):
    """The processes that had memory."""
    return [process for process in summary["job"]["processes"] if process["used_memory"]]


def assert_within(summary, budget):
    assert summary["managed"] and summary["budget_bytes"] == budget
    assert summary["peak_resident_bytes"] <= budget and summary["job"]["peak_resident_bytes"] <= budget
    assert summary["job"]["outside_the_budget"] == [] and summary["unmanaged_processes"] == 0
