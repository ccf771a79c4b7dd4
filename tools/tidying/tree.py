"""What the rules look at: the files of a tree, and C++ with its comments and strings blanked out."""

import dataclasses
import functools
import json
import pathlib
import re
import subprocess

SKIPPED = {".git", ".venv", "build", ".cache", "__pycache__", ".pytest_cache", "node_modules"}
CXX = {".cc", ".h"}


@dataclasses.dataclass(frozen=True)
class File:
    path: str  # relative to the root, with forward slashes
    text: str

    @functools.cached_property
    def parts(self):
        return tuple(self.path.split("/"))

    @functools.cached_property
    def folder(self):
        return "/".join(self.parts[:-1])

    @functools.cached_property
    def name(self):
        return self.parts[-1]

    @functools.cached_property
    def suffix(self):
        """".py" also for a Python program without one."""
        suffix = pathlib.PurePosixPath(self.path).suffix
        return ".py" if not suffix and re.match(r"#!.*python", self.text) else suffix

    @functools.cached_property
    def lines(self):
        return self.text.splitlines()

    @functools.cached_property
    def code(self):
        """C++ without comments and strings; every character keeps its place."""
        return blank(self.text)

    @functools.cached_property
    def is_test(self):
        return any(part in ("test", "tests") for part in self.parts[:-1])

    def line_of(self, position):
        return self.text.count("\n", 0, position) + 1


_TOKEN = re.compile(
    r"""//[^\n]*(?:\\\n[^\n]*)*"""
    r"""|/\*.*?\*/"""
    r"""|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\""""
    r"""|"(?:\\.|[^"\\\n])*\""""
    r"""|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)


def blank(text):
    return _TOKEN.sub(lambda token: re.sub(r"[^\n]", " ", token.group()), text)


def listed(root):
    """Files that git knows or would know; outside a checkout, everything that is not built."""
    try:
        done = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
                              capture_output=True, check=True)
        return [name for name in done.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        return [path.relative_to(root).as_posix() for path in root.rglob("*")
                if not SKIPPED.intersection(path.relative_to(root).parts)]


def copy(root, folder):
    """Into a folder, as it is now; a file that is as it was keeps its time, so that it is not compiled again."""
    for name in listed(root):
        source, target = root / name, folder / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(source.stat().st_mode & 0o777)


def read(root):
    files = []
    for name in sorted(set(listed(root))):
        path = root / name
        if path.is_symlink() or not path.is_file():
            continue
        try:
            files.append(File(name, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue  # not text
    return files


def read_ratchet(root):
    path = root / "tools" / "tidy_ratchet.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
