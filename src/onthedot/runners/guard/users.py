"""Assigns user ids to programs of levels `user` and `sandbox`, on a worker that runs as root.

A program gets an id that no other program of this machine has. The file `<state>/users/<id>` is the id's lock, and
names the workspace that the id owns. The guard holds the lock while the program runs. An id is not used again while it
owns a workspace or a process. After the attempt the worker takes the workspace back (`reclaim`), and the id is free.

The folder above a workspace belongs to root and to the group of the workspace's user, with mode 710. So no other user
reaches the workspace, whatever mode its program gives it.

`<state>` is `/var/lib/onthedot`, or the folder that `OTD_STATE_DIR` names: one for all workers of a machine.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from onthedot.runners.guard import folders, process_tree

USERS = range(60_706, 61_184)
"""User ids that neither Debian nor systemd assigns automatically."""
STATE_VARIABLE = "OTD_STATE_DIR"
FOR_ONE_GROUP = 0o710
"""The mode of the folder above a workspace that has a user of its own."""

_LONGEST_PATH = 4_096


class LevelUnavailable(Exception):
    """This program cannot have its level. The text says why, and what to do."""


class NoFreeUser(LevelUnavailable):
    """All user ids are in use: the program can be started later."""


class User(NamedTuple):
    """A user id that only we use until we give it back. `lock`: the descriptor of its lock file."""

    uid: int
    lock: int

    def own(self, workspace: str) -> None:
        """Make this user the only owner of the workspace. First this writes the workspace's path to the lock file."""
        if _bound_to(self.lock) != workspace:
            _bind(self.lock, workspace)
        with _alone(workspace, wait=True):
            _give(workspace, self.uid)

    def give_back(self) -> None:
        """Release the id. Other programs may use it if it owns nothing."""
        fcntl.flock(self.lock, fcntl.LOCK_UN)  # explicitly, because our forks also have this descriptor for a moment
        os.close(self.lock)


def system_folder() -> Path:
    """Return the folder in which a worker that is root keeps its workspaces and locks."""
    given = os.environ.get(STATE_VARIABLE, "")
    return Path(given) if given.startswith("/") else Path("/var/lib/onthedot")


def make_system_folder() -> Path:
    """Create the system folder if it is missing. Return it. The users of programs must be able to pass through it."""
    folder = system_folder()
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(0o711)
    return folder


def take_user(workspace: str) -> User:
    """Take an id that no program has, and that owns no other workspace. This prefers the workspace's present owner.

    Raise `NoFreeUser` if all are in use, and `LevelUnavailable` if the folder of locks is not safe.
    """
    locks = _locks()
    owner = os.stat(workspace).st_uid
    for uid in [owner, *USERS] if owner in USERS else USERS:
        lock = _lock(locks, uid)
        if lock is None:
            continue
        if not _owns_another(uid, _bound_to(lock), workspace) and not any(_processes_of(uid)):
            return User(uid, lock)
        os.close(lock)
    raise NoFreeUser(
        f"expected a free user id of {USERS.start} to {USERS.stop - 1}, got none; run fewer programs at once, or let "
        "failed runs' workspaces go sooner (keep_workspaces)"
    )


def reclaim(workspace: str, *, kill: bool = False) -> bool:
    """Give the workspace back to root after the attempt, and close it. Returns False if a program runs or starts in it.
    `kill`: kill the processes of its user that an earlier guard has left."""
    try:
        owner = os.lstat(workspace).st_uid
    except FileNotFoundError:
        return True
    if owner not in USERS:
        return True
    lock = _lock(_locks(), owner)
    if lock is None:
        return False
    user = User(owner, lock)
    try:
        with _alone(workspace, wait=False) as is_alone:
            if not is_alone or os.lstat(workspace).st_uid != owner:  # another program has it now
                return False
            if kill:
                process_tree.kill_found(lambda: _processes_of(owner))
            _give(workspace, os.geteuid())
    finally:
        user.give_back()
    return True


def check_reachable(workspace: str) -> None:
    """Raise `LevelUnavailable` if the program's user cannot reach the workspace."""
    for number, above in enumerate(Path(workspace).parents):
        mode = stat.S_IMODE(above.stat().st_mode)
        if not mode & stat.S_IXOTH and not (number == 0 and _is_for_one_group(str(above))):
            raise LevelUnavailable(
                f"{above}: expected a directory that every user may pass through, because the program's user has to "
                f"reach {workspace}; got mode {mode:o}; do: chmod o+x {above}"
            )


def _processes_of(uid: int) -> Iterator[process_tree.Process]:
    """Yield the living processes with this user id, also those that run as another user (set-user-id)."""
    return (one for one in process_tree.all_processes() if not one.is_zombie and uid in process_tree.users_of(one.pid))


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────


def _locks() -> Path:
    """Return the folder of locks. No other user may write to it, because that user could make our programs share an
    id."""
    folder = make_system_folder() / "users"
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise LevelUnavailable(
            f"{folder}: expected a directory of this user, closed for others; got one of user {about.st_uid} with mode "
            f"{stat.S_IMODE(about.st_mode):o}; remove it, or name another folder in {STATE_VARIABLE}"
        )
    return folder


def _lock(locks: Path, uid: int) -> int | None:
    """Lock the file of this id. Return its descriptor; None if it is locked already."""
    lock = os.open(locks / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _bound_to(lock: int) -> str:
    return os.fsdecode(os.pread(lock, _LONGEST_PATH, 0))


def _bind(lock: int, workspace: str) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, os.fsencode(workspace), 0)
    os.fsync(lock)  # before the workspace changes its owner, in case the machine loses power


def _owns_another(uid: int, bound: str, workspace: str) -> bool:
    if not bound or bound == workspace:
        return False
    try:
        return os.lstat(bound).st_uid == uid
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # we cannot know, so assume it does
        return True


# ── owners of files ──────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _alone(workspace: str, *, wait: bool) -> Iterator[bool]:
    """Lock the owner of the workspace during the block. Yield False if another process has the lock and `wait` is
    off."""
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        is_alone = True
    except BlockingIOError:
        is_alone = False
    try:
        yield is_alone
    finally:
        os.close(folder)


def _give(workspace: str, uid: int) -> None:
    """Give the workspace and all its contents to that user only. Its top folder comes last. No program may run in it.

    The kernel takes away set-user-id bits and capabilities of files that change their owner.
    """
    linked: dict[tuple[int, int], int] = {}
    for folder, name, found in folders.entries(workspace):
        if found.st_uid == uid:
            continue
        if stat.S_ISDIR(found.st_mode) or found.st_nlink == 1:
            os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)
        else:
            linked[found.st_dev, found.st_ino] = linked.get((found.st_dev, found.st_ino), 0) + 1
    if linked:
        # a file with a link elsewhere may belong to another user, and was linked here to change its owner
        for folder, name, found in folders.entries(workspace):
            if found.st_uid != uid and linked.get((found.st_dev, found.st_ino)) == found.st_nlink:
                os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)
    above = os.path.dirname(workspace)
    if _is_for_one_group(above):
        os.chown(above, -1, uid)
    os.chown(workspace, uid, uid, follow_symlinks=False)
    os.chmod(workspace, 0o700)


def _is_for_one_group(folder: str) -> bool:
    """Return whether the folder is ours and only one group may pass it. Then it was made for the workspace in it."""
    about = os.lstat(folder)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and about.st_mode & 0o777 == FOR_ONE_GROUP
