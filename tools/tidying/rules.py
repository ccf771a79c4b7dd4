"""The rules. Each is a generator of (file, line, message) over all files; check() runs them all.

A rule is here because breaking it has a price that shows only later: a core that reads the clock cannot be replayed
from a seed, an include in the wrong direction compiles until somebody deletes a folder.
"""

import ast
import collections
import pathlib
import re

from tidying import functions, includes

LINE_MAX = 120
FILE_SOFT, FILE_HARD, TEST_FILE_HARD = 400, 600, 800
FUNCTION_MAX = 70
FOLDER_MAX = 12
README_MAX = 30
CODE = {".cc", ".h", ".py"}
DETERMINISTIC = ("src/base/", "src/space/", "src/alloc/", "src/plan/", "src/rivals/", "src/move/", "src/core/",
                 "src/sim/", "src/job/")
WORLD = ("src/base/clock.h", "src/base/internal_thread.h", "src/base/internal_thread.cc",
         "src/base/ordered_mutex.h")
OTHER_WITH_README = ("cli", "python", "tests", "bench", "tools")

# What makes two runs of one seed differ, or has no place in a library; and what to use.
BANNED = [
    (r"\b(steady|system|high_resolution)_clock\s*::\s*now\b|\b(gettimeofday|clock_gettime)\b|\bstd::time\b",
     "the core is told the time: take `now` as an argument", DETERMINISTIC, True),
    (r"\b(std::)?s?rand\s*\(|\brandom_device\b|\bmt19937", "use base/rng.h with a seed", DETERMINISTIC, True),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.>:])sleep\s*\(", "the core does not wait",
     DETERMINISTIC, True),
    (r"\bstd::(jthread|thread|mutex|shared_mutex|recursive_mutex|condition_variable|async)\b",
     "threads and locks live in runtime/ and drivers/", DETERMINISTIC, True),
    (r"(?<![\w:])::(mmap|munmap|mremap|madvise|mprotect)\s*\(",
     "libebb_calls.so refuses it to managed memory: own:: of drivers/linux/calls/own_mapping.h",
     ("src/drivers/linux/userfault/", "src/drivers/linux/remap/"), False),
    (r"\bunordered_(multi)?(map|set)\b", "its order is not defined: use std::map, std::set or a sorted vector",
     ("src/space/", "src/plan/", "src/rivals/", "src/move/", "src/core/"), False),
    (r"(?<![\w.>])(std::)?(f|v|vf|d)?printf\s*\(|\bstd::(cout|cerr|clog)\b|(?<![\w.>])(std::)?f?puts\s*\(",
     "the core prints nothing: return a Status", DETERMINISTIC, False),
]
_PLACE = re.compile(r"(?<![\w./~-])/(?:" + "|".join(("home", "root", "work")) + r")/")
_LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")

RULES = {}


def rule(function):
    RULES[function.__name__.replace("_", "-")] = function
    return function


def _cxx(files):
    return (file for file in files if file.suffix in (".cc", ".h"))


@rule
def include_direction(files, _):
    yield from includes.check(files)


@rule
def banned_call(files, _):
    for file in _cxx(files):
        for pattern, remedy, folders, tests_too in BANNED:
            if not file.path.startswith(folders) or file.path in WORLD or (file.is_test and not tests_too):
                continue
            for found in re.finditer(pattern, file.code):
                yield file, file.line_of(found.start()), f"{found.group().strip(' (')}: {remedy}"


@rule
def line_length(files, _):
    for file in files:
        if file.suffix in CODE | {".cmake", ".sh"} or file.name in ("CMakeLists.txt", "Makefile", "bootstrap", "run"):
            for number, line in enumerate(file.lines, 1):
                if len(line) > LINE_MAX:
                    yield file, number, f"{len(line)} columns; at most {LINE_MAX}"


@rule
def file_length(files, _):
    for file in files:
        hard = TEST_FILE_HARD if file.is_test else FILE_HARD
        if file.suffix in CODE and len(file.lines) > hard:
            yield file, hard + 1, f"{len(file.lines)} lines; at most {hard}: split it by the state it owns"


@rule
def function_length(files, ratchet):
    """New functions keep to the limit; those in tools/tidy_ratchet.json may only shrink."""
    known = dict(ratchet.get("functions", {}))
    for file in files:
        if file.suffix not in CODE:
            continue
        try:
            found = functions.lengths(file)
        except SyntaxError:
            continue  # python_syntax tells
        for name, line, length in found:
            limit = max(FUNCTION_MAX, known.pop(f"{file.path}:{name}", 0))
            if length > limit:
                yield file, line, f"{name} has {length} lines; at most {limit}"
            elif limit > FUNCTION_MAX and length < limit:
                yield file, line, f"{name} has {length} lines now: lower its entry in tools/tidy_ratchet.json"
    for key in known:
        yield key.rsplit(":", 1)[0], 1, f"tools/tidy_ratchet.json names {key}, which is not there: remove the entry"


@rule
def header_guard(files, _):
    for file in files:
        if file.suffix == ".h" and not re.search(r"^#pragma once$", file.text, re.MULTILINE):
            yield file, 1, "no #pragma once"


@rule
def opening_comment(files, _):
    for file in files:
        lines = [line for line in file.lines if line.strip() and not line.startswith("#!")]
        if file.suffix in (".cc", ".h") and not (lines and lines[0].startswith(("//", "/*"))):
            yield file, 1, "open with a comment: what this is, who owns it, which thread, the invariant"
        if file.suffix == ".py" and lines and not lines[0].startswith(('"""', 'r"""', "#")):
            yield file, 1, "open with a docstring: what this is and how it is run"


@rule
def folder_size(files, _):
    """A file pair (x.h, x.cc) counts once; folders of tests are not counted."""
    units = collections.defaultdict(set)
    for file in files:
        if file.suffix in CODE and not file.is_test:
            units[file.folder].add(pathlib.PurePosixPath(file.name).stem)
    for folder, names in units.items():
        if len(names) > FOLDER_MAX:
            yield folder, 1, f"{len(names)} source files (pairs count once); at most {FOLDER_MAX}: make a sub-folder"


@rule
def folder_readme(files, _):
    by_path = {file.path: file for file in files}
    wanted = set()
    for file in files:
        if file.suffix not in CODE:
            continue
        if file.parts[0] == "src":
            wanted.add("/".join(file.parts[:3 if file.parts[1] == "drivers" else 2]))
        wanted.update(folder for folder in OTHER_WITH_README if file.path.startswith(folder + "/"))
    for folder in sorted(wanted):
        readme = by_path.get(f"{folder}/README.md")
        if readme is None:
            yield folder, 1, "no README.md: purpose, invariants, where to start reading"
        elif len(readme.lines) > README_MAX:
            yield readme, README_MAX + 1, f"{len(readme.lines)} lines; at most {README_MAX}"


@rule
def machine_path(files, _):
    for file in files:
        if file.name != "LICENSE":
            for number, line in enumerate(file.lines, 1):
                if found := _PLACE.search(line):
                    yield file, number, f"{found.group()} is a path of one machine: make it relative, or an option"


@rule
def placeholder(files, _):
    for file in files:
        for number, line in enumerate(file.lines, 1):
            if found := _LATER.search(line):
                yield file, number, f"{found.group()}: finish it, or leave it out"


@rule
def python_syntax(files, _):
    for file in files:
        if file.suffix == ".py":
            try:
                ast.parse(file.text)
            except SyntaxError as error:
                yield file, error.lineno or 1, error.msg


def check(files, ratchet):
    """All violations as lines of text, and notes on what is near a limit."""
    violations = []
    for name, find in RULES.items():
        for where, line, message in find(files, ratchet):
            violations.append((where if isinstance(where, str) else where.path, line, name, message))
    notes = [f"{file.path}: {len(file.lines)} lines, above the aim of {FILE_SOFT}" for file in files
             if file.suffix in CODE and len(file.lines) > FILE_SOFT and not file.is_test]
    return [f"{path}:{line}: {name}: {message}" for path, line, name, message in sorted(violations)], notes
