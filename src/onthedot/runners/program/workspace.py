"""A run's folder on this machine: its workspace, the files of its programs, and the logs of its attempts.

    <spool>/<run>/work          the workspace: programs begin here, and a sandbox lets them write nowhere else
    <spool>/<run>/work/.otd     files that programs and worker exchange
    <spool>/<run>/<attempt>.log the log of an attempt, where no spool of output takes it

`<run>` is the run's id and the time of its creation, so that two stores may share a spool. No path contains a name that
a user chose. We read files of programs without following links, because programs may write anything there.

All functions block. Call them in threads.
"""

from __future__ import annotations

import errno
import fnmatch
import logging
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from onthedot.clock import Micros, to_datetime
from onthedot.model.run import Lease
from onthedot.output.locations import state_folder
from onthedot.runners.guard import folders
from onthedot.runners.guard.users import FOR_ONE_GROUP, make_system_folder, reclaim, system_folder
from onthedot.settings import Settings

logger = logging.getLogger("onthedot.runners")

OTD = ".otd"
INSIDE = ("work", "work/.otd", "work/.otd/tmp")
"""The folders in a run's folder. Each is inside the one before it."""
UNREADY = "unready"
"""A file next to a workspace whose source is not checked out yet."""
MOST_ARTIFACTS = 1_000
MOST_ARTIFACT_BYTES = 1 << 30
_MOST_LOOKED_AT = 100_000
_OUTPUT_BYTES = 256 * 1024
_SHOWN = 120  # characters of a path in a remark


def spool_of(settings: Settings) -> Path:
    """Return the folder of all run folders. The settings name it; by default it is in this user's state folder. For
    root the default is in a system folder, because programs with a user of their own cannot pass through root's
    home."""
    if settings.spool:
        return Path(settings.spool).expanduser().absolute()
    is_given = os.environ.get("XDG_STATE_HOME", "").startswith("/")
    return (system_folder() if os.geteuid() == 0 and not is_given else state_folder()) / "spool"


def folder_name(run_id: int, created_at: Micros) -> str:
    """The name of a run's folder.

    >>> folder_name(7, 255)
    '7-ff'
    """
    return f"{run_id}-{created_at:x}"


class RunFolder:
    """The folder of a run, as one of its attempts uses it."""

    def __init__(self, spool: Path, lease: Lease, spares: SpareFolders | None = None) -> None:
        self.spool = spool
        self.is_new = False  # whether it is new: no program has run in it
        self._apart = lease.record.job.isolation not in ("none", "process")
        self._spares = None if self._apart else spares  # a folder that had its own user is not used again
        self.run = spool / folder_name(lease.run_id, lease.created_at)
        self.workspace = self.run / "work"
        self.log = self.run / f"{lease.attempt}.log"
        self.checkpoint_file = self.workspace / OTD / "checkpoint"
        self.output_file = self.workspace / OTD / "output"

    def open(self, *, complete: bool = True) -> bool:
        """Make all missing folders. Return whether the workspace existed already and was complete. A new workspace is
        complete at once; without `complete`, only after `ready`."""
        if complete and self._spares is not None and self._spares.take(self.run):
            self.is_new = True
            return False
        self.is_new = self._make_run()
        found = not self.is_new and self.workspace.is_dir() and not self._unready.exists()
        if not found and not complete:
            self._unready.touch(mode=0o600)  # first, because a workspace without this file counts as complete
        if self.is_new:
            for inside in INSIDE:
                os.mkdir(f"{self.run}/{inside}", 0o700)
        else:
            self.workspace.mkdir(mode=0o700, exist_ok=True)
            self._own_folder()
            self.touch()
            if complete:
                self.ready()  # an earlier definition of the job had a source
        if self._apart:
            self._let_pass()
        return found

    def _let_pass(self) -> None:
        """If the worker is root, let the program's own user reach the workspace. All users may pass through the spool,
        but only that user may pass through the run's folder. Other workers need no such rights."""
        is_root = os.geteuid() == 0
        if is_root and stat.S_IMODE(self.spool.stat().st_mode) == 0o700:
            self.spool.chmod(0o711)
        wanted = FOR_ONE_GROUP if is_root else 0o700
        if stat.S_IMODE(self.run.stat().st_mode) != wanted:
            self.run.chmod(wanted)

    def _make_run(self) -> bool:
        """Make the run's folder. Returns whether it was missing."""
        try:
            os.mkdir(self.run, 0o700)
        except FileExistsError:
            return False
        except FileNotFoundError:  # the spool does not exist yet
            if self.spool.parent == system_folder():
                make_system_folder()
            os.makedirs(self.spool, mode=0o700, exist_ok=True)
            return self._make_run()
        return True

    def _own_folder(self) -> None:
        """Make our own folder in the workspace. Replace anything that a program has put in its place."""
        for folder in (self.workspace / OTD, self.workspace / OTD / "tmp"):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                folder.unlink()
            folder.mkdir(mode=0o700, exist_ok=True)

    def adopt(self, earlier: str) -> bool:
        """Take over the workspace of an earlier, ended run. Return whether there was one. Call this before `open`."""
        theirs = self.spool / earlier
        if self.workspace.exists() or (theirs / UNREADY).exists():
            return False
        os.makedirs(self.run, mode=0o700, exist_ok=True)
        with suppress(OSError):  # there is none: another attempt took it, or it was swept
            if not reclaim(str(theirs / "work")):  # before the rename: the lock of its user names the old path
                return False
            (theirs / "work").rename(self.workspace)
            return True
        return False

    def empty(self) -> None:
        """Replace the workspace by an empty one, because an attempt may have stopped in the middle of its checkout."""
        folders.remove(str(self.workspace))
        self.open(complete=False)

    def ready(self) -> None:
        """Mark the workspace as complete, so that later attempts on this machine continue in it."""
        self._unready.unlink(missing_ok=True)

    @property
    def _unready(self) -> Path:
        return self.run / UNREADY

    def touch(self) -> None:
        """Mark the folder as used, so that it is not swept."""
        with suppress(FileNotFoundError):
            os.utime(self.run)

    def directory(self, wanted: str) -> Path:
        """Return the directory in which a program begins. Raise `NotADirectoryError` if it does not exist."""
        if not wanted:
            return self.workspace
        path = self.workspace / wanted
        if not (_is_inside(self.workspace, wanted) if self._apart else path.is_dir()):
            raise NotADirectoryError(
                f"directory: expected one that is there, got {wanted!r}; let an earlier step or the source make it"
            )
        return path

    # ── files that programs write ────────────────────────────────────────────────────────────────────────────

    def write_checkpoint(self, text: str) -> None:
        """Write the last checkpoint for the program. Writes no file if there is none."""
        self._own_folder()
        _remove_file(self.checkpoint_file)
        if text:
            self.checkpoint_file.write_text(text, encoding="utf-8")

    def read_checkpoint(self, limit: int) -> str | None:
        """Return the checkpoint that the program has written. None if there is none, or if it is larger than the
        limit."""
        return _read_inside(self.workspace, (OTD, "checkpoint"), limit)

    def write_private(self, files: Mapping[str, str]) -> Path:
        """Write these files for git into a new folder. No program of the job runs meanwhile."""
        self._own_folder()
        folder = self.workspace / OTD / "git"
        _remove_file(folder)
        if files:
            folder.mkdir(mode=0o700)
        for name, text in files.items():
            with open(
                os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
            ) as file:
                file.write(text)
        return folder

    def clear_outputs(self) -> None:
        """Remove the outputs of an earlier step."""
        self._own_folder()
        _remove_file(self.output_file)

    def read_outputs(self) -> str:
        """Return the outputs that the program has written."""
        return _read_inside(self.workspace, (OTD, "output"), _OUTPUT_BYTES) or ""

    def artifacts(self, patterns: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
        """Return the matching files by their path in the workspace, and remarks on files that are left out. This
        neither follows nor keeps links."""
        return _matching(self.workspace, patterns, only_own=self._apart) if patterns else ({}, [])

    def vanish(self) -> bool:
        """Remove the folder if no program has left anything in it. Returns whether it was removed."""
        return remove_empty(self.run) if self._spares is None else self._spares.give(self.run)

    def give_back(self) -> None:
        """Close the workspace for the users of programs: the attempt has ended, and the workspace is kept."""
        if self._apart:
            reclaim(str(self.workspace))

    def discard(self) -> None:
        """Remove the workspace: the run has succeeded. A record that nobody has taken stays until it is swept."""
        folders.remove(str(self.workspace))
        with suppress(OSError):  # not empty
            self.run.rmdir()


# ── removing old folders ──────────────────────────────────────────────────────────────────────────────────────


def sweep(spool: Path, *, now: Micros, keep: Micros, in_use: Iterable[str]) -> int:
    """Remove the run folders that nobody has used for `keep`. Returns how many.

    If a killed worker has left a workspace to its program's user, this takes it back and ends that user's processes. If
    that fails, it logs a warning, and tries again at the next sweep.
    """
    used, count = set(in_use), 0
    try:
        found = list(os.scandir(spool))
    except OSError:  # none yet, or not readable: opening a run folder reports that
        return 0
    for entry in found:
        try:
            count += _sweep_one(entry, now=now, keep=keep, used=used)
        except FileNotFoundError:  # another process was faster
            continue
        except Exception as error:  # noqa: BLE001 - programs may leave anything; the sweep continues
            logger.warning(
                "the place %s could not be swept, and stays: %s: %s", entry.path, type(error).__name__, error
            )
    return count


def _sweep_one(entry: os.DirEntry[str], *, now: Micros, keep: Micros, used: set[str]) -> bool:
    """Remove one folder if it is old. Return whether it was old."""
    age = now - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000
    if not entry.is_dir(follow_symlinks=False) or entry.name in used or not _is_place(entry.name):
        return False
    reclaim(f"{entry.path}/work", kill=True)
    if age <= keep:
        return False
    folders.remove(entry.path)
    if os.path.lexists(entry.path):
        raise OSError(errno.ENOTEMPTY, "expected to remove all of it, got something that stays; remove it by hand")
    return True


def _is_place(name: str) -> bool:
    run_id, dash, created = name.partition("-")
    return bool(dash) and run_id.isdigit() and all(letter in "0123456789abcdef" for letter in created)


# ── what programs get, and what they write ────────────────────────────────────────────────────────────────────


def environment(place: RunFolder, lease: Lease, *, path: str) -> dict[str, str]:
    """Return the environment of every program. Only `PATH` comes from the worker's environment."""
    workspace = str(place.workspace)
    return {
        "PATH": path,
        "HOME": workspace,
        "LANG": "C.UTF-8",
        "TMPDIR": f"{workspace}/{OTD}/tmp",  # noqa: S108 - within the workspace
        "OTD_RUN_ID": str(lease.run_id),
        "OTD_ATTEMPT": str(lease.attempt),
        "OTD_FENCE": str(lease.fence),
        "OTD_JOB": lease.record.job.name,
        "OTD_SCHEDULED_AT": _iso(lease.slot_at),
        "OTD_WORKSPACE": workspace,
        "OTD_CHECKPOINT": str(place.checkpoint_file),
        "OTD_OUTPUT": str(place.output_file),
    }


def _iso(instant: Micros) -> str:
    return to_datetime(instant).isoformat().replace("+00:00", "Z")


def _remove_file(path: Path) -> None:
    """Remove this file, even if a program has made a folder of it."""
    if path.is_dir() and not path.is_symlink():
        folders.remove(str(path))
    else:
        path.unlink(missing_ok=True)


def _is_inside(folder: Path, wanted: str) -> bool:
    """Return whether the wanted folder exists. This follows no links: an isolated program must not learn their targets
    from its worker. It does not check an absolute path, because only the program's own user decides whether it is
    reachable."""
    if wanted.startswith("/"):
        return True
    try:
        at = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for part in wanted.split("/"):
                inner = os.open(part or ".", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = inner
        finally:
            os.close(at)
    except OSError:
        return False
    return True


def _read_inside(folder: Path, parts: Sequence[str], limit: int) -> str | None:
    """Return the text of a file below a folder. It is opened step by step, so that no link leads out of the folder."""
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # a program may remove its own workspace
        return None
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except OSError:
        return None
    finally:
        os.close(at)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:  # a linked file may belong to another user
            return None
        data = b""
        while len(data) <= limit and (more := os.read(file, limit + 1 - len(data))):
            data += more
    except OSError:
        return None
    finally:
        os.close(file)
    return None if len(data) > limit else data.decode(errors="replace").replace("\0", "")


def _matching(workspace: Path, patterns: Sequence[str], *, only_own: bool) -> tuple[dict[str, Path], list[str]]:
    """Find the files that match. `only_own` leaves out files that have a second link: a program with its own user may
    have linked files that only its worker can read."""
    found: dict[str, Path] = {}
    left_out: list[str] = []
    size, looked_at = 0, 0
    waiting = [""]  # a list instead of recursion: programs may nest folders deeply
    while waiting:
        folder = waiting.pop()
        try:
            inner, files = _listed(workspace, folder)
        except OSError:
            left_out.append(f"artifacts: {_shortened(folder)} cannot be looked into, and was left out")
            continue
        waiting += [f"{folder}{name}/" for name in reversed(inner)]
        for name in files:
            relative = f"{folder}{name}"
            looked_at += 1
            if looked_at > _MOST_LOOKED_AT:
                left_out.append(f"artifacts: looked at {_MOST_LOOKED_AT} files, and left the rest out")
                return found, left_out
            if not any(_matches(relative, pattern) for pattern in patterns):
                continue
            path, shown = workspace / relative, _shortened(relative)
            try:
                about = path.lstat()
            except OSError as error:
                left_out.append(f"artifacts: {shown} cannot be read ({error.strerror}), and was left out")
                continue
            if not stat.S_ISREG(about.st_mode) or (only_own and about.st_nlink != 1):
                left_out.append(f"artifacts: {shown} is no plain file, and was left out")
            elif len(found) >= MOST_ARTIFACTS or size + about.st_size > MOST_ARTIFACT_BYTES:
                most = f"{MOST_ARTIFACTS} files and {MOST_ARTIFACT_BYTES >> 20} MiB"
                left_out.append(f"artifacts: expected at most {most}; {shown} and what comes after it is left out")
                return found, left_out
            else:
                found[relative] = path
                size += about.st_size
    return found, left_out


def _listed(workspace: Path, folder: str) -> tuple[list[str], list[str]]:
    """Return the folders, and the other files, in a folder of the workspace, by name."""
    inner, files = [], []
    with os.scandir(f"{workspace}/{folder}") as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                files.append(entry.name)
            elif folder or entry.name not in (OTD, ".git"):
                inner.append(entry.name)
    return sorted(inner), sorted(files)


def _shortened(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else f"{name[: _SHOWN // 2]}…{name[-_SHOWN // 2 :]}")


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern. `*` matches within one part, and `**` matches any number of parts."""
    return _match_parts(path.split("/"), pattern.split("/"))


def _match_parts(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        return any(_match_parts(parts[skip:], rest) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], first) and _match_parts(parts[1:], rest)


# ── spare folders ───────────────────────────────────────────────────────────────────────────────


class SpareFolders:
    """Keeps a limited number of empty run folders for the next runs.

    Making and removing four folders can be most of the cost of a short command. On a busy ext4 we measured 1 to 4 ms
    for each removal, and 0.04 ms for a rename. So an unchanged folder is renamed for another run. Until then it has the
    name of run 0, which does not exist. So the sweep also removes the spare folders of a killed worker. Used by one
    thread at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[Path] = []

    def take(self, run: Path) -> bool:
        """Use a spare folder for this run. Returns False if there is none, or if the run has a folder already."""
        while self._waiting:
            spare = self._waiting.pop()
            try:
                os.rename(spare, run)
            except FileNotFoundError:  # it was swept
                continue
            except OSError:  # the run has a folder already
                self._waiting.append(spare)
                return False
            return True
        return False

    def give(self, run: Path) -> bool:
        """Take over the empty folder of a run that has ended, or remove it. Returns False if it is not empty."""
        if not _is_as_made(run):
            return False
        if len(self._waiting) < self._most:
            spare = run.with_name("0-" + run.name.replace("-", ""))
            try:
                os.rename(run, spare)
            except OSError:  # another process has a folder of that name
                return remove_empty(run)
            self._waiting.append(spare)
            return True
        return remove_empty(run)

    def clear(self) -> None:
        """Remove all spare folders, because the worker ends."""
        while self._waiting:
            remove_empty(self._waiting.pop())


def remove_empty(run: Path) -> bool:
    """Remove a run folder if it is empty. Returns whether it was removed. A changed folder may remain in part."""
    try:
        for inside in reversed(INSIDE):
            os.rmdir(f"{run}/{inside}")
        os.rmdir(run)
    except OSError:  # not empty
        return False
    return True


def _is_as_made(run: Path) -> bool:
    """Return whether all folders of a run exist, are private to us, and contain only each other."""
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
