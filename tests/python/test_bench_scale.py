"""bench/simulated/roofline.py, decoders.py and scale.py: models have the parameters they are known for, times follow
from flops and bytes, `ebb` accepts the traces, and what is recorded is met."""

import json
import os
import subprocess
import sys

import pytest
from ebb_program import EBB, ROOT, needs_ebb

SIMULATED = ROOT / "bench" / "simulated"
TIMEOUT_S = 600
DEVICE = (1e14, 5e13, 1e12)  # 16-bit and 32-bit flops, bytes: a second

sys.path[:0] = [str(SIMULATED)]

import decoders  # noqa: E402
import roofline  # noqa: E402


def trace(**more):
    return roofline.Trace(roofline.Device("D", *DEVICE), roofline.Efficiency(0.5, 0.25, 0.8), **more)


def tiny(**more):
    return roofline.Model("tiny", **{"layers": 3, "hidden": 256, "heads": 4, "kv_heads": 2, "head": 64, "ffn": 512,
                                     "vocabulary": 1000, **more})


def launches(made):
    return [line for line in made.lines if "launch" in line]


# As the models' own files count them.
@pytest.mark.parametrize("model, parameters, active", [
    (roofline.LLAMA_8B, 8_030_261_248, 8_030_261_248),
    (roofline.QWEN_14B, 14_768_307_200, 14_768_307_200),
    (roofline.LLAMA_70B, 70_553_706_496, 70_553_706_496),
    (roofline.QWEN_235B, 235.09e9, 22.2e9),
    (roofline.GPT2_LARGE, 774_030_080, 774_030_080),
])
def test_models_have_the_parameters_that_they_are_known_for(model, parameters, active):
    assert model.parameters() == pytest.approx(parameters, rel=0.01)
    assert model.active_parameters == pytest.approx(active, rel=0.01)


def test_a_step_has_six_flops_for_each_parameter_and_token():
    model = roofline.LLAMA_8B
    matrices = 6 * (model.parameters() - model.vocabulary * model.hidden) * 4096
    assert roofline.flops_of_step(model, 1, 4096) == pytest.approx(matrices * 1.083, rel=0.001)  # attention
    assert roofline.flops_of_attention(model, 1, 2048) * 4 == roofline.flops_of_attention(model, 1, 4096)


def test_the_longer_of_arithmetic_and_bytes_counts():
    made = trace()
    small, large = made.tensor(10**6), made.tensor(10**9)
    made.product("flops", [small], [small], 10**4, 10**4, 10**4)
    made.product("bytes", [small], [large], 10, 10, 10)
    made.launch("attention", [small], [small], 10**12, attention=True)
    made.launch("start", [small], [small])
    assert [line["ns"] for line in launches(made)] == [
        round(2e12 / (1e14 * 0.5) * 1e9), round(1.001e9 / (1e12 * 0.8) * 1e9), round(1e12 / (1e14 * 0.25) * 1e9), 2500]


def test_all_that_a_step_computes_is_in_its_launches():
    """The sum of the products' times, made into flops again, is that of the model; recomputing adds a forward pass."""
    fast = roofline.Device("D", 1e12, 1e12, 1e30)  # slow arithmetic: bytes and starts take no time beside it
    model = tiny()
    flops = roofline.flops_of_step(model, 2, 512)
    for recompute, factor in ((False, 1), (True, 4 / 3)):
        made = roofline.Trace(fast, roofline.Efficiency(1, 1, 1))
        decoders.Training(model, made, 2, 512, recompute=recompute).step()
        head = 6 * model.vocabulary * model.hidden * 1024
        spent = sum(line["ns"] for line in launches(made) if line["ns"] > roofline.KERNEL_NS) * 1e-9 * 1e12
        assert spent == pytest.approx((flops - head) * factor + head, rel=0.02)


@pytest.mark.parametrize("single", [False, True])
def test_a_parameter_takes_sixteen_bytes(single):
    model, made = tiny(), trace()
    decoders.Training(model, made, 1, 64, single=single).step()
    by_kind = {}
    for line in made.lines:
        if "tensor" in line:
            by_kind[line["kind"]] = by_kind.get(line["kind"], 0) + line["bytes"]
    stored = sum(by_kind[kind] for kind in ("weight", "optimizer", "gradient"))
    assert stored == pytest.approx(16 * model.parameters(), rel=0.01)
    assert all(line["kind"] in ("weight", "optimizer") for line in made.lines if line.get("persistent"))


def test_optimizers_work_on_parts():
    made = trace()
    decoders.Training(tiny(vocabulary=5000), made, 1, 64, part=2**22).step()
    largest = max(sum(made.sizes[each] for each in {*line["reads"], *line["writes"]})
                  for line in launches(made) if line["op"] == "adamw")
    assert largest <= 2**22
    assert any(line.get("continues") for line in made.lines)


def test_updates_in_backward_free_gradients_sooner():
    ends = {}
    for in_backward in (False, True):
        made = trace()
        decoders.Training(tiny(), made, 1, 64, in_backward=in_backward).step()
        assert sum(line["op"] == "adamw" for line in launches(made)) == 3 * 4 + 2
        first = next(line["launch"] for line in launches(made) if line["op"] == "adamw")
        ends[in_backward] = first / len(launches(made))
    assert ends[True] < ends[False]


def test_a_mixture_takes_other_experts_each_token_and_the_host_reads_which():
    model = tiny(experts=8, chosen=2)
    made = decoders.Generation(model, trace(), batch=1, context=16, tokens=6).run()
    assert made.header["sequence"] is True
    tokens, current = [], []
    for line in made.lines:
        if line.get("op") == "feed_forward":
            current.append(line["reads"][1])
        elif "mark" in line:
            tokens.append(current)
            current = []
    assert len(tokens) == 6 and all(len(taken) == 2 * model.layers for taken in tokens)
    assert len({tuple(taken) for taken in tokens}) > 1
    assert {line["op"] for line in launches(made) if line.get("sync")} == {"router", "logits"}
    assert roofline.touched_experts(model, 1) == pytest.approx(2)
    assert 7 < roofline.touched_experts(model, 10) < 8


@needs_ebb
@pytest.mark.parametrize("kind", ["step", "mixture", "token", "tokens"])
def test_ebb_accepts_the_traces(tmp_path, kind):
    made = trace(model="tiny", batch=2, launch_host_ns=1000, sync_host_ns=5000)
    model = tiny(experts=8, chosen=2) if kind in ("mixture", "tokens") else tiny()
    if kind in ("step", "mixture"):
        decoders.Training(model, made, 2, 64, groups=4).step()
    else:
        decoders.Generation(model, made, 2, 64, tokens=4 if kind == "tokens" else 1).run()
    made.write(tmp_path / "made.jsonl.gz")
    for words in (["trace", tmp_path / "made.jsonl.gz"],
                  ["sim", tmp_path / "made.jsonl.gz", "--device-memory", "8MiB", "--block", "256KiB", "--policy",
                   "foresight,window"]):
        done = subprocess.run([EBB, *words, "--json"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["machine"]["launch_host_ns"] == 1000 and found["sequence"] == (kind == "tokens")
    for result in found["results"]:
        assert result["bound_ns"] <= result.get("total_ns", sum(result["iterations_ns"][1:]) / 4)
        assert (result["stalls"]["host_ns"] > 0) == (kind != "step")


@needs_ebb
def test_quick_runs_everything_and_meets_what_was_recorded(tmp_path):
    done = subprocess.run([sys.executable, SIMULATED / "scale.py", "--quick", "--json"], capture_output=True, text=True,
                          check=False, timeout=TIMEOUT_S, cwd=tmp_path, env={**os.environ, "EBB_BINARY": EBB})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for case in (*found["steps"], *found["tokens"]):
        for result in case["policies"].values():
            assert case["ideal_ns"] < case["bound_ns"] <= result["step_ns"] * 1.001
    # The dearer a read of the host, the longer a token; with room for all it is the kernels', where it costs nothing.
    rows = found["synchronisations"]
    assert rows[0]["room_ns"] == pytest.approx(rows[0]["ideal_ns"])
    assert [row["room_ns"] for row in rows] == sorted(row["room_ns"] for row in rows)
    assert rows[-1]["host_ns"] > 5 * 300_000
    recorded, made = found["check"]["recorded"], found["check"]["roofline"]
    assert made["ideal_ns"] == pytest.approx(recorded["ideal_ns"], rel=0.05)
    for policy in ("foresight", "window"):
        assert made["policies"][policy]["step_ns"] == pytest.approx(recorded["policies"][policy]["step_ns"], rel=0.1)
