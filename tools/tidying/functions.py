"""Where functions begin and end: C++ by its braces, Python by its syntax tree.

The C++ half is a reader, not a parser. It sees a function in every outermost brace block whose head has parentheses;
that is right for the C++ of this repository, whose layout a formatter decides.
"""

import ast
import re

_SCOPE = re.compile(r"^(template\s*<.*>\s*)?(inline\s+)*(namespace|class|struct|union|enum|extern)\b", re.DOTALL)
_ACCESS = re.compile(r"\s*((public|private|protected)\s*:\s*)*")
_NAME = re.compile(r"([~\w:]+|operator\s*\S+)\s*\(([^()]*)")
_TESTS = {"TEST", "TEST_F", "TEST_P", "TYPED_TEST", "TYPED_TEST_P", "RC_GTEST_PROP", "RC_GTEST_FIXTURE_PROP"}


def _without_directives(code):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda found: re.sub(r"[^\n]", " ", found.group()), code,
                  flags=re.MULTILINE)


def _matches(code):
    """Position of the closing brace for every opening one."""
    match, open_ = {}, []
    for found in re.finditer(r"[{}]", code):
        if found.group() == "{":
            open_.append(found.start())
        elif open_:
            match[open_.pop()] = found.start()
    return match


def _name(head):
    found = _NAME.search(head)
    if found is None:
        return "?"
    name, arguments = found.groups()
    return re.sub(r"\s+", "", f"{name}({arguments})") if name in _TESTS else name


def _cxx(code):
    code = _without_directives(code)
    match = _matches(code)
    head, position = 0, 0
    while position < len(code):
        character = code[position]
        if character in ";}":
            head = position + 1
        elif character == "{" and position in match:
            text = code[head:position]
            start = head + _ACCESS.match(text).end()
            bare = code[start:position].strip()
            if _SCOPE.match(bare) and not bare.endswith(")"):
                head = position + 1
            else:
                end = match[position]
                follower = code[end + 1:].lstrip()[:1]
                if ")" in bare and follower not in ("{", ","):  # else: a member initializer
                    yield _name(bare), code.count("\n", 0, start) + 1, code.count("\n", start, end) + 1
                    head = end + 1
                position = end
        position += 1


def _python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def lengths(file):
    """(name, first line, lines) of every function of a file."""
    return list(_python(file.text) if file.suffix == ".py" else _cxx(file.code))
