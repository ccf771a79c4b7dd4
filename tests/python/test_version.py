"""The version stands in python/ebbtide/__init__.py; whatever else names it takes it from there, or agrees."""

import ast
import re
import subprocess

from ebb_program import EBB, ROOT, needs_ebb

PLACE = "python/ebbtide/__init__.py"


def text(path):
    return (ROOT / path).read_text()


def written():
    values = [ast.literal_eval(node.value) for node in ast.parse(text(PLACE)).body
              if isinstance(node, ast.Assign) and node.targets[0].id == "__version__"]
    assert len(values) == 1
    return values[0]


def test_it_is_semantic():
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", written())


@needs_ebb
def test_ebb_says_it():
    result = subprocess.run([EBB, "--version"], capture_output=True, text=True, timeout=60)
    assert result.stdout == f"ebb {written()}\n"


def test_builds_take_it_from_there():
    cmake = text("CMakeLists.txt")
    assert f"file(STRINGS {PLACE} ebb_version" in cmake and "project(ebbtide VERSION ${ebb_version} " in cmake
    pip = text("pyproject.toml")
    assert 'dynamic = ["version"]' in pip and f'input = "{PLACE}"' in pip
    assert not re.search(r"^version\s*=", pip, re.MULTILINE)
    for build in (cmake, pip):
        assert written() not in build


def test_the_changelog_has_it_below_what_is_unreleased():
    headings = re.findall(r"^## \[(.+?)\]", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", written()]
    assert len(set(headings)) == len(headings)


def test_documents_ask_cmake_for_the_same_minor_version():
    minor = written().rsplit(".", 1)[0]
    for path in ("docs/install.md", "examples/install/CMakeLists.txt"):
        assert set(re.findall(r"find_package\(Ebbtide (\S+) ", text(path))) == {minor}, path
