"""What tools/release makes: a wheel that needs nothing of the system but PyTorch and what any Linux has, and Debian
packages."""

import email
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from clean_machine import ROOT

TORCH = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
MANAGED = """
import ebbtide, torch
weights = [torch.ones(1 << 22) for _ in range(12)]
assert ebbtide.manages(weights[0])
print(sum(float(each.sum()) for each in weights))
"""
# What a wheel may take from the system (PEP 600).
OF_ANY_LINUX = re.compile(r"(linux-vdso|ld-linux-x86-64|lib(c|m|z|dl|rt|pthread|gcc_s|stdc\+\+))\.so\.\d+")


@pytest.fixture
def released(machine):
    def make(kind, *options):
        target = machine.path / "dist"
        said = machine.run(sys.executable, ROOT / "tools/release", "--to", target, kind, *options)
        made = sorted(target.iterdir())
        assert re.findall(r"^[0-9a-f]{64}  (\S+)  [\d.]+ MiB$", said, re.MULTILINE) == [str(path) for path in made]
        return made
    return make


def torch_version():
    return re.search(r"^__version__ = '(.+)'", (TORCH / "torch/version.py").read_text(), re.MULTILINE).group(1)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


@pytest.mark.slow
def test_a_wheel_brings_its_libraries(machine, flash, released):
    (wheel,) = released("wheel", "--torch", TORCH)
    assert re.fullmatch(rf"ebbtide-[\d.]+-cp3\d+-cp3\d+-manylinux\w+_x86_64\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    minor = ".".join(torch_version().split(".")[:2])
    adapters = [name for name in names if "/_C." in name or name.endswith("_built_for.py")]
    assert len(adapters) == 1 and adapters[0].startswith(f"ebbtide/adapters/{minor}/_C.")
    python = machine.python("environment")
    machine.run(python, "-m", "pip", "install", "--no-index", wheel)
    place = python.parents[1]
    files = [*place.glob("lib/**/ebbtide*/**/*"), place / "bin/ebb"]
    elves = [path for path in files if path.is_file() and is_elf(path)]
    assert {"libebb_calls.so", "libebb_host.so"} <= {path.name for path in elves}
    for path in elves:
        for name, where in re.findall(r"^\s*(\S+)(?: => (\S+))? \(0x", machine.run("ldd", path), re.MULTILINE):
            assert OF_ANY_LINUX.fullmatch(name.rsplit("/", 1)[-1]) or where.startswith(str(place)), (path, name, where)

    ebb = python.parent / "ebb"
    loaded = machine.run(ebb, "run", "--quiet", "--memory", "64MiB", "--flash", flash, "--", "sh", "-c",
                         "cat /proc/$$/maps")
    assert re.search(rf" {place}/lib\S*/libebb_calls\S*\.so", loaded, re.MULTILINE)
    assert machine.run(ebb, "man", "top").startswith(".TH")
    program = "import ebbtide.array as xp; print(float(xp.sum(xp.full((1 << 22,), 2.0))))"
    assert machine.run(python, "-c", program).strip() == str(2.0 * (1 << 22))
    machine.give_torch(python)
    managed = (ebb, "run", "--quiet", "--memory", "64MiB", "--flash", flash, "--", python, "-c", MANAGED)
    assert machine.run(*managed).strip() == str(12.0 * (1 << 22))
    (adapter,) = place.glob(f"lib/**/adapters/{minor}")
    adapter.rename(adapter.with_name("1.13"))
    said = machine.run(*managed, fails=True)
    assert f"has adapters for PyTorch 1.13; here is PyTorch {torch_version()}" in said and "pip install" in said


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dpkg-shlibdeps") is None, reason="no dpkg-dev here")
def test_debian_packages(machine, flash, released):
    packages = {path.name.split("_")[0]: path for path in released("deb")}
    assert packages.keys() == {"ebbtide", "libebbtide-dev"}
    fields = {name: email.message_from_string(machine.run("dpkg-deb", "-f", path)) for name, path in packages.items()}
    depends = {name: re.split(r", ", field["Depends"]) for name, field in fields.items()}
    assert any(need.startswith("libc6 ") for need in depends["ebbtide"])
    assert any(need.startswith("liburing2") for need in depends["ebbtide"])
    assert f"ebbtide (= {fields['ebbtide']['Version']})" in depends["libebbtide-dev"]
    assert {"liburing-dev", "libzstd-dev", "libhwy-dev"} <= set(depends["libebbtide-dev"])

    root = machine.path / "root"
    machine.run("dpkg-deb", "-x", packages["ebbtide"], root)
    ebb = root / "usr/bin/ebb"
    assert machine.run(ebb, "--version") == f"ebb {fields['ebbtide']['Version']}\n"
    loaded = machine.run(ebb, "run", "--quiet", "--memory", "64MiB", "--flash", flash, "--", "sh", "-c",
                         "cat /proc/$$/maps")
    assert re.search(rf" {root}/usr/lib\S*/libebb_calls\.so$", loaded, re.MULTILINE)
    assert (root / "usr/share/man/man1/ebb-top.1").read_text() == machine.run(ebb, "man", "top")
    assert not list(root.glob("usr/include")) and not list(root.glob("usr/lib/**/*.a"))

    machine.run("dpkg-deb", "-x", packages["libebbtide-dev"], root)
    shutil.copytree(ROOT / "examples/install", machine.path / "elsewhere/project")
    machine.run("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={root}/usr", "project")
    machine.run("cmake", "--build", "build")
    assert ", 0 wrong;" in machine.run("build/oversized", "32MiB", flash)


def test_usage():
    done = subprocess.run([sys.executable, ROOT / "tools/release", "rpm"], capture_output=True, text=True)
    assert done.returncode == 2 and "'rpm' is none of sdist, wheel, deb" in done.stderr
