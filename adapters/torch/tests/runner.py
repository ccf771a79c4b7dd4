"""Runner: how a test runs a function in a child process, stock or managed, and compares the two.

Every child has a time limit. Managed children get their options through `ebbtide.enable`, drivers through the
environment. The file with the processes themselves is bench/training/children.py.
"""

import functools
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench" / "training"))

import children  # noqa: E402
from children import ChildError, run  # noqa: E402, F401

KIB, MIB, GIB = 2**10, 2**20, 2**30


def command(target, arguments, options):
    request = {"target": target, "arguments": arguments, "options": options}
    return [sys.executable, str(HERE / "child.py"), json.dumps(request)]


def environment(extra=None):
    # Fixed hash seed: tests that walk sets do so in the same order in both children.
    return children.environment({"PYTHONHASHSEED": "0", **(extra or {})}, with_adapter=True)


def stock(target, *, timeout=120, env=None, **arguments):
    """Runs `target` on stock PyTorch; returns the Child, which has ended with code 0."""
    return run(command(target, arguments, None), env=environment(env), timeout=timeout).check()


@functools.lru_cache(maxsize=None)
def _cached_stock(target, arguments, timeout):
    return stock(target, timeout=timeout, **json.loads(arguments)).find("result")


def stock_result(target, *, timeout=120, **arguments):
    """What `target` returns on stock PyTorch; run once a session for equal arguments."""
    return _cached_stock(target, json.dumps(arguments, sort_keys=True), timeout)


def managed(target, options, *, timeout=180, env=None, **arguments):
    """Runs `target` under Ebbtide with `options`; returns the Child, which has ended with code 0."""
    __tracebackhide__ = True
    return run(command(target, arguments, options), env=environment(env), timeout=timeout).check()


def options(flash, memory, *, block="64KiB", managed_min="1KiB", policy="foresight"):
    return {"memory": memory, "flash": str(flash), "policy": policy, "block": block, "managed_min": managed_min}


@functools.lru_cache(maxsize=None)
def peak_live_bytes(target, flash, arguments):
    """The most bytes of managed tensors that `target` has at once, from a run in which everything fits.

    Also a test of its own: with nothing to move the result must be stock's, too.
    """
    child = managed(target, options(flash, "4GiB"), **json.loads(arguments))
    assert child.find("result") == stock_result(target, **json.loads(arguments)), "differs though everything fits"
    return child.find("stats")["peak_live_bytes"]


def assert_within_budget(stats):
    assert stats["peak_resident_bytes"] <= stats["budget_bytes"], (
        f"{stats['peak_resident_bytes']} bytes were resident at the peak, the budget is {stats['budget_bytes']}")


def assert_moved(stats):
    """A test about moving tensors that moved none would pass on stock PyTorch."""
    assert stats["evicted_bytes"] > 0, "nothing was evicted"
    assert stats["fetched_bytes"] > 0, "nothing was fetched"
    assert stats["corrupt_blocks"] == 0


def compare(target, options_, *, timeout=180, env=None, moved=True, **arguments):
    """Runs `target` stock and managed, asserts equal results, the budget and movement; returns the statistics."""
    __tracebackhide__ = True
    expected = stock_result(target, timeout=timeout, **arguments)
    child = managed(target, options_, timeout=timeout, env=env, **arguments)
    assert child.find("result") == expected
    stats = child.find("stats")
    assert_within_budget(stats)
    if moved:
        assert_moved(stats)
    return stats


def flash_folder():
    """Where the tests put their flash directories; $EBB_TEST_FLASH, or a temporary one on a real file system."""
    return children.flash_directory(os.environ.get("EBB_TEST_FLASH"))
