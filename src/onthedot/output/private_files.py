"""Makes folders that only their owner can open, and opens files without following links, below one trusted folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private(root: Path, inside: str) -> None:
    """Make `root`, and the folders on the way to the file `inside` it, with mode 0700. Existing folders stay as they
    are, but `root` is closed for other users, and a link below it is refused (`OSError`)."""
    if not root.is_dir():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(root.stat().st_mode) & 0o077:
        root.chmod(0o700)
    folder = root
    for part in inside.split("/")[:-1]:
        folder = folder / part
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            _refuse_link(folder)


def refuse_links(root: Path, inside: str) -> None:
    """Raise `OSError` if anything on the way from `root` to the file `inside` it is a link. A missing file is fine."""
    path = root
    for part in inside.split("/"):
        path = path / part
        try:
            _refuse_link(path)
        except FileNotFoundError:
            return


def _refuse_link(path: Path) -> None:
    if stat.S_ISLNK(os.lstat(path).st_mode):
        raise OSError(f"expected a folder or a file of ours at {path}, found a link")


def open_regular(path: Path) -> int:
    """A descriptor to read a regular file. `OSError` for a link, a device or a pipe."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"expected a regular file at {path}")
    return file
