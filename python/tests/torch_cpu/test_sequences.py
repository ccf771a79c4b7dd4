"""The benchmark of sequences, with tiny programs: they compute the same while they are recorded, recordings are used
again, and nobody is faster than the bound."""

import gzip
import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
PROGRAMS = ("early_exit", "generation")  # one tells of its iterations, those of the other are found
TIMEOUT_S = 300


def bench(*arguments, check=True):
    command = [sys.executable, BENCH / "simulated" / "sequences.py", "--quick", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=check, env=ENVIRONMENT)


def test_programs_are_recorded_simulated_and_bounded(tmp_path, flash):
    arguments = ["--programs", ",".join(PROGRAMS), "--recordings", tmp_path, "--flash", flash, "--json"]
    found = json.loads(bench(*arguments).stdout)
    assert len(found["rows"]) == 4 * len(PROGRAMS)
    for row in found["rows"]:
        assert row["iterations"] == 12, "of 16 without the warm-up"
        assert row["ideal_s"] <= row["bound_s"] <= min(row["seconds"].values())
    times = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert sorted(times) == [f"{program}.jsonl.gz" for program in PROGRAMS]
    again = json.loads(bench(*arguments).stdout)
    assert again["rows"] == found["rows"]
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == times


def test_each_launch_counts_with_its_shortest_duration(tmp_path):
    sys.path[:0] = [str(BENCH / "sequences"), str(BENCH / "training")]
    import recordings

    def write(name, *durations):
        with gzip.open(tmp_path / name, "wt") as file:
            file.write(json.dumps({"format": "ebb-trace", "flash_read_bps": durations[0]}) + "\n")
            for number, ns in enumerate(durations):
                file.write(json.dumps({"launch": number, "op": "a", "ns": ns}) + "\n")
        return tmp_path / name

    runs = [write("first", 5, 9, 4), write("second", 7, 3, 4)]
    recordings.shortest(runs, tmp_path / "both")
    lines = [json.loads(line) for line in gzip.open(tmp_path / "both", "rt")]
    assert [line["ns"] for line in lines[1:]] == [5, 3, 4]
    try:
        recordings.shortest([runs[0], write("other", 5, 9)], tmp_path / "none")
    except recordings.ChildError as error:
        assert "line 4" in str(error)
    else:
        raise AssertionError("recordings of other programs were put together")


def test_usage_errors_name_the_option():
    for words in (("--programs", "nothing"), ("--runs", "0"), ("--jobs", "0")):
        ended = bench(*words, check=False)
        assert ended.returncode == 2 and words[0] in ended.stderr
