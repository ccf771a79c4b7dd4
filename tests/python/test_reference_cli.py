"""Tests of `ebb completion` and `ebb man`: whole beside --help, and used by the shells and readers that are there."""

import os
import re
import shutil
import subprocess

import pytest
from ebb_program import EBB, needs_ebb
from terminal import Terminal

pytestmark = needs_ebb
TIMEOUT_S = 60


def ebb(*arguments):
    return subprocess.run([EBB, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S)


def printed(*arguments):
    result = ebb(*arguments)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return result.stdout


def options(*command):
    """As people read them in the help."""
    lines = re.findall(r"^  (-\S+)", printed(*command, "--help"), re.MULTILINE)
    names = {name for line in lines for name in line.split(",")}
    assert {"-h", "--help"} <= names
    return names


COMMANDS = re.findall(r"^  ([a-z]+) ", printed("--help").split("Subcommands:")[1], re.MULTILINE) if EBB else []


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"no {program} on this machine")


@pytest.fixture
def script(tmp_path):
    def write(shell):
        path = tmp_path / f"ebb.{shell}"
        path.write_text(printed("completion", shell))
        return path
    return write


@pytest.fixture
def bash(script, tmp_path):
    """What bash offers for the last of these words, as readline splits a line."""
    need("bash")
    (tmp_path / "traces").mkdir()
    (tmp_path / "a trace.jsonl").touch()

    def complete(*words):
        run = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ebb; printf "%s\\n" "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "--norc", "-c", run, script("bash"), *words], capture_output=True, text=True,
                                cwd=tmp_path, timeout=TIMEOUT_S)
        assert result.returncode == 0 and result.stderr == "", result.stderr
        return set(result.stdout.splitlines()) - {""}
    return complete


def test_there_are_the_commands_of_the_help():
    assert {"run", "plan", "doctor", "completion", "man"} <= set(COMMANDS)


def test_bash_registers(script):
    need("bash")
    result = subprocess.run(["bash", "--norc", "-c", 'source "$0"; complete -p ebb', script("bash")],
                            capture_output=True, text=True, timeout=TIMEOUT_S)
    assert result.stdout == "complete -F _ebb ebb\n" and result.stderr == ""


def test_bash_offers_commands_and_all_of_their_options(bash):
    assert bash("ebb", "") == set(COMMANDS) | options()
    for command in COMMANDS:
        assert bash("ebb", command, "-") == options(command), command


def test_bash_offers_values(bash):
    assert bash("ebb", "run", "--mem") == {"--memory"}
    assert bash("ebb", "run", "--memory", "") == {"auto"}
    assert bash("ebb", "run", "--memory", "=") == bash("ebb", "run", "--memory", "=", "au") == {"auto"}
    assert bash("ebb", "run", "--share", "e") == {"equal"}
    assert bash("ebb", "run", "--policy", "") == set()
    assert bash("ebb", "run", "--flash", "t") == {"traces"}
    assert bash("ebb", "doctor", "--flash", "a") == set()
    assert bash("ebb", "run", "--record", "a") == bash("ebb", "sim", "a") == {"a trace.jsonl"}
    named_files = re.findall(r"^  (--\S+) FILE", printed("run", "--help"), re.MULTILINE)
    assert {"--summary", "--guide", "--report"} <= set(named_files)
    for name in named_files:
        assert bash("ebb", "run", name, "a") == {"a trace.jsonl"}, name
    assert bash("ebb", "completion", "") == {"bash", "zsh", "fish"}
    assert bash("ebb", "man", "") == set(COMMANDS)


def test_bash_leaves_programs_alone(bash):
    assert "bash" in bash("ebb", "run", "--memory", "1GiB", "--", "bas")
    assert bash("ebb", "run", "--", "python", "a") == {"a trace.jsonl"}
    assert bash("ebb", "plan", "--", "python", "--mem") == set()


def test_zsh_knows_all_options():
    functions = re.findall(r"^    ([a-z]+)\)\n      _arguments (.*?)\n      ;;", printed("completion", "zsh"),
                           re.MULTILINE | re.DOTALL)
    assert [name for name, _ in functions] == COMMANDS
    for name, specifications in functions:
        offered = set(re.findall(r"^\s*'(--[a-z-]+)[=\[]", specifications, re.MULTILINE))
        assert offered | {"-h", "--help"} == options(name), name
        assert "'(-h --help)'{-h,--help}" in specifications


def test_zsh_completes(script, tmp_path):
    need("zsh")
    (tmp_path / "traces").mkdir()
    shell = Terminal(["zsh", "-f", "-i"], tmp_path, os.environ | {"PS1": "% ", "TERM": "dumb"})
    shell.type(f"autoload -Uz compinit; compinit -u -D; source {script('zsh')}; print rea''dy\n".encode())
    shell.read_until(b"\nready")
    for typed, completed in (("ebb run --mem", "ebb run --memory"), ("ebb cal", "ebb calibrate"),
                             ("ebb run --share e", "ebb run --share equal"), ("ebb sim tra", "ebb sim traces"),
                             ("ebb run -- print tra", "ebb run -- print traces"), ("ebb man pl", "ebb man plan")):
        # The completed line becomes a word that is printed: Ctrl-A goes to its beginning, Ctrl-E to its end.
        shell.type(typed.encode() + b"\t\x01print -r -- '<\x05>'\n")
        shell.read_until(f"\n<{completed}>".encode())
    shell.type(b"exit\n")
    assert shell.finish() == 0


def test_fish_offers_all_options_and_values(script, tmp_path):
    need("fish")
    (tmp_path / "traces").mkdir()

    def complete(line):
        run = ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"', str(script("fish")), line]
        result = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S,
                                env=os.environ | {"HOME": str(tmp_path)})
        assert result.returncode == 0 and result.stderr == "", result.stderr
        return {offer.split("\t")[0] for offer in result.stdout.splitlines()}

    assert complete("ebb ") >= set(COMMANDS)
    for command in COMMANDS:
        assert complete(f"ebb {command} --") == {name for name in options(command) if name.startswith("--")}, command
    assert complete("ebb run --memory ") == {"auto"}
    assert complete("ebb run --flash tra") == {"traces/"}
    assert complete("ebb completion ") == {"bash", "zsh", "fish"}
    assert "traces/" in complete("ebb run -- ls tra")
    assert "--memory" not in complete("ebb run -- cat --")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_man_page(command):
    page = printed("man", *command.split())
    documented = set(re.findall(r"\\fB(-\S*?)\\fR", page.replace("\\-", "-")))
    assert documented == options(*command.split())
    variables = re.findall(r"\(Env:(\w+)\)", printed(*command.split(), "--help"))
    for variable in variables:
        assert f"\\fB{variable}\\fR" in page
    if not command:
        assert re.findall(r"^\\fB([a-z]+)\\fR$", page, re.MULTILINE) == COMMANDS


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_man_page_renders_without_warnings(command):
    need("groff")
    page = printed("man", *command.split())
    result = subprocess.run(["groff", "-man", "-ww", "-Tascii"], input=page, capture_output=True, text=True,
                            timeout=TIMEOUT_S, env=os.environ | {"GROFF_NO_SGR": "1"})
    assert result.returncode == 0 and result.stderr == "", result.stderr
    text = re.sub(".\b", "", result.stdout)
    for heading in ("NAME", "SYNOPSIS", "OPTIONS", "SEE ALSO"):
        assert re.search(f"^{heading}$", text, re.MULTILINE), text
    for name in options(*command.split()):
        assert name in text


def test_all_pages_into_a_directory(tmp_path):
    printed("man", "--to", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"ebb.1", *(f"ebb-{command}.1" for command in COMMANDS)}
    assert (tmp_path / "ebb-run.1").read_text() == printed("man", "run")


def test_what_is_refused(tmp_path):
    for arguments, part in ((["completion"], "SHELL"), (["completion", "tcsh"], "bash, zsh and fish"),
                            (["man", "frobnicate"], "unknown command 'frobnicate'"),
                            (["man", "run", "--to", tmp_path], "--to is for all pages"),
                            (["man", "--to", tmp_path / "absent"], "cannot be written")):
        result = ebb(*arguments)
        assert result.returncode == 2 and result.stdout == ""
        assert result.stderr.startswith("ebb: ") and result.stderr.count("\n") == 1 and part in result.stderr
