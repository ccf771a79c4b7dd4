"""The error messages of the command line and the Python package, collected from their sources.

A message is what is thrown, raised, written to stderr, or kept as a problem, a reason or a remedy to be told later: the
literals of that statement, with an ellipsis for each value between them. It is found by its key, the longest piece
without a value; what has no piece of two words is not seen. Run as a program it prints what it finds, by file.
"""

import ast
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("cli", "src", "include", "python/bindings", "python/ebbtide")
# What only programs in C++ reach, and the simulator's own language.
LEFT_OUT = ("src/mirror/", "src/stream/", "src/drivers/opencl/", "src/drivers/cuda/mirror/", "src/bound/",
            "src/sim/fuzz", "src/sim/scenario", "src/array/source/")
# What tells of a result and not of an error; what `ebb doctor` finds has its remedy beside it.
NO_ERRORS = ("cli/run/report/report_advice", "cli/run/report/report_data", "cli/run/wait_account",
             "cli/plan/plan_report", "cli/doctor/checks", "cli/doctor/bounded_checks", "cli/fuzz/fuzz_report",
             "cli/reference/man", "cli/reference/bash", "cli/reference/zsh", "cli/reference/fish", "cli/text")
NO_ERROR = re.compile(r"^Usage: |^<progress|^boolean indexing|^real floating|GB/s, writes|full rung|user-mode rung|"
                      r"needs no privilege$|^…, … % of|what share of the disk|such as tokens|^peak resident|"
                      r"in the end;|CUDA ….…|^all that leaves")
KEY_LEAST = 12  # characters

_WORDS = (r"throw|refuse|fail|fail_at|complain|invalid|damaged|tell\w*|raise|less|kTexts?|\w*problem|\w*reason|\w*why|"
          r"\w*error|unmanaged_\w+|why_\w+")
_BEGIN = re.compile(rf"(?:^|(?<=[\s.>(]))(?:{_WORDS})(?=[\s(\[={{])|return (?:\w+ \+ |std::string\(|fmt::format\()?\"|"
                    r"\b(?:write_all|::write)\(\s*STDERR_FILENO|\bfprintf\(stderr", re.MULTILINE)
_TOKEN = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[;(){}]")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_VALUE = re.compile(r"\{[^{}]*\}|%[-+0-9.l]*[a-z]|\\n|\n|…")
_PYTHON_CALLS = {"warnings.warn", "_stop", "self._leave", "_told_once"}


@dataclasses.dataclass(frozen=True)
class Message:
    text: str
    key: str


def make(pieces):
    """The message of literals that belong together; None if there is nothing to find it by."""
    text = "…".join(_VALUE.sub("…", piece) for piece in pieces)
    text = re.sub(r"(\s*…)+", lambda run: run[0][0] if run[0][0] == "…" else " …", text)
    text = re.sub(r"\\([\"'\\])", r"\1", text)
    key = max((part.strip(" :;,'\"(.)`") for part in text.split("…")), key=len, default="")
    return Message(" ".join(text.split()), " ".join(key.split())) if len(key) >= KEY_LEAST and " " in key else None


def _end_of_statement(code, begin):
    depth = 0
    for token in _TOKEN.finditer(code, begin):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(token[0], 0)
        if depth < 0 or (token[0] == ";" and depth == 0):
            return token.start()
        if token[0] == "{" and depth == 1 and ")" in code[begin:token.start()]:  # the body of a function or of an if
            return token.start()
    return len(code)


def of_cpp(text):
    code = re.sub(r"^\s*//[^\n]*", "", text, flags=re.MULTILINE)
    end = 0
    for begin in _BEGIN.finditer(code):
        if begin.start() < end:
            continue  # is a part of the message before
        end = _end_of_statement(code, begin.start())
        runs, last = [], None
        for found in _STRING.finditer(code, begin.start(), end):
            if last is not None and not code[last:found.start()].strip():
                runs[-1] += found[1]
            else:
                runs.append(found[1])
            last = found.end()
        yield from [make([run]) for run in runs] if begin[0].startswith("kText") else [make(runs)]


def of_python(text):
    for node in ast.walk(ast.parse(text)):
        returned = isinstance(node, ast.Return) and not isinstance(node.value, (ast.Call, ast.Compare, ast.BoolOp))
        if returned or isinstance(node, ast.Raise) or (
                isinstance(node, ast.Call) and ast.unparse(node.func) in _PYTHON_CALLS):
            yield make([re.sub(r"^ ", "… ", part.value) for part in ast.walk(node)
                        if isinstance(part, ast.Constant) and isinstance(part.value, str)])


def _sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            skipped = "/test/" in name or name.startswith(LEFT_OUT + NO_ERRORS)
            if path.suffix in (".cc", ".h", ".py") and not skipped:
                yield name, path.read_text(encoding="utf-8")


def collect():
    """Each message once, with the file that has it first."""
    found = {}
    for name, text in _sources():
        for message in (of_python if name.endswith(".py") else of_cpp)(text):
            if message and not NO_ERROR.search(message.text):
                found.setdefault(message, name)
    return found


if __name__ == "__main__":
    last = None
    for message, name in collect().items():
        if name != last:
            print(f"\n{name}")
        print(f"  {message.text}")
        last = name
