"""tools/coverage: what it takes for an error branch, and whether it sees that one in the line of its `if` never ran."""

import shutil
import subprocess

import pytest
import tool_modules
from tidying import tree

coverage = tool_modules.load("coverage")

SOURCE = """#include <cerrno>
#include <stdexcept>
int taken(int value) {
  if (value < 0) return EINVAL;
  return 0;
}
int left_out(int value) {
  if (value < 0) return EINVAL;
  return 0;  // return errno;
}
int thrown(int error) {
  if (error != 0) {
    throw std::runtime_error("it is an error");
  }
  return 0;
}
int main() { return taken(-1) == EINVAL ? left_out(1) + thrown(0) : 1; }
"""


def test_branches_are_returns_throws_and_arms_and_no_comments():
    assert coverage.branches(tree.File("src/move/probe.cc", SOURCE)) == {4: "return", 8: "return", 13: "throw",
                                                                         17: "return"}
    text = ("void f() {\n  if (a(b) != 0) {\n    stop();\n  }\n  if (status == Status::kOk) go();\n"
            "  try {\n  } catch (...) {\n")
    assert coverage.branches(tree.File("src/move/probe.cc", text)) == {3: "arm", 7: "catch"}


@pytest.mark.skipif(not all(map(shutil.which, ("g++", "gcov"))), reason="no g++, or no gcov")
def test_a_branch_that_stands_behind_its_if_in_one_line_is_seen_not_to_run(tmp_path, monkeypatch):
    path = tmp_path / "src/move/probe.cc"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    subprocess.run(["g++", "--coverage", "-O0", "-c", path, "-o", tmp_path / "probe.o"], cwd=tmp_path, check=True)
    subprocess.run(["g++", "--coverage", tmp_path / "probe.o", "-o", tmp_path / "probe"], cwd=tmp_path, check=True)
    (tmp_path / "broken.gcno").touch()  # of a compiler that was stopped
    subprocess.run([tmp_path / "probe"], cwd=tmp_path, check=True)
    monkeypatch.setattr(coverage, "ROOT", tmp_path)
    monkeypatch.setattr(coverage, "BUILD", tmp_path)
    found = coverage.error_branches([""], coverage.count(1))
    assert [(each["line"], each["function"], each["reached"]) for each in found if each["function"] != "main"] == [
        (4, "taken", True), (8, "left_out", False), (13, "thrown", False)]


def test_reasons_are_of_functions_that_need_one(tmp_path, monkeypatch):
    reasons = tmp_path / "reasons.toml"
    reasons.write_text('[[reason]]\nfile = "a.cc"\nfunction = "f"\nwhy = "the kernel never refuses it"\n'
                       '[[reason]]\nfile = "a.cc"\nfunction = "gone"\nwhy = "it"\n')
    monkeypatch.setattr(coverage, "REASONS", reasons)
    branch = {"file": "a.cc", "function": "f", "reached": False}
    reached = {**branch, "reached": True}
    rows, needless = coverage.by_function([branch, reached, {**reached, "function": "g"}])
    assert rows == [{"file": "a.cc", "function": "f", "branches": 2, "not_reached": 1,
                     "why": "the kernel never refuses it"}]
    assert needless == ["a.cc: gone"]
