"""The site of docs/: its pages are in the menu, their links lead somewhere, and the picture is one that needs nothing.

The build itself, strict, is `make site`; here it runs where that has installed what it takes.
"""

import os
import re
import subprocess
import xml.etree.ElementTree

import pytest
from ebb_program import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.name != "TEMPLATE.md")
MKDOCS = ROOT / "build/site/venv/bin/mkdocs"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def test_every_page_is_in_the_menu_once():
    menu = re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1],
                      re.MULTILINE)
    assert sorted(menu) == sorted(path.relative_to(DOCS).as_posix() for path in PAGES)


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md",
                                  ROOT / "SECURITY.md", *PAGES],
                         ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        assert "://" in target or (path.parent / target).exists(), target


@pytest.mark.parametrize("name,lines", [
    ("terminal", ["$ ebb run --memory 96MiB -- python examples/train/train.py", "ebb summary"]),
    ("top", ["$ ebb top", "1 run, 3 processes", "torchrun --nproc-per-node 2 examples/train/train.py --steps 100000"])])
def test_the_picture_needs_nothing(name, lines):
    root = xml.etree.ElementTree.parse(DOCS / f"img/{name}.svg").getroot()
    assert {element.tag.rsplit("}")[-1] for element in root.iter()} == {"svg", "style", "rect", "circle", "text", "g"}
    said = [element.text for element in root.iter() if element.text]
    assert [line for line in lines if line not in said] == []
    assert not re.search(r"url\(|@import|href", "".join(said))


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert any(line.startswith("make test ") for line in lines)


@pytest.mark.skipif(not os.access(MKDOCS, os.X_OK), reason="make site has not been run")
def test_the_site_builds_without_warnings(tmp_path):
    built = subprocess.run([MKDOCS, "build", "--strict", "--quiet", "--site-dir", tmp_path / "pages"], cwd=ROOT,
                           env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0 and built.stderr == "", built.stderr
    for page in (tmp_path / "pages").rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=\"?(https?://[^\" >]*)",
                            page.read_text(encoding="utf-8"))
        assert loaded == [], f"{page.name} loads from elsewhere"
