"""Optimizers and operators on lists of tensors have the bits of stock PyTorch, though they run part by part."""

import sys

import optimizers
import pytest
import runner

MEMORY = 8 * runner.MIB


def compare(flash, target, **arguments):
    return runner.compare(f"optimizers:{target}", runner.options(flash, MEMORY), timeout=240, **arguments)


@pytest.mark.parametrize("kind", ["foreach", "loop"])
@pytest.mark.parametrize("name", optimizers.BOTH)
def test_both(flash, name, kind):
    compare(flash, "train", name=name, kind=kind)


# Stock's fused SGD in bfloat16 has other bits in each run: where its vectors begin depends on addresses.
@pytest.mark.parametrize("name,dtype", [(name, dtype) for name in optimizers.FUSED for dtype in ("float32", "bfloat16")
                                        if (name, dtype) != ("SGD", "bfloat16")])
def test_fused(flash, name, dtype):
    compare(flash, "train", name=name, kind="fused", dtype=dtype)


@pytest.mark.parametrize("name", ["AdamW", "SGD", "Adagrad"])
def test_fused_with_a_scaler(flash, name):
    compare(flash, "train_scaled", name=name)


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_sparse(flash, name):
    compare(flash, "sparse", name=name)


def test_lists(flash):
    compare(flash, "lists")


def test_compiled(flash):
    compare(flash, "compiled")


def test_what_is_compiled_is_not_in_slices(flash):
    compare(flash, "compiled_whole")


def test_a_fused_step_reads_its_state_once(flash):
    stats = compare(flash, "large_state", kind="fused")
    # 48 MiB of parameters, gradients and state in 8 MiB, eight times; what is read beyond that was sent away too early.
    assert stats["fetched_bytes"] < 8 * 48 * runner.MIB


def test_a_foreach_step_passes_its_state_once(flash):
    """Part by part through all of the optimizer's operators, not each operator over everything."""
    stats = compare(flash, "large_state", kind="foreach")
    assert stats["fetched_bytes"] < 1.25 * 8 * 48 * runner.MIB  # 942 MiB where operators alone are cut


def test_a_step_over_one_large_matrix_passes_its_state_once(flash):
    stats = compare(flash, "large_state", kind="one")
    # 459 MiB alone, 483 once on a busy machine; 1761 while the next use of a slice was that of the matrix.
    assert stats["fetched_bytes"] < 1.5 * 8 * 48 * runner.MIB


def test_parts_are_cut_where_bytes_say(monkeypatch):
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(runner.HERE.parents[1]))
    from ebbtide import _lists as lists

    monkeypatch.setattr(lists._Parts, "of", {"cpu": 4096})
    calls = []

    def note(self, other, scalar):
        calls.append((len(self), len(other), scalar))

    run = lists._in_parts(note, lists._is_cut, original=note)
    small = [torch.zeros(256) for _ in range(7)]
    run(small, small, 0.5)
    assert calls == [(2, 2, 0.5)] * 3 + [(1, 1, 0.5)]
    calls.clear()
    slices = lists._in_slices(lambda self, grads, steps: calls.append((self[0].numel(), len(grads), steps)))
    large, steps = [torch.zeros(10000)], [torch.zeros(())]
    with torch.no_grad():
        slices(large, large, steps)
    assert calls == [(4096, 1, steps), (4096, 1, steps), (1808, 1, steps)]
    calls.clear()
    stepping = lists._in_slices(lambda self, step: (step[0].add_(1), calls.append(self[0].numel())))
    with torch.no_grad():
        stepping(large, steps)
    assert steps[0] == 1 and calls == [4096, 4096, 1808], "a step is one, in however many slices"
    calls.clear()
    with torch.no_grad():
        slices([torch.zeros(100, 100).t()], [torch.zeros(100, 100).t()], steps)
        slices([torch.zeros(10000)], [None], steps)
    assert [count for count, *_ in calls] == [10000, 10000], "what is not contiguous or yet to be made stays whole"
