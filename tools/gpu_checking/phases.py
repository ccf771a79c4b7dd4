"""The phases of gpu_check, and the machine on which they run."""

import dataclasses
import os
import platform
import shutil
import subprocess
from collections.abc import Callable

from .running import Step


class Machine:
    """Where this runs: its folders, its Python, what it says of itself."""

    def __init__(self, root, python, software):
        self.root = root
        self.python = python
        self.software = software
        self.build = root / "build" / "release"
        self.dependencies = root / "build" / "dependencies"

    def gpu(self):
        if shutil.which("nvidia-smi") is None:
            return ""
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                               capture_output=True, text=True, check=False)
        return asked.stdout.strip() if asked.returncode == 0 else ""

    def describe(self):
        return {"gpu": "none" if self.software else self.gpu(), "kernel": platform.release(),
                "cores": os.cpu_count(), "python": platform.python_version()}

    def library(self, name):
        """Of NVIDIA's, as the Python brings it; empty: the loader has to find it."""
        code = ("import pathlib, site, sys; print(next((str(path) for folder in [*site.getsitepackages(), *sys.path] "
                f"for path in sorted(pathlib.Path(folder).glob('nvidia/*/lib/{name}.so.*[0-9]'))), ''))")
        asked = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=False)
        return asked.stdout.strip()

    def configure(self):
        python = "" if self.software else self.python  # what needs none is built without its packages
        words = ["cmake", "--preset", "release", f"-DEBB_PYTHON={python}", "-DEBB_EXAMPLES=OFF",
                 "-DEBB_WERROR=OFF"]  # another compiler warns of other things
        if not self.dependencies.is_dir():
            return Step("configure", words, must=True)
        libraries = self.dependencies / "lib"
        # Old-style paths hold for the libraries of libraries, too.
        flags = f"-Wl,--disable-new-dtags -Wl,-rpath-link,{libraries}"
        words += [f"-DCMAKE_PREFIX_PATH={self.dependencies}", f"-DCMAKE_BUILD_RPATH={libraries}",
                  "-DEBB_ONEDNN=OFF", "-DEBB_BENCH=OFF",
                  *(f"-DCMAKE_{kind}_LINKER_FLAGS={flags}" for kind in ("EXE", "SHARED", "MODULE"))]
        environment = {"PKG_CONFIG_PATH": str(libraries / f"{platform.machine()}-linux-gnu" / "pkgconfig")}
        if own := shutil.which("pkg-config"):
            environment |= {"PKG_CONFIG": own}  # or CMake takes the archive's, without its libraries
        else:
            environment |= {"PKG_CONFIG": str(self.dependencies / "bin" / "pkgconf"), "LD_LIBRARY_PATH": str(libraries)}
        return Step("configure", words, environment, must=True)

    def test(self, program, *words, **options):
        environment = {} if self.software else {
            "EBB_NVRTC_LIBRARY": self.library("libnvrtc"), "EBB_CUBLAS_LIBRARY": self.library("libcublas")}
        return Step(f"{program} {' '.join(words)}".strip(), [self.build / "tests" / program, *words], environment,
                    **options)


@dataclasses.dataclass
class Phase:
    name: str
    about: str
    steps: Callable
    without_gpu: bool = False


def build(machine):
    targets = ["cuda_test", "cuda_operations_test", "cuda_fuzz"]
    if not machine.software:
        targets += ["product", "gpu_bench"]
    yield machine.configure()
    yield Step("build", ["cmake", "--build", machine.build, "-j", os.cpu_count(), "--target", *targets], must=True)
    if not machine.software:
        yield Step("doctor", [machine.build / "cli" / "ebb", "doctor"])


def costs(machine):
    yield machine.test("gpu_bench", keep_json=True)


def tests(machine):
    if not machine.software:
        yield machine.test("cuda_test", "--gtest_filter=*/Gpu-*/CudaMirror*", skips=False)
        # Not every GPU reaches the process's memory: there these are skipped, and say what it takes.
        yield machine.test("cuda_test", "--gtest_filter=*/CudaMirror*/Gpu")
    yield machine.test("cuda_test", "--gtest_filter=-*/Gpu", "--gtest_brief=1")
    yield machine.test("cuda_operations_test", "--gtest_brief=1")
    yield machine.test("cuda_fuzz", "--seed", "1", "--runs", "20")


def pytorch(machine):
    found = os.pathsep.join(filter(None, [str(machine.dependencies / "python"), os.environ.get("PYTHONPATH")]))
    yield Step("pytest", [machine.python, "-m", "pytest", "-q", "-rfEs", "-n", "8", "--tb=short",
                          "-p", "no:cacheprovider", "python/tests/torch_device/test_gpu.py"],
               {"PYTHONPATH": found}, skips=False)


def training(machine):
    yield Step("gpu.py", [machine.python, "bench/gpu.py"])


def traces(machine):
    yield Step("gpu.py --traces", [machine.python, "bench/gpu.py", "--traces", "build/gpu-check/traces"])


ALL = (
    Phase("build", "the library, the adapter for the torch that is here, the tests; ebb doctor", build, True),
    Phase("costs", "single calls of the driver, idle and under load; copies; passes over more than there is", costs),
    Phase("tests", "on the GPU, CudaMirror, on the software driver", tests, True),
    Phase("pytorch", "stock programs in a part of their memory, bit-equal; every operator, strictly", pytorch),
    Phase("training", "models that fit, at 1/2, 1/4 and 1/8, beside what PyTorch offers", training),
    Phase("traces", "warm traces of networks, for the simulator", traces),
)
NAMES = tuple(phase.name for phase in ALL)
