"""End-to-end tests of `ebb trace`: the table, the JSON, conversion between formats, and what is refused."""

import gzip
import json
import subprocess

import pytest
from ebb_program import EBB, ROOT, needs_ebb
from perfetto import ask_perfetto, needs_perfetto

SAMPLE = ROOT / "src/trace/test/data/mlp_adam.et.json.gz"
TIMEOUT_S = 60

TRACE = """{"format":"ebb-trace","version":1,"model":"tiny","batch":4}
{"tensor":0,"bytes":1048576,"kind":"weight","persistent":true}
{"tensor":1,"bytes":2097152,"kind":"activation"}
{"launch":0,"op":"conv","ns":1500000,"reads":[0],"writes":[1]}
{"mark":"step"}
"""

pytestmark = needs_ebb


def trace(*arguments, text=None):
    return subprocess.run([EBB, "trace", *map(str, arguments)], input=text, capture_output=True, text=True,
                          timeout=TIMEOUT_S)


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.jsonl"
    path.write_text(TRACE)
    return path


def refused(result, *expected):
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("ebb: ") and result.stderr.count("\n") == 1, result.stderr
    for part in expected:
        assert part in result.stderr


def test_table(tiny):
    result = trace(tiny)
    assert result.returncode == 0, result.stderr
    for part in ("tiny", "1 of 1 operators, 1 iterations marked", "1.50 ms", "3.00 MiB alive at launch 0", "weight"):
        assert part in result.stdout, result.stdout
    assert "note:" not in result.stdout


def test_json_and_standard_input():
    result = trace("-", "--json", text=TRACE)
    summary = json.loads(result.stdout)
    assert summary["model"] == "tiny" and summary["batch"] == 4
    assert summary["total_ns"] == 1500000 and summary["peak_bytes"] == 3 * 1048576
    assert summary["kinds"]["activation"] == {"tensors": 1, "bytes": 2097152}
    assert summary["notes"] == []


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_conversion(tiny, tmp_path, suffix):
    target = tmp_path / ("out" + suffix)
    assert trace(tiny, "--to", target).returncode == 0
    magic = {".jsonl": b"{", ".jsonl.gz": b"\x1f\x8b", ".jsonl.zst": b"\x28\xb5\x2f\xfd"}[suffix]
    assert target.read_bytes().startswith(magic)
    assert json.loads(trace(target, "--json").stdout) == json.loads(trace(tiny, "--json").stdout)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([target.name, tiny.name])


def test_conversion_to_standard_output(tiny):
    result = trace(tiny, "--to", "-")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["format"] == "ebb-trace" and lines[-1] == {"mark": "step"}
    assert "tiny" in result.stderr


def chrome(path, tmp_path):
    """Its slices by thread, its counters, and the names of the threads."""
    target = tmp_path / "events.json"
    result = trace(path, "--to", target)
    assert result.returncode == 0, result.stderr
    events = json.loads(target.read_text())["traceEvents"]
    threads = {event["args"]["name"]: event["tid"] for event in events if event["ph"] == "M"}
    slices = {name: [event for event in events if event["ph"] == "X" and event["tid"] == tid]
              for name, tid in threads.items()}
    return slices, [event for event in events if event["ph"] == "C"]


def test_chrome_events(tmp_path):
    path = tmp_path / "two.jsonl"
    path.write_text(TRACE + """{"tensor":2,"bytes":10,"kind":"workspace"}
{"alloc":2}
{"launch":1,"op":"re\\u001blu","reads":[0],"writes":[2]}
{"launch":2,"op":"conv","ns":500,"reads":[2],"writes":[0]}
{"mark":"step"}
""")
    slices, counters = chrome(path, tmp_path)
    launches, iterations = slices["launches"], slices["iterations"]
    assert [(each["name"], each["ts"], each["dur"]) for each in launches] == [
        ("conv", 0, 1500), ("re\x1blu", 1500, 1), ("conv", 1501, 0.5)]
    assert launches[0]["args"] == {"launch": 0, "read_bytes": 1048576, "written_bytes": 2097152}
    assert launches[1]["args"]["duration"] == "unknown"
    assert [(each["name"], each["ts"], each["dur"]) for each in iterations] == [
        ("iteration 1", 0, 1500), ("iteration 2", 1500, 1.5)]
    alive = [(each["ts"], {kind: count for kind, count in each["args"].items() if count}) for each in counters]
    assert alive == [(0, {"weight": 1048576, "activation": 2097152}), (1500, {"weight": 1048576, "workspace": 10}),
                     (1501.5, {"weight": 1048576})]


def test_chrome_events_agree_with_the_summary(tmp_path):
    summary = json.loads(trace(SAMPLE, "--json").stdout)
    slices, counters = chrome(SAMPLE, tmp_path)
    assert len(slices["launches"]) == summary["launches"] and len(slices["iterations"]) == summary["iterations"]
    assert max(sum(each["args"].values()) for each in counters) == summary["peak_bytes"]
    for before, after in zip(slices["launches"], slices["launches"][1:]):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])


@needs_perfetto
def test_perfetto_reads_a_trace(tmp_path):
    """The sample as Perfetto's own trace processor sees it: launches and iterations, and what is alive by kind."""
    summary = json.loads(trace(SAMPLE, "--json").stdout)
    slices, counters = chrome(SAMPLE, tmp_path)
    names, launches, alive = ask_perfetto(
        tmp_path / "events.json",
        "select thread.name, count(*) as count from slice join thread_track as track on track.id = track_id "
        "join thread using (utid) group by 1 order by 1",
        "select slice.name, dur from slice join thread_track as track on track.id = track_id join thread using (utid) "
        "where thread.name = 'launches' order by ts",
        "select track.name, max(value) as most from counter join counter_track as track on track.id = track_id "
        "group by 1")
    assert names == [{"name": "iterations", "count": summary["iterations"]},
                     {"name": "launches", "count": summary["launches"]}]
    assert [row["name"] for row in launches] == [each["name"] for each in slices["launches"]]
    most = {}
    for each in counters:
        for kind, count in each["args"].items():
            most["alive, bytes of " + kind] = max(count, most.get("alive, bytes of " + kind, 0))
    assert {row["name"]: row["most"] for row in alive} == most


def test_pytorch_execution_trace(tmp_path):
    target = tmp_path / "mlp.jsonl.gz"
    result = trace(SAMPLE, "--to", target)
    assert result.returncode == 0, result.stderr
    assert "PyTorch execution trace" in result.stdout
    assert "no duration" in result.stdout and "persistent" in result.stdout
    with gzip.open(target, "rt") as file:
        lines = [json.loads(line) for line in file]
    operators = {line["op"] for line in lines if "launch" in line}
    assert "aten::addmm" in operators and "aten::t" not in operators
    assert sum("mark" in line for line in lines) == 2


def test_what_is_refused(tiny, tmp_path):
    refused(trace(), "FILE")
    refused(trace(tmp_path / "absent"), "absent: cannot be opened")
    refused(trace(tmp_path), "cannot be read")
    refused(trace(tiny, "--to", tmp_path / "out.txt"), "FILE.jsonl.gz", "FILE.json for Perfetto")
    refused(trace(tiny, "--to", tmp_path / "absent/out.json"), "cannot be written", "--to")
    refused(trace(tiny, "--to", tmp_path / "absent/out.jsonl"), "cannot be created")
    refused(trace(tiny, "--to", ""), "the value is empty")
    refused(trace(tiny, "--frobnicate"))
    bad = tmp_path / "bad.jsonl"
    bad.write_text(TRACE + '{"free":9}\n')
    refused(trace(bad), "bad.jsonl:6: tensor 9 is not declared")
    bad.write_bytes(gzip.compress(TRACE.encode())[:-4])
    refused(trace(bad), "cut off")


def test_a_refused_conversion_leaves_the_target(tiny, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}")
    refused(trace(bad, "--to", target))
    assert target.read_text() == "old"
