"""Tests of `ebb run` with a launcher in it: ranks, and what else imports torch, are processes of one job.

What is enabled here is no Ebbtide and joins no broker: these are tests of the hook, the pages and the summary. With
torch: python/tests/torch_cpu/test_jobs.py."""

import json
import sys
import textwrap

import pytest
from ebb_program import needs_ebb
from fake_program import fake_page

pytestmark = needs_ebb

# What torchrun is as far as the hook can see. A rank starts another process, as for loading data.
LAUNCHER = """
    import os, subprocess, sys, torch
    rank = (
        "import os, subprocess, sys, torch;"
        "subprocess.run([sys.executable, '-c', 'import torch'], check=True);"
        "print(os.environ['EBB_MEMORY'], os.environ['EBB_FLASH'].rpartition(':')[2]);"
        "sys.exit(int(os.environ.get('FAIL', 0)))"
    )
    for again in range(int(os.environ.get("TIMES", 1))):
        for number in range(2):
            ranks = {"LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": "2"}
            subprocess.run([sys.executable, "-c", rank], env={**os.environ, **ranks})
    """


@pytest.fixture
def launcher(box):
    path = box.path / "torchrun"
    path.write_text(textwrap.dedent(LAUNCHER))
    return path


def test_ranks_share_the_budget(box, launcher):
    page = fake_page(budget_bytes=512 << 20, resident_bytes=100, faults=5, stall_ns=7)
    result = box.run("run", "--memory", "1GiB", "--flash", "tmp:3GiB", "--summary", "s.json", "--", sys.executable,
                     launcher, FAKE_STATS=page)
    assert result.stdout.decode().split() == [str(1 << 30), str(3 << 30)] * 2
    assert len(box.enabled()) == 5, "the launcher, two ranks, and what each of them starts"
    summary = json.loads((box.path / "s.json").read_text())
    assert summary["managed"] and [rank["rank"] for rank in summary["ranks"]] == [0, 1]
    assert summary["faults"] == 25
    assert summary["resident_bytes"] == 200, "what others had that have ended is nobody's"
    assert summary["stall_ns"] == 7 and summary["steps"] == 3 and summary["median_step_seconds"] == 0.4
    assert summary["unmanaged_processes"] == 0
    table = result.stderr.decode()
    assert "rank 0" in table and "rank 1" in table and "outside" not in table
    assert box.leftovers() == []


def test_a_rank_that_is_started_again_takes_its_place(box, launcher):
    result = box.run("run", "--memory", "1GiB", "--quiet", "--", sys.executable, launcher, TIMES="2", FAIL="1")
    assert len(result.stdout.split()) == 8 and len(box.enabled()) == 9


def test_a_rank_that_replaces_itself_keeps_its_share(box):
    program = """
    import os, sys
    import torch
    print(os.environ["EBB_MEMORY"], os.path.basename(os.environ["EBB_STATS"]), flush=True)
    if "AGAIN" not in os.environ:
        os.environ["AGAIN"] = "1"
        os.execv(sys.executable, [sys.executable, "-c", open(sys.argv[1]).read()])
    """
    path = box.path / "program.py"
    path.write_text(textwrap.dedent(program))
    result = box.run("run", "--memory", "1GiB", "--quiet", "--", sys.executable, path, path, LOCAL_RANK="1",
                     LOCAL_WORLD_SIZE="2")
    assert result.stdout.decode().splitlines() == [f"{1 << 30} stats.rank1"] * 2, result.stderr


def test_where_there_is_no_job_others_are_counted(box):
    program = "import subprocess, sys, torch; subprocess.run([sys.executable, '-c', 'import torch'], check=True)"
    result = box.python(program, "--device-memory", "1GiB", FAKE_STATS=fake_page())
    assert "outside the budget      1 other process that imported torch" in result.stderr.decode()
    result = box.python("import torch", "--device-memory", "1GiB", FAKE_STATS=fake_page())
    assert "outside" not in result.stderr.decode()


def test_each_process_has_a_page_and_the_first_records(box):
    program = """
    import os, subprocess, sys, torch
    print(os.path.basename(os.environ["EBB_STATS"]), os.environ.get("EBB_RECORD"), os.environ["EBB_RANK"], flush=True)
    if len(sys.argv) < 2:
        subprocess.run([sys.executable, "-c", open("program.py").read(), "again"], check=True)
    """
    (box.path / "program.py").write_text(textwrap.dedent(program))
    result = box.run("run", "--record", "t.jsonl", "--quiet", "--", sys.executable, box.path / "program.py")
    first, second = result.stdout.decode().splitlines()
    assert first == f"stats {box.path / 't.jsonl'} ".rstrip() + " "
    page, record, _ = second.split(" ")
    assert page.startswith("stats.p") and record == "None"


def test_share_is_checked_before_the_program_starts(box):
    result = box.run("run", "--share", "mine", "--", "touch", "started")
    assert result.returncode == 2 and b"choose stalls or equal" in result.stderr
    assert not (box.path / "started").exists()
