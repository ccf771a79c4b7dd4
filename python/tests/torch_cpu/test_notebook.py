"""What notebooks show of stats(), and the line magic %ebb. Where IPython is installed, it runs them."""

import html.parser
import importlib.util
import json
import subprocess
import sys

import pytest
import runner
from ebbtide._notebook import Statistics

MIB = runner.MIB
# A shell as far as load_ext goes.
SHELL = """
import json, sys
import ebbtide
class Shell:
    def register_magic_function(self, function, magic_kind, magic_name):
        assert (magic_kind, magic_name) == ("line", "ebb")
        self.ebb = function
shell = Shell()
ebbtide.load_ipython_extension(shell)
said = []
for line in json.loads(sys.argv[1]):
    try:
        result = shell.ebb(line)
        said.append(None if result is None else result._repr_html_())
    except ebbtide.Error as error:
        said.append(str(error))
print(json.dumps(said))
"""
IPYTHON = """
import sys
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.display_formatter.active_types = shell.display_formatter.format_types  # as a notebook has it
shell.run_line_magic("load_ext", "ebbtide")
shell.run_line_magic("ebb", sys.argv[1])
data, _ = shell.display_formatter.format(shell.run_line_magic("ebb", ""))
print(data["text/html"])
"""


class Cells(html.parser.HTMLParser):
    """Each row's texts; complains of tags that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows = [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "tr":
            self.texts = []
        elif tag in ("th", "td"):
            self.texts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "tr":
            self.rows[self.texts[0]] = self.texts[1]

    def handle_data(self, data):
        self.texts[-1] += data


def run(program, *arguments):
    child = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True,
                           env=runner.environment(), timeout=120)
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_statistics_are_a_table(flash):
    options = {**runner.options(flash, 72 * MIB, block="1MiB"), "policy": "window", "managed_min": "64KiB"}
    stats = runner.managed("scenarios_waits:infer", options, rounds=3).find("stats")
    rows = Cells(Statistics(stats)._repr_html_()).rows
    assert rows["memory"].endswith(" of 72 MiB")
    assert rows["waited"] == f"{stats['stall_ns'] / 1e9:.3g} s"
    worst = stats["waits"]["modules"][0]
    assert rows["in modules"].startswith(f"{worst['name']} {worst['stall_ns'] / 1e9:.3g} s")
    assert stats["policy"] in rows["policy"] and "by operators" in rows and rows["why"]
    assert Statistics(stats) == stats and json.loads(json.dumps(Statistics(stats))) == stats


def test_names_are_text():
    counters = dict.fromkeys(("resident_bytes", "budget_bytes", "flash_bytes", "flash_limit_bytes", "live_bytes",
                              "peak_live_bytes", "fetched_bytes", "evicted_bytes", "stall_ns"), 2**30)
    entry = {"name": "<script>&", "stall_ns": 5 * 10**8}
    waits = {"causes_ns": {"late": 5 * 10**8, "fault": 0}, "modules": [entry], "operators": []}
    stats = {**counters, "policy": "<b>", "description": "", "step_seconds": [1.0, 3.0, 2.0], "waits": waits}
    rows = Cells(Statistics(stats)._repr_html_()).rows
    assert rows["in modules"] == "<script>& 0.5 s" and rows["policy"].startswith("<b>")
    assert rows["steps"] == "3, the last took 2 s, the median is 2 s"
    assert rows["memory"] == " 1 GiB of 1 GiB" and rows["why"] == "on its way, but late 0.5 s"


def test_the_line_magic(flash):
    lines = ["", "memory", "memory=64MiB speed=fast", "memory=lots", f"memory=64MiB flash={flash}", ""]
    first, no_value, unknown, refused, enabled, shown = json.loads(run(SHELL, json.dumps(lines)))
    assert "not enabled" in first and "%ebb memory=1.5GiB" in first
    assert "'memory' is no option" in no_value and "speed" in unknown and "lots" in refused
    assert enabled is None and Cells(shown).rows["memory"].endswith(" of 64 MiB")


@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="no IPython here")
def test_in_ipython(flash):
    assert Cells(run(IPYTHON, f"memory=64MiB flash={flash}").strip()).rows["memory"].endswith(" of 64 MiB")
