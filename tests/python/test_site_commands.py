"""Every command of the quick starts and of the ten questions, run as a reader would: page by page, in a folder with
the examples, and what the page shows is what is printed, but for numbers.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
from ebb_program import EBB, ROOT, needs_ebb
from test_run_cli import real_extension

pytestmark = needs_ebb

PAGES = ["start/train.md", "start/finetune.md", "start/generate.md", "start/cpp.md", "start/plan.md", "questions.md"]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LIMIT_S = 240
ELLIPSIS = "…"
CALIBRATION = "ebbtide/calibration.json"


def commands(page):
    """Pairs of a command, and the lines in columns that the page shows below it."""
    found = []
    for block in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip() and not line.endswith((ELLIPSIS, ".")):  # sentences depend on what was found
                found[-1][1].append(line)
    return found


def label(line):
    """The words that a line begins with, at most three: up to a number, or to where a column begins."""
    words = re.split(r"\d| {2,}|\(", line.lstrip(" ✓!✗"))[0].split()
    return " ".join(word for word in words[:3] if re.search(r"\w", word))


class Workspace:
    """A folder as the pages take it for granted; a command that has run here is not run again."""

    def __init__(self, path):
        self.path, self.done = path, {}
        for name in ("examples", "build"):
            if (ROOT / name).is_dir():
                (path / name).symlink_to(ROOT / name)
        (path / "bin").mkdir()
        (path / "bin/ebb").symlink_to(EBB)
        (path / "tmp").mkdir()
        # What was measured of this machine, if it was: it takes half a minute, as the reader's first plan does.
        calibration = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", CALIBRATION)
        (path / "cache/ebbtide").mkdir(parents=True)
        if calibration.is_file():
            shutil.copy(calibration, path / "cache" / CALIBRATION)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
        self.environment.update(
            PATH=f"{path}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            TMPDIR=str(path / "tmp"), XDG_CACHE_HOME=str(path / "cache"), COLUMNS="160")

    def run(self, command):
        if command not in self.done:
            child = subprocess.Popen(["bash", "-c", command], cwd=self.path, env=self.environment, text=True,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     errors="replace", start_new_session=True)
            try:
                output, _ = child.communicate(timeout=LIMIT_S)
            finally:
                try:
                    os.killpg(child.pid, signal.SIGTERM)  # what it has left in the background
                except ProcessLookupError:
                    pass
            self.done[command] = (child.returncode, output)
        return self.done[command]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    yield Workspace(folder)
    shutil.rmtree(folder, ignore_errors=True)  # checkpoints


def missing(page):
    if page == "start/cpp.md":
        if shutil.which("cmake") is None:
            return "no cmake"
        return None if (ROOT / "build/release/cmake_install.cmake").is_file() else "no build/release to install from"
    if not real_extension():
        return "ebbtide._C is not built for this Python"
    lacking = {"start/finetune.md": ("transformers", "peft"), "start/generate.md": ("transformers",),
               "questions.md": ("transformers",)}.get(page, ())
    return next((f"no {name}" for name in lacking if importlib.util.find_spec(name) is None), None)


@pytest.mark.parametrize("page", PAGES)
def test_commands_do_what_the_page_shows(page, workspace):
    if reason := missing(page):
        pytest.skip(reason)
    for command, shown in commands(page):
        code, output = workspace.run(command)
        assert code == 0, f"{command}\n{output}"
        printed = [label(line) for line in output.splitlines()]
        for line in shown:
            assert label(line) in printed, f"{command}\ndoes not print: {line}\nbut:\n{output}"


def test_pages_have_commands():
    counts = {page: len(commands(page)) for page in PAGES}
    assert counts.pop("questions.md") == 10
    assert set(counts.values()) == {3}, "a quick start is three commands"


@pytest.mark.parametrize("line, words", [
    ("  memory budget           96.0 MiB", "memory budget"), ("step 3  loss 0.00012", "step"),
    ("It waited for 17 % of its time. Of that", "It waited for"), ("✓ kernel            Linux 6", "kernel"),
    ("By the planner's simulation of the iteration", "By the planner's"), ("  264 MiB    all", ""),
    ("  [||||||  ] 94.3 MiB", "")])
def test_label(line, words):
    assert label(line) == words
