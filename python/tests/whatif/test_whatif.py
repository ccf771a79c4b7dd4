"""Tests of following a program without memory: `ebbtide.whatif`, through its start-up hook, and `ebb plan -- COMMAND`.

Programs run in children with fake tensors; what they leave is a trace and a report. Numbers that are known beforehand
are compared exactly; the peak is compared with that of really running the program under the adapter.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import runner

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "python/ebbtide"
HOOK = PACKAGE / "whatif/hook"
TIMEOUT_S = 120
GIB = 2**30

# A calibration by hand, so that tests neither measure nor depend on the machine.
CALIBRATION = {
    "grids": {"mm": [[[m, k, n], 100.0] for m in (32, 2048) for k in (32, 2048) for n in (32, 2048)],
              "bmm": [[[64, 64, 64], 100.0]],
              "convolution": [[[576, 64, 3136, 3, 1], 100.0]], "convolution_backward": [[[576, 64, 3136, 3, 1], 50.0]]},
    "curves": collections.defaultdict(lambda: [[2**16, 0.1], [2**26, 0.1]]), "precisions": {},
    "overhead_ns": 2000.0, "fault_ns_per_byte": 0.3, "measured": "by hand"}
KERNELS = ("fill copy strided transpose unary binary inplace update root math random normal dropout sum mean softmax "
           "safe_softmax softmax_backward layer_norm layer_norm_backward batch_norm batch_norm_backward pool gather "
           "scatter optimizer thin_float32 thin_bfloat16").split()

MODELS = {
    "mlp": """
        model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
        optimizer = torch.optim.Adam(model.parameters())
        batch = lambda: torch.randn(64, 512)
        loss_of = lambda x: (model(x) - x).square().mean()
        """,
    "convolutions": """
        model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 16 * 16, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batch = lambda: (torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,)))
        loss_of = lambda xy: nn.functional.cross_entropy(model(xy[0]), xy[1])
        """,
    "attention": """
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 512, batch_first=True), 2)
        model = nn.Sequential(nn.Embedding(1000, 128), encoder, nn.Linear(128, 1000))
        optimizer = torch.optim.AdamW(model.parameters())
        batch = lambda: torch.randint(0, 1000, (8, 64))
        loss_of = lambda x: nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        """,
}
# Bytes of optimizer state for each byte of weights, and for each weight.
STATE = {"mlp": (2, 4), "convolutions": (1, 0), "attention": (2, 4)}
LOOP = """
        for step in range(4):
            optimizer.zero_grad()
            loss = loss_of(batch())
            loss.backward()
            optimizer.step()
            print(step, loss.item(), flush=True)
        """
HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"


def script(folder, *parts, name="train.py"):
    path = folder / name
    path.write_text(HEAD + "".join(textwrap.dedent(part) for part in parts), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A cache directory with the calibration by hand, for one and two threads of this torch."""
    folder = tmp_path_factory.mktemp("cache")
    for name in KERNELS:
        CALIBRATION["curves"][name]
    program = ("import json,sys,torch; sys.path.insert(0, sys.argv[1]); from whatif import calibration\n"
               "made = json.load(sys.stdin)\ncalibration.store(made)")
    subprocess.run([sys.executable, "-c", program, str(PACKAGE)], input=json.dumps(CALIBRATION), text=True, check=True,
                   env=environment(folder), timeout=TIMEOUT_S)
    return folder


def environment(cache, **more):
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}


class Followed:
    """What a program left that was followed."""

    def __init__(self, child, folder):
        self.code, self.output = child.returncode, child.stdout + child.stderr
        report = folder / "report.json"
        self.report = json.loads(report.read_text()) if report.exists() else {}
        self.tensors, self.launches, self.peak = {}, [], 0
        if (folder / "trace.jsonl").exists():
            self._read(folder / "trace.jsonl")

    def _read(self, path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert lines[0]["format"] == "ebb-trace" and lines[0]["version"] == 1
        assert lines[-1] == {"mark": "step"}
        alive = {}
        for line in lines[1:-1]:
            if "tensor" in line:
                self.tensors[line["tensor"]] = line
                alive[line["tensor"]] = line["bytes"]
            elif "launch" in line:
                assert line["launch"] == len(self.launches)
                assert all(each in alive for each in line["reads"] + line["writes"]), "touched while not alive"
                self.launches.append(line)
                self.peak = max(self.peak, sum(alive.values()))
            elif "free" in line:
                del alive[line["free"]]
        assert set(alive) == {each for each, tensor in self.tensors.items() if tensor.get("persistent")}

    def bytes(self, kind, persistent=None):
        return sum(tensor["bytes"] for tensor in self.tensors.values()
                   if tensor["kind"] == kind and persistent in (None, tensor.get("persistent", False)))


def follow(path, cache, steps=2, **more):
    folder = path.parent / "out"
    folder.mkdir()
    variables = {"EBB_CLAIM": str(folder / "claim"), "EBB_WHATIF": str(folder), "EBB_WHATIF_STEPS": str(steps),
                 "PYTHONPATH": f"{HOOK}:{PACKAGE.parent}", **more}
    child = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=TIMEOUT_S,
                           cwd=path.parent, env=environment(cache, **variables))
    return Followed(child, folder)


def weight_bytes(name):
    namespace = {}
    exec(HEAD + textwrap.dedent(MODELS[name]), namespace)
    parameters = list(namespace["model"].parameters())
    buffers = list(namespace["model"].buffers())
    return (sum(each.nbytes for each in parameters), sum(each.nbytes for each in buffers), len(parameters))


@pytest.mark.parametrize("name", MODELS)
def test_weights_gradients_and_state_are_exact(name, tmp_path, cache):
    found = follow(script(tmp_path, MODELS[name], LOOP), cache)
    assert found.code == 0, found.output
    weights, buffers, count = weight_bytes(name)
    by_weight, by_count = STATE[name]
    assert found.bytes("weight", persistent=True) == weights + buffers
    assert found.bytes("gradient", persistent=False) == weights
    assert found.bytes("optimizer", persistent=True) == by_weight * weights + by_count * count
    assert found.bytes("activation", persistent=True) == 0
    assert found.report["steady"] and found.report["steps"] == 2 and found.report["what"] == "step"
    assert all(launch["ns"] > 0 for launch in found.launches)


@pytest.mark.parametrize("name", MODELS)
def test_peak_is_that_of_a_real_run(name, tmp_path, cache, flash):
    found = follow(script(tmp_path, MODELS[name], LOOP), cache)
    real = tmp_path / "real.py"
    start = f"import ebbtide\nebbtide.enable(memory='1GiB', flash={flash!r}, managed_min=1)\n"
    real.write_text(start + script(tmp_path, MODELS[name], LOOP).read_text() +
                    "\nimport json\nprint(json.dumps({'peak': ebbtide.stats()['peak_live_bytes']}))\n")
    child = runner.run([sys.executable, str(real)], env=runner.environment(), timeout=TIMEOUT_S).check()
    assert found.peak == pytest.approx(child.find("peak"), rel=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_operators_are_those_of_a_real_run(name, tmp_path, cache):
    """What is fake must not take other paths: attention, for example, has several."""
    watch = """
        from torch.utils._python_dispatch import TorchDispatchMode
        import json
        names = []
        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                names.append(func._schema.name.removeprefix("aten::"))
                return func(*args, **(kwargs or {}))
        def step():
            optimizer.zero_grad()
            loss_of(batch()).backward()
            optimizer.step()
        step()
        with Watch():
            step()
        print(json.dumps(names))
        """
    child = subprocess.run([sys.executable, str(script(tmp_path, MODELS[name], watch))], capture_output=True, text=True,
                           timeout=TIMEOUT_S, env=environment(cache), check=True)
    # Under a dispatch mode, as here, the engine sums gradients out of place; without one, which is followed, in place.
    real = collections.Counter(op.replace("add_", "add") for op in json.loads(child.stdout.splitlines()[-1]))
    found = follow(script(tmp_path, MODELS[name], LOOP), cache)
    launched = collections.Counter(launch["op"].replace("add_", "add") for launch in found.launches)
    assert launched, found.output
    assert {op: count for op, count in launched.items() if real[op] != count} == {}


def test_loader_and_questions_about_content_are_harmless(tmp_path, cache):
    body = """
        import numpy
        from torch.utils.data import DataLoader, Dataset
        class Squares(Dataset):
            def __len__(self):
                return 64
            def __getitem__(self, i):
                return numpy.full(16, i, dtype=numpy.float32), i % 3
        model = nn.Linear(16, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        lengths = torch.tensor([3, 5, 4])
        assert int(lengths.max()) == 5, "small values are known"
        for epoch in range(3):
            for x, y in DataLoader(Squares(), batch_size=8, shuffle=True, num_workers=2, pin_memory=False):
                assert x.shape == (8, 16) and y.dtype == torch.int64
                loss = nn.functional.cross_entropy(model(x), y)
                if not torch.isfinite(loss).all():
                    raise SystemExit("the loss is not finite")
                if torch.isnan(loss):
                    raise SystemExit("the loss is not a number")
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                print(f"{loss:.3f} {float(loss)} {loss.item()} {model.weight.tolist()[0][:2]}")
                assert model.weight.detach().numpy().shape == (3, 16)
                assert loss.detach().nonzero().shape[0] <= 1
                torch.save(model.state_dict(), "model.pt")
        """
    found = follow(script(tmp_path, body), cache)
    assert found.code == 0, found.output
    assert found.report["steps"] == 2
    assert not (tmp_path / "model.pt").exists(), "a plan writes no model"
    notes = " ".join(found.report["notes"])
    for part in ("item()", "numpy()", "tolist()", "worker", "torch.save"):
        assert part in notes


def test_conversions_copies_and_checkpointing(tmp_path, cache):
    body = """
        import copy
        from torch.utils.checkpoint import checkpoint
        model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).to(torch.bfloat16)
        assert model[0].weight.dtype == torch.bfloat16
        average = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        run = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False))
        for step in range(3):
            optimizer.zero_grad(set_to_none=False)
            with torch.autocast("cpu", torch.bfloat16):
                loss = run(torch.randn(8, 256, dtype=torch.bfloat16)).float().square().mean()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for mine, theirs in zip(average.parameters(), model.parameters()):
                    mine.lerp_(theirs, 0.1)
        """
    found = follow(script(tmp_path, body), cache)
    assert found.code == 0, found.output
    weights = 2 * (256 * 256 + 256) * 2
    assert found.bytes("weight", persistent=True) == weights
    assert found.bytes("other", persistent=True) == weights, "the average of the model"
    assert found.bytes("gradient", persistent=True) == weights, "gradients that are zeroed stay"
    assert any("torch.compile" in note for note in found.report["notes"])


def test_a_processor_with_a_number_is_the_processor(tmp_path, cache):
    """Ranks of Accelerate call theirs so."""
    model = MODELS["mlp"].replace("torch.randn(64, 512)", "torch.randn(64, 512).to('cpu:0')")
    found = follow(script(tmp_path, model, LOOP), cache)
    assert found.code == 0, found.output


def test_inference_ends_with_the_second_call(tmp_path, cache):
    body = """
        model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).eval()
        with torch.no_grad():
            for i in range(100):
                y = model(torch.randn(32, 512))
        raise SystemExit("must not be reached")
        """
    found = follow(script(tmp_path, body), cache)
    assert found.code == 0, found.output
    assert found.report["what"] == "call" and found.report["steps"] == 2
    assert [launch["op"] for launch in found.launches] == ["randn", "addmm", "relu", "addmm"]
    assert sum(each["bytes"] for each in found.tensors.values() if each.get("persistent")) == 2 * (512 * 512 + 512) * 4


def test_gradient_accumulation_is_one_step(tmp_path, cache):
    body = """
        model = nn.Linear(64, 64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            for part in range(3):
                model(torch.randn(4, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """
    found = follow(script(tmp_path, body), cache)
    assert [launch["op"] for launch in found.launches].count("addmm") == 3


def test_a_model_larger_than_memory_takes_little(tmp_path, cache):
    body = """
        model = nn.Sequential(*(nn.Linear(16384, 16384) for _ in range(24)))
        optimizer = torch.optim.AdamW(model.parameters())
        batch = lambda: torch.randn(8, 16384)
        loss_of = lambda x: model(x).square().mean()
        """
    found = follow(script(tmp_path, body, LOOP), cache)
    assert found.code == 0, found.output
    assert found.bytes("weight") > 24 * GIB
    assert found.peak > 96 * GIB
    assert found.report["rss_peak_bytes"] < 2 * GIB


def test_gradients_are_summed_in_place_as_with_real_tensors(tmp_path, cache):
    """What three layers use has two sums of gradients, and the engine adds into the tensors that it has already."""
    body = """
        model = nn.ModuleList(nn.Linear(256, 256, bias=False) for _ in range(4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = lambda: torch.randn(64, 256)
        def loss_of(x):
            x = model[0](x)
            return sum(layer(x).square().mean() for layer in model[1:])
        """
    found = follow(script(tmp_path, body, LOOP), cache)
    assert found.code == 0, found.output
    backward = [each for each in found.launches if each["op"] in ("add", "add_")]
    sums = [each for each in backward if len(each["reads"]) == 2
            and all(found.tensors[number]["bytes"] == 64 * 256 * 4 for number in each["reads"])]
    assert [each["op"] for each in sums] == ["add_", "add_"]
    assert all(each["writes"] == each["reads"][:1] for each in sums)
    # The sum goes on in the same tensor: the second adds to the first, and a matrix product reads it.
    assert sums[1]["reads"][0] == sums[0]["writes"][0]
    after = found.launches[found.launches.index(sums[1]) + 1]
    assert sums[1]["writes"][0] in after["reads"]


@pytest.mark.parametrize("body, expected", [
    ("model = nn.Linear(4, 4)\nmodel(torch.randn(2, 5))\n", "train.py:5: the program failed: RuntimeError"),
    ("raise ValueError('no such data')\n", "the program failed: ValueError: no such data"),
    ("print('nothing')\n", "without computing anything"),
    ("torch.linalg.eig(torch.randn(3, 3)); x = torch.randn(4, 4).to_sparse().coalesce().indices()\n"
     "torch._assert_async(torch.randn(3)[0] > 9); torch.randn(3).numpy(force=True); memoryview(torch.randn(3))\n",
     "train.py:"),
])
def test_what_cannot_be_followed_is_told(body, expected, tmp_path, cache):
    found = follow(script(tmp_path, body), cache)
    assert found.code == 1
    assert expected in found.report["error"], found.output
    assert "\n" not in found.report["error"]


def find_ebb():
    candidates = [os.environ.get("EBB_BIN"), ROOT / "build/release/cli/ebb"]
    return next((str(each) for each in candidates if each and os.access(each, os.X_OK)), None)


@pytest.fixture
def ebb(cache):
    program = find_ebb()
    if program is None:
        pytest.skip("no ebb: build it, or name it in EBB_BIN")

    def call(*arguments, **more):
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env=environment(cache, EBB_PYTHON_DIR=str(PACKAGE.parent), **more))

    return call


SPEEDS = ("--flash-read", "2GB/s", "--flash-write", "1GB/s")


def test_plan_predicts_less_memory(tmp_path, ebb):
    path = script(tmp_path, """
        model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8)))
        optimizer = torch.optim.AdamW(model.parameters())
        batch = lambda: torch.randn(64, 2048)
        loss_of = lambda x: model(x).square().mean()
        """, LOOP)
    result = ebb("plan", "--json", "--to", tmp_path / "step.jsonl.gz", *SPEEDS, "--", sys.executable, path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["fits"] and found["peak_bytes"] > 400 * 2**20
    rows = {row["share"]: row for row in found["budgets"]}
    assert rows["all"]["flash_read_bytes"] == 0 and rows["all"]["bound_by"] == "compute"
    # In a half all that moves can be hidden behind the kernels, as the bound says; in a quarter it cannot.
    assert rows["all"]["step_ns"] <= rows["1/2"]["step_ns"] < rows["1/4"]["step_ns"]
    assert rows["1/4"]["bound_by"] in ("flash_read", "flash_write")
    again = ebb("plan", tmp_path / "step.jsonl.gz", "--json")
    assert json.loads(again.stdout)["launches"] == found["launches"], again.stderr
    table = ebb("plan", "--memory", "128MiB,1GiB", *SPEEDS, "--", sys.executable, path).stdout
    assert "128 MiB" in table and "bound by" in table and "\x1b" not in table


LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
RANKS, STAGES = "python/tests/programs/ranks.py", "examples/engines/pipeline.py"


@pytest.mark.parametrize("program, layers, parameters", [
    ((RANKS, "ddp"), 6, 12),
    pytest.param((RANKS, "fsdp"), 3, 12, marks=pytest.mark.slow),  # each rank keeps half of each of six layers
    ((STAGES, ), 4, 8),
], ids=["ddp", "fsdp", "pipeline"])
def test_a_rank_of_a_launcher_is_followed(program, layers, parameters, tmp_path, ebb, cache, flash):
    """Weights and state are exact, and the peak is that of a rank that really runs; two share memory and disk."""
    words = [*LAUNCH, ROOT / program[0], *program[1:], "--width", 1024]
    planned = ebb("plan", "--json", "--memory", "64MiB,1GiB", *SPEEDS, "--", *words)
    assert planned.returncode == 0, planned.stderr
    found = json.loads(planned.stdout)
    weights = layers * (1024 + 1) * 1024 * 4
    assert found["program"]["bytes"]["weight"] == weights
    assert found["program"]["bytes"]["optimizer"] - 2 * weights == parameters * 4, "and a count for each parameter"
    assert found["program"]["ranks"] == found["ranks_here"] == 2
    less, more = found["budgets"]
    assert less["memory_bytes"] == 64 * 2**20 and less["flash_write_bytes"] > 0 and more["flash_write_bytes"] == 0
    ran = ebb("run", "--quiet", "--memory", "1GiB", "--block", "64KiB", "--flash", flash, "--summary",
              tmp_path / "summary.json", "--", *words, OMP_NUM_THREADS="1")
    assert ran.returncode == 0, ran.stderr
    for rank in json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["ranks"]:
        # fully_shard gathers ahead, as threads happen to run.
        assert abs(found["peak_bytes"] - rank["peak_live_bytes"]) < 0.1 * rank["peak_live_bytes"]


SAY = """
    import torch.distributed as dist
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        everybody, gathered, sent, own = [None] * 2, [None] * 2, ["mine"], [None]
        dist.all_gather_object(everybody, 7)
        dist.gather_object(8, gathered)
        dist.broadcast_object_list(sent, src=0)
        dist.scatter_object_list(own, ["first", "second"])
        dist.send_object_list(sent, dst=1)
        torch.ones(sum(everybody) + sum(gathered) + len(sent[0] + own[0]))
"""


def test_of_objects_of_other_ranks_this_ones_are_known(tmp_path, ebb):
    words = [*LAUNCH, script(tmp_path, SAY)]
    followed = ebb("plan", "--json", *SPEEDS, "--", *words)
    assert followed.returncode == 0, followed.stderr
    assert json.loads(followed.stdout)["peak_bytes"] == 4 * (2 * 7 + 2 * 8 + len("minefirst"))
    script(tmp_path, SAY, "        dist.recv_object_list(own, src=1)")
    waits = ebb("plan", *SPEEDS, "--", *words)
    assert waits.returncode == 1 and "waits for what another one says" in waits.stderr and "\n" not in waits.stderr[:-1]


@pytest.mark.parametrize("arguments, expected", [
    (("--", ), "the command to plan is missing"),
    (("--memory", "1MiB", "--", "python"), "--memory: 1MiB is too little"),
    (("--memory", "lots", "--", "python"), "--memory: "),
    (("--steps", "0", "--", "python"), "--steps: '0'"),
    (("--flash-read", "fast", "--", "python"), "--flash-read: "),
    (("--to", "/no/such/place/t.jsonl", "--", "python"), "--to: there is no directory"),
    (("trace.jsonl", "--", "python"), "not both"),
    (("--html", "page", "--", "python"), "--html is for a trace"),
    (("trace.jsonl", "--memory", "1GiB"), "--memory is for a program"),
    ((), "name a trace, or the command"),
])
def test_usage_errors_are_one_line(arguments, expected, ebb):
    result = ebb("plan", *arguments)
    assert result.returncode == 2
    assert expected in result.stderr and result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_plan_tells_why_there_is_none(tmp_path, ebb):
    failed = ebb("plan", *SPEEDS, "--", sys.executable, script(tmp_path, "raise ValueError('no such data')\n"))
    assert failed.returncode == 1 and "no such data" in failed.stderr and failed.stderr.startswith("ebb: ")
    wants = ("import argparse\nwanted = argparse.ArgumentParser()\n"
             "wanted.add_argument('--data', required=True)\nwanted.parse_args()\n")
    unfit = ebb("plan", *SPEEDS, "--", sys.executable, script(tmp_path, wants))
    assert unfit.returncode == 1 and "required: --data" in unfit.stderr.splitlines()[-1]
    other = ebb("plan", *SPEEDS, "--", sys.executable, "-c", "print(1)")
    assert other.returncode == 1 and "never imported torch" in other.stderr
    assert ebb("plan", *SPEEDS, "--", "/no/such/program").returncode == 127


def test_products_measured_twice_count_as_the_faster():
    from ebbtide.whatif import measure

    slow = {"mm": [[[32, 32, 32], 20.0], [[32, 32, 256], 50.0]], "bmm": [[[64, 64, 64], 90.0]]}
    fast = {"mm": [[[32, 32, 32], 15.0], [[32, 32, 256], 80.0]], "bmm": [[[64, 64, 64], 140.0]]}
    assert measure._faster(slow, fast) == {
        "mm": [[[32, 32, 32], 20.0], [[32, 32, 256], 80.0]], "bmm": [[[64, 64, 64], 140.0]]}
