"""Programs behave under Ebbtide as on stock PyTorch: same results, same exceptions, same exits.

Each test runs a function of scenarios.py or scenarios_process.py twice, stock and under a budget that holds a part of
its tensors, and compares what the two return.
"""

import re
import shutil
import signal
import subprocess
import sys
import time

import children
import pytest
import runner
import rungs

MEMORY = 8 * runner.MIB
DRIVERS = ("auto", "remap")


def compare(flash, scenario, *, driver="auto", module="scenarios", memory=MEMORY, timeout=120, env=None, **arguments):
    return runner.compare(f"{module}:{scenario}", runner.options(flash, memory), timeout=timeout,
                          env={"EBB_MEMORY_DRIVER": driver, **(env or {})}, **arguments)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("scenario", ["numpy_views", "python_threads", "operator_beyond_the_budget"])
def test_tensors_with_every_driver(flash, scenario, driver):
    compare(flash, scenario, driver=driver)


@pytest.mark.parametrize("scenario", ["kept_tensors", "opaque_layouts", "inference", "allocation_beyond_the_budget",
                                      "exceptions", "deep_graph"])
def test_tensors(flash, scenario):
    compare(flash, scenario)


def test_deep_copies_are_managed(flash):
    stats = compare(flash, "deep_copies")
    assert stats["peak_live_bytes"] > 7 * 4 * 4 * 640 * 640  # weights of a model and of its six copies


def test_most_of_a_loop_over_more_than_memory_stays(flash):
    stats = compare(flash, "numpy_loop", passes=12)
    assert stats["fetched_bytes"] < 0.75 * 12 * 16 * runner.MIB


def test_lookups_fetch_the_rows_that_they_use(flash):
    stats = compare(flash, "lookups")
    assert stats["fetched_bytes"] < 32 * runner.MIB  # of 64, 40 times


@pytest.mark.parametrize("optimizer,tables", [("SGD", 1), ("Adagrad", 2), ("SparseAdam", 3)])
def test_tables_fetch_the_rows_that_they_use(flash, optimizer, tables):
    stats = compare(flash, "tables", optimizer=optimizer, steps=12)
    # 84 MiB, and as much for each table of the optimizer's. A step uses 25 rows of it, each in a block of 64 KiB: 19
    # MiB in twelve steps. Making the tables fetches 27 MiB, in stock's own copies.
    assert stats["fetched_bytes"] < (40 + 1.3 * tables * 19) * runner.MIB


def test_experts_are_fetched_alone(flash):
    stats = compare(flash, "experts")
    assert stats["fetched_bytes"] < 192 * runner.MIB  # of 64, 31 times


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["foresight", "window", "on_demand"])
@pytest.mark.parametrize("driver", ["move", "remap"])
@pytest.mark.parametrize("scenario", ["numpy_views", "python_threads", "operator_beyond_the_budget", "kept_tensors",
                                      "opaque_layouts", "inference", "allocation_beyond_the_budget", "exceptions",
                                      "deep_graph"])
def test_tensors_whole(flash, scenario, driver, policy):
    options = runner.options(flash, 4 * runner.MIB, policy=policy)
    runner.compare(f"scenarios:{scenario}", options, env={"EBB_MEMORY_DRIVER": driver}, timeout=300)


@pytest.mark.parametrize("driver", DRIVERS)
def test_save_and_load(flash, tmp_path, driver):
    """Also the kernel itself reading and writing tensors, inside read() and write()."""
    compare(flash, "save_and_load", driver=driver, folder=str(tmp_path))


@pytest.mark.parametrize("scenario", ["compiled", "compiled_training"])
def test_compile(flash, tmp_path, scenario):
    if not (shutil.which("g++") or shutil.which("c++")):
        pytest.skip("torch.compile needs a C++ compiler, and there is none on the path")
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}  # shared: the second child loads what the first one compiled
    expected = runner.stock(f"scenarios:{scenario}", env=env, timeout=240).find("result")
    child = runner.managed(f"scenarios:{scenario}", runner.options(flash, MEMORY), env=env, timeout=240)
    assert child.find("result") == expected
    stats = child.find("stats")
    runner.assert_moved(stats)
    if scenario == "compiled_training":  # the other one reads most of its tensors as NumPy arrays, which fault
        assert stats["faults"] <= stats["fetched_bytes"] // (64 * runner.KIB) / 50, "kernels were not announced"


@pytest.mark.parametrize("driver", DRIVERS)
def test_data_loader(flash, driver):
    compare(flash, "data_loader", module="scenarios_process", driver=driver)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("scenario", ["fork_snapshot", "fork_repeatedly"])
def test_fork(flash, scenario, driver):
    compare(flash, scenario, module="scenarios_process", driver=driver)


def test_fork_amid_operators(flash):
    child = runner.managed("scenarios_process:fork_amid_operators", runner.options(flash, MEMORY))
    assert child.find("result") == [0], "a child hung at its first operator"


def test_subprocesses(flash):
    compare(flash, "subprocesses", module="scenarios_process")


@pytest.mark.parametrize("driver", DRIVERS)
def test_interrupt(flash, driver):
    """Ctrl-C in the middle of training ends the program as it would end any."""
    interrupted = []

    def third_step(record):
        if record.get("step") == 3:
            interrupted.append(time.monotonic())
            return True
        return False

    child = runner.run(runner.command("scenarios_process:forever", {}, runner.options(flash, MEMORY)),
                       env=runner.environment({"EBB_MEMORY_DRIVER": driver}), timeout=60, interrupt_when=third_step)
    assert time.monotonic() - interrupted[0] < 10
    assert child.returncode == -signal.SIGINT, child.tail()
    assert "KeyboardInterrupt" in child.stderr


@pytest.mark.parametrize("way,code", [("return", 0), ("sys.exit", 0), ("os._exit", 0), ("exception", 1),
                                      ("cycle", 0)])
def test_exit_with_transfers_in_flight(flash, way, code):
    left = []
    child = runner.run(runner.command("scenarios_process:leave", {"way": way}, runner.options(flash, MEMORY)),
                       env=runner.environment(), timeout=60,
                       on_record=lambda record: left.append(time.monotonic()) if "leaving" in record else None)
    assert left, child.tail()
    took = time.monotonic() - left[0]
    assert child.returncode == code, child.tail()
    assert took < 5, f"the exit took {took:.1f} s"
    assert ("the program's own error" in child.stderr) == (way == "exception")


def test_disable(flash):
    record = runner.managed("scenarios_process:switch_off", runner.options(flash, MEMORY)).find("result")
    assert record["enabled"] == [True, False]
    assert record["before"] and record["before_still"]
    assert not record["after"] and not record["small"]
    assert record["hash"] == record["expected"]
    assert record["live"] >= 32 * runner.MIB
    assert record["live_at_end"] < 2 * runner.MIB


def test_enable_twice(flash):
    first = runner.options(flash, MEMORY)
    second = {**first, "memory": 2 * MEMORY}
    record = runner.managed("scenarios_process:enable_again", first, first=first, second=second).find("result")
    while_enabled, other_options, same_options = record["messages"]
    assert "already" in while_enabled
    assert other_options, "other options were accepted in silence"
    assert same_options is None
    assert record["managed"]


def test_steps_and_statistics(flash):
    child = runner.managed("scenarios_process:steps", runner.options(flash, MEMORY))
    record, stats = child.find("result"), child.find("stats")
    assert record["steps"] == 4
    assert len(record["seconds"]) in (3, 4) and all(second > 0 for second in record["seconds"])
    header = (runner.children.REPOSITORY / "include/ebb/stats.h").read_text(encoding="utf-8")
    fields = re.findall(r"std::uint64_t (\w+) = 0;", header)
    assert len(fields) > 20
    assert set(fields) | {"policy", "description", "step_seconds"} <= set(stats)
    assert stats["policy"] == "foresight" and stats["description"]


def test_optimizer_steps_are_found(flash):
    """Without ebbtide.step(): the optimizer's own steps mark the iterations."""
    stats = runner.managed("workloads:run", runner.options(flash, MEMORY), name="mlp", steps=6).find("stats")
    assert 5 <= stats["steps"] <= 7


def test_import_alone_changes_nothing(ebbtide_built):
    code = "import ebbtide, torch; x = torch.ones(10**7); print(ebbtide.enabled(), ebbtide.manages(x), x.sum().item())"
    child = runner.run([sys.executable, "-c", code], env=runner.environment(), timeout=60).check()
    assert child.stdout.split() == ["False", "False", "10000000.0"]


def with_calls(how, environment):
    """The library that stands before the C library's calls: where it is missing threads are seen to in another way."""
    found = {**environment, "LD_PRELOAD": str(runner.CALLS) if how == "preloaded" else ""}
    return {**found, "EBB_CALLS": "0"} if how == "none" else found


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("early", [False, True], ids=["late", "early"])
@pytest.mark.parametrize("calls", ["preloaded", "enabled", "none"])
def test_threads_have_a_stack_for_signals_where_faults_are_signals(flash, driver, early, calls):
    """Kernels that use the stack pointer for other memory are not overwritten by a fault's frame (signal_stack.h)."""
    argv = runner.command("signal_stacks:of_a_team",
                          {"count": 4, "options": runner.options(flash, MEMORY), "early": early}, None)
    environment = with_calls(calls, runner.environment({"EBB_MEMORY_DRIVER": driver}))
    found = children.run(argv, env=environment, timeout=120).check().find("result")
    assert len(found["others"]) >= 3
    assert set([found["caller"], *found["others"]]) == {"SIGSEGV" in found["how"]}


@pytest.mark.parametrize("calls", ["preloaded", "enabled", "none"])
@pytest.mark.parametrize("reached", [True, False])
def test_threads_that_are_not_given_stacks_for_signals_are_told(flash, calls, reached):
    code = f"""
import signal, threading, ebbtide
def deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG] if {not reached} else [])
    begun.set()
    over.wait()
begun, over = threading.Event(), threading.Event()
thread = threading.Thread(target=deaf)
thread.start()
begun.wait()
ebbtide.enable(memory='64MiB', flash={flash!r})
over.set()
thread.join()
"""
    environment = with_calls(calls, runner.environment({"EBB_MEMORY_DRIVER": "remap"}))
    done = subprocess.run([*rungs.prefix(), sys.executable, "-c", code], env=environment, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert ("faults are signals" in done.stderr) == (not reached), done.stderr
