"""End-to-end tests of `ebb trace`: the table, the JSON, conversion between formats, and what is refused."""

import gzip
import json
import subprocess

import pytest
from ebb_program import EBB, ROOT, needs_ebb

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
    refused(trace(tiny, "--to", tmp_path / "out.json"), "FILE.jsonl.gz")
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
