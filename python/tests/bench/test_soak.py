"""bench/reliability/soak.py: it runs to an end with stock's bits, and says so when a run has others, or grows."""

import copy
import json
import sys

import pytest
import runner

BENCH = runner.HERE.parents[2] / "bench/reliability"
sys.path.insert(0, str(BENCH))

import soak  # noqa: E402


@pytest.mark.slow
def test_two_minutes(ebbtide_built):
    child = runner.children.run([sys.executable, BENCH / "soak.py", "--minutes", "2", "--size", "small", "--json"],
                                env=runner.children.environment(), timeout=1800)
    assert child.returncode == 0, child.tail()
    results = json.loads(child.stdout[child.stdout.index("{"):])
    assert results["problems"] == [] and results["different"] == 0
    assert results["managed"]["rounds"] == results["stock"]["rounds"]
    assert sum(results["managed"]["rounds"].values()) >= soak.ROUNDS_MIN


def results_of(rounds=20):
    sample = {"memory": 300 * runner.MIB, "descriptors": 7, "threads": 9, "mappings": 900, "live": 0}
    run = {"rounds": [{"round": index, "what": "fork", "losses": ["0x1"], "bits": "aa"} for index in range(rounds)],
           "samples": [dict(sample) for _ in range(rounds)], "model": "ff", "seconds": 60.0, "stats": None,
           "changes": 0, "refused": 0}
    managed = copy.deepcopy(run)
    managed |= {"stats": {"fetched_bytes": 1, "evicted_bytes": 1, "corrupt_blocks": 0, "peak_live_bytes": 1},
                "changes": 5}
    return run, managed


def test_a_good_run_has_no_problems():
    assert soak.problems(*results_of()) == []


@pytest.mark.parametrize("kind,by", [("memory", 2 * 2**20), ("descriptors", 1), ("threads", 1), ("mappings", 4)])
def test_growth_is_a_problem_unless_stock_grows_too(kind, by):
    stock, managed = results_of()
    for index, sample in enumerate(managed["samples"]):
        sample[kind] += by * index
    (problem,) = soak.problems(stock, managed)
    assert problem.startswith(f"{kind} grew from ")
    stock["samples"] = copy.deepcopy(managed["samples"])
    assert soak.problems(stock, managed) == []


@pytest.mark.parametrize("change,said", [
    (lambda managed: managed["rounds"][3].update(bits="ab"), "round 3 (fork) is not stock's"),
    (lambda managed: managed["rounds"][4].update(losses=["0x2"]), "round 4 (fork) is not stock's"),
    (lambda managed: managed.update(model="fe"), "the model is not stock's"),
    (lambda managed: managed.update(stats=None), "nothing was managed"),
    (lambda managed: managed.update(changes=0), "no budget changed"),
    (lambda managed: managed["stats"].update(corrupt_blocks=1), "1 blocks came back"),
])
def test_what_differs_is_a_problem(change, said):
    stock, managed = results_of()
    change(managed)
    (problem,) = soak.problems(stock, managed)
    assert said in problem


def test_too_few_rounds_show_nothing():
    assert "too few" in soak.problems(*results_of(soak.ROUNDS_MIN - 1))[0]


def test_the_table_has_both():
    stock, managed = (soak.summary(run) for run in results_of())
    rows = soak.table_of_soak({"stock": stock, "managed": managed, "budget": "12MiB", "different": 3})
    assert ["rounds of training and then: fork", "20", "20"] in rows
    assert ["memory outside the budget, early to late", "300 to 300 MiB", "300 to 300 MiB"] in rows
    assert rows[-1] == ["rounds with other bits than stock's", "", "3"]
