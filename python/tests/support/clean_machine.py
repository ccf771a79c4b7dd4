"""Machine: an environment for tests of installing, in which nothing points at this tree."""

import importlib.util
import os
import pathlib
import subprocess
import venv

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD_REQUIREMENTS = ["scikit-build-core>=0.11", "pybind11>=2.13"]
LIMIT_S = 1800


def run(*command, fails=False, **options):
    """What a command prints, to both streams; it must succeed, or fail if that is asked for (None: either)."""
    child = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           stdin=subprocess.DEVNULL, timeout=LIMIT_S, **options)
    if fails is not None and (child.returncode != 0) != fails:
        tail = "\n".join(child.stdout.splitlines()[-60:])
        pytest.fail(f"exit code {child.returncode} of {' '.join(map(str, command))}\n{tail}", pytrace=False)
    return child.stdout


class Machine:
    """A directory for everything, and an environment in which nothing points at this tree."""

    def __init__(self, path):
        self.path = path
        (path / "tmp").mkdir()
        (path / "elsewhere").mkdir()
        ours = ("EBB_", "CCACHE_", "PYTHON", "VIRTUAL_ENV", "LD_PRELOAD", "CMAKE_", "MAKE")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        # pip would keep what it compiles for as long as the machine lives. With one name of the compiler and paths
        # relative to the build, ccache sees that all compile the same.
        self.environment.update(TMPDIR=str(path / "tmp"), PIP_NO_CACHE_DIR="1", CXX=os.environ.get("CXX", "c++"),
                                CCACHE_NOHASHDIR="1", CCACHE_BASEDIR=str(path),
                                CMAKE_BUILD_PARALLEL_LEVEL=str(os.cpu_count() or 1))

    def run(self, *command, cwd=None, environment=None, **options):
        return run(*command, cwd=cwd or self.path / "elsewhere", env=self.environment | (environment or {}), **options)

    def python(self, name, torch=False, packages=()):
        """A virtual environment; with torch, it sees the packages of the Python that runs this."""
        venv.create(self.path / name, with_pip=True, symlinks=True)
        python = self.path / name / "bin/python"
        if torch:
            self.give_torch(python)
        if packages:
            self.run(python, "-m", "pip", "install", "-q", *packages)
        return python

    def give_torch(self, python):
        packages = self.run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        where = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
        pathlib.Path(packages, "torch_elsewhere.pth").write_text(f"{where}\n")

    def source_distribution(self, python):
        make = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
        self.run(python, "-c", make, self.path, cwd=ROOT)
        (archive,) = self.path.glob("ebbtide-*.tar.gz")
        return archive

    def unpacked(self, archive):
        (self.path / "unpacked").mkdir()
        self.run("tar", "-xzf", archive, "-C", self.path / "unpacked")
        (sources,) = (self.path / "unpacked").iterdir()
        return sources
