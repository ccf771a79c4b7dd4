"""tools/gpu_check: what it says where it cannot run, and that what it has found out is kept, and believed, rightly."""

import json
import os
import pathlib
import subprocess
import sys
import time
import types

import pytest
from tool_modules import TOOLS

from gpu_checking import phases, running

LIMIT_S = 60


def gpu_check(*arguments, path=None):
    """`path`: where programs are looked for."""
    environment = os.environ if path is None else {**os.environ, "PATH": str(path)}
    return subprocess.run([sys.executable, TOOLS / "gpu_check", *arguments], capture_output=True, text=True,
                          check=False, timeout=LIMIT_S, env=environment)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_the_list_names_every_phase():
    told = gpu_check("--list")
    assert told.returncode == 0
    assert [line.split()[0] for line in told.stdout.splitlines()] == list(phases.NAMES)
    assert all(len(line.split()) > 3 for line in told.stdout.splitlines())


@pytest.mark.parametrize("arguments, said", [(["coffee"], "no such phase: coffee; there are build, costs,"),
                                             (["--tea"], "unrecognized arguments: --tea"),
                                             (["--limit", "long"], "invalid int value: 'long'")])
def test_wrong_usage_is_one_sentence(arguments, said, tmp_path):
    told = gpu_check(*arguments, "--out", tmp_path / "out")
    assert told.returncode == 2
    assert said in told.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


# By its manual nvidia-smi ends with 6 where it finds no GPU, and with 9 where the driver is not loaded; it says so on
# its standard output.
@pytest.mark.parametrize("nvidia_smi", [None, "echo 'No devices were found'; exit 6", "exit 0",
                                        "echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9"])
def test_without_a_gpu_the_remedy_is_said(nvidia_smi, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    if nvidia_smi is not None:
        script(programs / "nvidia-smi", nvidia_smi)
    told = gpu_check("--out", tmp_path / "out", path=programs)
    assert told.returncode == 77, told.stdout
    assert len(told.stderr.splitlines()) == 1
    assert "--software" in told.stderr
    assert not (tmp_path / "out").exists()


class Bench:
    """Phases of shell commands, and a report of them in a folder; `runs` says which have run."""

    def __init__(self, folder):
        self.folder = folder
        self.out = folder / "out"
        self.machine = types.SimpleNamespace(root=folder)
        self.limit_s = LIMIT_S
        self.runs = []

    def phase(self, name, *commands, **options):
        def steps(_machine):
            self.runs.append(name)
            for number, command in enumerate(commands):
                yield running.Step(f"{name}.{number}", ["sh", "-c", command], **options)
        return phases.Phase(name, "of the test", steps)

    def run(self, *chosen, sources="a digest", gpu="one", again=False):
        """What has run now, and the report."""
        self.runs.clear()
        report = running.Report(self.out, {"gpu": gpu}, sources)
        for phase in chosen:
            report.run(phase, self.machine, again, self.limit_s)
        return list(self.runs), report

    def written(self, phase):
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))["phases"][phase]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_what_has_passed_is_not_run_again_with_the_same_sources(bench):
    good, bad = bench.phase("good", "echo done"), bench.phase("bad", "echo wrong; exit 3")
    ran, report = bench.run(good, bad)
    assert ran == ["good", "bad"]
    assert report.passed(["good"]) and not report.passed(["good", "bad"]) and not report.passed(["never"])
    ran, report = bench.run(good, bad)
    assert ran == ["bad"]
    assert report.passed(["good"])
    assert bench.run(good, again=True)[0] == ["good"]
    assert bench.run(good)[0] == []


@pytest.mark.parametrize("other", [{"sources": "another digest"}, {"gpu": "another"}])
def test_of_other_sources_or_another_machine_nothing_is_believed(bench, other):
    good, second = bench.phase("good", "true"), bench.phase("second", "true")
    bench.run(good, second)
    ran, report = bench.run(good, **other)
    assert ran == ["good"]
    assert not report.passed(["second"])


def test_a_phase_that_was_broken_off_has_not_passed(bench):
    def steps(_machine):
        yield running.Step("first", ["true"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run(phases.Phase("half", "of the test", steps))
    assert [step["passed"] for step in bench.written("half")["steps"]] == [True]  # what there is of it is kept
    ran, report = bench.run(bench.phase("half", "true"))
    assert ran == ["half"]
    assert report.passed(["half"])


def test_what_is_reported_of_a_step(bench):
    bench.run(bench.phase("good", "echo first; echo last"), bench.phase("bad", "seq 1 99; exit 3", "true"),
              bench.phase("needed", "exit 4", "true", must=True),
              bench.phase("result", "echo words; echo '{\"ns\": 3}'", keep_json=True),
              bench.phase("no result", "echo words", keep_json=True),
              bench.phase("skips", "echo '1 passed, 2 skipped'", skips=False),
              bench.phase("may skip", "echo '1 passed, 2 skipped'"),
              bench.phase("missing", "exec no_such_program_anywhere"))
    assert bench.written("good")["steps"][0]["last"] == "last"
    assert bench.written("bad")["steps"][0]["tail"] == [str(number) for number in range(88, 100)]
    assert [step["code"] for step in bench.written("bad")["steps"]] == [3, 0]
    assert [step["code"] for step in bench.written("needed")["steps"]] == [4]
    assert bench.written("result")["steps"][0]["result"] == {"ns": 3}
    passed = {name: bench.written(name)["passed"]
              for name in ("good", "bad", "needed", "result", "no result", "skips", "may skip", "missing")}
    assert [name for name, good in passed.items() if good] == ["good", "result", "may skip"]
    assert "seq 1 99" in (bench.out / "bad.log").read_text(encoding="utf-8")


def test_a_program_that_is_not_there_is_a_failed_step(bench):
    def steps(_machine):
        yield running.Step("first", [bench.folder / "not_built"])
        yield running.Step("second", ["true"])

    bench.run(phases.Phase("build", "of the test", steps))
    assert [step["passed"] for step in bench.written("build")["steps"]] == [False, True]
    assert "not_built" in bench.written("build")["steps"][0]["tail"][-1]


def runs(process):
    """Whether it does: one that nobody has waited for yet does not."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(process):
    end = time.monotonic() + LIMIT_S
    while runs(process) and time.monotonic() < end:
        time.sleep(0.01)
    return not runs(process)


def test_a_step_that_outlives_its_limit_is_ended_with_all_it_started(bench):
    bench.limit_s = 1
    started = time.monotonic()
    bench.run(bench.phase("slow", "echo begun; sh -c 'echo $$ > inner; exec sleep 600' & echo $$ > outer; wait"))
    assert time.monotonic() - started < LIMIT_S / 2
    step, = bench.written("slow")["steps"]
    assert (step["code"], step["passed"], step["tail"]) == (124, False, ["begun"])
    for name in ("outer", "inner"):
        assert ends(int((bench.folder / name).read_text(encoding="utf-8"))), name


def test_nor_does_anything_outlive_a_step_that_ends(bench):
    bench.run(bench.phase("quick", "sleep 600 & echo $! > left"))
    assert bench.written("quick")["passed"]
    assert ends(int((bench.folder / "left").read_text(encoding="utf-8")))


def test_the_digest_is_of_sources_and_not_of_what_building_makes(tmp_path):
    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return running.digest_of(tmp_path)

    digests = [write(name, text) for name, text in (
        ("src/core/core.cc", "one"), ("src/core/core.cc", "two"), ("src/core/other.cc", "two"),
        ("tools/gpu_check", "#!"), ("CMakeLists.txt", "project()"), ("CMakeLists.txt", "project(x)"),
        ("CMakePresets.json", "{}"))]
    assert len(set(digests)) == len(digests)
    for made in ("python/ebbtide/_built_for.py", "tools/gpu_checking/__pycache__/running.cpython-311.pyc",
                 "python/ebbtide/_C.cpython-311-x86_64-linux-gnu.so", "build/release/CMakeCache.txt",
                 "bench/results/new.json", "docs/new.md"):
        assert write(made, "made") == digests[-1], made
