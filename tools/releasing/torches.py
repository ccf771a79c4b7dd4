"""Versions of PyTorch on pip's index, and what compiling against one takes of it."""

import pathlib
import re
import subprocess
import zipfile

NEWEST = 5  # minor versions that are supported
LIBRARIES = ("torch", "torch_cpu", "c10", "torch_python")


def newest_of_each_minor(python):
    """Of all versions of torch that there are for this Python, by minor version, the newest one first."""
    said = subprocess.run([str(python), "-m", "pip", "index", "versions", "torch"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False).stdout
    listed = re.search(r"Available versions: (.*)", said)
    if not listed:
        raise RuntimeError(f"pip of {python} found no torch on its index:\n{said}")
    found = {}
    for version in listed.group(1).split(", "):
        found.setdefault(".".join(version.split(".")[:2]), version)
    return found


def unpack(python, version, folder):
    """The headers and the libraries to link with, in `folder`/VERSION, of which 0.4 to 0.6 GB remain."""
    target = pathlib.Path(folder) / version
    if (target / "torch/version.py").is_file():
        return target
    downloads = target / "download"
    subprocess.run([str(python), "-m", "pip", "download", "-q", "--no-deps", "--dest", str(downloads),
                    f"torch=={version}"], check=True)
    (wheel,) = downloads.glob("torch-*.whl")
    libraries = {f"torch/lib/lib{name}.so" for name in LIBRARIES}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("torch/include/") or name in libraries:
                archive.extract(name, target)
        archive.extract("torch/version.py", target)  # last: it says that all is there
    wheel.unlink()
    return target
