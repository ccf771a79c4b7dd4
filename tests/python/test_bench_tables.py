"""The tables of README.md and docs/ are what bench/results says, and nothing else."""

import json

import bench_modules
import pytest
import tables


def inference(seconds):
    turn = {"seconds": [9.0, 9.0, seconds, seconds], "same": True, "disk": [1e9, 1e9]}
    return {"date": "2026-01-02", "machine": "M", "programs": {"P": {
        "size": 2**31, "kinds": ["mapped", "Ebbtide"], "warm_up": 2, "made": "tokens, logits",
        "first_counted": "third token", "all": [[9.0, 9.0, 0.1, 0.1]],
        "shares": [{"share": 3, "must_read": 10**9, "mapped": [turn], "Ebbtide": [turn]}]}}}


@pytest.fixture
def results(tmp_path):
    def write(name, content):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize("path", tables.documents(), ids=lambda path: path.name)
def test_tables_are_those_of_the_results(path):
    text = path.read_text(encoding="utf-8")
    assert tables.rewrite(text)[1] == [], "run bench/tables.py"


@pytest.mark.parametrize("name, wanted", [
    ("README.md", {"inference"}), ("docs/measured.md", {"inference", "llama", "pipeline", "g10"})])
def test_documents_have_tables_that_are_made(name, wanted):
    text = (bench_modules.ROOT / name).read_text(encoding="utf-8")
    assert wanted <= {mark[2] for mark in tables.MARKED.finditer(text)}


def test_a_number_written_by_hand_is_found_and_replaced(results):
    folder = results("2026-01-02-inference.json", inference(2.0))
    good, changed = tables.rewrite("<!-- table: inference -->\n<!-- end -->\n", folder)
    assert changed == ["inference"] and "2.00 s" in good and "50 %" in good
    assert tables.rewrite(good, folder) == (good, [])
    assert tables.rewrite(good.replace("2.00 s", "1.00 s"), folder) == (good, ["inference"])


def test_the_newest_results_count_and_quick_ones_never(results):
    results("2026-01-02-inference.json", inference(2.0))
    results("2026-01-04-inference-quick.json", inference(4.0))
    folder = results("2026-01-03-inference.json", inference(3.0))
    assert tables.newest("inference", folder).name == "2026-01-03-inference.json"
    assert "3.00 s" in tables.make("inference", folder)


def test_what_cannot_be_made_is_said(tmp_path):
    with pytest.raises(tables.TableError, match="no results for 'llama': run its benchmark"):
        tables.make("llama", tmp_path)
    with pytest.raises(tables.TableError, match="there is no table 'nonsense'"):
        tables.rewrite("<!-- table: nonsense -->\n<!-- end -->", tmp_path)


def test_conditions_stand_beside_the_numbers(results):
    found = inference(2.0) | {"commit": "abc", "command": "bench/inference.py --shares 3",
                              "versions": {"torch": "2.13"}}
    text = tables.make("inference", results("2026-01-02-inference.json", found)).replace("\n", " ")
    for word in ("M;", "torch 2.13", "commit abc", "`bench/inference.py --shares 3`", "2026-01-02-inference.json"):
        assert word in text
