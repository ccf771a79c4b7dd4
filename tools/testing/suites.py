"""The suites that tools/run_tests runs, and how the result of each is read.

Each suite builds what it needs, runs within a time limit, and answers with a Result. Children run in a session of their
own, so that a suite that hangs is ended with everything it started.
"""

import collections
import contextlib
import dataclasses
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree

BUILD_LIMIT_S = 3600
CTEST_LIMIT_S = 3600
CTEST_TEST_LIMIT_S = 120
INTERRUPT_LIMIT_S = 20
PYTEST_WORKERS_MAX = 4  # each starts programs of its own, with threads and gigabytes
RUN_AGAIN_MAX = 8  # more failures than these are no coincidence
# What a sanitizer found once is a bug, however rarely it shows.
FINDING = re.compile(r"(ERROR: (Address|Leak)|WARNING: Thread)Sanitizer|: runtime error: ")


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    output: str = ""
    failures: list = dataclasses.field(default_factory=list)  # names
    unsteady: list = dataclasses.field(default_factory=list)  # names of those that failed, and passed when run again
    reasons: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # of skips

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def fail(self, name):
        self.failed += 1
        self.failures.append(name)

    def worth_another_run(self):
        return 0 < self.failed <= RUN_AGAIN_MAX and not FINDING.search(self.output)

    def settle(self, again):
        """Takes the second run of what failed in this one: what passes there counts as passed, and is named."""
        settled = [name for name in self.failures if name not in again.failures]
        if again.passed + again.failed + again.skipped != len(self.failures) or len(settled) != again.passed:
            return  # the second run is not about the same tests: the first one stands
        self.failures = again.failures
        self.passed += again.passed
        self.failed -= again.passed
        self.unsteady = settled
        if again.failed:
            self.output = again.output


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
        elif skipped is not None or case.get("status") == "disabled":
            result.skipped += 1
            result.reasons[_ctest_skip_reason(case, message) if case.get("status") else message] += 1
        else:
            result.passed += 1


def finish(result, code, output, junit, name):
    """Reads the report of a suite; a suite that ended badly without naming a failed test is one failure itself."""
    result.output = output
    reported = True
    try:
        read_junit(junit, result)
    except (OSError, xml.etree.ElementTree.ParseError):
        reported = False
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
        command = [*launcher, "ctest", "--preset", self.preset, "--timeout", CTEST_TEST_LIMIT_S,
                   "--output-junit", junit]
        code, output = run([*command, "-j", jobs], CTEST_LIMIT_S)
        if junit.is_file() and not any(xml.etree.ElementTree.parse(junit).getroot().iter("testcase")):
            result.reasons["no tests are built"] += 1
        finish(result, code, output, junit, self.name)
        if code is not None and result.worth_another_run():
            code, output = run([*command, "--rerun-failed"], CTEST_LIMIT_S)  # alone: a busy machine is the usual cause
            result.settle(finish(Result(), code, output, junit, self.name))
        return result

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


class Pytest:
    """One folder of Python tests, shared out to as many processes as there are processors."""

    def __init__(self, name, folder, limit_s, fast):
        self.name, self.folder, self.limit_s, self.fast = name, folder, limit_s, fast

    def run(self, scratch, jobs):
        name = self.folder.replace("/", "-")
        junit = scratch / f"{name}.xml"
        command = [sys.executable, "-m", "pytest", self.folder, "-q", "-rs", "--junit-xml", junit,
                   *(["-m", "not slow"] if self.fast else []), "-o", f"cache_dir={scratch / name}",
                   "-o", "faulthandler_timeout=600"]
        # Idle OpenMP workers of one process would spin on the core that another needs.
        environment = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "PASSIVE",
                       "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}
        shared = ["-n", min(jobs, PYTEST_WORKERS_MAX), "--dist", "worksteal"]
        code, output = run([*command, *shared], self.limit_s, environment)
        result = finish(Result(), code, output, junit, self.name)
        if code is not None and result.worth_another_run():  # alone: a busy machine is the usual cause
            command += ["--last-failed", "--last-failed-no-failures", "none"]
            code, output = run(command, self.limit_s, environment)
            result.settle(finish(Result(), code, output, junit, self.name))
        return result
