"""`ebb run --report`: what is refused, and that the page of a real training has the numbers of its summary. In a
browser, where there is one ($EBB_TEST_BROWSER, or Chromium on PATH), the page draws itself without an error.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from ebb_program import EBB, needs_ebb
from fake_program import fake_page
from perfetto import ask_perfetto, needs_perfetto
from test_run_cli import calibrate, real_extension

pytestmark = needs_ebb

BROWSER = os.environ.get("EBB_TEST_BROWSER") or next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome", "chrome"))), None)
TRAIN = """
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(16)])
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(7):
        model(torch.randn(8, 1024)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def data_of(page):
    assert not re.search(r"(src|href)\s*=|@import|url\(|fetch\(|https?://(?!www\.w3\.org/2000/svg)", page), "one page"
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


@pytest.mark.parametrize("path, words", [("nowhere/r.html", "cannot be written"), ("tmp", "is a directory"),
                                         ("site/torch.py/r.html", "cannot be written")])
def test_what_cannot_be_written_is_told_before_the_program_starts(box, path, words):
    result = box.run("run", "--report", path, "--", "touch", "started")
    assert result.returncode == 2 and words in result.stderr.decode() and "--report FILE" in result.stderr.decode()
    assert not (box.path / "started").exists()


def test_a_run_without_memory_has_a_page_too(box):
    assert box.run("run", "--quiet", "--report", "r.html", "--", "echo", "</script><b>").returncode == 0
    data = data_of((box.path / "r.html").read_text())
    assert data["run"]["command"] == ["echo", "</script><b>"] and data["timeline"]["at"] == []


def test_a_page_of_statistics_without_a_timeline(box):
    result = box.python("import torch", "--quiet", "--report", "r.html", FAKE_STATS=fake_page(evicted_bytes=3 << 30))
    assert result.returncode == 0, result.stderr.decode()
    data = data_of((box.path / "r.html").read_text())
    assert data["run"]["evicted_bytes"] == 3 << 30 and data["wear"].startswith("3.00 GiB in ")


def test_data_and_page_are_made_of_each_other(box):
    command = ["echo", "</script><b>", "\033]0;title\007"]
    assert box.run("run", "--quiet", "--report", "r.json", "--", *command).returncode == 0
    data = json.loads((box.path / "r.json").read_text())
    assert data["run"]["command"] == command
    for source, target in (("r.json", "r.html"), ("r.html", "again.json"), ("r.html", "again.html")):
        result = box.run("report", source, "--to", target)
        assert result.returncode == 0 and result.stdout == result.stderr == b"", result.stderr
    assert (box.path / "again.json").read_bytes() == (box.path / "r.json").read_bytes()
    assert (box.path / "again.html").read_bytes() == (box.path / "r.html").read_bytes()
    assert data_of((box.path / "r.html").read_text()) == data
    for source, stdin in (("r.json", b""), ("r.html", b""), ("-", (box.path / "r.html").read_bytes())):
        assert json.loads(box.run("report", source, "--json", stdin=stdin).stdout) == data
        words = box.run("report", source, stdin=stdin).stdout.decode()
        assert words.startswith("ebb report: echo </script><b> ?]0;title?\n") and data["wear"] in words
        assert all(f"{name:<28} {value}" in words for name, value in data["tiles"])
        assert all(text in words for text in data["advice"])


@pytest.mark.parametrize("content, words", [
    (None, "No such file"), (b"", "is no report"), (b"{}", "is no report"), (b"[1, 2", "is no report"),
    (b"\xff\xfe", "is no report"), (b'<script type="application/json" id="data">{', "is no report"),
    (b'{"run": {"command": [3]}, "tiles": [], "advice": [], "timeline": {}, "predictions": [], '
     b'"prediction_note": "", "wear": ""}', "is no report"),
    (b'{"run": {"command": []}, "tiles": [["a", 1]], "advice": [], "timeline": {}, "predictions": [], '
     b'"prediction_note": "", "wear": ""}', "is no report")])
def test_what_is_no_report(box, content, words):
    if content is not None:
        (box.path / "r.json").write_bytes(content)
    for options in ([], ["--json"], ["--to", "page.html"]):
        result = box.run("report", "r.json", *options)
        assert result.returncode == 2 and result.stdout == b"" and result.stderr.count(b"\n") == 1
        assert words in result.stderr.decode() and "ebb run --report FILE.json" in result.stderr.decode()
    assert not (box.path / "page.html").exists()


def test_a_page_that_cannot_be_written(box):
    result = box.run("report", "r.json", "--to", "nowhere/r.html")
    assert result.returncode == 2 and "nowhere/r.html" in result.stderr.decode() and "--to" in result.stderr.decode()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    if not real_extension():
        pytest.skip("ebbtide._C is not built for this Python")
    folder = tmp_path_factory.mktemp("report")
    (folder / "train.py").write_text(textwrap.dedent(TRAIN))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
    # Advice is about this disk, which binds however slow the processor beside it is.
    calibrate(folder / "cache", folder, read_bps=1e8, write_bps=1e8)
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    options = ["--memory", "96MiB", "--flash", str(folder), "--report", "r.html", "--trace-events", "events.json",
               "--json"]
    run = subprocess.run([EBB, "run", *options, "--", sys.executable, "train.py"], capture_output=True, cwd=folder,
                         env=environment, timeout=600)
    assert run.returncode == 0, run.stderr.decode()
    return folder, json.loads(run.stdout), data_of((folder / "r.html").read_text())


def test_the_page_has_the_numbers_of_the_summary(trained):
    _, summary, data = trained
    assert data["run"] == summary
    waits = summary["waits"]
    assert waits["stall_seconds"] == pytest.approx(summary["stall_seconds"], abs=1e-6)
    for shares in (waits["causes"].values(), waits["kinds"].values(),
                   [entry["stall_seconds"] for entry in waits["modules"]],
                   [entry["stall_seconds"] for entry in waits["operators"]]):
        assert sum(shares) == pytest.approx(waits["stall_seconds"], abs=1e-6)
    line = data["timeline"]
    assert 2 < len(line["at"]) <= 512 and line["at"] == sorted(line["at"])
    assert line["at"][-1] <= summary["wall_seconds"]
    for name, total in (("fetched", "fetched_bytes"), ("evicted", "evicted_bytes"), ("steps", "steps")):
        assert line[name] == sorted(line[name]) and line[name][-1] <= summary[total]
    assert line["fetched"][-1] > 0.5 * summary["fetched_bytes"]
    for i, resident in enumerate(line["resident"]):
        assert sum(part["bytes"][i] for part in line["parts"]) == resident <= line["budget"][i]
    names = {tensor["name"] for tensor in line["tensors"]}
    assert {"0.weight", "15.weight", "0.weight exp_avg"} <= names
    assert all(len(tensor["percent"]) == len(line["at"]) for tensor in line["tensors"])


def test_advice_comes_from_the_planner(trained):
    _, summary, data = trained
    as_run, more, faster = data["predictions"][:3]
    assert as_run["memory_bytes"] == summary["budget_bytes"] < more["memory_bytes"] == 1.25 * as_run["memory_bytes"]
    assert faster["step_seconds"] < 0.7 * as_run["step_seconds"], "it is flash that it waits for"
    assert data["predictions"][-1]["label"] == "Room for everything" and data["predictions"][-1]["read_bytes"] == 0
    assert any("planner's simulation" in text for text in data["advice"])


def test_trace_events(trained):
    """Steps one behind the other, waits that do not overlap in a row, counters in the order of time."""
    folder, summary, data = trained
    events = json.loads((folder / "events.json").read_text())["traceEvents"]
    assert all({"ph", "pid", "name"} <= event.keys() for event in events)
    steps = [event for event in events if event.get("cat") == "step"]
    assert [event["dur"] / 1e6 for event in steps] == pytest.approx(summary["step_seconds"])
    waits = [event for event in events if event.get("cat") == "wait"]
    longest = sum(event["dur"] for event in waits) / 1e6
    assert 0.5 * summary["stall_seconds"] < longest < 1.01 * summary["stall_seconds"] + 0.01
    assert {event["name"] for event in waits} <= {entry["name"] for entry in summary["waits"]["modules"]}
    assert {event["args"]["operator"] for event in waits} <= {entry["name"] for entry in summary["waits"]["operators"]}
    for row in (steps, *([event for event in waits if event["tid"] == tid] for tid in {e["tid"] for e in waits})):
        for before, after in zip(row, row[1:]):
            assert after["ts"] >= before["ts"] + before["dur"] - 1, "microseconds"
    memory = [event for event in events if event["ph"] == "C" and event["name"] == "memory"]
    assert [event["args"]["bytes"] for event in memory] == data["timeline"]["resident"]


@needs_perfetto
def test_perfetto_reads_the_events(trained):
    """Its own trace processor has every slice and counter of the file, under names that read well, and no complaint."""
    folder, summary, data = trained
    events = json.loads((folder / "events.json").read_text())["traceEvents"]
    rows, slices, counters = ask_perfetto(
        folder / "events.json",
        "select distinct thread.name from thread_track join thread using (utid) order by 1",
        "select category, count(*) as count, sum(dur) as dur from slice group by 1 order by 1",
        "select name, count(*) as count, max(value) as most from counter join counter_track as track "
        "on track.id = track_id group by 1 order by 1")
    assert rows == [{"name": "steps"}, {"name": "waits"}]
    for row, category in zip(slices, ("step", "wait")):
        own = [event["dur"] for event in events if event.get("cat") == category]
        assert (row["category"], row["count"]) == (category, len(own))
        assert row["dur"] / 1e3 == pytest.approx(sum(own), abs=len(own)), "microseconds"
    assert [row["name"] for row in counters] == ["flash bytes", "memory bytes", "read bytes/s", "waited %",
                                                 "written bytes/s"]
    assert counters[1]["count"] == len(data["timeline"]["at"])
    assert counters[1]["most"] == max(data["timeline"]["resident"]) <= summary["budget_bytes"]


@pytest.mark.skipif(BROWSER is None, reason="no browser here")
@pytest.mark.parametrize("width", [390, 1100])
def test_a_browser_draws_it(trained, width):
    folder, summary, _ = trained
    run = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
                          "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom",
                          (folder / "r.html").as_uri()], capture_output=True, timeout=120)
    page = run.stdout.decode()
    assert "Uncaught" not in run.stderr.decode()
    assert page.count("<svg") >= 4 and page.count("<path") >= 8
    for text in (summary["waits"]["modules"][0]["name"], "Predicted and actual", "What flash was written"):
        assert text in page
