"""set_memory(): training computes the same bits, whatever the budget does; what is given up is back with the system."""

import json
import pathlib
import subprocess
import sys

import pytest
import runner

STEPS = 6
KIB, MIB = runner.KIB, runner.MIB
CHANGING = pathlib.Path(__file__).resolve().parents[3] / "bench/jobs/changing_budget.py"


def options(flash, memory, most, block):
    return {**runner.options(flash, memory, block=block), "memory_max": most}


@pytest.mark.parametrize("name,driver", [("gpt2", "auto"), ("mlp_fused", "auto"), ("lstm", "remap")])
def test_training_notices_nothing(flash, name, driver):
    peak = runner.peak_live_bytes("workloads:run", flash, {"name": name, "steps": STEPS})
    least, most = max(peak // 8, 2 * MIB), max(peak // 2, 4 * MIB)
    arguments = {"name": name, "steps": STEPS, "least": least, "most": most}
    child = runner.managed("scenarios_memory:train", options(flash, most, most, "64KiB"),
                           env={"EBB_MEMORY_DRIVER": driver}, **arguments)
    assert child.find("result") == runner.stock_result("workloads:run", name=name, steps=STEPS)
    changes = child.find("changes")
    assert changes["count"] > 20 and changes["refused"] == 0, changes
    assert changes["beyond"] <= 64 * KIB, "a block more than the budget"
    runner.assert_moved(child.find("stats"))


def test_every_second_in_two_processes_of_a_job(flash):
    """Some seconds of what bench/jobs/changing_budget.py does for minutes."""
    done = subprocess.run([sys.executable, CHANGING, "--seconds", "6", "--size", str(192 * MIB), "--flash", flash],
                          env=runner.environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 2
    for process in found:
        assert process["losses_equal"] and process["steps"] > 1 and process["changes"] > 1
        assert process["refused"] == {} and process["most_beyond_bytes"] <= 2 * MIB


def pss(pid):
    """What of a process's memory is no file's, each page counted by its share."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0]) * KIB
    return fields["Pss_Anon"] + fields["Pss_Shmem"]


@pytest.mark.parametrize("driver", ["move", "remap"])
def test_what_is_given_up_is_measured_from_outside(flash, driver):
    sizes = [128 * MIB, 32 * MIB, 96 * MIB]
    argv = runner.command("scenarios_memory:grow_and_shrink", {"sizes": sizes},
                          options(flash, sizes[0], sizes[0], "2MiB"))
    env = runner.environment({"EBB_MEMORY_DRIVER": driver})
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        found = []
        for _ in sizes:
            line = child.stdout.readline()
            if line != "ready\n":
                child.kill()
                pytest.skip("this driver cannot run here") if not line else pytest.fail(line)
            found.append(pss(child.pid))
            child.stdin.write("\n")
            child.stdin.flush()
        result = json.loads(child.stdout.readline())["result"]
    assert len(set(result)) == 1
    assert abs((found[0] - found[1]) - (sizes[0] - sizes[1])) < 8 * MIB, found
    assert abs((found[2] - found[1]) - (sizes[2] - sizes[1])) < 8 * MIB, found


def test_what_cannot_be_is_refused(flash):
    child = runner.managed("scenarios_memory:refused", options(flash, 32 * MIB, 64 * MIB, "2MiB"))
    texts = child.find("result")
    assert "more than the 64.0 MiB" in texts[0] and "at least" in texts[1] and "is not a size" in texts[2], texts
