"""Reads from /proc how much CPU time processes have used. Each function returns 0 where there is no /proc."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_NANOSECONDS = 1e9


def ticks_of(pids: Sequence[int], *, ended: bool = False) -> float:
    """CPU seconds of processes until now, in steps of 10 ms; with `ended` also of their children that have ended."""
    fields = [field for pid in pids for field in _fields(pid)[11 : 15 if ended else 13]]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")


def family_of(pid: int) -> float:
    """CPU seconds of a process and its children until now; exact if they have one thread each and have not ended."""
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
        return ticks_of([pid])  # the kernel keeps no such statistics, or the process has ended since


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended since
