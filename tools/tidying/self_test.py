"""The test of the rules: a clean scratch tree must pass, and each planted violation must be found where it was planted.

A case is (rule, path, content, line); content None deletes the file. What must *not* be found has a case too, because a
rule that cries wolf gets switched off.
"""

import pathlib
import tempfile

from tidying import functions, rules, tree

HEADER = "// A block of nothing.\n#pragma once\n"
SOURCE = "// A block of nothing.\n"
LONG = "int f(int a) {\n" + "  a += 1;\n" * 69 + "  return a;\n}\n"

CLEAN = {
    "src/base/README.md": "# base\n",
    "src/base/check.h": HEADER,
    "src/base/clock.h": HEADER + "inline auto now() { return std::chrono::steady_clock::now(); }\n",
    "src/space/README.md": "# space\n",
    "src/space/table.h": HEADER + '#include "base/check.h"\n#include "ebb/status.h"\n',
    "src/space/table.cc": SOURCE + '#include "space/table.h"\n// rand() in a comment\nauto s = "std::mutex, rand()";\n'
                                   "auto r = R\"(std::cout << rand())\";\nint big = 1'000'000;\n",
    "src/space/test/table_test.cc": SOURCE + '#include "sim/world.h"\nint f() { return std::printf("x"); }\n',
    "src/runtime/README.md": "# runtime\n",
    "src/runtime/open.cc": SOURCE + '#include "drivers/linux/file.h"\n#include "ebb/runtime.h"\n',
    "src/sim/README.md": "# sim\n",
    "src/sim/simulator.cc": SOURCE + '#include "core/core.h"\n',
    "cli/README.md": "# cli\n",
    "cli/flags.h": HEADER,
    "cli/main.cc": SOURCE + '#include "flags.h"\n#include "ebb/runtime.h"\n#include "drivers/linux/file.h"\n',
    "include/ebb/runtime.h": HEADER + '#include <memory>\n#include "ebb/status.h"\n',
    "tools/README.md": "# tools\n",
    "tools/thing": "#!/usr/bin/env python3\n\"\"\"A thing.\"\"\"\n",
}

CASES = [
    ("include-direction", "src/space/a.h", HEADER + '#include "alloc/frame_pool.h"\n', 3),
    ("include-direction", "src/plan/a.cc", SOURCE + '#include "port/flash_queue.h"\n', 2),
    ("include-direction", "src/array/pass/a.cc", SOURCE + '#include "array/ops/operands.h"\n', 2),
    ("include-direction", "src/plan/a.cc", SOURCE + '\n#include "move/engine.h"\n', 3),
    ("include-direction", "src/move/a.cc", SOURCE + '#include "ebb/runtime.h"\n', 2),
    ("include-direction", "src/core/core.cc", SOURCE + '#include "drivers/linux/file.h"\n', 2),
    ("include-direction", "src/sim/world.cc", SOURCE + '#include "runtime/stats_file.h"\n', 2),
    ("include-direction", "src/drivers/linux/a.cc", SOURCE + '#include "drivers/uring/ring.h"\n', 2),
    ("include-direction", "src/drivers/linux/a.cc", SOURCE + "#include <liburing.h>\n", 2),
    ("include-direction", "src/space/a.cc", SOURCE + '#include "table.h"\n', 2),
    ("include-direction", "include/ebb/a.h", HEADER + '#include "base/check.h"\n', 3),
    ("include-direction", "include/ebb/a.h", HEADER + "#include <fmt/format.h>\n", 3),
    ("include-direction", "python/bindings/a.cc", SOURCE + '#include "core/core.h"\n', 2),
    ("include-direction", "cli/a.cc", SOURCE + '#include "move/engine.h"\n', 2),
    ("banned-call", "src/move/a.cc", SOURCE + "auto t = std::chrono::steady_clock::now();\n", 2),
    ("banned-call", "src/sim/a.cc", SOURCE + "int x = rand();\n", 2),
    ("banned-call", "src/base/a.cc", SOURCE + "std::random_device d;\n", 2),
    ("banned-call", "src/alloc/a.cc", SOURCE + "void f() { std::this_thread::sleep_for(1s); }\n", 2),
    ("banned-call", "src/core/a.cc", SOURCE + "std::mutex m;\n", 2),
    ("banned-call", "src/alloc/test/a_test.cc", SOURCE + "std::thread t;\n", 2),
    ("banned-call", "src/plan/a.h", HEADER + "std::unordered_map<int, int> m;\n", 3),
    ("banned-call", "src/space/a.cc", SOURCE + 'void f() { printf("x"); }\n', 2),
    ("banned-call", "src/space/a.cc", SOURCE + "/* a\n b */ auto& o = std::cout;\n", 3),
    ("banned-call", "src/drivers/linux/userfault/move_memory.cc", SOURCE + "void f() { ::munmap(nullptr, 1); }\n", 2),
    ("line-length", "src/base/a.cc", SOURCE + "// " + "x" * 118 + "\n", 2),
    ("file-length", "src/base/a.cc", SOURCE * 601, 601),
    ("file-length", "src/base/test/a_test.cc", SOURCE * 801, 801),
    ("function-length", "src/base/a.cc", SOURCE + "namespace ebb {\n" + LONG + "}\n", 3),
    ("function-length", "src/base/a.h", HEADER + "class A : public B {\n public:\n" + LONG + "};\n", 5),
    ("function-length", "tools/a.py", '"""A."""\n\ndef f(a):\n' + "    a += 1\n" * 70, 3),
    ("header-guard", "src/base/a.h", SOURCE, 1),
    ("opening-comment", "src/base/a.h", "#pragma once\n", 1),
    ("opening-comment", "tools/a.py", "import os\n", 1),
    ("folder-readme", "src/base/README.md", None, 1),
    ("folder-readme", "src/space/README.md", "line\n" * 31, 31),
    ("folder-readme", "src/drivers/linux/a.cc", SOURCE, 1),
    ("machine-path", "docs/a.md", "Look in " + "/ho" + "me/somebody/ebb.\n", 1),
    ("machine-path", "tools/a.sh", "# A.\ncd " + "/wo" + "rk/main\n", 2),
    ("placeholder", "src/base/a.cc", SOURCE + "// TO" + "DO: finish\n", 2),
    ("python-syntax", "tools/a.py", '"""A."""\ndef f(:\n', 2),
]


def _findings(root, content, ratchet=None):
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        scratch = pathlib.Path(scratch)
        for path, text in content.items():
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / path).write_text(text, encoding="utf-8")
        return rules.check(tree.read(scratch), ratchet or {})[0]


def _check_planted(root, failures):
    seen = set()
    for rule, path, text, line in CASES:
        content = dict(CLEAN)
        content.pop(path, None)
        if text is not None:
            content[path] = text
        where = path.rsplit("/", 1)[0] if rule == "folder-readme" and line == 1 else path
        expected = f"{where}:{line}: {rule}: "
        found = _findings(root, content)
        if not any(finding.startswith(expected) for finding in found):
            failures.append(f"{expected}not found; found {found or 'nothing'}")
        seen.add(rule)
    return seen


def _check_folder_size(root, failures):
    content = dict(CLEAN)
    for number in range(11):  # with check and clock: 13 units
        content[f"src/base/u{number}.h"] = HEADER
        content[f"src/base/u{number}.cc"] = SOURCE
    if [finding.split(": ")[1] for finding in _findings(root, content)] != ["folder-size"]:
        failures.append("folder-size: 13 file pairs were not found")


def _check_ratchet(root, failures):
    content = dict(CLEAN, **{"src/base/a.cc": SOURCE + LONG})
    for recorded, expected in ((72, 0), (80, 1), (71, 1)):
        found = _findings(root, content, {"functions": {"src/base/a.cc:f": recorded}})
        if len(found) != expected:
            failures.append(f"ratchet at {recorded} of 72 lines: expected {expected} findings, got {found}")
    if len(_findings(root, CLEAN, {"functions": {"src/base/gone.cc:f": 90}})) != 1:
        failures.append("ratchet: an entry for a function that is gone was not found")


def _check_functions(failures):
    """The reader of functions on the constructs that could mislead it."""
    code = """namespace ebb { namespace {
constexpr int kTable[] = {1, 2};
struct A { int x{0}; A() : x{1}, y_(2) {
    if (x) { y_ = [&] { return 1; }(); }
  }
  int y_; };
}
template <typename T>
T twice(T v) { return v + v; }
enum class E : int { kA, kB };
extern "C" { void c_function(void) {} }
TEST(Suite, Name) {
  EXPECT_EQ(1, 1);
}
}
"""
    found = functions.lengths(tree.File("a.cc", code))
    expected = [("A", 3, 3), ("twice", 8, 2), ("c_function", 11, 1), ("TEST(Suite,Name)", 12, 3)]
    if found != expected:
        failures.append(f"functions: expected {expected}, got {found}")


def run():
    failures = []
    with tempfile.TemporaryDirectory() as root:
        for finding in _findings(root, CLEAN):
            failures.append(f"the clean tree has: {finding}")
        seen = _check_planted(root, failures) | {"folder-size"}
        _check_folder_size(root, failures)
        _check_ratchet(root, failures)
    _check_functions(failures)
    failures.extend(f"{name}: no case plants a violation of it" for name in set(rules.RULES) - seen)
    for failure in failures:
        print(failure)
    print(f"tidy self-test: {len(CASES) + 2} planted violations of {len(rules.RULES)} rules, {len(failures)} failures")
    return 1 if failures else 0
