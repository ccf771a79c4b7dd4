"""The bound of a step in which a launch touches more than memory holds: what must come and go while it runs."""

import json
import sys

import pytest
import runner

sys.path.insert(0, str(runner.HERE.parents[2] / "bench" / "training"))

import possible  # noqa: E402

LINES = [{"format": "ebb-trace", "version": 1}, {"tensor": 0, "bytes": 100, "persistent": True},
         {"launch": 0, "op": "large", "ns": 1, "reads": [0], "writes": [0]}, {"launch": 1, "op": "small", "ns": 10**9}]


@pytest.mark.parametrize("total,seconds", [(0, 4.0 + 1.0), (10, 8.0 + 1.0)])
def test_what_exceeds_memory_comes_and_goes(tmp_path, total, seconds):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(map(json.dumps, LINES)), encoding="utf-8")
    disk = {"read_bps": 10, "write_bps": 20, "total_bps": total}
    assert possible.of_large_launches(str(trace), 60, disk) == pytest.approx(seconds)
    assert possible.of_large_launches(str(trace), 100, disk) == pytest.approx(1.0)


@pytest.mark.parametrize("seconds,expected", [(0.5, [1, 499999999]), (2.0, [1, 10**9])])
def test_kernels_are_no_slower_than_a_step_that_was_seen(tmp_path, seconds, expected):
    trace, shortened = tmp_path / "trace.jsonl", tmp_path / "shortened.jsonl"
    trace.write_text("\n".join(map(json.dumps, LINES)), encoding="utf-8")
    possible.shorten(str(trace), seconds, str(shortened))
    lines = [json.loads(line) for line in shortened.read_text(encoding="utf-8").splitlines()]
    assert lines[:2] == LINES[:2]
    assert [line["ns"] for line in lines if "launch" in line] == pytest.approx(expected, abs=1)
