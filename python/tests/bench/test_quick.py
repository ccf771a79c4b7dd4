"""The benchmarks with --quick: they run to an end, every contender computes the same, and what is kept is complete."""

import json

import pytest
import runner

BENCH = runner.HERE.parents[2] / "bench"
LIMIT_S = 600


def run(script, *words):
    child = runner.children.run([runner.sys.executable, BENCH / script, *words, "--quick", "--json"],
                                env=runner.children.environment(with_adapter=True), timeout=LIMIT_S)
    assert child.returncode == 0, child.tail()
    return json.loads(child.stdout[child.stdout.index("{"):])


def check_training(result):
    assert result["losses_equal"]
    assert all(result["contenders"].values()), result["notes"]
    labels = list(result["contenders"])
    assert labels[0] == "stock, as it comes" and labels[1].startswith("stock, tuned: ")
    assert labels[2:4] == ["ebb run, room for all", "ebb run, 1/3"]
    assert result["tuned"]["chosen"] in labels[1]
    for label, turns in result["contenders"].items():
        assert all(len(turn["seconds"]) == result["steps"] for turn in turns), label


@pytest.mark.slow
def test_training_of_the_hardest_model(flash):
    results = run("run.py", "training", "--flash", flash)
    for key in ("date", "time", "machine", "commit", "versions", "command"):
        assert key in results
    (result,) = results["training"]
    check_training(result)
    bound = result["shares"]["3"]["bound"]
    # Its optimizer runs part by part (docs/design/0023), so no launch is larger than memory.
    assert bound["seconds"] > 0 and bound["kind"] == "bounded"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt2", "resnet152", "mlp", "experts", "lengths", "phases"])
def test_training_of_the_others(flash, model):
    (result,) = run("run.py", "training", "--flash", flash, "--models", model)["training"]
    check_training(result)
    varies = model in ("experts", "lengths", "phases")
    assert (result["shares"]["3"]["bound"]["seconds"] is None) == varies
    assert ("ebb run --policy window, 1/3" in result["contenders"]) == varies


@pytest.mark.slow
def test_streams(flash):
    results = run("streams.py", "--flash", flash)
    assert results["digests_equal"]
    assert {"window", "on_demand", "memory"} <= set(results["runs"]["pca"])


@pytest.mark.slow
def test_arrays():
    results = run("arrays.py")
    assert {"ebbtide", "numpy", "numpy, in parts"} <= set(results["expressions"]["2*a + 3*b"]["seconds"])


@pytest.mark.slow
def test_prediction(flash):
    results = run("prediction.py", "--flash", flash)
    (row,), (model,) = results["rows"], results["models"]
    assert row["predicted_s"] > 0 and row["bound_s"] > 0 and len(row["turns"]) == results["rounds"] == 2
    assert all(model["predicted_at"] <= turn["started_at"] for turn in row["turns"])
