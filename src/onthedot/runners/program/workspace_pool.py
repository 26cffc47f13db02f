"""Places that nothing was left in, kept for the runs that come next.

To make four folders and to remove them again can be most of what a short command costs: on a busy ext4, 1 to 4 ms were
measured for each that is removed, and 0.04 ms for one that is renamed. So a place that is as empty as it was made gets
another run's name, or waits for one under a name that no run has.

Everything here blocks, and is called by one thread at a time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

INSIDE = ("work", "work/.otd", "work/.otd/tmp")
"""The folders in a run's place, each in the one before it."""


class Spares:
    """At most so many. They are named as places of a run 0, which there is not: those of a worker that was killed are
    swept away with other places."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[Path] = []

    def take(self, run: Path) -> bool:
        """Make a place for this run of one that waits; whether there was one, and the run had none yet."""
        while self._waiting:
            spare = self._waiting.pop()
            try:
                os.rename(spare, run)
            except FileNotFoundError:  # it was swept away
                continue
            except OSError:  # the run has been here before
                self._waiting.append(spare)
                return False
            return True
        return False

    def give(self, run: Path) -> bool:
        """Take over a place that a run is done with, or remove it; False, and nothing is done, if it is used."""
        if not _is_as_made(run):
            return False
        if len(self._waiting) < self._most:
            spare = run.with_name("0-" + run.name.replace("-", ""))
            try:
                os.rename(run, spare)
            except OSError:  # somebody else has one of that name
                return remove_empty(run)
            self._waiting.append(spare)
            return True
        return remove_empty(run)

    def clear(self) -> None:
        """The worker ends: remove those that wait."""
        while self._waiting:
            remove_empty(self._waiting.pop())


def remove_empty(run: Path) -> bool:
    """Remove a place, if nothing is in it; whether it has gone. One that was changed may be left in part."""
    try:
        for inside in reversed(INSIDE):
            os.rmdir(f"{run}/{inside}")
        os.rmdir(run)
    except OSError:  # something is in it
        return False
    return True


def _is_as_made(run: Path) -> bool:
    """Whether all of its folders are there, ours alone, and hold nothing but each other."""
    folder, rest = str(run), [inside.rpartition("/")[2] for inside in INSIDE]
    try:
        return _holds(folder, rest[:1]) and all(
            _holds(f"{folder}/{inside}", rest[at : at + 1]) for at, inside in enumerate(INSIDE, start=1)
        )
    except OSError:
        return False


def _holds(folder: str, names: Sequence[str]) -> bool:
    about = os.lstat(folder)  # a program may put a link in its place
    return (
        stat.S_ISDIR(about.st_mode)
        and stat.S_IMODE(about.st_mode) == 0o700
        and about.st_uid == os.geteuid()
        and os.listdir(folder) == list(names)
    )
