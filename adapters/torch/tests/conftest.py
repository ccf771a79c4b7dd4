"""Fixtures and the two speeds of these tests.

`pytest adapters/torch/tests` runs the default set, some minutes; `pytest -m slow …` the exhaustive ones. A test of
managed tensors fails, not skips, while the extension is not built: a suite that skips everything looks green.
"""

import os
import shutil
import tempfile

import pytest
import runner


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: exhaustive; runs only when chosen with -m")
    if not hasattr(config, "workerinput"):  # the process that starts the others, if there are any
        results = tempfile.mkdtemp(prefix="ebb-results-")
        os.environ["EBB_TEST_RESULTS"] = results
        config.add_cleanup(lambda: shutil.rmtree(results, ignore_errors=True))


def pytest_collection_modifyitems(config, items):
    if config.option.markexpr:
        return
    chosen = [item for item in items if "slow" not in item.keywords]
    config.hook.pytest_deselected(items=[item for item in items if "slow" in item.keywords])
    items[:] = chosen


@pytest.fixture(scope="session")
def ebbtide_built():
    child = runner.run([runner.sys.executable, "-c", "import ebbtide"], env=runner.environment(), timeout=60)
    if child.returncode != 0:
        pytest.fail("ebbtide cannot be imported: build it with `make`\n" + child.tail(5), pytrace=False)


@pytest.fixture(scope="session")
def flash(ebbtide_built):
    """A directory on a real file system for flash; empty again at the end, whatever the children did."""
    path = tempfile.mkdtemp(prefix="ebb-tests-", dir=runner.flash_folder())
    yield path
    left = list(runner.pathlib.Path(path).iterdir())
    shutil.rmtree(path)
    assert not left, f"children left files on flash: {left}"
