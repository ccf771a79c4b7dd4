"""What notebooks show: stats() as a small table, and the line magic `%ebb`, after `%load_ext ebbtide`.

    %ebb                                  what stats() says now
    %ebb memory=1.5GiB flash=/nvme        enable(memory="1.5GiB", flash="/nvme")

Needs no IPython: it hands itself over.
"""

from __future__ import annotations

import html

_CAUSES = {"late": "on its way, but late", "unplanned": "not fetched ahead", "fault": "touched unannounced",
           "no_frame": "no memory free", "flash_full": "flash full"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_CELL = 'style="text-align:left"'


class Statistics(dict):
    """A dict of counters that a notebook shows as a table; print() and everything else take it as a dict."""

    def _repr_html_(self) -> str:
        shown = [("memory", f"{_memory_bar(self)} {size(self['resident_bytes'])} of {size(self['budget_bytes'])}")]
        shown += [(label, html.escape(value)) for label, value in rows(self)]
        body = "".join(f"<tr><th {_CELL}>{label}</th><td {_CELL}>{value}</td></tr>" for label, value in shown)
        return f"<table>{body}</table>"


def size(count: float) -> str:
    unit = 0
    while count >= 1023.5 and unit + 1 < len(_UNITS):
        count, unit = count / 1024, unit + 1
    return f"{count:.3g} {_UNITS[unit]}" if count < 1000 else f"{count:.0f} {_UNITS[unit]}"


def _memory_bar(stats: dict) -> str:
    return f'<progress max="{max(stats["budget_bytes"], 1)}" value="{stats["resident_bytes"]}"></progress>'


def _worst(entries: list) -> str:
    return ", ".join(f"{entry['name']} {entry['stall_ns'] / 1e9:.3g} s" for entry in entries if entry["stall_ns"] > 0)


def rows(stats: dict):
    """What a table of these counters has beside memory: pairs of text."""
    yield "flash", f"{size(stats['flash_bytes'])} of {size(stats['flash_limit_bytes'])}"
    yield "tensors", f"{size(stats['live_bytes'])} now, {size(stats['peak_live_bytes'])} at most"
    yield "read, written", f"{size(stats['fetched_bytes'])}, {size(stats['evicted_bytes'])}"
    steps = stats["step_seconds"]
    if steps:
        median = sorted(steps)[len(steps) // 2]
        yield "steps", f"{len(steps)}, the last took {steps[-1]:.3g} s, the median is {median:.3g} s"
    yield "waited", f"{stats['stall_ns'] / 1e9:.3g} s"
    waits = stats["waits"]
    causes = sorted(waits["causes_ns"].items(), key=lambda item: -item[1])
    if why := ", ".join(f"{_CAUSES[name]} {ns / 1e9:.3g} s" for name, ns in causes if ns > 0):
        yield "why", why
    for label, what in (("in modules", "modules"), ("by operators", "operators")):
        if worst := _worst(waits[what]):
            yield label, worst
    yield "policy", f"{stats['policy']}; {stats['description']}"


def _options(line: str) -> dict:
    options = {}
    for word in line.split():
        name, separator, value = word.partition("=")
        if not separator or not name or not value:
            raise _usage(f"'{word}' is no option")
        options[name] = int(value) if value.isdigit() else value
    return options


def _usage(what: str) -> Exception:
    from . import Error

    return Error(f"%ebb: {what}; write %ebb alone, or %ebb memory=1.5GiB flash=/nvme, as enable() takes them")


def ebb(line: str):
    """%ebb: what stats() says now. %ebb memory=1.5GiB flash=/nvme: enables Ebbtide with these options."""
    import ebbtide

    if line.strip():
        options = _options(line)
        try:
            return ebbtide.enable(**options)
        except TypeError as error:
            raise _usage(str(error)) from None
    if not ebbtide.enabled():
        raise _usage("Ebbtide is not enabled, so there is nothing to show")
    return ebbtide.stats()


def load_into(shell) -> None:
    shell.register_magic_function(ebb, magic_kind="line", magic_name="ebb")
