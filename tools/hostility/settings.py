"""Settings of the kernel that are changed for a while: each is read before it is written, and put back at the end.

What is put back is also written to a file first, so that a process that was killed in the middle leaves behind what the
settings were; `restore(path)` reads it. One thread.
"""

import json
import pathlib
import re


def _value(text):
    """What to write to a file that reads as `text`: of `always [madvise] never` the word in brackets."""
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen.group(1) if chosen else text.strip()


class Settings:
    """A context in which settings may be changed."""

    def __init__(self, journal):
        self.journal = pathlib.Path(journal)
        self.before = {}

    def __enter__(self):
        return self

    def set(self, path, value):
        """Writes a setting; the first time, what it was is kept."""
        path = str(path)
        if path not in self.before:
            self.before[path] = _value(pathlib.Path(path).read_text(encoding="utf-8"))
            self.journal.write_text(json.dumps(self.before), encoding="utf-8")
        pathlib.Path(path).write_text(str(value), encoding="utf-8")

    def __exit__(self, *_):
        put_back(self.before)
        self.journal.unlink(missing_ok=True)
        self.before = {}


def put_back(before):
    failed = []
    for path, value in reversed(before.items()):
        try:
            pathlib.Path(path).write_text(value, encoding="utf-8")
        except OSError as error:
            failed.append(f"{path} could not be set back to '{value}': {error.strerror}")
    if failed:
        raise RuntimeError("; ".join(failed))


def restore(journal):
    """Puts back what a run that was killed had changed; False if there is nothing to put back."""
    path = pathlib.Path(journal)
    if not path.exists():
        return False
    put_back(json.loads(path.read_text(encoding="utf-8")))
    path.unlink()
    return True
