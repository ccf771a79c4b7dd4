"""The suites that tools/run_tests runs, and how the result of each is read.

Each suite builds what it needs, runs within a time limit, and answers with a Result. Children run in a session of their
own, so that a suite that hangs is ended with everything it started.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

BUILD_LIMIT_S = 1800
CTEST_LIMIT_S = 1200
CTEST_TEST_LIMIT_S = 120
INTERRUPT_LIMIT_S = 20
FUZZ_RUNS = 1000  # of each; ctest's fixed ones are a fifth
FUZZ_LIMIT_S = 900
FUZZ_SKIPPED = 77
HOSTILE_EXTRA_S = 900  # to begin with, and for the last run to end or hang
SAID_LINES = 60  # of one failed test
PYTEST_WORKERS_MAX = 4  # each starts programs of its own, with threads and gigabytes


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    left_out: int = 0  # tests that exist, and were not asked for
    output: str = ""
    failures: list = dataclasses.field(default_factory=list)  # names
    reasons: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # of skips

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.left_out += other.left_out

    def fail(self, name):
        self.failed += 1
        self.failures.append(name)

    def judge(self, code, output, name):
        """A command that is one test."""
        if code == 0:
            self.passed += 1
            return
        self.output += output
        self.fail(name)


def run(argv, limit_s, environment=None):
    """Exit code and output of a command; the code is None if it had to be ended because its time was over.

    It is interrupted first, as by Ctrl-C, so that it can report what it got to, and then killed with its children.
    """
    child = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})},
                             start_new_session=True, text=True, errors="replace")
    try:
        output, _ = child.communicate(timeout=limit_s)
        return child.returncode, output
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(timeout=INTERRUPT_LIMIT_S)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        return None, f"{output}\nended: more than {limit_s} s"
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise


def _said(case):
    """The end of what a failed test of ctest or pytest has printed."""
    texts = [case.findtext(tag) for tag in ("failure", "error", "system-out", "system-err")]
    return "\n".join("\n".join(filter(None, texts)).splitlines()[-SAID_LINES:])


def _ctest_skip_reason(case, message):
    output = case.findtext("system-out") or ""
    found = re.search(r"Skipped\n(.+)", output) or re.search(r"(?:skip|skipped):? (.+)", output, re.IGNORECASE)
    return found.group(1).strip() if found else message


def read_junit(path, result):
    """Adds the test cases of a JUnit file, as ctest and pytest write it."""
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        skipped = case.find("skipped")
        message = (skipped.get("message") or "") if skipped is not None else ""
        # ctest calls what it could not even start "notrun", and a skip too; only the message differs.
        not_started = case.get("status") == "notrun" and not message.startswith("SKIP_")
        if case.find("failure") is not None or case.find("error") is not None or not_started:
            result.fail(case.get("name") if case.get("status") else name)
            result.output += f"--- {result.failures[-1]} ---\n{_said(case)}\n"
        elif skipped is not None or case.get("status") == "disabled":
            result.skipped += 1
            result.reasons[_ctest_skip_reason(case, message) if case.get("status") else message] += 1
        else:
            result.passed += 1


def finish(result, code, output, junit, name):
    """Reads the report of a suite; a suite that ended badly without naming a failed test is one failure itself."""
    reported = True
    result.output = ""  # of building
    try:
        read_junit(junit, result)
    except (OSError, xml.etree.ElementTree.ParseError):
        reported = False
    if not result.failed:  # what a failed test has printed says more than what comes after it
        result.output = output
    if code is None:
        result.fail(f"{name}: ran out of time")
    elif not reported:
        result.fail(f"{name}: ended with exit code {code} before it could report")
    elif code != 0 and not result.failed:
        result.fail(f"{name}: exit code {code}")
    return result


class Ctest:
    """One CMake preset: configured, built, and all its tests."""

    def __init__(self, preset, name):
        self.preset, self.name = preset, name

    def run(self, scratch, jobs):
        result = Result()
        for step in (["cmake", "--preset", self.preset], ["cmake", "--build", "--preset", self.preset, "-j", jobs]):
            code, result.output = run(step, BUILD_LIMIT_S)
            if code != 0:
                why = "ran out of time" if code is None else f"exit code {code}"
                result.fail(f"{' '.join(map(str, step))}: {why}")
                return result
        launcher, reason = self._launcher(scratch)
        if reason:
            result.skipped += 1
            result.reasons[reason] += 1
            return result
        junit = scratch / f"{self.preset}.xml"
        code, output = run([*launcher, "ctest", "--preset", self.preset, "--timeout", CTEST_TEST_LIMIT_S,
                            "--output-junit", junit, "-j", jobs], CTEST_LIMIT_S)
        if junit.is_file() and not any(xml.etree.ElementTree.parse(junit).getroot().iter("testcase")):
            result.reasons["no tests are built"] += 1
        return finish(result, code, output, junit, self.name)

    def _launcher(self, scratch):
        """What a sanitized program has to be started with here, and why it cannot be, if so.

        The ThreadSanitizer of GCC 12 and 13 ends at once where the kernel randomizes more bits of addresses than it
        expects; setarch -R switches that off for its children, where the container allows it.
        """
        sanitizer = {"asan-ubsan": "address,undefined", "tsan": "thread"}.get(self.preset)
        if sanitizer is None:
            return [], None
        probe = scratch / "probe"
        probe.with_suffix(".cc").write_text("int main() { return 0; }\n", encoding="utf-8")
        code, output = run([os.environ.get("CXX", "c++"), f"-fsanitize={sanitizer}", "-pie", "-fPIE", "-o", probe,
                            probe.with_suffix(".cc")], 60)
        if code != 0:
            return [], f"the compiler cannot link -fsanitize={sanitizer}"
        without_randomization = ["setarch", platform.machine(), "-R"]
        for launcher in (without_randomization, []):
            try:
                if all(run([*launcher, probe], 60)[0] == 0 for _ in range(5)):
                    return launcher, None
            except OSError:
                continue  # no setarch
        return [], f"a program with -fsanitize={sanitizer} cannot start on this machine"


class Tidy:
    """tools/tidy and its self-test, as two tests."""

    name = "tidy"

    def run(self, _scratch, _jobs):
        result = Result()
        for arguments in (["--self-test"], []):
            code, output = run([sys.executable, "tools/tidy", *arguments], 120)
            result.output += output
            if code == 0:
                result.passed += 1
            else:
                result.fail(" ".join(["tools/tidy", *arguments]))
        return result


class Fuzzers:
    """The fuzzers of the release build from a seed of this run's own; ctest has had them from a fixed one."""

    def __init__(self, seed):
        self.seed = seed
        self.name = f"C++ fuzzers from a fresh seed ({seed})"

    def run(self, _scratch, _jobs):
        result = Result()
        for program in sorted(pathlib.Path("build/release/tests").glob("*_fuzz")):
            command = [program, "--seed", self.seed, "--runs", FUZZ_RUNS]
            code, output = run(command, FUZZ_LIMIT_S)
            if code == FUZZ_SKIPPED:
                result.skipped += 1
                result.reasons[f"{program.name}: {output.strip()}"] += 1
            else:
                result.judge(code, output, " ".join(map(str, command)))  # which is the way to have it again
        if not result.passed + result.failed + result.skipped:
            result.fail("no fuzzer is built")
        return result


class Simulation:
    """`ebb fuzz` from a fresh seed for some minutes, and the programs that have failed once, by their files."""

    FOUND = "tests/scenario/found"

    def __init__(self, seed, minutes):
        self.seed, self.minutes = seed, minutes
        self.name = f"Simulation with faults from a fresh seed ({seed}), {minutes} minutes"

    def run(self, _scratch, _jobs):
        result = Result()
        for arguments in (["--replay", self.FOUND], ["--seed", self.seed, "--minutes", self.minutes]):
            code, output = run(["build/release/cli/ebb", "fuzz", *arguments], 60 * self.minutes + FUZZ_LIMIT_S)
            again = re.search(r"^again: (.+)$", output, re.MULTILINE)
            result.judge(code, output, again.group(1) if again else f"ebb fuzz {' '.join(map(str, arguments))}")
        return result


class Inputs:
    """libFuzzer on the readers of what others give us, tests/fuzzing, so many seconds each; where there is clang."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.name = f"Readers of files under libFuzzer, {seconds} s each"

    def run(self, scratch, jobs):
        result = Result()
        if shutil.which("clang++") is None:
            result.skipped += 1
            result.reasons["no clang++"] += 1
            return result
        for step in (["cmake", "--preset", "libfuzzer"], ["cmake", "--build", "--preset", "libfuzzer", "-j", jobs]):
            code, result.output = run(step, BUILD_LIMIT_S)
            if code != 0:
                result.fail(f"{' '.join(map(str, step))}: exit code {code}")
                return result

        def fuzz(program):
            found = scratch / program.name
            found.mkdir()
            command = [program, f"-max_total_time={self.seconds}", "-max_len=8192", f"-artifact_prefix={program}-",
                       found, f"tests/fuzzing/corpus/{program.name.removesuffix('_input')}"]
            return run(command, self.seconds + FUZZ_LIMIT_S)

        programs = sorted(pathlib.Path("build/libfuzzer/tests").glob("*_input"))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for program, (code, output) in zip(programs, pool.map(fuzz, programs)):
                result.judge(code, output, program.name)  # where the input is that ended it, its output says
        return result


class Hostile:
    """tools/hostile; each of its runs is a test. As root on all it can do, else on what an ordinary user can."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.name = f"Training on a hostile kernel, {seconds} s"

    def run(self, _scratch, _jobs):
        command = [sys.executable, "tools/hostile", "--seconds", self.seconds]
        code, output = run(command + ["--change-settings"] * (os.geteuid() == 0), self.seconds + HOSTILE_EXTRA_S)
        result = Result(output=output)
        found = re.search(r"^(\d+) runs, (\d+) aborts, (\d+) hangs, (\d+) wrong", output, re.MULTILINE)
        runs, *bad = map(int, found.groups()) if found else (0, 0)
        for line in re.findall(r"^(?:aborts|hangs|wrong): .+", output, re.MULTILINE):
            result.fail(line)
        result.passed = runs - sum(bad)
        for name, why in re.findall(r"^(.+?) +not here: (.+)", output, re.MULTILINE):
            result.skipped += 1
            result.reasons[f"{name}: {why}"] += 1
        if code != 0 and not result.failed:
            result.fail(f"tools/hostile: {'ran out of time' if code is None else f'exit code {code}'}")
        return result


class Pytest:
    """One folder of Python tests, or some files of it, shared out to as many processes as there are processors."""

    def __init__(self, name, folder, limit_s, options=(), files=(), environment=None):
        self.name, self.folder, self.limit_s, self.options, self.files = name, folder, limit_s, options, files
        self.environment = environment or {}

    def run(self, scratch, jobs):
        junit = scratch / f"{self.name.replace(' ', '-').replace('/', '-')}.xml"
        tests = [f"{self.folder}/{file}" for file in self.files] or [self.folder]
        command = [sys.executable, "-m", "pytest", *tests, "-q", "-rs", "--junit-xml", junit, *self.options,
                   "-n", min(jobs, PYTEST_WORKERS_MAX), "--dist", "worksteal"]
        environment = {"PYTHONDONTWRITEBYTECODE": "1", **self.environment,
                       "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}
        code, output = run(command, self.limit_s, environment)
        result = finish(Result(), code, output, junit, self.name)
        if found := re.search(r"^left out: (\d+) ", output, re.MULTILINE):
            result.left_out = int(found.group(1))
        return result


class SlowTests(Pytest):
    """Of the slow tests those of one part (all, K/N), as many as can begin before a moment of time.monotonic()."""

    def __init__(self, name, folder, limit_s, part, until):
        super().__init__(name, folder, limit_s)
        self.part, self.until = part, until

    def run(self, scratch, jobs):
        self.options = ["-m", "slow", "--rest", self.part]
        if self.until is not None:
            self.options += ["--seconds", max(0, round(self.until - time.monotonic()))]
        return super().run(scratch, jobs)
