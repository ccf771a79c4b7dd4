"""Installation as users do it: by pip, with PyTorch and without, and into a prefix for C++ programs.

All start from a source distribution of this tree and delete what they have unpacked before they use what they have
installed. The small packages that pip needs for a build come from its index; PyTorch is the one that runs these tests.
Each compiles Ebbtide; where there is a ccache, the second one has the objects of the first.
"""

import json
import os
import pathlib
import re
import shutil

import pytest
from clean_machine import BUILD_REQUIREMENTS, ROOT, run

LARGER_THAN_MEMORY = """
import json, sys
import torch
import ebbtide
tensors = [torch.full((4 << 20,), float(i)) for i in range(16)]  # 16 MiB each
print(json.dumps({
    "right": all(bool((tensor == i).all()) for i, tensor in enumerate(tensors)),
    "enabled": ebbtide.enabled(), "evicted": ebbtide.stats()["evicted_bytes"] if ebbtide.enabled() else 0,
    "path": sys.path, "package": ebbtide.__file__, "version": ebbtide.__version__}))
"""


@pytest.mark.slow
def test_pip_uses_the_torch_of_the_environment_it_installs_into(machine, flash):
    tools = machine.python("tools", packages=BUILD_REQUIREMENTS)
    sources = machine.unpacked(machine.source_distribution(tools))
    python = machine.python("environment", torch=True)
    machine.run(python, "-m", "pip", "install", "-C", "build-dir=build/pip", sources)
    shutil.rmtree(sources)
    ebb = python.parent / "ebb"

    (machine.path / "elsewhere/program.py").write_text(LARGER_THAN_MEMORY)
    plain = json.loads(machine.run(python, "program.py"))
    options = ["--quiet", "--memory", "64MiB", "--flash", flash]
    managed = json.loads(machine.run(ebb, "run", *options, "--", python, "program.py"))
    assert plain["right"] and not plain["enabled"]
    assert managed["right"] and managed["enabled"] and managed["evicted"] > 128 << 20
    assert managed["path"] == plain["path"]
    assert managed["package"].startswith(str(machine.path))
    assert machine.run(ebb, "--version") == f"ebb {plain['version']}\n"
    metadata = "import importlib.metadata; print(importlib.metadata.version('ebbtide'))"
    assert machine.run(python, "-c", metadata).strip() == plain["version"]

    for file in ("man/man1/ebb.1", "man/man1/ebb-top.1", "bash-completion/completions/ebb"):
        assert (python.parents[1] / "share" / file).stat().st_size > 0, file

    loaded = machine.run(ebb, "run", *options, "--", "sh", "-c", "cat /proc/$$/maps")
    assert re.search(rf" {python.parents[1]}/lib\S*/libebb_calls\.so$", loaded, re.MULTILINE)
    enabled = f"import ebbtide; ebbtide.enable(memory='64MiB', flash='{flash}'); print(open('/proc/self/maps').read())"
    loaded = machine.run(python, "-c", enabled)
    assert re.search(rf" {python.parents[1]}/lib\S*/libebb_calls\.so$", loaded, re.MULTILINE)
    report = json.loads(machine.run(ebb, "doctor", "--quick", "--json", "--flash", flash, fails=None,
                                    environment={"EBB_PYTHON": str(python)}))
    assert {check["id"]: check["verdict"] for check in report["checks"]}["python"] == "good"

    built_for = pathlib.Path(managed["package"]).parent / "_built_for.py"
    built_for.write_text("__version__ = '1.13.0'\n")
    said = machine.run(ebb, "run", "--flash", flash, "--", python, "program.py", fails=True)
    assert "was compiled against PyTorch 1.13.0; here is" in said and "pip install" in said


@pytest.mark.slow
def test_pip_installs_a_source_distribution_without_torch(machine, flash):
    python = machine.python("environment", packages=BUILD_REQUIREMENTS)
    archive = machine.source_distribution(python)
    machine.run(python, "-m", "pip", "install", "--no-build-isolation", "-C", "build-dir=build/pip", archive)
    archive.unlink()

    arrays = "import ebbtide.array as xp; print(float(xp.sum(xp.ones((1000,)) * 2)))"
    assert machine.run(python, "-c", arrays).strip() == "2000.0"
    opened = f"import ebbtide.array as xp; xp.open_runtime('64MiB', '{flash}'); print(open('/proc/self/maps').read())"
    assert "/libebb_calls.so" in machine.run(python, "-c", opened)
    said = machine.run(python, "-c", "import ebbtide; ebbtide.enable(memory='64MiB')", fails=True)
    assert "PyTorch is not installed here" in said
    machine.give_torch(python)
    said = machine.run(python.parent / "ebb", "run", "--flash", flash, "--", python, "-c", "import torch", fails=True)
    assert "was installed where it found no PyTorch" in said and f"{python} -m pip install" in said


@pytest.mark.slow
def test_a_prefix_for_programs_in_cpp(machine, flash):
    tools = machine.python("tools", packages=BUILD_REQUIREMENTS)
    sources = machine.unpacked(machine.source_distribution(tools))
    shutil.copytree(sources / "examples/install", machine.path / "elsewhere/project")
    prefix = machine.path / "prefix"
    machine.run("cmake", "-G", "Ninja", "-B", "build/plain", cwd=sources)
    machine.run("cmake", "--build", "build/plain", cwd=sources)
    machine.run("cmake", "--install", "build/plain", "--prefix", prefix, cwd=sources)
    public = {str(path.relative_to(sources / "include")) for path in sources.glob("include/**/*.h")}
    shutil.rmtree(sources)

    installed = {str(path.relative_to(prefix / "include")) for path in prefix.glob("include/**/*") if path.is_file()}
    assert installed == public
    for file in ("bash-completion/completions/ebb", "zsh/site-functions/_ebb", "fish/vendor_completions.d/ebb.fish",
                 "man/man1/ebb.1", "man/man1/ebb-run.1"):
        assert (prefix / "share" / file).stat().st_size > 0, file
    includes = "".join(f'#include "{header}"\n' for header in sorted(public))
    (machine.path / "elsewhere/all.cc").write_text(includes)
    machine.run("c++", "-std=c++20", "-fsyntax-only", "-I", prefix / "include", "all.cc")

    machine.run("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", "project")
    machine.run("cmake", "--build", "build")
    assert ", 0 wrong;" in machine.run("build/oversized", "32MiB", flash)

    (found,) = prefix.glob("lib*/**/ebbtide.pc")
    environment = {"PKG_CONFIG_PATH": str(found.parent)}
    flags = machine.run("pkg-config", "--cflags", "--libs", "ebbtide", environment=environment).split()
    machine.run("c++", "-std=c++20", "project/oversized.cc", "-o", "by_pkg_config", *flags)
    assert ", 0 wrong;" in machine.run("./by_pkg_config", "32MiB", flash)
    version = machine.run("pkg-config", "--modversion", "ebbtide", environment=environment)
    assert machine.run(prefix / "bin/ebb", "--version") == f"ebb {version}"
    loaded = machine.run(prefix / "bin/ebb", "run", "--quiet", "--flash", flash, "--", "sh", "-c", "cat /proc/$$/maps")
    assert re.search(rf" {prefix}/lib\S*/libebb_calls\.so$", loaded, re.MULTILINE)


@pytest.mark.parametrize("missing", ["-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON", "no compiler"])
def test_what_is_missing_is_said_once_with_the_remedy(tmp_path, missing):
    environment = {**os.environ, **({"CXX": "no-such-compiler"} if missing == "no compiler" else {})}
    definition = [] if missing == "no compiler" else [missing]
    said = run("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "build", *definition, fails=True, env=environment)
    packages = "g++ pkg-config liburing-dev" if missing == "no compiler" else "nlohmann-json3-dev\n"
    assert said.count("CMake Error") == 1 and f"sudo apt-get install {packages}" in said
