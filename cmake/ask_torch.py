"""Prints what the build of the PyTorch adapter has to know, one value a line; exits with 3 where there is no torch.

    ask_torch.py [FOLDER]      of the torch of this Python, or of one that is unpacked in FOLDER and cannot be imported

A file that exists as long as the answer holds, the suffix of extension modules, whether torch uses the C++11 ABI (1 or
0), the directory of torch's libraries, and the include directories.
"""

import pathlib
import sys
import sysconfig

if len(sys.argv) > 1:
    home = pathlib.Path(sys.argv[1]) / "torch"
    has_cxx11_abi = True  # as all on PyPI from 2.7 on
else:
    try:
        import torch
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        sys.exit(3)
    home = pathlib.Path(torch.__file__).parent
    has_cxx11_abi = torch.compiled_with_cxx11_abi()

includes = [home / "include", home / "include" / "torch" / "csrc" / "api" / "include"]
# torch brings the pybind11 that it was built with, and only that one is sure to fit.
if not (home / "include" / "pybind11").is_dir():
    import pybind11

    includes.append(pathlib.Path(pybind11.get_include()))
includes.append(pathlib.Path(sysconfig.get_path("include")))
if not (includes[-1] / "Python.h").is_file():
    sys.exit(f"Python.h is not in {includes[-1]}: install the development files of this Python "
             "(Debian, Ubuntu: sudo apt-get install python3-dev)")

print(home / "version.py")
print(sysconfig.get_config_var("EXT_SUFFIX"))
print(int(has_cxx11_abi))
print(home / "lib")
for include in includes:
    print(include)
