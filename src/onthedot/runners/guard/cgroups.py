"""Limits a whole process tree with cgroups, in directories that the operator has named and nowhere else.

We change no other groups, even as root, because their owner may watch, count or limit them. Both version 1 (a directory
for each controller) and version 2 work. If a directory has no file for a limit, that limit does not apply.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from onthedot.model.task import Bounds


class Group:
    """The cgroups of one program: one new directory in each of `parents`."""

    def __init__(self, parents: Sequence[str], name: str, bounds: Bounds) -> None:
        self._places = [Path(parent, name) for parent in parents]
        try:
            for place in self._places:
                place.mkdir()
        except OSError:
            self.remove()
            raise
        if bounds.processes is not None:
            self._write("pids.max", bounds.processes)
        if bounds.memory is not None:
            self._write("memory.max", bounds.memory)
            self._write("memory.swap.max", 0)
            self._write("memory.oom.group", 1)
            self._write("memory.limit_in_bytes", bounds.memory)

    @property
    def procs_files(self) -> list[str]:
        """Return the files to which a process writes 0 to join the group."""
        return [f"{place}/cgroup.procs" for place in self._places]

    def members(self) -> set[int]:
        """Return the ids of the processes in the group."""
        found: set[int] = set()
        for place in self._places:
            with suppress(OSError):
                found.update(map(int, (place / "cgroup.procs").read_text().split()))
        return found

    def kill(self) -> None:
        """Kill all processes at once, if the kernel can do that (version 2)."""
        self._write("cgroup.kill", 1)

    def was_out_of_memory(self) -> bool:
        """Return whether the kernel has killed a process of the group because memory ran out."""
        for place in self._places:
            for name in ("memory.events", "memory.oom_control"):
                with suppress(OSError):
                    counts = dict(line.split() for line in (place / name).read_text().splitlines())
                    if int(counts.get("oom_kill", 0)):
                        return True
        return False

    def remove(self) -> None:
        """Remove the group. It must be empty."""
        for place in self._places:
            with suppress(OSError):  # it was never made, or a zombie is still in it; then it remains, without effect
                place.rmdir()

    def _write(self, name: str, value: int) -> None:
        for place in self._places:
            if (place / name).exists():
                with suppress(OSError):
                    (place / name).write_text(str(value))


def usable(parents: Sequence[str]) -> list[str]:
    """Return the directories in which we can make groups. This tries each."""
    found = []
    for parent in parents:
        trial = Path(parent, f"probe-{os.getpid()}")
        try:
            trial.mkdir()
            trial.rmdir()
        except OSError:
            continue
        found.append(parent)
    return found
