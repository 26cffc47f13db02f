"""Reads the CPU time of processes from /proc. Each function returns 0 if the system has no /proc."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_NANOSECONDS = 1e9


def ticks_of(pids: Sequence[int], *, ended: bool = False) -> float:
    """Return the CPU seconds of processes, in steps of 10 ms; with `ended`, also those of their ended children."""
    fields = [field for pid in pids for field in _fields(pid)[11 : 15 if ended else 13]]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")


def family_of(pid: int) -> float:
    """Return the CPU seconds of a process and its children; exact if all are alive and have one thread each."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    ended = sum(map(int, _fields(pid)[13:15])) / os.sysconf("SC_CLK_TCK")
    return ended + sum(map(_exact, [pid, *map(int, children)]))


def _exact(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / _NANOSECONDS
    except (FileNotFoundError, ProcessLookupError):
        return ticks_of([pid])  # the kernel has no such statistics, or the process has ended


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []  # the process has ended
