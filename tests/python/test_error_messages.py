"""docs/troubleshooting.md has every message that the sources can show; and that they are found in the sources."""

import error_messages
import pytest

PAGE = error_messages.ROOT / "docs/troubleshooting.md"


def squeezed(text):
    return "".join(text.replace("\\|", "|").split()).replace("`", "")


MESSAGES = error_messages.collect()


def test_every_message_is_in_the_page_with_a_remedy():
    page = squeezed(PAGE.read_text(encoding="utf-8"))
    missing = [f"{name}: {message.text}" for message, name in MESSAGES.items() if squeezed(message.key) not in page]
    assert missing == [], "give each a place and a remedy in docs/troubleshooting.md"


def test_every_row_has_a_remedy():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    for row in rows:
        assert len(row.rsplit(" | ", 1)[1]) > 10, row


@pytest.mark.parametrize("file, words", [
    ("cli/command_line.cc", "unknown option '…'; see ebb run --help"),
    ("src/runtime/managed_runtime_budget.cc", "out of memory: … asked for"),
    ("src/calls/refusal.cc", "munmap() of managed memory is refused"),
    ("python/ebbtide/torch/__init__.py", "Ebbtide is enabled already"),
    ("python/ebbtide/hook/sitecustomize.py", "memory management could not start"),
    ("python/ebbtide/array/_creation.py", "the lists are nested unevenly"),
])
def test_messages_are_found(file, words):
    assert file in [name for message, name in MESSAGES.items() if words in message.text]
    assert len(MESSAGES) > 400


def test_of_cpp():
    source = """
      // throw Error("of a comment only");
      if (bad) throw Error(Status::kInvalid, fmt::format("--size: '{}' is not "
                                                         "to be had; give {} or more", text, least));
      refuse("the directory '" + path + "' does not exist");
      const char* name = "no message at all";
      constexpr const char* kTexts[] = {"ebb: the first text\\n", "ebb: the second text\\n"};
      return "a reason that is told later";
    """
    assert [message.text for message in filter(None, error_messages.of_cpp(source))] == [
        "--size: '…' is not to be had; give … or more", "the directory '…' does not exist",
        "ebb: the first text…", "ebb: the second text…", "a reason that is told later"]


def test_of_python():
    source = 'def f(x):\n    "no message at all"\n    raise ValueError(f"{x} is out of the range of {x!r}")\n'
    (message,) = filter(None, error_messages.of_python(source))
    assert message.text == "… is out of the range of" and message.key == "is out of the range of"
