"""Marks containers with the worker that started them, and tells later whether that worker still lives.

A mark names one process for ever: the boot of its machine, its pid namespace, its pid, and the tick at which it began.
"""

from __future__ import annotations

import os
from pathlib import Path

WORKER = "onthedot.worker"
RUN = "onthedot.run"
FENCE = "onthedot.fence"
ATTEMPT = "onthedot.attempt"
JOB = "onthedot.job"

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def here() -> str:
    """The mark of this process. Empty where the system does not show it: then it never counts as dead."""
    try:
        boot = _BOOT.read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""
    return f"{boot}/{namespace}/{os.getpid()}/{_began(os.getpid())}"


def is_dead(mark: str, *, local: bool) -> bool:
    """Whether the process of this mark is certainly gone. `local`: it was a process of this machine.

    A process in another pid namespace cannot be seen from here, and counts as alive.
    """
    mine, other = here().split("/"), mark.split("/")
    if len(mine) != 4 or len(other) != 4 or not other[2].isdecimal():
        return False
    if mine[0] != other[0]:
        return local  # before the machine's last start
    return mine[1] == other[1] and _began(int(other[2])) != other[3]


def _began(pid: int) -> str:
    """The tick at which a process began; empty if it is gone, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
