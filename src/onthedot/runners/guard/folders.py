"""Walks through folders that programs have made, however deep they are, and removes them.

A program may nest folders too deeply for Python's recursion, for the length of a path, and for the number of
descriptors. So we go from folder to folder with one descriptor at a time: down by name without following links, and up
by `..`. After each step up we check that it is the same folder as before.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Level:
    """A folder on the path, and the names in it that we have not visited."""

    def __init__(self, folder: int, name: str) -> None:
        self.name = name
        self.about = os.fstat(folder)
        self.left = os.listdir(folder)


def entries(top: str, *, unlock: bool = False) -> Iterator[tuple[int, str, os.stat_result]]:
    """Yield each entry below a folder, and each folder after its contents: the descriptor of its parent, its name, its
    status. The descriptor is valid until the next entry is requested.

    `unlock`: restore rights that a program has removed from folders, and skip folders that cannot be entered or do not
    exist any more. Without `unlock` these raise OSError.
    """
    at = os.open(top, _FOLDER) if not unlock else _unlocked(top, None)
    try:
        levels = [_Level(at, "")]
        while levels:
            level = levels[-1]
            if level.left:
                name = level.left.pop()
                try:
                    about = os.stat(name, dir_fd=at, follow_symlinks=False)
                    inner = _enter(at, name, unlock=unlock) if stat.S_ISDIR(about.st_mode) else None
                except OSError:
                    if not unlock:
                        raise
                    continue
                if inner is None:
                    yield at, name, about
                else:
                    levels.append(inner[1])
                    os.close(at)
                    at = inner[0]
                continue
            levels.pop()
            if levels:
                above = _above(at, levels[-1])
                os.close(at)
                at = above
                yield at, level.name, level.about
    finally:
        os.close(at)


def remove(top: str) -> None:
    """Remove a folder with everything in it, as far as possible. This removes links, but not their targets."""
    with suppress(OSError):
        for folder, name, about in entries(top, unlock=True):
            with suppress(OSError):
                if stat.S_ISDIR(about.st_mode):
                    os.rmdir(name, dir_fd=folder)
                else:
                    os.unlink(name, dir_fd=folder)
    with suppress(OSError):
        os.rmdir(top)


def _enter(at: int, name: str, *, unlock: bool) -> tuple[int, _Level]:
    folder = _unlocked(name, at) if unlock else os.open(name, _FOLDER, dir_fd=at)
    try:
        return folder, _Level(folder, name)
    except OSError:
        os.close(folder)
        raise


def _above(at: int, level: _Level) -> int:
    """Open the parent folder, and check that it is the one that we came from."""
    above = os.open("..", _FOLDER, dir_fd=at)
    if not os.path.samestat(os.fstat(above), level.about):
        os.close(above)
        raise OSError(
            errno.ESTALE, f"{level.name or 'a folder'!r}: what was in it was moved while it was walked through"
        )
    return above


def _unlocked(name: str, at: int | None) -> int:
    """Open a folder. If we own it, first give ourselves all rights in it."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{handle}", 0o700)  # no call sets the mode of an O_PATH descriptor
        return os.open(".", _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)
