"""Tests of `ebb run --record`: the trace of a real training step is that step, a sequence has the iterations as they
were, and iterations that recur, vary or are not marked are followed without a wrong number."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
EBB = os.environ.get("EBB_BIN") or ROOT / "build/release/cli/ebb"
TIMEOUT_S = 120
MIB = 2**20

TRAIN = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(1024, 1024, bias=False), nn.ReLU())])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for step in range(6):
        loss = (model(torch.randn(512, 1024)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
    """

# Training steps of random length, evaluations between them, a mixture of experts that takes another path each time.
VARYING = """
    import random, torch
    from torch import nn
    torch.manual_seed(0)
    random.seed(0)
    experts = nn.ModuleList([nn.Linear(512, 512) for _ in range(6)])
    head = nn.Linear(512, 512)
    parameters = [*experts.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    def forward(x):
        return head(torch.relu(experts[random.randrange(6)](x)))
    for step in range(24):
        x = torch.randn(64 * random.randint(1, 8), 512)
        loss = (forward(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
        if step % 5 == 4:
            with torch.no_grad():
                for _ in range(3):
                    print(forward(torch.randn(512, 512)).sum().item())
    """

INFER = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(12)])
    x = torch.randn(64, 1024)
    with torch.no_grad():
        for _ in range(60):
            print(model(x).sum().item())
    """


# The length of a batch is in the sizes of its tensors; a tensor that grows is handed on from step to step.
GROWING = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Linear(256, 256, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    history = torch.zeros(64, 256)
    for step in range(12):
        x = torch.randn(100 + step, 256)
        loss = (model(x) ** 2).mean() + history.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            history = torch.cat([history, x[:1]])
        print(loss.item())
    """


def program(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path)]


def run(command):
    command = [str(part) for part in command]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)


def managed(flash, memory, *options):
    return [EBB, "run", "--memory", memory, "--flash", flash, "--quiet", *options, "--"]


def copied_bps():
    """The rate at which one thread copies memory."""
    source, target = np.ones(256 * MIB, dtype=np.uint8), np.ones(256 * MIB, dtype=np.uint8)
    start = time.monotonic()
    np.copyto(target, source)
    return source.nbytes / (time.monotonic() - start)


def test_a_recorded_step_is_that_step(tmp_path, flash):
    trace = tmp_path / "step.jsonl.gz"
    run([*managed(flash, "128MiB", "--record", trace), *program(tmp_path, TRAIN)])
    found = json.loads(run([EBB, "trace", trace, "--json"]).stdout)
    assert found["iterations"] == 1
    assert found["timed_launches"] == found["launches"] > 30
    lines = [json.loads(line) for line in run(["zcat", trace]).stdout.splitlines()]
    assert all(line["ns"] > 0 for line in lines if "launch" in line), "also the last one before the step's end"
    tensors = [line for line in lines if "bytes" in line]
    kept = [tensor["bytes"] for tensor in tensors if tensor.get("persistent")]
    assert kept == [4 * MIB] * 9, "three weights, and two moments of each"
    assert sum(tensor["bytes"] == 4 * MIB for tensor in tensors) >= 12, "and their gradients"
    assert any("addmm" in line["op"] or "mm" in line["op"] for line in lines if "op" in line)


def test_a_recorded_step_runs_in_the_simulator(tmp_path, flash):
    trace = tmp_path / "step.jsonl"
    run([*managed(flash, "128MiB", "--record", trace), *program(tmp_path, TRAIN)])
    machine = ["--device-memory", "40MiB", "--host-memory", "0", "--pcie", "50GB/s", "--block", "256KiB"]
    found = json.loads(run([EBB, "sim", trace, *machine, "--policy", "window,foresight", "--json"]).stdout)
    times = {result["policy"]: result["iteration_ns"] for result in found["results"]}
    assert times["foresight"] <= times["window"]


def test_a_recorded_step_is_simulated_on_the_machine_that_it_ran_on(tmp_path, flash):
    trace, summary = tmp_path / "step.jsonl", tmp_path / "summary.json"
    start = time.monotonic()
    run([*managed(flash, "48MiB", "--record", trace, "--block", "256KiB", "--summary", summary),
         *program(tmp_path, TRAIN)])
    seconds = time.monotonic() - start
    found = json.loads(run([EBB, "sim", trace, "--block", "256KiB", "--policy", "foresight", "--json"]).stdout)
    header = json.loads(trace.read_text().splitlines()[0])
    for key, value in found["machine"].items():
        assert value == header.get(key, 0), key  # recordings do not say what the host takes
    assert (header["device_bytes"], header["host_bytes"]) == (48 * MIB, 0)
    # While flash is at work it is faster than over the whole run, the start of Python included; and its data passes
    # through memory, which one thread copies at a rate not far below what memory can do. Both ways together are known
    # where reads met writes for long enough, which a fast disk beside slow operators need not do.
    moved, most = json.loads(summary.read_text()), 8 * copied_bps()
    assert moved["fetched_bytes"] / seconds < header["flash_read_bps"] < most
    assert header["flash_write_bps"] < most
    if "flash_total_bps" in header:
        both = moved["fetched_bytes"] + moved["evicted_bytes"]
        assert both / seconds < header["flash_total_bps"] < most
    assert found["results"][0]["flash_bytes_written"] > 0


def test_iterations_that_vary_give_what_stock_gives(tmp_path, flash):
    command = program(tmp_path, VARYING)
    stock = run(command).stdout
    assert stock.count("\n") == 24 + 4 * 3
    for policy in ("foresight", "window"):
        options = ["--policy", policy, "--block", "64KiB", "--managed-min", "4KiB"]
        assert run([*managed(flash, "8MiB", *options), *command]).stdout == stock


def test_inference_without_steps_is_followed(tmp_path, flash):
    command = program(tmp_path, INFER)
    stock = run(command).stdout
    summary = tmp_path / "summary.json"
    options = ["--block", "256KiB", "--summary", summary]
    assert run([*managed(flash, "30MiB", *options), *command]).stdout == stock
    counters = json.loads(summary.read_text())
    assert counters["prefetched_bytes"] > 0, "an iteration was found, and fetched ahead"


def lines_of(trace):
    text = trace.read_text() if trace.suffix == ".jsonl" else run(["zcat", trace]).stdout
    return [json.loads(line) for line in text.splitlines()]


def test_a_sequence_has_the_iterations_as_they_were(tmp_path, flash):
    command, trace = program(tmp_path, GROWING), tmp_path / "steps.jsonl"
    stock = run(command).stdout
    options = ["--record", trace, "--record-iterations", 5, "--managed-min", "4KiB"]
    recorded = run([*managed(flash, "64MiB", *options), *command])
    assert recorded.stdout == stock and recorded.stderr == ""
    header, *lines = lines_of(trace)
    assert header["sequence"] is True
    sizes, iterations = {line["tensor"]: line["bytes"] for line in lines if "bytes" in line}, [[]]
    for line in lines:
        if "op" in line:
            iterations[-1] += line["reads"] + line["writes"]
        if line.get("mark") == "step":
            iterations.append([])
    assert len(iterations) == 6 and not iterations[-1]
    for step, used in enumerate(iterations[:-1], start=2):  # the first two are not recorded
        batches = {sizes[tensor] // 1024 - 100 for tensor in used if sizes[tensor] in range(100 * 1024, 112 * 1024)}
        assert batches == {step - 1, step}, "the batch, and that of the step before, of which a part is kept after it"
    # Weight, and its two moments; the history before the first of these steps is not there any more at the end.
    assert sorted(line["bytes"] for line in lines if line.get("persistent")) == [256 * 1024] * 3
    weight = next(line["tensor"] for line in lines if line.get("persistent"))
    assert sum(weight in used for used in iterations) == 5
    found = json.loads(run([EBB, "trace", trace, "--json"]).stdout)
    assert (found["sequence"], found["iterations"]) == (True, 5)
    assert found["timed_launches"] == found["launches"]


def test_what_lives_across_iterations_is_one_tensor(tmp_path, flash):
    trace = tmp_path / "steps.jsonl.gz"
    run([*managed(flash, "64MiB", "--record", trace, "--record-iterations", 4, "--managed-min", "4KiB"),
         *program(tmp_path, GROWING)])
    lines = lines_of(trace)[1:]
    sizes = {line["tensor"]: line["bytes"] for line in lines if "bytes" in line}
    histories = [tensor for tensor, size in sizes.items() if 66 * 1024 <= size <= 70 * 1024 and size % 1024 == 0]
    used, step = {tensor: set() for tensor in histories}, 0
    for line in lines:
        for tensor in set(line.get("reads", []) + line.get("writes", [])) & set(histories):
            used[tensor].add(step)
        step += line.get("mark") == "step"
    # Each is made after a step, hence in the iteration that ends with the next one.
    assert max(map(len, used.values())) == 2, "made in one iteration and read in the next"
    assert sum(len(steps) == 2 for steps in used.values()) >= 2


def test_a_sequence_is_simulated_once_as_it_was(tmp_path, flash):
    trace = tmp_path / "steps.jsonl"
    run([*managed(flash, "64MiB", "--record", trace, "--record-iterations", 8, "--managed-min", "4KiB"),
         *program(tmp_path, VARYING)])
    machine = ["--device-memory", "6MiB", "--host-memory", "0", "--pcie", "50GB/s", "--block", "64KiB",
               "--policy", "window,foresight"]
    found = json.loads(run([EBB, "sim", trace, *machine, "--json"]).stdout)
    assert (found["sequence"], found["iterations"], found["warm_up"]) == (True, 8, 2)
    for result in found["results"]:
        assert len(result["iterations_ns"]) == 8
        assert result["total_ns"] == sum(result["iterations_ns"][2:])
        assert result["total_ns"] >= result["bound_ns"] >= result["ideal_ns"]


def test_tokens_are_recorded_where_steps_are_found(tmp_path, flash):
    trace = tmp_path / "passes.jsonl"
    run([*managed(flash, "128MiB", "--record", trace, "--record-iterations", 6), *program(tmp_path, INFER)])
    found = json.loads(run([EBB, "trace", trace, "--json"]).stdout)
    assert found["iterations"] == 6
    layers = [0]
    for line in lines_of(trace):
        layers[-1] += line.get("op") == "aten::addmm"
        if line.get("mark") == "step":
            layers.append(0)
    assert layers == [12] * 6 + [0]


def test_fewer_iterations_than_asked_for_are_said_to_be(tmp_path, flash):
    trace = tmp_path / "steps.jsonl"
    few = run([*managed(flash, "128MiB", "--record", trace, "--record-iterations", 40), *program(tmp_path, TRAIN)])
    assert few.stderr.count("\n") == 1 and "4 iterations and not 40" in few.stderr
    assert sum(line.get("mark") == "step" for line in lines_of(trace)) == 4
    none = run([*managed(flash, "128MiB", "--record", tmp_path / "no.jsonl", "--record-iterations", 2),
                sys.executable, "-c", "import torch"])
    assert "no trace of 2 iterations" in none.stderr


def test_a_trace_that_cannot_be_written_is_refused_before_the_program_starts(tmp_path, flash):
    missing = tmp_path / "nowhere" / "step.jsonl"
    command = [*managed(flash, "128MiB", "--record", missing), sys.executable, "-c", "print('started')"]
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ended.returncode == 2
    assert "--record" in ended.stderr and ended.stdout == ""
