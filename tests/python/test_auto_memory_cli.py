"""Tests of `ebb run --memory auto` without torch: what is refused, and what the program and the summary are told. With
torch, and with another program beside it: python/tests/torch_cpu/test_auto_memory.py."""

import json
import sys

import pytest
from ebb_program import needs_ebb
from fake_program import fake_page

pytestmark = needs_ebb


def meminfo(key):
    with open("/proc/meminfo", encoding="utf-8") as table:
        return next(int(line.split()[1]) * 1024 for line in table if line.startswith(key + ":"))


@pytest.mark.parametrize("how", [{"EBB_MEMORY": "auto"}, {"options": ("--memory", "auto")}])
def test_tables_are_made_for_all_there_ever_is(box, how):
    options = how.pop("options", ())
    result = box.run("run", *options, "--summary", "s.json", "--", sys.executable, "-c",
                     "import os, torch; print(os.environ['EBB_MEMORY'])", FAKE_STATS=fake_page(budget_bytes=1), **how)
    job = json.loads((box.path / "s.json").read_text())["job"]
    most = int(result.stdout)
    assert job["budget_automatic"] and most <= meminfo("MemTotal")
    assert 0 < job["budget_least_bytes"] <= job["budget_bytes"] <= job["budget_most_bytes"] < most
    assert "automatic, from " in result.stderr.decode()


def test_a_fixed_budget_is_not_automatic(box):
    box.run("run", "--memory", "1GiB", "--summary", "s.json", "--", sys.executable, "-c", "import torch",
            FAKE_STATS=fake_page(budget_bytes=1))
    job = json.loads((box.path / "s.json").read_text())["job"]
    assert not job["budget_automatic"]
    assert job["budget_least_bytes"] == job["budget_bytes"] == job["budget_most_bytes"] == 1 << 30


@pytest.mark.parametrize("words,named", [
    (("run", "--memory", "auto", "--device-memory", "1GiB", "--", "true"), "--memory auto: with --device-memory"),
    (("plan", "--memory", "auto", "--", "true"), "--memory: "),
])
def test_where_a_size_is_needed_it_is_asked_for(box, words, named):
    result = box.run(*words)
    assert result.returncode == 2 and named in result.stderr.decode()
    assert len(result.stderr.decode().splitlines()) == 1
