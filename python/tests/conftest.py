"""Fixtures, and which of these tests run.

`pytest python/tests` runs the default set, some minutes, and says how many slow tests it left out; with
`--rest all` those too, with `--rest 1/3` one third of them, with `-m slow` them alone; `--seconds 600` begins none of
them later than that. $EBB_TEST_RUNG=user or remap puts all on that rung (rungs.py). A test of managed tensors fails,
not skips, while the extension is not built: a suite that skips everything looks green.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import time
import zlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "support"), str(HERE / "programs")]

pytest.register_assert_rewrite("runner")  # so that a comparison there tells what differs
import runner  # noqa: E402
import rungs  # noqa: E402

LEFT_OUT = "left_out"  # in $EBB_TEST_RESULTS: how many; of use where several processes share the tests
BEGUN = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--rest", default="none", metavar="none|all|K/N", help="how many of the slow tests run, too")
    parser.addoption("--seconds", type=float, metavar="N", help="no slow test begins later; it is skipped")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: exhaustive; runs only when chosen with --rest or -m")
    os.environ.setdefault("EBB_REMEMBER", "0")  # each test is the first run of its program
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle workers of one process spin on the core of another
    if not hasattr(config, "workerinput"):  # the process that starts the others, if there are any
        results = tempfile.mkdtemp(prefix="ebb-results-")
        os.environ["EBB_TEST_RESULTS"] = results
        config.add_cleanup(lambda: shutil.rmtree(results, ignore_errors=True))


def pytest_runtest_setup(item):
    limit_s = item.config.option.seconds
    if "slow" in item.keywords and limit_s is not None and time.monotonic() - BEGUN > limit_s:
        pytest.skip("a slow test for which no time was left")


def _chosen(item, rest):
    if "slow" not in item.keywords or rest == "all":
        return True
    if rest == "none":
        return False
    part, parts = map(int, rest.split("/"))
    return zlib.crc32(f"{item.path.name}::{item.name}".encode()) % parts == part % parts


def pytest_collection_modifyitems(config, items):
    if why := rungs.wanted() and rungs.why_not(rungs.wanted()):
        for item in items:
            item.add_marker(pytest.mark.skip(reason=why))
    rest = config.option.rest
    if config.option.markexpr and rest == "none":
        return
    left_out = [item for item in items if not _chosen(item, rest)]
    items[:] = [item for item in items if _chosen(item, rest)]
    config.hook.pytest_deselected(items=left_out)
    (pathlib.Path(os.environ["EBB_TEST_RESULTS"]) / LEFT_OUT).write_text(str(len(left_out)), encoding="utf-8")


def pytest_terminal_summary(terminalreporter):
    path = pathlib.Path(os.environ["EBB_TEST_RESULTS"]) / LEFT_OUT
    if path.exists() and (count := int(path.read_text(encoding="utf-8"))):
        terminalreporter.write_line(f"left out: {count} slow tests; --rest all runs them")


@pytest.fixture
def tmp_path(tmp_path):
    rungs.give(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def ebbtide_built():
    child = runner.run([runner.sys.executable, "-c", "import ebbtide"], env=runner.environment(), timeout=60)
    if child.returncode != 0:
        pytest.fail("ebbtide cannot be imported: build it with `make`\n" + child.tail(5), pytrace=False)


@pytest.fixture(scope="session")
def flash(ebbtide_built):
    """A directory on a real file system for flash; empty again at the end, whatever the children did."""
    path = tempfile.mkdtemp(prefix="ebb-tests-", dir=runner.flash_folder())
    rungs.give(path)
    yield path
    left = list(runner.pathlib.Path(path).iterdir())
    shutil.rmtree(path)
    assert not left, f"children left files on flash: {left}"


@pytest.fixture
def folder():
    """The private directory of an `ebb run` is made here, and must be gone in the end. Its name is short: programs make
    sockets in it, which Python refuses to do where a path has more than 107 characters."""
    with tempfile.TemporaryDirectory(prefix="ebb-folder-") as name:
        made = pathlib.Path(name)
        yield made
        end = time.monotonic() + 5
        while time.monotonic() < end and list(made.glob("ebb-*")):
            time.sleep(0.05)
        assert list(made.glob("ebb-*")) == [], "left on disk"
