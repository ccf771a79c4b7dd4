"""Who may include whom: the table of docs and DESIGN as data, and the check of every #include against it."""

import re

# Value headers of include/ebb: for everyone.
VALUES = {"status.h", "units.h", "options.h", "stats.h", "stats_page.h", "dtype.h", "waits.h", "wait_table.h",
          "run_timeline.h"}
PARTS = {"base", "port", "space", "alloc", "plan", "move"}
EVERYTHING = PARTS | {"core", "job", "rivals", "runtime", "stream", "trace", "bound", "mirror", "sim", "array",
                      "facade", "drivers"}

# Folder of src/ (or of the repository) to what it may include besides itself, std and the value headers. "facade" is
# the rest of include/ebb, "drivers" all of src/drivers.
ALLOWED = {
    "base": set(),
    "port": {"base"},
    # How a job's budget is divided, and what is said about it: who says and hears it is above.
    "job": {"base"},
    "space": {"base"},
    "alloc": {"base", "port"},
    "plan": {"base", "space"},
    # The published systems as policies: only who offers them by name sees them.
    "rivals": {"base", "space", "plan"},
    "trace": {"base", "plan"},
    "bound": {"base", "plan"},
    # The engine asks a Policy what to evict, so it sees its interface; plan/ sees nothing of move/.
    "move": {"base", "port", "space", "alloc", "plan"},
    # All that is deterministic in one object: it knows neither who drives it nor with what.
    "core": PARTS,
    "runtime": PARTS | {"core", "job", "facade", "trace"},
    # The folder src/stream; its header is ebb/stream.h. Of the driver, what is mapped in this process.
    "stream": {"base", "facade", "drivers/linux"},
    # It is about this process and this kernel: it calls them itself, through the thin layer of the driver.
    "mirror": {"base", "port", "space", "runtime", "facade", "drivers/linux"},
    "calls": set(),  # a library of its own, of which the C library is all that it needs
    "drivers/linux": {"base", "port", "calls"},  # of calls, how it is told of memory
    "drivers/uring": {"base", "port", "drivers/linux"},  # the flash file and what opening one takes
    # The Device, and what is in ebb/cuda; of the driver, what is mapped in this process.
    "drivers/cuda": {"base", "port", "facade", "drivers/linux"},
    # A device of its own, beside the tiers: what it implements is ebb/opencl.h.
    "drivers/opencl": {"base", "port", "facade", "drivers/linux"},
    "sim": PARTS | {"core", "rivals"},
    "array": {"facade", "base"},
    "host": {"facade"},
    "python": {"facade"},
    "cli": {"facade", "port", "drivers", "sim", "plan", "rivals", "trace", "bound", "base", "job"},
    "tests": EVERYTHING,
    "bench": EVERYTHING,
    "examples": {"facade"},
}
# Single files that may do more: the factory chooses drivers and policies, the probe of a disk opens it as the runtime
# does.
EXTRA = [(re.compile(r"^src/runtime/(device/)?open(_device)?\.cc$"), {"drivers", "rivals"}),
         (re.compile(r"^src/(runtime/environment|core/test/core_fuzz)\.cc$"), {"rivals"}),
         (re.compile(r"^cli/calibrate/flash_probe\.cc$"), {"runtime"}),
         # Both sides of the statistics page; what the command line reads.
         (re.compile(r"^tests/(interleaving/stats_page_test|fuzzing/\w+_input)\.cc$"), {"cli"})]
# Sub-folders that build on each other, from the ground up: each includes those before it.
FLOORS = {"array": ("shape", "kernels", "graph", "pass", "source", "device", "evaluate", "ops")}
# Headers of a library to the only folders that may see it.
SDK = [(re.compile(r"^liburing"), ("src/drivers/uring/", "cli/", "tests/conformance/")),
       (re.compile(r"^(cuda|nvml)"), ("src/drivers/cuda/",)),
       (re.compile(r"^CL/"), ("src/drivers/opencl/", "tests/opencl/", "bench/opencl/")),
       (re.compile(r"^(torch|ATen|c10|pybind11|Python\.h)"), ("python/bindings/", "tests/cuda/torch/")),
       (re.compile(r"^(hwy|oneapi)/"), ("src/array/",)),
       (re.compile(r"^(CLI|nlohmann)/"), ("cli/", "bench/", "tests/", "src/sim/", "src/trace/",
                                           "src/runtime/passes/")),
       (re.compile(r"^(zlib|zstd)\.h"), ("src/trace/",)),
       (re.compile(r"^coin/"), ("src/bound/",))]
# Folders whose files include each other as written from there.
ROOTS = ("cli", "python", "tests", "tests/cuda")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def owner(file):
    """The row of the table that a file belongs to, or None."""
    if file.parts[0] == "src":
        return "/".join(file.parts[1:3]) if file.parts[1] == "drivers" else file.parts[1]
    if file.path.startswith("include/ebb/"):
        return "include/ebb"
    if file.path.startswith("python/"):
        return "python"
    return file.parts[0] if file.parts[0] in ALLOWED else None


def _target(include):
    """The row that an include belongs to, or None if it is not written from an include root."""
    parts = include.split("/")
    if parts[0] == "ebb":
        return "values" if parts[-1] in VALUES else "facade"
    if parts[0] == "drivers" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 and parts[0] in ALLOWED else None


def _complaint(file, row, allowed, include, siblings):
    target = _target(include)
    floors, parts = FLOORS.get(row, ()), include.split("/")
    if target == row and file.parts[2] in floors and parts[1] in floors[floors.index(file.parts[2]) + 1:]:
        return f"{file.folder}/ may not include {row}/{parts[1]}/, which is built on it"
    if target is None:
        local = f"{file.folder}/{include}" in siblings and (file.parts[0] != "src" or file.is_test)
        rooted = any(f"{root}/{include}" in siblings and file.path.startswith(root + "/") for root in ROOTS)
        return None if local or rooted else f'write "{include}" from src/ or include/, as in "space/page_table.h"'
    if target == "values" or target == row or target in allowed:
        return None
    if target.startswith("drivers/") and "drivers" in allowed:
        return None
    if row == "include/ebb":
        return None if target == "facade" else f"public headers include only std and each other, not {target}/"
    return f"{row}/ may not include {target}/ (allowed: {', '.join(sorted(allowed)) or 'std only'})"


def check(files):
    """(file, line, message) of every include in a wrong direction."""
    siblings = {file.path for file in files}
    for file in files:
        row = owner(file)
        if file.suffix not in (".cc", ".h") or row is None:
            continue
        allowed = set(ALLOWED.get(row, ()))
        if file.is_test:
            allowed.add("sim")
        for pattern, more in EXTRA:
            if pattern.match(file.path):
                allowed |= more
        for found in _INCLUDE.finditer(file.text):
            if "#" not in file.code[found.start():found.end()]:
                continue  # in a comment
            quote, include = found.groups()
            line = file.line_of(found.start() + len(found.group()) - 1)
            for pattern, homes in SDK:
                if pattern.match(include) and not file.path.startswith(homes):
                    yield file, line, f"<{include}> appears only in {' '.join(homes)}"
            if quote == '"':
                message = _complaint(file, row, allowed, include, siblings)
                if message:
                    yield file, line, message
            elif row == "include/ebb" and not re.fullmatch(r"[a-z_0-9]+", include):
                yield file, line, f"public headers include only std, not <{include}>"
