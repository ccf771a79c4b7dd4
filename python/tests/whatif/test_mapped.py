"""Tests of following a program whose weights lie in files that it maps.

They are read and never written; an iteration is a call of the model, and a token where a generate() calls it.
"""

import json
import subprocess
import sys

import pytest
from test_whatif import SPEEDS, cache, ebb, follow, script  # noqa: F401

MIB = 2**20
ROWS, WIDTH, LAYERS = 16384, 512, 8

MAPPED = f"""
    import numpy
    size = ({ROWS} + {LAYERS} * {WIDTH}) * {WIDTH}
    numpy.zeros(size, dtype=numpy.float32).tofile("weights")
    weights = torch.from_numpy(numpy.memmap("weights", dtype=numpy.float32, mode="c")).view(-1, {WIDTH})

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(weights[:{ROWS}], requires_grad=False)
            rest = weights[{ROWS}:].view({LAYERS}, {WIDTH}, {WIDTH})
            self.layers = nn.ParameterList([nn.Parameter(each, requires_grad=False) for each in rest])

        def forward(self, tokens):
            x = nn.functional.embedding(tokens, self.table)
            for layer in self.layers:
                x = x @ layer.t()
            return x

    model = Model()
    """
CALLS = """
    with torch.no_grad():
        for _ in range(4):
            model(torch.randint(0, 100, (1, 3)))
    """
GENERATE = """
    @torch.no_grad()
    def generate():
        for _ in range(4):
            model(torch.randint(0, 100, (1, 3)))

    generate()
    """


def mapped(found):
    return [each for each in found.tensors.values() if each.get("mapped")]


def test_mapped_weights_stay_and_are_read_only(tmp_path, cache):  # noqa: F811
    found = follow(script(tmp_path, MAPPED, CALLS), cache)
    assert found.code == 0, found.output
    assert found.report["what"] == "call" and found.report["steps"] == 2
    weights = (ROWS + LAYERS * WIDTH) * WIDTH * 4
    assert found.report["mapped_bytes"] == weights == sum(each["bytes"] for each in mapped(found))
    assert all(each["persistent"] and each["kind"] == "weight" for each in mapped(found))
    numbers = {each["tensor"] for each in mapped(found)}
    assert any(numbers & set(launch["reads"]) for launch in found.launches if launch["op"] == "mm")
    assert not any(numbers & set(launch["writes"]) for launch in found.launches)
    # A product of three rows takes what reading its matrix takes: here 0.1 ns a byte.
    product = next(launch for launch in found.launches if launch["op"] == "mm")
    assert product["ns"] == pytest.approx(2000 + 0.1 * 4 * WIDTH * (WIDTH + 2 * 3), rel=0.01)


def test_a_state_that_safetensors_loads_is_mapped(tmp_path, cache):  # noqa: F811
    safetensors = pytest.importorskip("safetensors.torch")
    import torch

    safetensors.save_file({"weight": torch.zeros(2048, 1024)}, tmp_path / "weights.safetensors")
    body = """
        from safetensors.torch import load_file
        model = nn.Linear(1024, 2048, bias=False)
        model.load_state_dict(load_file("weights.safetensors"), assign=True)
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(1, 1024))
        """
    found = follow(script(tmp_path, body), cache)
    assert found.code == 0, found.output
    assert [each["bytes"] for each in mapped(found)] == [2048 * 1024 * 4]


@pytest.mark.parametrize("rows, whole", [(3, False), (64, True)])
def test_few_rows_are_no_use_of_their_table(tmp_path, cache, rows, whole):  # noqa: F811
    """`ebb run` fetches three rows of 32 MiB by themselves; 64 would take longer than the table."""
    body = f"""
        table = torch.zeros({ROWS}, {WIDTH})
        nn.functional.embedding(torch.zeros({rows}, dtype=torch.long), table)
        """
    found = follow(script(tmp_path, body), cache)
    lookup = next(launch for launch in found.launches if launch["op"] == "embedding")
    sizes = [found.tensors[number]["bytes"] for number in lookup["reads"]]
    assert (ROWS * WIDTH * 4 in sizes) == whole
    # Its time is that of what it finds: 0.1 ns for each byte, read and written.
    assert lookup["ns"] == pytest.approx(2000 + 0.1 * 2 * rows * WIDTH * 4, rel=0.01)


def test_what_a_generate_calls_makes_tokens(tmp_path, cache):  # noqa: F811
    found = follow(script(tmp_path, MAPPED, GENERATE), cache)
    assert found.code == 0 and found.report["what"] == "token", found.output


def test_memory_that_is_no_file_is_not_mapped(tmp_path, cache):  # noqa: F811
    read = MAPPED.replace("numpy.memmap(", "numpy.fromfile(").replace(', mode="c"', "")
    found = follow(script(tmp_path, read, CALLS), cache)
    assert found.code == 0, found.output
    assert not mapped(found) and found.report["mapped_bytes"] == 0
    assert found.bytes("weight", True) >= LAYERS * WIDTH * WIDTH * 4


CHECKPOINT = """
    import sys
    import transformers
    configuration = transformers.LlamaConfig(hidden_size=512, intermediate_size=1536, num_hidden_layers=6,
        num_attention_heads=8, num_key_value_heads=4, vocab_size=2000, tie_word_embeddings=False)
    transformers.LlamaForCausalLM(configuration).to(torch.bfloat16).save_pretrained(sys.argv[1])
    """
GENERATOR = """
    import sys
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval()
    prompt = torch.randint(3, 2000, (1, 12))
    model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, min_new_tokens=8, pad_token_id=0)
    """


def test_tokens_from_a_checkpoint_cost_reads_and_no_writes(tmp_path, ebb):  # noqa: F811
    """The program as it is, foretold and then run."""
    pytest.importorskip("transformers")
    folder, program = tmp_path / "model", script(tmp_path, GENERATOR, name="generate.py")
    subprocess.run([sys.executable, script(tmp_path, CHECKPOINT, name="make.py"), folder], check=True, timeout=120)
    budget = 24 * MIB
    planned = ebb("plan", "--json", "--memory", f"{budget},1GiB", *SPEEDS, "--", sys.executable, program, folder)
    assert planned.returncode == 0, planned.stderr
    found = json.loads(planned.stdout)
    weights = sum(each.stat().st_size for each in folder.glob("*.safetensors"))
    assert found["program"]["what"] == "token" and found["program"]["steady"]
    assert found["program"]["mapped_bytes"] == pytest.approx(weights, rel=0.01)
    less, enough = found["budgets"]
    assert enough["flash_read_bytes"] == 0 and less["flash_write_bytes"] == 0
    assert weights - budget < less["flash_read_bytes"] < weights
    assert less["step_ns"] > enough["step_ns"] and less["bound_by"] == "flash_read"
    table = ebb("plan", "--memory", f"{budget}", *SPEEDS, "--", sys.executable, program, folder).stdout
    assert "predicted: a token takes" in table and "mapped from files" in table
    ran = ebb("run", "--json", "--memory", budget, "--flash", tmp_path, "--", sys.executable, program, folder)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["steps"] == 0 and summary["steps_found"] == len(summary["step_seconds"]) >= 4
    # Reality is of the first tokens, which learn; the plan is of those to come.
    a_token = summary["steps_fetched_bytes"] / summary["steps_found"]
    assert 0.6 * less["flash_read_bytes"] < a_token < 1.6 * less["flash_read_bytes"]
