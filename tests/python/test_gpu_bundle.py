"""tools/gpu_bundle: what a bare machine with a GPU gets is complete, small, and the same each time."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from tool_modules import ROOT, TOOLS, load

bundle = load("gpu_bundle")
from gpu_checking import phases  # noqa: E402

LIMIT_S = 300
DEPENDENCIES = "ebbtide/build/dependencies"


def why_not():
    """Why the archive cannot be made here, or an empty string."""
    for program in ("dpkg-query", "objdump", "ldd"):
        if shutil.which(program) is None:
            return f"no {program} here"
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Status}\n", *bundle.PACKAGES], capture_output=True,
                           text=True, check=False)
    there = {line.split()[0] for line in asked.stdout.splitlines() if line.endswith(" installed")}
    if missing := set(bundle.PACKAGES) - there:
        return f"packages are not installed: {' '.join(sorted(missing))}"
    if subprocess.run(["git", "-C", ROOT, "rev-parse"], capture_output=True, check=False).returncode != 0:
        return "the sources are not in a repository of git"
    return "" if (ROOT / ".venv/bin/python").exists() else "there is no .venv, of which a module is taken"


REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def make(path, umask=0o022):
    made = subprocess.run([sys.executable, TOOLS / "gpu_bundle", path], capture_output=True, text=True, check=False,
                          timeout=LIMIT_S, umask=umask)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(f"{path}: ")
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return make(tmp_path_factory.mktemp("bundle") / "first.tar.gz")


@pytest.fixture(scope="module")
def unpacked(archive):
    """The root of the sources, as on the other machine."""
    folder = archive.parent / "unpacked"
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    return folder / "ebbtide"


def test_two_runs_give_equal_archives_of_forty_megabytes_at_most(archive, tmp_path):
    again = make(tmp_path / "again.tar.gz", umask=0o077)
    assert archive.read_bytes() == again.read_bytes()
    assert archive.stat().st_size <= 40 * 2**20


def test_it_holds_the_sources_and_what_they_are_built_with(archive, unpacked):
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
    names = {member.name for member in members}
    assert len(names) == len(members)
    assert all(member.isfile() and (member.uid, member.mtime, member.uname) == (0, 0, "") for member in members)
    assert all(name.startswith("ebbtide/") and ".." not in pathlib.PurePath(name).parts for name in names)
    assert {f"ebbtide/{name}" for name in tracked.split("\0") if name and (ROOT / name).is_file()} <= names
    for name in ("CMakeLists.txt", "tools/gpu_check"):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()
    assert os.access(unpacked / "tools" / "gpu_check", os.X_OK)
    built = [name for name in names if name.startswith("ebbtide/build/") or "/.venv/" in name or "/.git/" in name]
    assert built and all(name.startswith(f"{DEPENDENCIES}/") for name in built)
    headers = ("liburing.h", "xxhash.h", "CL/cl.h", "hwy/highway.h", "fmt/format.h", "nlohmann/json.hpp",
               "CLI/CLI.hpp", "gtest/gtest.h", "zlib.h", "zstd.h", "coin/ClpSimplex.hpp")
    assert {f"{DEPENDENCIES}/include/{name}" for name in headers} <= names
    assert any(name.startswith(f"{DEPENDENCIES}/python/{bundle.MODULE}") for name in names)


def test_its_libraries_need_no_other_than_its_own_and_the_systems(unpacked):
    libraries = unpacked / "build" / "dependencies" / "lib"
    shared = sorted(path for path in libraries.iterdir() if path.is_file())
    assert len(shared) > 5
    for library in (*shared, libraries.parent / "bin" / "pkgconf"):
        told = subprocess.run(["ldd", library], capture_output=True, text=True, check=True,
                              env={**os.environ, "LD_LIBRARY_PATH": str(libraries)}).stdout
        for name, path in re.findall(r"^\s*(\S+) => (.+?)(?: \(0x\w+\))?$", told, re.MULTILINE):
            if not bundle.OF_THE_SYSTEM.match(name):
                assert pathlib.Path(path).parent == libraries, (library.name, name)


# What CMake's cache says of each dependency; under each name a path, or several.
FOUND = ("CLI11_DIR", "GTest_DIR", "fmt_DIR", "nlohmann_json_DIR", "rapidcheck_DIR", "HWY_INCLUDE_DIR", "HWY_LIBRARY",
         "XXHASH_INCLUDE_DIR", "OPENCL_INCLUDE_DIR", "pkgcfg_lib_CLP_Clp", "pkgcfg_lib_CLP_CoinUtils",
         "pkgcfg_lib_LIBURING_uring", "pkgcfg_lib_ZLIB_z", "pkgcfg_lib_ZSTD_zstd",
         *(f"{name}_{what}_DIRS" for name in ("CLP", "LIBURING", "ZLIB", "ZSTD") for what in ("INCLUDE", "LIBRARY")))


def configure(root, python):
    """As gpu_check does it, in a fresh build folder; CMake's cache."""
    shutil.rmtree(root / "build" / "release", ignore_errors=True)
    step = phases.Machine(root, python, software=True).configure()
    done = subprocess.run([str(word) for word in step.words], cwd=root, env={**os.environ, **step.environment},
                          capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    cache = (root / "build" / "release" / "CMakeCache.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([^/#][^:\n]*):\w+=(.*)$", cache, re.MULTILINE))


@pytest.mark.parametrize("pkg_config", ["the machine's", "the archive's"])
def test_cmake_finds_every_dependency_below_what_was_unpacked(unpacked, monkeypatch, pkg_config):
    for program in ("cmake", "ninja"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here")
    if pkg_config == "the archive's":
        which = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name, *rest: None if name == "pkg-config" else which(name, *rest))
    elif shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config here")
    dependencies = unpacked / "build" / "dependencies"
    cache = configure(unpacked, sys.executable)
    elsewhere = {name: cache.get(name) for name in FOUND
                 if not cache.get(name) or not pathlib.Path(cache[name]).resolve().is_relative_to(dependencies)}
    assert not elsewhere
    own = pathlib.Path(cache["PKG_CONFIG_EXECUTABLE"]).is_relative_to(dependencies)
    assert own == (pkg_config == "the archive's")
    # Nor does any command of the build name a library or a header of this machine's.
    commands = (unpacked / "build" / "release" / "build.ninja").read_text(encoding="utf-8")
    assert not re.findall(r"(?:-I|-L|-isystem )?/usr/(?:include|lib)\S*", commands)
