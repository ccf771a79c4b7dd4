"""bench/simulated/loops.py: what it makes of recordings, what it says of those it has not, and that it makes them."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys

import pytest
from ebb_program import EBB, ROOT, needs_ebb

BENCH = ROOT / "bench" / "simulated" / "loops.py"
MIB = 2**20
TIMEOUT_S = 300

pytestmark = needs_ebb


def run(*arguments):
    environment = {**os.environ, "EBB_BINARY": EBB}
    return subprocess.run([sys.executable, BENCH, *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S, env=environment)


def write_recording(path, weights, ns):
    """Every weight is read by a launch of its own, one behind the other."""
    lines = [{"format": "ebb-trace", "version": 1, "device_bytes": 2**33, "host_bytes": 0, "device_link_bps": 10**15}]
    lines += [{"tensor": number, "bytes": size, "persistent": True} for number, size in enumerate(weights)]
    lines += [{"launch": number, "op": "read", "ns": ns, "reads": [number]} for number in range(len(weights))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def load_bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent))
    spec = importlib.util.spec_from_file_location("bench_loops", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_recording_is_simulated_and_not_made_again(tmp_path):
    recording = write_recording(tmp_path / "gpt2.jsonl.zst", [32 * MIB] * 16, 10**6)
    before = recording.read_bytes()
    done = run("--recordings", tmp_path, "--only", "gpt2", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert recording.read_bytes() == before and results["recordings"]["gpt2"]["made_now"] is False
    points = results["points"]
    assert {(each["disk"], each["memory"]) for each in points} == {
        (disk, share) for disk in results["disks"] for share in ("1/2", "1/3", "1/4", "1/8")}
    for each in points:
        assert each["peak_bytes"] == 512 * MIB and each["ideal_ns"] == 16 * 10**6
        # What does not fit comes back from the disk in every iteration, and nothing is written.
        read = (512 * MIB - each["budget_bytes"]) / results["disks"][each["disk"]]["read_bps"]
        assert each["bound_ns"] * 1e-9 >= read
        for result in each["policies"].values():
            assert result["step_ns"] == statistics.fmean(result["iterations_ns"][-4:])
            assert result["of_bound"] == each["bound_ns"] / result["step_ns"] <= 1
    for policy, found in results["summary"].items():
        shares = [each["policies"][policy]["of_bound"] for each in points]
        assert found["median"] == statistics.median(shares) and found["worst"]["of_bound"] == min(shares)


def test_a_point_without_a_bound_says_why(tmp_path):
    write_recording(tmp_path / "gpt2.jsonl.zst", [160 * MIB, *[16 * MIB] * 10], 10**6)
    done = run("--recordings", tmp_path, "--only", "gpt2")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("gpt2")]
    assert len(rows) == 2
    for row in rows:  # 1/2 of 320 MiB has room for the largest, the others have not
        assert row[-4].endswith("%") and all(cell.startswith("(") and cell.endswith("x)") for cell in row[-3:]), row
    assert "a launch touches more than device memory holds" in done.stdout
    assert "gpt2 at 1/3, 1/4, 1/8" in done.stdout and "2 of 8 points count" in done.stdout


def test_what_fits_flatters_nobody(tmp_path):
    write_recording(tmp_path / "gpt2.jsonl.zst", [4 * MIB] * 6, 10**6)  # less than the least memory of a runtime
    done = run("--recordings", tmp_path, "--only", "gpt2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all fits") == 8 and "foresight: no point counts" in done.stdout


def test_what_cannot_be_recorded_is_named(tmp_path, monkeypatch, capsys):
    bench = load_bench(monkeypatch)
    monkeypatch.setenv("EBB_BINARY", EBB)
    monkeypatch.setattr(bench, "missing_package", lambda name: "timm" if name == "vit" else None)
    monkeypatch.setattr(bench.children, "ebb_run", lambda *_, **__: bench.children.run(["false"], timeout=9).check())
    monkeypatch.setattr(sys, "argv", ["loops.py", "--only", "vit", "--recordings", str(tmp_path)])
    assert bench.main() == 0
    assert "left out: vit: timm is not installed: tools/bootstrap --bench installs it" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["loops.py", "--only", "swin", "--recordings", str(tmp_path)])
    assert bench.main() == 1
    assert "left out: swin: false ended with code 1" in capsys.readouterr().out
    assert not list(tmp_path.iterdir()), "half a recording was left behind"


def test_an_unknown_loop_is_a_usage_error():
    done = run("--only", "gpt5")
    assert done.returncode == 2 and "--only gpt5: choose from gpt2, " in done.stderr


def test_quick_records_training_and_inference(tmp_path):
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    words = ("--quick", "--recordings", tmp_path, "--only", "decode,wide_mlp", "--json")
    done = run(*words)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert {path.name for path in tmp_path.iterdir()} == {"decode-quick.jsonl.zst", "wide_mlp-quick.jsonl.zst"}
    assert [each["made_now"] for each in results["recordings"].values()] == [True, True]
    assert len(results["points"]) == 16
    # Four layers of weights, gradients and two moments in float32.
    parameters = 2 * 256 * 2048 + 2 * 2048 * 2048
    widest = next(each for each in results["points"] if each["loop"] == "wide_mlp")
    assert widest["peak_bytes"] >= 16 * parameters
    assert any(each["loop"] == "wide_mlp" and each["bound_ns"] for each in results["points"])
    again = json.loads(run(*words).stdout)
    assert [each["made_now"] for each in again["recordings"].values()] == [False, False]
    assert again["points"] == results["points"]
