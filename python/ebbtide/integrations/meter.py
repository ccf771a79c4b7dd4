"""Meter: what Ebbtide did since it was last asked, as plain numbers. Who logs has one of its own.

Empty, and no error, where nothing is managed: a program keeps it when it runs without Ebbtide. Needs no torch.
"""

from __future__ import annotations

import dataclasses
import sys
import time

import ebbtide

from .._notebook import rows, size

PREFIX = "ebbtide/"
_NOW = ("budget_bytes", "resident_bytes", "flash_bytes")
_MOVED = ("fetched_bytes", "evicted_bytes")


def counters() -> dict | None:
    """ebbtide.stats(), or None where no tensor has ever been managed."""
    extension = sys.modules.get("ebbtide._C")
    return ebbtide.stats() if extension is not None and extension.opened() else None


@dataclasses.dataclass(frozen=True)
class _Reading:
    at: float
    moved: dict[str, int]
    steps: int
    stall_ns: int
    causes_ns: dict[str, int]


def _reading(stats: dict | None) -> _Reading:
    at = time.monotonic()
    if stats is None:
        return _Reading(at, dict.fromkeys(_MOVED, 0), 0, 0, {})
    return _Reading(at, {name: stats[name] for name in _MOVED}, stats["steps"], stats["stall_ns"],
                    stats["waits"]["causes_ns"])


class Meter:
    """Counts from when it is made, or from begin()."""

    def __init__(self):
        self.begin()

    def begin(self) -> None:
        self._begun = self._last = _reading(counters())

    def scalars(self) -> dict[str, float]:
        """By name, each with the prefix "ebbtide/": bytes, seconds, and shares of the time from 0 to 1.

        budget_bytes, resident_bytes, flash_bytes     now
        fetched_bytes, evicted_bytes, steps           since the last call
        fetched_bytes_per_second, evicted_…           the same over its time
        stalled_share                                 of that time, in which a thread waited
        stalled_late_share and so on                  of that time, by cause (docs/report.md); they add up
        """
        stats = counters()
        if stats is None:
            return {}
        before, now = self._last, _reading(stats)
        self._last = now
        seconds = max(now.at - before.at, 1e-9)
        values = {name: stats[name] for name in _NOW}
        for name in _MOVED:
            values[name] = now.moved[name] - before.moved[name]
            values[f"{name}_per_second"] = values[name] / seconds
        values["steps"] = now.steps - before.steps
        values["stalled_share"] = (now.stall_ns - before.stall_ns) / 1e9 / seconds
        for cause, ns in now.causes_ns.items():
            values[f"stalled_{cause}_share"] = (ns - before.causes_ns.get(cause, 0)) / 1e9 / seconds
        return {PREFIX + name: float(value) for name, value in values.items()}

    def summary(self) -> str:
        """Where the time went since begin(), then counters of the whole process; "" where nothing is managed."""
        stats = counters()
        if stats is None:
            return ""
        now = _reading(stats)
        seconds = max(now.at - self._begun.at, 1e-9)
        stalled = (now.stall_ns - self._begun.stall_ns) / 1e9
        lines = [f"Ebbtide: stalled {stalled:.3g} s of {seconds:.3g} s ({100 * stalled / seconds:.1f} %)"]
        lines += [f"  {label:<13} {value}" for label, value in
                  [("memory", f"{size(stats['resident_bytes'])} of {size(stats['budget_bytes'])}"), *rows(stats)]]
        return "\n".join(lines)


_meter = Meter()


def scalars() -> dict[str, float]:
    """Meter.scalars() of one meter for the whole program; the first call counts from the import of this module."""
    return _meter.scalars()
