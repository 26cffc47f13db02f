"""How far programs are kept apart: what has to be done for it before a start.

`user` needs root: the program gets a user id that no other program on this machine has meanwhile. `sandbox` is
bubblewrap, as such a user where we are root, and as the worker's own user elsewhere.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

USERS = range(60_706, 61_184)
"""User ids that Debian gives to nobody by itself, and systemd leaves alone."""

_TEMPORARY_BYTES = 256 << 20
_BUBBLEWRAPS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "group", "hosts", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "protocols", "services", "ssl", "timezone",
)  # fmt: skip


class NotPossible(Exception):
    """The level cannot be given to this program: why, and what to do."""


class User:
    """A user id that is ours alone until it is given back."""

    def __init__(self, uid: int, lock: socket.socket) -> None:
        self.uid = uid
        self._lock = lock

    def give_back(self) -> None:
        """Others may have it."""
        self._lock.close()


def take_user(workspace: str) -> User:
    """One that no guard of this machine has given out: the workspace's own if possible, which saves changing it."""
    owner = os.stat(workspace).st_uid
    for uid in [owner, *USERS] if owner in USERS else USERS:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0onthedot-user-{uid}")  # a name that goes with its process
        except OSError:
            lock.close()
            continue
        return User(uid, lock)
    raise NotPossible(
        f"expected a free user id of {USERS.start} to {USERS.stop - 1}, got none; run fewer programs at once"
    )


def check_reachable(workspace: str) -> None:
    """The program's user has to be able to get there."""
    for above in Path(workspace).parents:
        mode = stat.S_IMODE(above.stat().st_mode)
        if not mode & stat.S_IXOTH:
            raise NotPossible(
                f"{above}: expected a directory that every user may pass through, because the program's user has to "
                f"reach {workspace}; got mode {mode:o}; do: chmod o+x {above}"
            )


def hand_over(workspace: str, uid: int) -> None:
    """Give the workspace and all in it to that user, and to nobody else."""
    for _, folders, files, folder in os.fwalk(workspace):
        for name in (*folders, *files):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            # a file with a second name may be somebody else's, linked into the workspace to be given away
            if found.st_uid != uid and (found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)):
                os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)
    os.chown(workspace, uid, uid)
    os.chmod(workspace, 0o700)


def bubblewrap(directory: str, workspace: str) -> list[str]:
    """The words before a program's own that put it into a sandbox."""
    words = [next(filter(os.path.exists, _BUBBLEWRAPS), "bwrap"), "--die-with-parent"]
    words += ["--unshare-all", "--cap-drop", "ALL", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr"]
    for name in _TOP:
        top = Path("/", name)
        if top.is_symlink():
            words += ["--symlink", os.readlink(top), str(top)]
        elif top.is_dir():
            words += ["--ro-bind", str(top), str(top)]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    words += ["--proc", "/proc", "--dev", "/dev", "--size", str(_TEMPORARY_BYTES), "--tmpfs", "/tmp"]  # noqa: S108
    words += ["--bind", workspace, workspace, "--remount-ro", "/", "--chdir", directory, "--"]
    return words
