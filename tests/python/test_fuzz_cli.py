"""End-to-end tests of `ebb fuzz`, through the real executable: what it says, and what it answers to Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import time

import pytest
from ebb_program import EBB, ROOT, needs_ebb, read_terminal

TIMEOUT_S = 120

pytestmark = needs_ebb


def fuzz(*arguments):
    return subprocess.run([EBB, "fuzz", *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=False)


def fuzz_json(*arguments):
    result = fuzz(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_the_same_seed_is_the_same():
    first, second = (fuzz_json("--seed", 5, "--runs", 20, "--ops", 100) for _ in range(2))
    for name in ("seed", "seeds", "operations", "hash", "faults", "reached", "virtual_seconds"):
        assert first[name] == second[name], name
    assert (first["seed"], first["seeds"], first["failures"]) == (5, 20, [])
    assert 20 * 100 <= first["operations"] < 20 * 130
    assert first["hash"] != fuzz_json("--seed", 6, "--runs", 20, "--ops", 100)["hash"]


def test_a_fresh_seed_is_printed():
    result = fuzz("--minutes", "0.01")
    assert result.returncode == 0
    assert int(result.stdout.splitlines()[0].removeprefix("seed ")) > 0
    assert result.stdout.endswith("no failure\n")


def test_past_failures_pass():
    report = fuzz_json("--replay", ROOT / "tests/scenario/found")
    assert report["programs"] == len(list((ROOT / "tests/scenario/found").glob("*.json"))) > 0
    assert report["failures"] == []


@pytest.mark.parametrize("arguments, named", [
    (["--seed", "x"], "--seed"), (["--seed", "-1"], "--seed"), (["--minutes", "0"], "--minutes"),
    (["--minutes", "nan"], "--minutes"), (["--ops", "0"], "--ops"), (["--runs", "1e3"], "--runs"),
    (["--replay", "no/such.json"], "no/such.json"), (["--replay", "docs/img"], "--replay"),
    (["--replay", "tests/scenario/calm.json", "--seed", "1"], "--replay"), (["--policy", "window"], "--policy")])
def test_usage_is_told_in_one_line(arguments, named):
    result = fuzz(*(str(ROOT / word) if "/" in word else word for word in arguments))
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1 and named in result.stderr
    assert "FAILED" not in result.stdout


def test_ctrl_c_ends_with_a_summary():
    child = subprocess.Popen([EBB, "fuzz", "--minutes", "10"], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().startswith("seed ")
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=TIMEOUT_S)
    assert child.returncode == 0
    assert output.startswith("interrupted: ") and output.endswith("no failure\n")


def test_progress_is_shown_on_a_terminal_only():
    terminal, other = pty.openpty()
    result = subprocess.run([EBB, "fuzz", "--minutes", "0.02"], stdout=subprocess.PIPE, stderr=other, timeout=TIMEOUT_S,
                            check=False)
    os.close(other)
    shown = read_terminal(terminal)
    assert result.returncode == 0
    assert b"operations" in shown and shown.endswith(b"\r\x1b[K")


def test_what_fails_is_named(tmp_path):
    program = tmp_path / "bad.json"
    program.write_text('{"policy": "no such policy", "operations": [["allocate", 1]]}')
    result = fuzz("--replay", program)
    assert result.returncode == 1
    assert "FAILED bad: " in result.stdout and "internal error" in result.stdout
    assert result.stdout.endswith("1 programs, 1 failed\n")
    report = json.loads(fuzz("--replay", program, "--json").stdout)
    (failure,) = report["failures"]
    assert (failure["name"], failure["program"]["operations"]) == ("bad", [["allocate", 1]])
