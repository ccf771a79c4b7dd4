"""Tests of `ebb run --guide`: the first steps follow what fake tensors told of them, and no guide, of another program,
broken or unobtainable, makes a wrong number."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from test_whatif import HOOK, LOOP, PACKAGE, TIMEOUT_S, cache, environment, find_ebb, script  # noqa: F401

MIB = 2**20
MANAGED_MIN = 4096

PROGRAMS = {
    "mlp": """
        model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(768, 768), nn.ReLU())))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        batch = lambda: torch.randn(256, 768)
        loss_of = lambda x: (model(x) - x).square().mean()
        """,
    "convolutions": """
        layers = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
        model = nn.Sequential(*layers, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(32 * 16 * 16, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        batch = lambda: (torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,)))
        loss_of = lambda xy: nn.functional.cross_entropy(model(xy[0]), xy[1])
        """,
    "attention": """
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
        model = nn.Sequential(nn.Embedding(2000, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 2000))
        optimizer = torch.optim.Adam(model.parameters())
        batch = lambda: torch.randint(0, 2000, (8, 128))
        loss_of = lambda x: nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        """,
}


def write(folder, body, name="train.py"):
    return script(folder, body, LOOP, name=name)


@pytest.fixture
def run(cache, tmp_path):  # noqa: F811
    program = find_ebb()
    if program is None:
        pytest.skip("no ebb: build it, or name it in EBB_BIN")

    def call(path, *options, memory=24 * MIB):
        summary = tmp_path / "summary.json"
        command = [program, "run", "--quiet", "--memory", str(memory), "--flash", tmp_path, "--block", "64KiB",
                   "--managed-min", MANAGED_MIN, "--summary", summary, *options, "--", sys.executable, path]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT_S,
                              env=environment(cache, EBB_PYTHON_DIR=str(PACKAGE.parent)))
        stats = json.loads(summary.read_text()) if summary.exists() else None
        return done, stats

    return call


@pytest.fixture
def stock(cache):  # noqa: F811
    def call(path):
        return subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env=environment(cache), check=True).stdout

    return call


@pytest.mark.parametrize("name", ["mlp", pytest.param("convolutions", marks=pytest.mark.slow),
                                  pytest.param("attention", marks=pytest.mark.slow)])
def test_the_first_steps_follow_a_guide_that_is_made_for_them(name, run, stock, tmp_path):
    path, guide = write(tmp_path, PROGRAMS[name]), tmp_path / "guide.jsonl.gz"
    made, stats = run(path, "--guide", guide)
    assert made.returncode == 0, made.stderr
    assert made.stdout == stock(path)
    assert guide.exists() and stats["deviations"] == 0 and stats["evicted_bytes"] > 0
    events = [json.loads(line) for line in
              subprocess.run(["zcat", guide], capture_output=True, text=True, check=True).stdout.splitlines()]
    assert sum("mark" in event for event in events) == 2
    # Small tensors are not managed; of the launches that read others nearly all were foretold, in both steps.
    managed = {event["tensor"] for event in events if event.get("bytes", 0) >= MANAGED_MIN}
    assert stats["guided"] > 0.9 * sum(not managed.isdisjoint(event.get("reads", ())) for event in events)
    again, more = run(path, "--guide", guide)
    assert again.stdout == made.stdout and more["guided"] == stats["guided"] and again.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolutions", "attention"])
def test_a_guide_of_another_program_changes_no_number(name, run, stock, tmp_path):
    guide = tmp_path / "guide.jsonl"
    assert run(write(tmp_path, PROGRAMS["mlp"]), "--guide", guide)[0].returncode == 0
    path = write(tmp_path, PROGRAMS[name], f"{name}.py")
    done, stats = run(path, "--guide", guide)
    assert done.returncode == 0 and done.stdout == stock(path)
    assert stats["evicted_bytes"] > 0


def test_a_program_that_leaves_its_guide_goes_on(run, stock, tmp_path):
    # Fake tensors take the branch of zero; the real program does not.
    body = PROGRAMS["mlp"] + """
        whole = loss_of
        loss_of = lambda x: whole(x) if float(whole(x)) == 0 else whole(x[:128]) + whole(x[128:])
        """
    path, guide = write(tmp_path, body), tmp_path / "guide.jsonl"
    done, stats = run(path, "--guide", guide)
    assert done.returncode == 0 and done.stdout == stock(path), done.stderr
    assert stats["guided"] > 0


def test_without_a_guide_the_program_runs_all_the_same(run, stock, tmp_path):
    # The numbers of a fake tensor are not those of the real one: the program fails while its guide is made.
    path = write(tmp_path, "assert float(torch.ones(1)) == 1\n" + textwrap.dedent(PROGRAMS["mlp"]))
    guide = tmp_path / "guide.jsonl"
    done, stats = run(path, "--guide", guide)
    assert done.returncode == 0 and done.stdout == stock(path), done.stderr
    assert not guide.exists() and stats["guided"] == 0 and stats["evicted_bytes"] > 0
    assert done.stderr == ("ebb: no guide could be made, the program runs without one: train.py:4: the program failed: "
                           "AssertionError: \n")


def test_a_program_that_looks_behind_its_tensors_has_a_guide(run, stock, tmp_path):
    body = "memoryview(torch.randn(3).numpy())[0]\nx = torch.randn(3).data_ptr()\n" + textwrap.dedent(PROGRAMS["mlp"])
    path, guide = write(tmp_path, body), tmp_path / "guide.jsonl"
    done, stats = run(path, "--guide", guide)
    assert done.returncode == 0 and done.stdout == stock(path), done.stderr
    assert guide.exists() and stats["guided"] > 0 and done.stderr == ""


@pytest.mark.parametrize("options, expected", [
    (("--guide", "guide.jsonl", "--policy", "window"), "--guide: of no use to the policy 'window'"),
    (("--guide", "/no/such/place/guide.jsonl"), "--guide: there is no directory '/no/such/place'"),
    (("--guide", "BROKEN"), "BROKEN"),
])
def test_what_cannot_be_a_guide_is_a_usage_error(options, expected, run, tmp_path):
    broken = tmp_path / "BROKEN"
    broken.write_text("not a trace\n")
    options = [str(broken) if each == "BROKEN" else each for each in options]
    done, _ = run(write(tmp_path, PROGRAMS["mlp"]), *options)
    assert done.returncode == 2 and expected in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_what_the_hook_leaves_is_only_asked_for(cache, tmp_path):  # noqa: F811
    """`ebb plan` asks for no guide, so none is written."""
    path = write(tmp_path, PROGRAMS["mlp"])
    more = {"EBB_CLAIM": str(tmp_path / "claim"), "EBB_WHATIF": str(tmp_path), "PYTHONPATH": str(HOOK)}
    subprocess.run([sys.executable, path], capture_output=True, timeout=TIMEOUT_S, check=True,
                   env=environment(cache, **more))
    assert os.path.exists(tmp_path / "trace.jsonl") and not os.path.exists(tmp_path / "guide.jsonl")
