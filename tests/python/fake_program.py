"""A managed program for tests of the command line: a fake `torch` and a fake `ebbtide` package around the real hook, in
a directory of their own, so that the extension need not be built.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap

from ebb_program import EBB, ROOT

HOOK = ROOT / "python/ebbtide/hook"
TIMEOUT_S = 60

# The statistics page as include/ebb says it is; the fields of Stats are taken from the header itself.
MAGIC = int(re.search(r"kMagic = (0x\w+);", (ROOT / "include/ebb/stats_page.h").read_text()).group(1), 16)
STATS_FIELDS = re.findall(r"std::uint64_t (\w+) = 0;", (ROOT / "include/ebb/stats.h").read_text())
STEPS_MAX = 65536
# Of the whole page, as it lies on 64-bit machines: header, steps, waits, timeline (include/ebb/waits).
_WAITS = 2 * (8 + 1024 * (96 + 8 + 8 + 5 * 8 + 8 + 8)) + 6 * 8 + 5 * 8 + 512 * 32
_TIMELINE = 5 * 8 + 512 * (10 * 8 + 2 * 6 * 8) + 64 * (96 + 8 + 8 + 512)
PAGE_BYTES = 24 + 8 * len(STATS_FIELDS) + 32 + 480 + 16 + 8 * STEPS_MAX + _WAITS + _TIMELINE

FAKE_TORCH = "LOADER = type(__loader__).__name__\nVALUE = 42\n"

# Publishes what the test put into FAKE_STATS; records each call; fails as told.
FAKE_EBBTIDE = """
import json, os, struct
class Error(RuntimeError):
    pass
if os.environ.get("FAKE_FAILURE") == "import":
    raise ImportError("_C was built for another Python")
def _enable_from_environment():
    failure = os.environ.get("FAKE_FAILURE")
    if failure == "error":
        raise Error("no room on flash; name another directory")
    if failure == "bug":
        raise KeyError("surprise")
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write("%d\\n" % os.getpid())
    page = json.loads(os.environ["FAKE_STATS"]) if "FAKE_STATS" in os.environ else None
    if page:
        data = struct.pack("<QQQ", page["magic"], page["sequence"], os.getpid())
        data += struct.pack("<%dQ" % len(page["stats"]), *page["stats"])
        data += page["policy"].encode().ljust(32, b"\\0") + page["description"].encode().ljust(480, b"\\0")
        data += struct.pack("<QQ", page["steps_fetched_bytes"], page["step_count"])
        data += struct.pack("<%dd" % len(page["steps"]), *page["steps"])
        with open(os.environ["EBB_STATS"], "wb") as file:
            file.write(data)
            file.truncate(max(len(data), int(os.environ.get("FAKE_WHOLE_PAGE", 0))))
"""


def make_box(tmp_path):
    """A directory with a fake torch and ebbtide, its own TMPDIR, and a clean environment that uses them."""
    package = tmp_path / "python/ebbtide"
    shutil.copytree(HOOK, package / "hook", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").write_text(FAKE_EBBTIDE)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/torch.py").write_text(FAKE_TORCH)
    (tmp_path / "tmp").mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EBB_")}
    environment.update(
        TERM="xterm",
        TMPDIR=str(tmp_path / "tmp"),
        EBB_PYTHON_DIR=str(tmp_path / "python"),
        FAKE_LOG=str(tmp_path / "log"),
        PYTHONPATH=str(tmp_path / "site"),
    )
    for name in ("NO_COLOR", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        environment.pop(name, None)
    return Box(tmp_path, environment)


class Box:
    def __init__(self, path, environment):
        self.path = path
        self.environment = environment

    def run(self, *arguments, stdin=b"", **changes):
        return subprocess.run(
            [EBB, *map(str, arguments)],
            input=stdin,
            capture_output=True,
            cwd=self.path,
            env={**self.environment, **changes},
            timeout=TIMEOUT_S,
        )

    def python(self, program, *options, **changes):
        return self.run("run", *options, "--", sys.executable, "-c", textwrap.dedent(program), **changes)

    def start(self, *arguments, **changes):
        return subprocess.Popen(
            [EBB, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.path,
            env={**self.environment, **changes},
        )

    def enabled(self):
        log = self.path / "log"
        return log.read_text().split() if log.exists() else []

    def leftovers(self):
        return list((self.path / "tmp").iterdir())


def fake_page(step_count=3, steps=(0.5, 0.3, 0.4), sequence=2, told=True, steps_fetched_bytes=0, **values):
    stats = {name: 0 for name in STATS_FIELDS}
    stats.update(values, steps=step_count if told else 0)
    return json.dumps(
        {
            "magic": MAGIC,
            "sequence": sequence,
            "stats": [stats[name] for name in STATS_FIELDS],
            "policy": "window",
            "description": "fake driver, rung A",
            "steps_fetched_bytes": steps_fetched_bytes,
            "step_count": step_count,
            "steps": list(steps),
        }
    )
