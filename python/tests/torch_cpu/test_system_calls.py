"""System calls on tensors that are absent, on every rung: saves, loads, sockets, pipes, workers.

Each scenario of scenarios_calls.py runs on stock PyTorch and on three rungs with a third of the memory that its tensors
take: `full`, where the kernel waits for absent memory; `user`, where it does not; and `remap`, as an ordinary user too,
where it cannot. There libebb_calls.so completes the calls, which is loaded before the program, as `ebb run` does, or by
enable().
"""

import pathlib
import shutil
import tempfile

import children
import pytest
import runner
import rungs

MEMORY = 8 * runner.MIB
COMPLETED = "system calls on absent blocks are completed by libebb_calls.so"
SCENARIOS = {
    "checkpoint": {}, "full_disk": {}, "safetensors": {}, "numpy_files": {}, "pickles": {}, "positions": {},
    "sockets": {}, "pipes": {}, "gloo": {}, "memory_file": {}, "handlers": {}, "own_memory": {},
    "loader-fork": {"start": "fork"}, "loader-spawn": {"start": "spawn"}, "loader-forkserver": {"start": "forkserver"},
    "queue-fork": {"start": "fork"}, "queue-spawn": {"start": "spawn"},
}


@pytest.fixture
def place():
    """A directory in which any user may write."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="ebb-calls-", dir=runner.flash_folder()))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def run(rung, place, target, arguments, *, library="preloaded"):
    """Runs `target` on a rung, as an ordinary user but for the full one. `library`: preloaded, by enable(), or none."""
    if rungs.wanted() not in (None, rung):
        pytest.skip(f"these tests stand on the rung {rungs.wanted()}")
    if why := rungs.why_not(rung):
        pytest.skip(why)
    words = rungs.as_user() if rung != "full" and rungs.wanted() is None else []
    env = runner.environment({"EBB_MEMORY_DRIVER": rungs.MEMORY_DRIVERS[rung], "EBB_TEST_FOLDER": str(place),
                              "HOME": str(place), "TMPDIR": str(place)})
    env["LD_PRELOAD"] = str(runner.CALLS) if library == "preloaded" else ""
    if library == "none":
        env["EBB_CALLS"] = "0"
    argv = runner.command(target, arguments, runner.options(place, MEMORY))
    return children.run([*words, *argv], env=env, timeout=240)


def cases():
    """Every day what an ordinary user meets, and one or two on the other rungs; the rest is slow."""
    few = ("checkpoint", "sockets", "loader-fork", "handlers", "own_memory")
    daily = {("full", "preloaded"): ("checkpoint", "own_memory"),
             ("full", "enabled"): ("checkpoint", "own_memory"),
             ("user", "preloaded"): SCENARIOS,
             ("user", "enabled"): ("checkpoint", "sockets", "loader-fork", "handlers"),
             ("remap", "preloaded"): few, ("remap", "enabled"): ("checkpoint", "loader-fork")}
    for rung, library in daily:
        for name in SCENARIOS:
            if name == "own_memory" and library == "enabled" and rung != "full":
                continue  # its calls are looked up with dlsym(), which finds the C library's
            spawns = "spawn" in name or "forkserver" in name  # half a minute each
            marks = [] if name in daily[rung, library] and not spawns else [pytest.mark.slow]
            yield pytest.param(name, rung, library, marks=marks, id=f"{name}-{rung}-{library}")


@pytest.mark.parametrize("name, rung, library", list(cases()))
def test_calls(ebbtide_built, place, name, rung, library):
    scenario, arguments = name.split("-")[0], SCENARIOS[name]
    child = run(rung, place, f"scenarios_calls:{scenario}", arguments, library=library).check()
    stats = child.find("stats")
    assert stats["description"].startswith(rungs.IN_DESCRIPTION[rung])
    assert (COMPLETED in stats["description"]) == (rung != "full")
    assert child.find("result") == runner.stock_result(f"scenarios_calls:{scenario}", **arguments)
    runner.assert_within_budget(stats)
    assert stats["evicted_bytes"] > 0 and stats["corrupt_blocks"] == 0
    if name not in ("full_disk", "loader-fork"):  # which fails early; whose children fetch for themselves
        assert stats["fetched_bytes"] > 0
    assert "Fatal Python error" not in child.stderr, child.tail()
    assert not list(place.iterdir()), "something was left behind"


@pytest.mark.parametrize("rung", ["user", "remap"])
def test_without_the_library(ebbtide_built, place, rung):
    """The description tells the truth: a call fails, as it says, and what helps."""
    child = run(rung, place, "scenarios_calls:positions", {}, library="none")
    assert child.returncode == 1
    assert "OSError: [Errno 14] Bad address" in child.stderr or "AssertionError" in child.stderr, child.tail()


@pytest.mark.parametrize("rung", ["full", "user"])
def test_adopted_memory(ebbtide_built, place, rung):
    """Memory that was NumPy's before: written to a file, read from it, over a socket."""
    stats = run(rung, place, "scenarios_calls:adopted", {}).check().find("stats")
    assert stats["description"].startswith(rungs.IN_DESCRIPTION[rung])
    assert stats["evicted_bytes"] > 0 and stats["fetched_bytes"] > 0 and stats["corrupt_blocks"] == 0
