"""A plugin of pytest: skips the tests of the array API's suite that python/tests/array/array_api_skips.txt names.

A line there is a part of the test's name, " # ", and the reason.
"""

import pathlib

import pytest

SKIPS = pathlib.Path(__file__).resolve().parent.parent.parent / "python/tests/array/array_api_skips.txt"


def exceptions():
    for line in SKIPS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            part, reason = line.split(" # ")
            yield part.strip(), reason.strip()


def pytest_collection_modifyitems(items):
    found = list(exceptions())
    used = set()
    for item in items:
        for part, reason in found:
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"exception: {reason}"))
                used.add(part)
                break
    for part, _ in found:
        if part not in used and len(items) > 1000:  # the whole suite was collected
            raise pytest.UsageError(f"{SKIPS.name}: nothing is called {part!r}; remove the line")
