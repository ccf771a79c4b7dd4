"""Where the time goes: what waited is named, and what is charged adds up to what was waited."""

import pytest
import runner

MIB = runner.MIB
ROUNDS = 4
SHARES = ("causes_ns", "kinds_ns")


def run(scenario, flash, budget=72 * MIB, policy="window"):
    options = {**runner.options(flash, budget, block="1MiB"), "policy": policy, "managed_min": "64KiB"}
    return runner.managed(f"scenarios_waits:{scenario}", options, rounds=ROUNDS)


def waits_of(scenario, flash, **how):
    child = run(scenario, flash, **how)
    stats = child.find("stats")
    waits = stats["waits"]
    assert waits["stall_ns"] == stats["stall_ns"] > 0
    for shares in SHARES:
        assert sum(waits[shares].values()) == waits["stall_ns"], shares
    for entry in waits["operators"] + waits["modules"]:
        assert sum(entry["causes_ns"].values()) == entry["stall_ns"]
    return stats, waits


def by_name(entries):
    return {entry["name"]: entry for entry in entries}


def test_the_layer_that_does_not_stay_is_named(flash):
    stats, waits = waits_of("infer", flash)
    modules, operators = by_name(waits["modules"]), by_name(waits["operators"])
    assert sum(entry["stall_ns"] for entry in modules.values()) == waits["stall_ns"], "there are no more than five"
    layer = modules["body.1"]
    assert layer["waits"] >= ROUNDS - 1 and layer["fetched_bytes"] >= 40 * MIB * (ROUNDS - 1)
    assert modules.get("small", {"fetched_bytes": 0})["fetched_bytes"] <= 17 * MIB * ROUNDS
    assert {"aten::linear", "aten::add_"} <= operators.keys()
    assert sum(entry["fetched_bytes"] for entry in operators.values()) <= stats["fetched_bytes"]
    assert waits["kinds_ns"]["parameter"] > 0 and waits["kinds_ns"]["other"] > 0, "the layer's, and the other's"


def test_backward_and_optimizer_are_named(flash):
    _, waits = waits_of("train", flash, budget=96 * MIB, policy="foresight")
    assert {"body.1", "optimizer Adam"} <= by_name(waits["modules"]).keys()
    assert waits["kinds_ns"]["optimizer"] > 0 and waits["kinds_ns"]["gradient"] > 0


def test_what_is_not_announced_is_a_fault(flash):
    stats, waits = waits_of("touch", flash)
    assert waits["causes_ns"]["fault"] > 0 and stats["faults"] > 0
    assert by_name(waits["operators"])["(no operator)"]["causes_ns"]["fault"] == waits["causes_ns"]["fault"]


def test_a_profile_has_waits_as_ranges(flash):
    child = run("profile", flash)
    result, stall_ns = child.find("result"), child.find("stats")["stall_ns"]
    assert result["waits"] >= ROUNDS and result["kernels"] >= 3 * ROUNDS
    assert 0.7 * stall_ns < result["ns"] < 1.1 * stall_ns + 1e6 * result["waits"], "a range is hardly more than a wait"
    assert result["astride"] == 0


@pytest.mark.parametrize("policy", ["on_demand", "foresight"])
def test_every_policy_adds_up(flash, policy):
    waits_of("infer", flash, policy=policy)


def test_what_a_signal_raises_meanwhile_is_the_programs(flash):
    result = run("interrupt", flash).find("result")
    assert result["asked"] > 0
    assert result["raised"] == ["the program's own"] * len(result["raised"]) and len(result["raised"]) >= ROUNDS - 1
