"""Tests of following optimizers that go through large parameters slice by slice (ebbtide._lists)."""

import pytest
from test_whatif import LOOP, cache, follow, script  # noqa: F401

MIB = 2**20
LAYER = 4096 * 4096 * 4
MODEL = """
        model = nn.Sequential(nn.Linear(4096, 4096), nn.Linear(4096, 4096))
        optimizer = torch.optim.{optimizer}
        batch = lambda: torch.randn(8, 4096)
        loss_of = lambda x: model(x).square().mean()
        """


OPTIMIZERS = ("AdamW(model.parameters(), fused=True)", "AdamW(model.parameters())",
              "Adam(model.parameters(), foreach=True)", "SGD(model.parameters(), momentum=0.9)")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_is_in_slices(optimizer, tmp_path, cache):  # noqa: F811
    found = follow(script(tmp_path, MODEL.format(optimizer=optimizer), LOOP), cache)
    assert found.code == 0, found.output
    pieces = [each for each in found.tensors.values() if each.get("continues")]
    assert {each["kind"] for each in pieces} == {"weight", "gradient", "optimizer"}
    assert max(each["bytes"] for each in pieces) <= 32 * MIB
    assert found.bytes("weight") == 2 * (LAYER + 4096 * 4), "pieces are the whole"
    backward = max(at for at, each in enumerate(found.launches) if each["op"] in ("mm", "addmm"))
    for launch in found.launches[backward + 1:]:
        large = {each for each in launch["reads"] + launch["writes"] if found.tensors[each]["kind"] != "activation"}
        assert sum(found.tensors[each]["bytes"] for each in large) <= 32 * MIB + 4096 * 16, launch["op"]
    forward = next(each for each in found.launches if each["op"] == "addmm")
    assert sum(found.tensors[each]["bytes"] for each in forward["reads"]) >= LAYER, "a product takes all of it"


def test_what_stock_is_said_to_take_has_no_slices(tmp_path, cache):  # noqa: F811
    """Without slices each temporary of an optimizer is large, and fresh from the kernel in every step."""
    found = follow(script(tmp_path, MODEL.format(optimizer="AdamW(model.parameters(), foreach=False)"), LOOP), cache)
    temporaries = 3 * 2 * LAYER  # root, quotient and gradient of each layer
    assert found.report["stock_ns"] - found.report["kernels_ns"] > 0.3 * temporaries  # calibrated: 0.3 ns a byte
