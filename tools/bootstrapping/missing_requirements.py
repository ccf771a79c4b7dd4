"""Prints the lines of a requirements file that the Python running this does not meet, one a line; nothing if it does.

Looks at installed metadata only: no network, nothing imported, a few milliseconds. The local part of a version
(2.13.0+cpu) is ignored, because builds for other accelerators have the same interface.

    python tools/bootstrapping/missing_requirements.py tools/requirements.txt
"""

import importlib.metadata
import pathlib
import sys

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.version import Version


def met(requirement):
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(Version(version).public, prereleases=True)


def main():
    for line in pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line and not met(Requirement(line)):
            print(line)


if __name__ == "__main__":
    main()
