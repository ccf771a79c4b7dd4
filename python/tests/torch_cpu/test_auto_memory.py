"""`ebb run --memory auto`: in a cgroup that holds a training or another program beside it, but not both, both live.

The other program touches 16 MiB at a time, some MiB a second, holds what it took for a while, and ends.
"""

import json
import os
import sys
import textwrap
import threading

import pytest
import runner

MIB = runner.MIB
LIMIT = 1280 * MIB  # the interpreter with torch takes 350 to 500 MiB of it, what is trained 400
TAKES = 560 * MIB
FIXED = 700 * MIB  # what would be right as long as the other program does not come
STEPS, COMES_AT, LIMIT_S = 45, 6, 240

TRAIN = """
    import json, struct, torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(6)))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 2048)).square().mean()
        loss.backward()
        optimizer.step()
        print(json.dumps({"step": step, "bits": struct.pack(">f", loss.item()).hex()}), flush=True)
    """
OTHER = """
    import mmap, time
    memory = mmap.mmap(-1, TAKES)
    for offset in range(0, TAKES, 1 << 24):
        memory[offset:offset + (1 << 24)] = bytes(1 << 24)
        time.sleep(0.05)
    time.sleep(3)
    """


def program(text):
    text = textwrap.dedent(text).replace("STEPS", str(STEPS)).replace("TAKES", str(TAKES))
    return [sys.executable, "-c", text]


def train(group, flash, memory, folder):
    """The training, its summary or None, and how the other program ended."""
    ends = []
    other = threading.Thread(target=lambda: ends.append(
        runner.children.run(program(OTHER), timeout=LIMIT_S, cgroup=group).returncode))

    def note(record):
        if record.get("step") == COMES_AT:
            other.start()

    summary_path = os.path.join(folder, "summary.json")
    command = [runner.children.ebb_binary(), "run", "--memory", memory, "--flash", flash, "--summary", summary_path]
    child = runner.children.run([*command, "--", *program(TRAIN)], timeout=LIMIT_S, cgroup=group, on_record=note,
                                env=runner.environment())
    if other.ident is not None:
        other.join()
    summary = None
    if child.returncode == 0:
        with open(summary_path, encoding="utf-8") as file:
            summary = json.load(file)
    return child, summary, ends


@pytest.fixture
def group():
    try:
        with runner.children.MemoryCgroup(LIMIT) as made:
            yield made
    except runner.ChildError as error:
        pytest.skip(str(error))


def kills(group):
    name = "memory.oom_control" if group.version == 1 else "memory.events"
    return int(dict(line.split() for line in (group.path / name).read_text().splitlines())["oom_kill"])


def test_with_a_fixed_budget_one_of_them_is_killed(group, flash, tmp_path):
    child, _, ends = train(group, flash, FIXED, tmp_path)
    assert kills(group) > 0 and (child.returncode != 0 or ends != [0]), (
        "the cgroup holds both: the test below would prove nothing")


def test_memory_is_given_to_another_program_and_taken_back(group, flash, tmp_path):
    child, summary, ends = train(group, flash, "auto", tmp_path)
    assert child.check() and ends == [0] and kills(group) == 0
    stock = runner.children.run(program(TRAIN), timeout=LIMIT_S).check()
    assert child.all("bits") == stock.all("bits")
    job = summary["job"]
    assert job["budget_automatic"] and summary["evicted_bytes"] > 0
    assert job["budget_least_bytes"] < job["budget_most_bytes"] - 300 * MIB
    assert job["moved_bytes"] == 0, "it went to no process of the job"


def test_the_error_of_a_process_alone_says_what_follows():
    for where, variables in (("ebbtide.enable(memory='auto')", {}), ("ebbtide.enable()", {"EBB_MEMORY": "auto"})):
        child = runner.children.run([sys.executable, "-c", f"import torch, ebbtide\n{where}"], timeout=LIMIT_S,
                                    env={**runner.environment(), **variables})
        assert child.returncode != 0 and "ebb run --memory auto" in child.stderr, child.stderr
