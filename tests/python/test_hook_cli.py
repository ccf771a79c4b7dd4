"""Tests of the start-up hook that `ebb run` puts into Python programs."""

import os
import subprocess
import sys

import pytest
from ebb_program import needs_ebb

pytestmark = needs_ebb


def test_hook_enables_once_in_each_process_that_imports_torch(box):
    program = """
    import os, subprocess, sys
    import torch, importlib
    assert torch.VALUE == 42
    importlib.reload(torch)
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    if os.fork() == 0:
        sys.modules.pop("torch")
        import torch
        os._exit(0)
    assert os.wait()[1] == 0
    print(os.getpid())
    """
    result = box.python(program, "--quiet")
    assert result.returncode == 0, result.stderr
    assert len(box.enabled()) == 2 and box.enabled()[0] == result.stdout.decode().strip()


def test_hook_reaches_a_program_behind_a_launcher(box):
    launcher = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import torch']))"
    assert box.run("run", "--", "sh", "-c", f'{sys.executable} -c "{launcher}"').returncode == 0
    assert len(box.enabled()) == 1


def test_hook_survives_a_program_that_replaces_itself(box):
    program = """
    import os, sys
    import torch
    if "AGAIN" not in os.environ:
        os.environ["AGAIN"] = "1"
        os.execv(sys.executable, [sys.executable, "-c", "import torch"])
    """
    assert box.python(program).returncode == 0
    pids = box.enabled()
    assert len(pids) == 2 and pids[0] == pids[1]


def test_hook_leaves_python_as_it_was(box):
    (box.path / "site/sitecustomize.py").write_text("import builtins\nbuiltins.chained = __file__\n")
    program = """
    import sys
    finders = len(sys.meta_path)
    import torch
    print(chained, sys.modules["sitecustomize"].__file__)
    print(torch.__loader__ is torch.__spec__.loader, type(torch.__loader__).__name__, len(sys.meta_path) == finders - 1)
    print(any(entry.endswith("hook") for entry in sys.path))
    """
    own = str(box.path / "site/sitecustomize.py")
    lines = box.python(program, "--quiet").stdout.decode().splitlines()
    assert lines == [f"{own} {own}", "True SourceFileLoader True", "False"]
    assert len(box.enabled()) == 1


def test_hook_passes_on_errors_that_are_not_its_own(box):
    (box.path / "site/sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    result = box.python("print('ran')", "--quiet")
    assert result.returncode == 0 and result.stdout == b"ran\n" and b"theirs" in result.stderr
    (box.path / "site/torch.py").write_text("raise ValueError('broken torch')\n")
    result = box.python("""
        try:
            import torch
        except ValueError as error:
            print(error)
        """, "--quiet")
    assert result.stdout == b"broken torch\n" and box.enabled() == []


@pytest.mark.parametrize(
    "failure, words",
    [
        ("import", "cannot be loaded into this Python"),
        ("error", "ebb: no room on flash; name another directory"),
        ("bug", "KeyError"),
    ],
)
def test_hook_stops_a_program_that_cannot_be_managed(box, failure, words):
    program = """
    try:
        import torch
    except BaseException:
        pass
    print("ran unmanaged")
    """
    result = box.python(program, FAKE_FAILURE=failure)
    assert result.returncode == 2
    assert words in result.stderr.decode() and b"unmanaged" not in result.stdout
    assert b"did not start" in result.stderr
    if failure == "import":
        assert b"install it for this Python" in result.stderr
