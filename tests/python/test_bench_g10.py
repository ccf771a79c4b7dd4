"""G10's published evaluation: the converter of the artifact's files, the traces, and what is counted of the points."""

import gzip
import json

import bench_modules
import convert
import published
import pytest
import reports.g10

DATA = bench_modules.BENCH / "data" / "g10"


def small_artifact(folder):
    """Two launches over four tensors, in the artifact's words; returns the folder."""
    def tensor(number, size, whole=0):
        return f"tensor{number} Is weight (global)?: {whole}, Size in byte: {size}, Range:0--{size}\n"

    (folder / "tensors.config").write_text(
        tensor(0, 8192) + tensor(1, 4096, 1) + tensor(2, 4096) + tensor(3, 12288), encoding="utf-8")
    (folder / "layers.config").write_text(
        f"Layer ID:0; Name:Conv2d (1,1,1,1)\nNext Layers:\nInput Tensor: {tensor(0, 8192)}"
        f"Weight Tensor: {tensor(1, 4096, 1)}d_Weight Tensor: {tensor(2, 4096)}____\n", encoding="utf-8")
    (folder / "kernels.config").write_text(
        f"Kernel ID: 0, Name: Conv2d_Forward\nParent Layer ID:0; Name:Conv2d\nExecution Time: 1200\n(1,1)\n"
        f"Input Tensors:\n{tensor(1, 4096, 1)}{tensor(0, 8192)}Output Tensors:\n{tensor(3, 12288)}____\n"
        f"Kernel ID: 1, Name: Apply_Grad\nParent Layer ID:0; Name:Conv2d\nExecution Time: 7\nInput Tensors:\n"
        f"{tensor(2, 4096)}Output Tensors:\n{tensor(1, 4096, 1)}____\n", encoding="utf-8")
    return folder


def test_an_analysis_in_the_artifacts_words_becomes_a_trace(tmp_path):
    header, *lines = convert.convert(small_artifact(tmp_path), "Tiny", 4, "measured")
    assert (header["model"], header["batch"], header["version"]) == ("Tiny", 4, 1)
    assert [(line["kind"], line["bytes"], line["persistent"]) for line in lines[:4]] == [
        ("activation", 8192, False), ("weight", 4096, True), ("gradient", 4096, False), ("workspace", 12288, False)]
    assert lines[4:] == [{"launch": 0, "op": "Conv2d_Forward", "ns": 1000, "reads": [0, 1], "writes": [3]},
                         {"launch": 1, "op": "Apply_Grad", "ns": 6, "reads": [2], "writes": [1]}]


def test_a_whole_network_of_the_artifact_gives_the_trace_that_is_here():
    trace = gzip.open(DATA / "traces" / "BERT_Base-128.jsonl.gz", "rt", encoding="utf-8").read()
    assert convert.text_of(convert.convert(DATA / "artifact", "BERT_Base", 128, "measured")) == trace


@pytest.mark.parametrize("name, wrong", [("kernels.config", "nothing"), ("tensors.config", ""),
                                         ("kernels.config", "Kernel ID: 3, Name: Add\n")])
def test_files_of_another_kind_are_refused_by_name(tmp_path, name, wrong):
    (small_artifact(tmp_path) / name).write_text(wrong, encoding="utf-8")
    with pytest.raises(convert.FormatError, match=name):
        convert.convert(tmp_path, "Tiny", 4, "measured")


def test_a_folder_without_them_too(tmp_path):
    with pytest.raises(convert.FormatError, match="is not there"):
        convert.convert(tmp_path, "Tiny", 4, "measured")


def test_kernel_times_sum_up_to_what_was_published_as_ideal():
    published = json.loads((DATA / "published.json").read_text(encoding="utf-8"))
    ideal = {(row["net"], row["batch"]): row["ideal_cycles"] for row in published["networks"]}
    paths = sorted((DATA / "traces").glob("*.jsonl.gz"))
    assert len(paths) == 12
    for path in paths:
        header, *lines = map(json.loads, gzip.open(path, "rt", encoding="utf-8"))
        total = sum(line.get("ns", 0) for line in lines)
        assert total == pytest.approx(ideal[header["model"], header["batch"]] / 1.2, rel=1e-6)


def test_numbers_of_the_artifact_are_read_and_one_that_differs_is_seen(tmp_path):
    path = tmp_path / "all.base.txt"
    path.write_text("lru | FlashNeuron | ideal\n\nBERT|B = 256|M = 370.10%\n24 inf 12\n\nOther|B = 1|M = 1%\n1 2 3\n",
                    encoding="utf-8")
    row = {"lru": 24.0, "FlashNeuron": None, "ideal": 12.0}
    assert published.by_network(published.read(path)) == {("BERT_Base", 256): row}
    assert published.equal(None, None) and published.equal(1.0, 1.0 + 1e-12)
    assert not published.equal(1.0, None) and not published.equal(1.0, 1.0001)


def point(sweep, foresight, g10=2.0, host=128, vary=0.0):
    return {"sweep": sweep, "net": "N", "batch": 1, "host_gib": host, "flash_gbps": 3.2, "pcie_gbps": 16, "vary": vary,
            "published": {"g10": g10}, "strict": {"foresight": foresight, "g10": 1.5}, "artifact": {"foresight": 1.6},
            "ideal": 1.0, "bound": 1.0, "bound_written": 1.0}


def test_a_simulation_counts_once_and_in_equal_timing():
    found = reports.g10.summarize([point("batch", 1.0), point("host", 1.0), point("host", 2.0, host=0)])
    assert (found["points"], found["distinct"], found["near_ideal"]) == (3, 2, 1)
    assert found["both_as_in_the_artifact"]["mean"] == pytest.approx(2.0 / 1.6, abs=1e-3)
    assert found["both_strict"]["worst"] == {"point": "N-1, 0 GiB", "times": 0.75}
    assert found["both_strict"]["at_least_as_fast"] == 1
    assert found["of_bound"]["worst"]["share"] == 0.5
    assert sum(found["of_ideal"].values()) == 2
