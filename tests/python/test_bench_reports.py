"""Tables of the smaller benchmarks, from results as they keep them."""

import bench_modules  # noqa: F401
import reports.arrays
import reports.devices
import reports.reliability
import reports.streams


def test_tables_that_programs_print_are_read_back():
    text = ("device; 2 rounds\n\n| y = ax | median ms |\n|---|---|\n| copies | 1.00 |\n\n"
            "| roots | median ms |\n|---|---|\n| host | 2.00 |\n")
    found = reports.devices.read_tables(text)
    assert found == {"about": "device; 2 rounds", "tables": [[["y = ax", "median ms"], ["copies", "1.00"]],
                                                             [["roots", "median ms"], ["host", "2.00"]]]}
    assert reports.devices.document(found)[1][-1] == ["host", "2.00"]


def test_streams_stand_beside_memory_and_the_better_way_of_mapping():
    runs = {"pca": {name: [{"seconds": seconds}] for name, seconds in
                    (("window", 2.0), ("mapped", 8.0), ("mapped_sequential", 6.0), ("memory", 1.0))}}
    (row,) = reports.streams.summarize(runs)
    assert (row["of_memory"], row["times_mapped"]) == (0.5, 3.0)
    results = {"memory_mib": 256, "factor": 4, "rounds": 1, "digests_equal": False, "runs": runs}
    heading, rows = reports.streams.document(results)
    assert "1 GiB with 256 MiB" in heading and "NOT equal" in heading
    assert rows[1] == ["pca", "2.00 s", "8.00 s", "6.00 s", "1.00 s", "0.50", "3.00"]


def test_without_cgroups_nothing_is_mapped_and_nothing_is_claimed():
    runs = {"pca": {"window": [{"seconds": 2.0}], "memory": [{"seconds": 1.0}]}}
    rows = reports.streams.table({"runs": runs})
    assert rows[1][-1] == "-"


def test_fio_stands_beside_streams_with_the_range_of_rounds():
    records = [{"seconds": 2, "stall_seconds": 1}, {"seconds": 2, "stall_seconds": 0.5}]
    rows = reports.streams.flash_table({"transform": {"program": [1e9, 3e9], "fio": [2e9, 2e9], "records": records}})
    assert rows[1] == ["transform", "2.00 (1.00-3.00)", "2.00 (2.00-2.00)", "100%", "50% to 150%", "38%"]


def test_an_expression_names_its_best_peer():
    results = {"elements": 2**20, "rounds": 2, "expressions": {"a|b": {
        "times": {"ebbtide": [0.001, 0.003], "numpy": [0.004, 0.004]}, "seconds": {"ebbtide": 0.002, "numpy": 0.004},
        "best_peer": "numpy", "speedup": 2.0}}}
    heading, rows = reports.arrays.document(results)
    assert heading.startswith("Arrays of 4 MiB")
    assert rows[1] == ["`a|b`", "2.0 (1.0-3.0)", "4.0 (4.0-4.0)", "2.00 (numpy)"]


def test_faults_tell_how_often_runs_ended_in_which_way():
    row = {"name": "full disk", "happens": "8 MiB", "runs": 3, "wrong": [], "equal": 1, "refused": 0, "stopped": 2,
           "killed": 0}
    bad = {**row, "equal": 2, "stopped": 0, "wrong": ["other losses than stock's"]}
    absent = {**row, "runs": 0, "not_here": "needs root"}
    heading, rows = reports.reliability.document_faults({"faults": [row, bad, absent]})
    assert heading.startswith("6 runs ") and heading.endswith(": 1")
    assert [row[-1] for row in rows[1:]] == ["losses equal 1; stopped with a message 2", "losses equal 2; WRONG 1",
                                             "not here: needs root"]
