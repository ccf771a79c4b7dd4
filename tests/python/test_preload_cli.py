"""`ebb run` loads libebb_calls.so into the program, beside what the user loads there."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from ebb_program import EBB, needs_ebb

pytestmark = needs_ebb
SHOW = ["--", "sh", "-c", "echo $LD_PRELOAD; grep -c libebb_calls /proc/$$/maps"]


def preloaded(box, **environment):
    result = box.run("run", "--quiet", *SHOW, **environment)
    assert result.returncode == 0, result.stderr
    names, mappings = result.stdout.decode().splitlines()
    assert int(mappings) > 0, "the program has not loaded it"
    return names.split(":"), result.stderr.decode()


def test_the_library_is_loaded(box):
    names, said = preloaded(box)
    assert [pathlib.Path(name).name for name in names] == ["libebb_calls.so"]
    assert os.path.isabs(names[0])
    assert "LD_PRELOAD" not in said, "the loader complains"


def test_what_the_user_loads_stays_first(box):
    found = (path for folder in ("/lib", "/usr/lib", "/lib64") for path in pathlib.Path(folder).rglob("libm.so.6"))
    theirs = next(found, None)
    if theirs is None:
        pytest.skip("no libm.so.6 to load")
    names, _ = preloaded(box, LD_PRELOAD=str(theirs))
    assert names[0] == str(theirs) and pathlib.Path(names[1]).name == "libebb_calls.so"


def test_once_in_a_run_within_a_run(box):
    names, _ = preloaded(box)
    again, _ = preloaded(box, LD_PRELOAD=names[0])
    assert again == names


def test_doctor_names_what_remains():
    """To a user without privileges, for whom the kernel does not wait."""
    user = []
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv to become an ordinary user with")
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    found = subprocess.run([*user, str(EBB), "doctor", "--quick", "--json"], capture_output=True, timeout=120, cwd="/",
                           env={"PATH": os.defpath, "EBB_PYTHON": "/bin/false"}, check=False)
    checks = {check["id"]: check for check in json.loads(found.stdout)["checks"]}
    told = checks["system_calls"]
    assert told["verdict"] == "good" and pathlib.Path(told["details"]["library"]).name == "libebb_calls.so"
    if checks["userfaultfd"]["details"]["rung"] == "A":
        assert "wait" in told["found"]
    else:
        assert "EFAULT" in told["found"] and "io_uring" in told["found"]
