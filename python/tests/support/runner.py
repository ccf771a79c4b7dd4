"""Runner: how a test runs a function in a child process, stock or managed, and compares the two.

Every child has a time limit. Managed children get their options through `ebbtide.enable`, drivers through the
environment, and whoever tells its statistics is asked whether it was served by them (rungs.py). The processes
themselves: bench/training/children.py, forking.py.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench" / "training"))

import children  # noqa: E402
import forking  # noqa: E402
import rungs  # noqa: E402
from children import ChildError  # noqa: E402, F401

# Completes system calls on absent tensors; every child has it, as under `ebb run`.
CALLS = HERE.parents[2] / "build" / "release" / "calls" / "libebb_calls.so"
KIB, MIB, GIB = 2**10, 2**20, 2**30
MEASURE_LIMIT_S = 900
# Modules whose functions run in forked children.
FORKED = ("workloads", "recorded", "scenarios", "optimizers", "operators", "device_workloads", "device_scenarios",
          "device_operators", "gpu_programs", "hostile_workloads", "scenarios_files")
# What a forked child can be told by its environment.
DRIVERS = {"EBB_MEMORY_DRIVER", "EBB_FLASH_DRIVER", "EBB_DEVICE_STRICT"}


def command(target, arguments, options):
    request = {"target": target, "arguments": arguments, "options": options}
    return [*rungs.prefix(), sys.executable, str(HERE / "child.py"), json.dumps(request)]


def environment(extra=None):
    asked = {name: value for name, value in (extra or {}).items() if value != "auto"}
    # Fixed hash seed: tests that walk sets do so in the same order in both children.
    env = children.environment({"PYTHONHASHSEED": "0", **rungs.environment(), **asked}, with_adapter=True)
    if rungs.wanted() != "user":  # there enable() brings it in, as where `ebb run` has not started the program
        env["LD_PRELOAD"] = ":".join(filter(None, [env.get("LD_PRELOAD"), str(CALLS)]))
    env.pop("PYTEST_CURRENT_TEST", None)  # of each test another: there is one forking server for an environment
    return env


def run(argv, *, env, **limits):
    """children.run(); who tells the statistics of memory and flash must have been served by the drivers of `env`."""
    child = children.run(argv, env=env, **limits)
    for stats in child.all("stats"):
        if not stats["description"].startswith("CUDA "):
            rungs.check(stats["description"], env)
    return child


def start(target, arguments, options, *, timeout, env=None, limits=None, started=lambda pid: None):
    """Runs a child to its end, however it ends. `started`: called with its process id if it is a forked one."""
    argv = command(target, arguments, options)
    fork = None
    module = target.split(":")[0]
    # The database of operators starts CUDA as it is imported, which no forked child survives.
    forks = module in FORKED and not (module == "device_operators" and arguments.get("device") == "cuda")
    if forks and set(env or {}) <= DRIVERS:
        request = {**json.loads(argv[-1]), "limits": limits or {}}
        server = forking.connect(tuple(argv[:-1]), tuple(environment().items()))
        asked = {name: value for name, value in (env or {}).items() if value != "auto"}

        def fork():
            child = forking.Forked(server, request, asked)
            started(child.pid)
            return child

    return run(argv, env=environment(env), timeout=timeout, start=fork)


def stock(target, *, timeout=120, env=None, **arguments):
    """Runs `target` on stock PyTorch; returns the Child, which has ended with code 0."""
    return start(target, arguments, None, timeout=timeout, env=env).check()


def once(kind, key, make):
    """make(), called once a test session for equal `kind` and `key`, also when several processes share the tests.

    What it returns is kept as JSON in $EBB_TEST_RESULTS; the first process to ask makes it, the others wait for it.
    """
    name = hashlib.sha256(json.dumps([kind, key], sort_keys=True).encode()).hexdigest()
    with (pathlib.Path(os.environ["EBB_TEST_RESULTS"]) / name).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read()
        if not known:
            known = json.dumps(make())
            file.write(known)
        return json.loads(known)


def stock_result(target, *, timeout=120, **arguments):
    """What `target` returns on stock PyTorch; run once a session for equal arguments."""
    return once("stock", [target, arguments], lambda: stock(target, timeout=timeout, **arguments).find("result"))


def managed(target, options, *, timeout=180, env=None, **arguments):
    """Runs `target` under Ebbtide with `options`; returns the Child, which has ended with code 0."""
    __tracebackhide__ = True
    return start(target, arguments, options, timeout=timeout, env=env).check()


def options(flash, memory, *, block="64KiB", managed_min="1KiB", policy="foresight"):
    return {"memory": memory, "flash": str(flash), "policy": policy, "block": block, "managed_min": managed_min}


def on_soft_device(flash, device_memory, *, memory="64MiB", strict=False, **options):
    """Options for tensors on the device that stands for a GPU (soft_device); needs what the build puts there."""
    build = HERE.parents[2] / "build" / "release" / "tests"
    return {"soft_device": {"build": str(build), "device_memory": device_memory, "memory": memory,
                            "flash": f"{flash}:256MiB", "strict": strict, **options}}


def peak_live_bytes(target, flash, arguments, *, memory="1536MiB", **defaults):
    """The most bytes of managed tensors that `target` has at once, from a run in which everything fits.

    Also a test of its own: with nothing to move the result must be stock's, too. More memory in blocks of 64 KiB would
    need more mappings on the rung `remap` than Linux allows by default (vm.max_map_count).
    """
    def measure():
        child = managed(target, options(flash, memory, **defaults), timeout=MEASURE_LIMIT_S, **arguments)
        expected = stock_result(target, timeout=MEASURE_LIMIT_S, **arguments)
        assert child.find("result") == expected, "differs though everything fits"
        return child.find("stats")["peak_live_bytes"]

    return once("peak", [target, arguments, memory, defaults], measure)


def budget_of(peak, fraction, block):
    """That part of the most bytes, in whole blocks."""
    return -(-peak // fraction // block) * block


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
