"""Running the phases of gpu_check: commands with a limit, their logs, and the report that is written after each.

A phase that runs out of its time is ended with all it started; what it wrote is kept. Standard library only.
"""

import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

LIMIT_S = 480
TAIL_LINES = 12
GENERATED = "_built_for.py"  # says for which torch the adapter was built


@dataclasses.dataclass
class Step:
    """One command of a phase. `must` False: what comes after it is of use even if it fails. `skips` False: a test that
    is skipped has failed."""
    name: str
    words: list
    environment: dict = dataclasses.field(default_factory=dict)
    must: bool = False
    skips: bool = True
    keep_json: bool = False  # the last line of its output is a result


def digest_of(root):
    """Of all sources: a result holds for these alone. What configuring writes is none."""
    total = hashlib.sha256()
    paths = [root / "CMakeLists.txt", root / "CMakePresets.json"]
    for folder in ("cmake", "cli", "include", "src", "python", "tests", "bench", "tools"):
        paths += sorted(path for path in (root / folder).rglob("*")
                        if path.suffix in (".cc", ".h", ".py", ".cmake", ".txt", "") and path.name != GENERATED)
    for path in filter(pathlib.Path.is_file, paths):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def run_step(step, log, cwd, limit_s):
    """The step's exit code (124: out of time, 127: there is no such program) and its output."""
    log.write(f"\n== {step.name}: {' '.join(map(str, step.words))}\n")
    log.flush()
    begin = log.tell()
    try:
        process = subprocess.Popen([str(word) for word in step.words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, env={**os.environ, **step.environment},
                                   start_new_session=True)
    except OSError as error:
        log.write(f"{error}\n")
        return 127, str(error)
    try:
        code = process.wait(max(limit_s, 1))
    except subprocess.TimeoutExpired:
        code = 124
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    log.flush()
    with open(log.name, encoding="utf-8", errors="replace") as written:
        written.seek(begin)
        return code, written.read()


def skipped(text):
    return "[  SKIPPED ]" in text or " skipped" in text


def result_of(text):
    """The last line, as JSON; None: it is not."""
    try:
        return json.loads(text.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return None


class Report:
    """What each phase came to: report.json and one log a phase, in one folder."""

    def __init__(self, folder, machine, sources):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._path = folder / "report.json"
        self._report = {"machine": machine, "sources": sources, "phases": {}}
        if self._path.exists():
            known = json.loads(self._path.read_text(encoding="utf-8"))
            if known.get("sources") == sources and known.get("machine") == machine:
                self._report["phases"] = known["phases"]

    def run(self, phase, machine, again, limit_s):
        known = self._report["phases"].get(phase.name)
        if known and known["passed"] and not again:
            return
        print(f"gpu_check: {phase.name}: {phase.about}", file=sys.stderr, flush=True)
        started = time.monotonic()
        # Until its end it has not passed: this may be broken off anywhere.
        result = {"date": datetime.date.today().isoformat(), "passed": False, "steps": []}
        self._report["phases"][phase.name] = result
        with open(self._folder / f"{phase.name}.log", "w", encoding="utf-8") as log:
            for step in phase.steps(machine):
                if not self._run_step(step, log, machine.root, limit_s - (time.monotonic() - started), result):
                    break
        result["seconds"] = round(time.monotonic() - started, 1)
        result["passed"] = all(step["passed"] for step in result["steps"])
        self._write()

    def _run_step(self, step, log, cwd, limit_s, result):
        began = time.monotonic()
        code, text = run_step(step, log, cwd, limit_s)
        answer = result_of(text) if step.keep_json else None
        failed = code != 0 or (not step.skips and skipped(text)) or (step.keep_json and answer is None)
        told = {"name": step.name, "code": code, "passed": not failed, "seconds": round(time.monotonic() - began, 1)}
        lines = text.strip().splitlines()
        if failed:
            told["tail"] = lines[-TAIL_LINES:]
        elif step.keep_json:
            told["result"] = answer
        elif lines:
            told["last"] = lines[-1][:160]
        result["steps"].append(told)
        print(f"gpu_check:   {step.name}: {'ok' if not failed else f'FAILED ({code})'}, {told['seconds']} s",
              file=sys.stderr, flush=True)
        self._write()
        return not (failed and step.must)

    def _write(self):
        kept = pathlib.Path(f"{self._path}.new")
        kept.write_text(json.dumps(self._report, indent=1) + "\n", encoding="utf-8")
        kept.replace(self._path)

    def passed(self, names):
        return all(self._report["phases"].get(name, {}).get("passed") for name in names)

    def table(self):
        rows = []
        for name, phase in self._report["phases"].items():
            for step in phase["steps"]:
                rows.append((name, step["name"], "ok" if step["passed"] else f"failed ({step['code']})",
                             f"{step['seconds']:.1f} s", step.get("last", "")))
                rows += [("", "", "", "", f"| {line[:120]}") for line in step.get("tail", [])]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        lines = ["  ".join([*(row[i].ljust(widths[i]) for i in range(4)), row[4]]).rstrip() for row in rows]
        return "\n".join(lines)
