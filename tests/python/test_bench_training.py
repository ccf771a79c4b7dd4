"""What bench/run.py makes of its turns: who is compared with whom, what is possible, and which cgroups there are."""

import argparse
import json
import pathlib

import bench_modules  # noqa: F401
import children
import contenders
import possible
import pytest
import reports.prediction
import reports.training
import run as benchmark
import stock
import streams
import swap_file


def turn(seconds, **stats):
    return {"seconds": [9.0, 9.0, *seconds], "bits": ["0"], **({"stats": stats} if stats else {})}


def result(kind="bounded", seconds=0.5):
    moved = {"stall_ns": 0, "fetched_bytes": 0, "evicted_bytes": 0}
    return {"model": "mlp", "warm_up": 2, "varies": False, "peak_bytes": 2**31, "base_bytes": 2**28, "disks": [
        {"read_bps": 2e9, "write_bps": 1e9, "total_bps": 0}],
            "shares": {"3": {"budget_bytes": 2**29, "bound": {"seconds": seconds, "kind": kind}}},
            "contenders": {"stock, as it comes": [turn([2.0, 2.0]), turn([2.2, 2.2])],
                           "stock, tuned: both": [turn([1.0, 1.0]), turn([1.2, 1.2])],
                           "ebb run, 1/3": [turn([1.0, 1.0], **moved), turn([3.0, 3.0], **moved)],
                           "ebb run, 1/8": []}}


def rows_of(found):
    return {row[0]: row for row in reports.training.table(found)}


def test_a_row_says_x_of_tuned_stock_and_how_much_of_what_is_possible():
    rows = rows_of(result())
    assert rows["ebb run, 1/3"][1:4] == ["2.00 s (1.00-3.00)", "0.55", "25%"]
    assert rows["stock, as it comes"][2:4] == ["0.52", "-"]
    assert rows["ebb run, 1/8"][1] == "failed"


def test_the_faster_stock_counts_though_it_is_not_the_tuned_one():
    found = result()
    found["contenders"]["stock, as it comes"] = [turn([0.5, 0.5])]
    assert rows_of(found)["ebb run, 1/3"][2] == "0.25"


def test_a_weaker_bound_is_marked_and_varying_iterations_have_none():
    assert rows_of(result(possible.WEAKER))["ebb run, 1/3"][3] == "25% *"
    assert rows_of(result("none", None))["ebb run, 1/3"][3] == "-"
    heading, rows = reports.training.document({"rounds": 2, "training": [result(possible.WEAKER)]})
    assert "*: by the bytes that one launch larger than memory must move" in heading
    assert "2.00 s (1.00-3.00); x 0.55; 25% *" in rows[1]


def test_a_row_says_what_a_step_had_of_the_processors_and_what_the_host_took():
    found = result()
    assert rows_of(found)["ebb run, 1/3"][8:10] == rows_of(found)["stock, tuned: both"][8:10] == ["-", "-"]
    for turn_ in found["contenders"]["ebb run, 1/3"]:
        turn_ |= {"processor_s": [9.0, 9.0, 1.5, 1.5], "stolen_s": [9.0, 9.0, 0.0, 0.5]}
    assert rows_of(found)["ebb run, 1/3"][8:10] == ["1.50", "0.25"]
    assert "stolen: those that the host" in reports.training.document({"rounds": 2, "training": [found]})[0]


def test_a_row_says_what_the_disk_gave_just_then_where_that_is_known():
    found = result()
    assert rows_of(found)["ebb run, 1/3"][4:6] == ["-", "-"]
    found["shares"]["3"] |= {"both_ways_bps": 2.5e9, "bound_then": {"seconds": 1.0, "kind": "bounded"}}
    assert rows_of(found)["ebb run, 1/3"][4:6] == ["2.5", "50%"]
    assert "by fio just before each turn" in reports.training.document({"rounds": 2, "training": [found]})[0]


def test_of_iterations_that_differ_the_mean_of_the_same_ones_counts():
    assert contenders.seconds_of(turn([1.0, 1.0, 4.0]), {"warm_up": 2, "varies": False}) == 1.0
    assert contenders.seconds_of(turn([1.0, 1.0, 4.0]), {"warm_up": 2, "varies": True}) == 2.0


def test_a_launch_larger_than_memory_must_move_what_does_not_fit(tmp_path):
    trace = tmp_path / "trace.jsonl"
    lines = [{"format": "ebb-trace", "version": 1}, *({"tensor": i, "bytes": 400} for i in range(3)),
             {"launch": 0, "ns": 10**9, "reads": [0], "writes": [1]},
             {"launch": 1, "ns": 10**9, "reads": [0, 1, 2], "writes": [0, 1]}]
    trace.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    disk = {"read_bps": 100, "write_bps": 50, "total_bps": 0}
    # The first launch fits in 500 and takes its second. Of the other 700 must come (7 s) and 300 must leave (6 s).
    assert possible.of_large_launches(str(trace), 500, disk) == pytest.approx(1 + 7)
    assert possible.of_large_launches(str(trace), 500, disk | {"total_bps": 100}) == pytest.approx(1 + 10)
    assert possible.of_large_launches(str(trace), 1200, disk) == pytest.approx(2)


def test_a_bound_counts_with_the_fastest_disk_of_the_sitting():
    slow, fast = ({"read_bps": speed, "write_bps": speed, "total_bps": total} for speed, total in ((1, 0), (2, 3)))
    assert possible.fastest([slow, fast]) == {"read_bps": 2, "write_bps": 2, "total_bps": 0}
    assert possible.fastest([fast, fast | {"total_bps": 4}])["total_bps"] == 4


def test_stock_is_tuned_in_the_way_that_is_fastest_here(monkeypatch):
    def run(_script, way, _cgroup=None):
        if "THP_MEM_ALLOC_ENABLE" in way and len(way) == 1:
            raise children.ChildError("python ended\nhow it crashed")
        seconds = 1.0 if not way else 2.0 if "LD_PRELOAD" in way else 3.0
        return children.Child([], 0, "", "", 0, [{"seconds": 9.0}] * 2 + [{"seconds": seconds}] * 2)

    monkeypatch.setattr(stock, "run", run)
    monkeypatch.setattr(stock, "can_be_preloaded", lambda library: "jemalloc" in library)
    name, variables, tried = stock.calibrate(lambda steps: [steps], lambda _text: None)
    assert name == "jemalloc" and variables["LD_PRELOAD"] == "libjemalloc.so.2"
    assert tried["seconds"]["glibc's tunables"] == [3.0, 3.0]
    assert tried["notes"] == ["stock with mimalloc: libmimalloc.so.2 is not installed",
                              "stock with THP_MEM_ALLOC_ENABLE: how it crashed"]


class Group:
    """A memory cgroup that writes down its limit."""

    made: list = []

    def __init__(self, limit, swap_bytes=0):
        Group.made.append((limit, swap_bytes))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def peak_bytes(self):
        return 7


def sitting(monkeypatch, runs):
    """Two rounds of contenders with the shares `runs`."""
    arguments = argparse.Namespace(steps=3, quick=True, rounds=2, shares=[3], flash=None, with_guide=False,
                                   with_swap=False)
    found = contenders.Sitting("mlp", arguments, lambda _text: None)
    found.result |= {"shares": {"3": {"cgroup_bytes": 300}}}
    order = []

    def run(label):
        def once(steps, cgroup):
            order.append((label, cgroup is not None))
            records = [{"seconds": 1.0, "bits": "0"}] * steps + [{"peak_rss_bytes": 1, "threads": 2, "torch": "2"}]
            return children.Child([], 0, "", "", 0, records), None

        return once

    monkeypatch.setattr(contenders, "MemoryCgroup", Group)
    Group.made = []
    all_of_them = [contenders.Contender(label, share, run(label), 3) for label, share in runs]
    return found, all_of_them, order


def test_contenders_take_turns_and_those_of_one_share_are_in_cgroups_of_one_limit(monkeypatch):
    found, runs, order = sitting(monkeypatch, [("stock", None), ("ebb run, 1/3", 3), ("stock on zram, 1/3", 3)])
    found.rounds(runs)
    assert order == 2 * [("stock", False), ("ebb run, 1/3", True), ("stock on zram, 1/3", True)]
    assert Group.made == 2 * [(300, 0), (300, None)]
    assert found.result["contenders"]["ebb run, 1/3"][0]["cgroup_peak_bytes"] == 7


def test_who_fails_is_noted_and_not_tried_again(monkeypatch):
    found, runs, order = sitting(monkeypatch, [("stock", None), ("ebb run, 1/3", 3)])

    def fail(_steps, _cgroup):
        order.append(("failed", True))
        raise children.ChildError("ebb run … ended with code 2\nno room")

    found.rounds([runs[0], contenders.dataclasses.replace(runs[1], run=fail)])
    assert order == [("stock", False), ("failed", True), ("stock", False)]
    assert found.result["notes"] == ["ebb run, 1/3 failed in 300 B: no room"]


def test_problems_are_named():
    slow = result() | {"losses_equal": False}
    slow["contenders"]["ebb run --policy window, 1/3"] = [turn([1.0, 1.0])]
    assert list(benchmark.problems([slow])) == [
        "the losses of mlp differ between contenders", "mlp: ebb run, 1/8 did not run",
        "mlp: foresight takes 2.00 times as long as window"]


def test_a_model_that_does_not_run_costs_itself_alone(monkeypatch):
    class Sitting:
        def __init__(self, name, *_):
            self.name = name

        def measure(self):
            if self.name == "gpt2":
                raise children.ChildError("no transformers")
            return self.name

    monkeypatch.setattr(contenders, "Sitting", Sitting)
    arguments, failed = argparse.Namespace(models=["gpt2", "mlp"], json=True), []
    assert list(benchmark.measure_training(arguments, lambda _text: None, failed)) == ["mlp"]
    assert failed == ["gpt2 did not run: no transformers"]


def test_without_rights_to_a_cgroup_all_run_without_and_it_is_said(monkeypatch):
    found, _, _ = sitting(monkeypatch, [])
    found.peak = 2**30
    monkeypatch.setattr(contenders, "why_no_cgroup", lambda: "no rights")
    monkeypatch.setattr(stock, "calibrate", lambda *_: ("both", {}, {"notes": []}))
    chosen = found.contenders("folder")
    assert all(getattr(each.run, "without_cgroup", False) for each in chosen)
    assert "none runs in a memory cgroup: no rights" in found.result["notes"]


def test_zram_makes_a_device_of_its_own_and_removes_it(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(swap_file, "_call", lambda *words: calls.append(words))
    monkeypatch.setattr(swap_file, "ZRAM_CONTROL", tmp_path)
    monkeypatch.setattr(swap_file.os, "geteuid", lambda: 0)
    monkeypatch.setattr(swap_file.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(swap_file.ZramSwap, "_file", lambda _self, name: tmp_path / name)
    (tmp_path / "hot_add").write_text("4\n", encoding="ascii")
    with swap_file.ZramSwap("unused", 4096):
        assert (tmp_path / "disksize").read_text(encoding="ascii") == "4096"
    assert calls == [("mkswap", "/dev/zram4"), ("swapon", "-p", "32767", "/dev/zram4"), ("swapoff", "/dev/zram4")]
    assert (tmp_path / "reset").exists() and (tmp_path / "hot_remove").read_text(encoding="ascii") == "4"


def test_without_zram_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(swap_file, "ZRAM_CONTROL", pathlib.Path(tmp_path / "none"))
    monkeypatch.setattr(swap_file.os, "geteuid", lambda: 0)
    monkeypatch.setattr(swap_file.shutil, "which", lambda tool: tool)
    with pytest.raises(children.ChildError, match="no zram"), swap_file.ZramSwap("unused", 4096):
        pass


def test_a_simulation_is_judged_by_turns_that_it_has_not_seen():
    row = {"predicted_s": 1.5, "turns": [{"step_s": 1.0, "simulated_s": 1.0}, {"step_s": 2.0, "simulated_s": 2.0}]}
    assert reports.prediction.off(row, "predicted") == 0.0
    assert reports.prediction.off_in_sample(row) == 0.0
    assert reports.prediction.off(row, "simulated") == 1.0
    assert reports.prediction.off({**row, "turns": row["turns"][:1]}, "simulated") is None


def test_one_block_that_differs_is_seen():
    runs = {"pca": {"memory": [{"digest": "a"}], "window": [{"digest": "a"}, {"digest": "b"}]}}
    assert list(streams.differences(runs)) == ["pca: window has computed something else in 1 of 2 rounds"]
