"""The spool: holds output on the machine that made it, until the output store has it.

    <spool>/logs/<run id>_<attempt>_<lease id>        the log of a running attempt
    <spool>/ended/<run id>_<attempt>_<lease id>/log   the log of an ended attempt; its artifacts 0, 1, … are beside it
                                              /names  the artifacts' names

The log is moved last, so a folder with a log is complete. Several processes may share a spool. Each of them may move
waiting output to the output store. Doing that twice changes nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.output.output_store import PACKED, Name, make_private, open_regular

_FOLDER_BYTES = 4_096


class Ended(NamedTuple):
    """An ended attempt whose output waits to be kept."""

    name: Name
    log: Path
    artifacts: list[tuple[str, Path]]


class Spool:
    """The spool in one folder. `root` None: a temporary folder, removed with the process."""

    def __init__(self, root: Path | None) -> None:
        self._given = root
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._has_logs = False

    @property
    def root(self) -> Path:
        """Return the folder. The first call creates a temporary one, if needed."""
        if self._given is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="onthedot-spool-")
            self._given = Path(self._temporary.name)
        return self._given

    @property
    def is_used(self) -> bool:
        """Return whether the spool can contain anything."""
        return self._given is not None and self._given.is_dir()

    def close(self) -> None:
        """Remove a temporary folder. A second call is allowed."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = self._given = None
            self._has_logs = False

    # ── for runners ────────────────────────────────────────────────────────────────────────────────

    def log_of(self, name: Name) -> Path:
        """Return the file to which an attempt's output is written while it runs. Create its folder."""
        logs = self.root / "logs"
        if not (self._has_logs and logs.is_dir()):
            make_private(self.root, "logs/-")
            self._has_logs = True
        return logs / _text(name)

    def hand_in(self, name: Name, artifacts: Sequence[tuple[str, Path]] = ()) -> bool:
        """Take the log of an ended attempt and copies of these files, with their names, until they are kept. Return
        whether there is anything to keep: an attempt with no output and no artifacts stores nothing.

        Call it before the attempt's outcome is reported. If the verdict is known and the log was not handed in, the
        worker was killed. Links, devices and pipes are left out. If there are artifacts but no log, an empty log is
        added. A second call for the same attempt changes nothing.
        """
        log = self.log_of(name)
        if not artifacts and not _has_said(log):
            return False
        folder = self._folder(name)
        if (folder / "log").exists():
            return True
        if not log.exists():  # first: if we are killed now, other processes find the rest by the log
            os.close(_create(log))
        make_private(self.root, f"ended/{_text(name)}/-")
        names: list[str] = []
        for called, path in artifacts:
            try:
                source = open_regular(path)
            except OSError:
                continue
            with open(source, "rb") as reader, open(_create(folder / str(len(names))), "wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)
            names.append(called)
        with open(_create(folder / "names"), "w", encoding="ascii") as file:
            json.dump(names, file)
        log.replace(folder / "log")
        return True

    # ── for the keeper ─────────────────────────────────────────────────────────────────────────────────

    def waiting(self, limit: int) -> list[Ended]:
        """Return some ended attempts whose output waits to be kept."""
        found = (self._ended(name) for name in self._names("ended"))
        return list(islice((ended for ended in found if ended is not None), limit))

    def left(self, limit: int, *, before: Micros) -> list[tuple[Name, Micros]]:
        """Return some attempts that were not handed in and have written nothing since `before`. Either they still run,
        or their process was killed. Each comes with the time of its last write, by this machine's clock."""
        found = ((name, self._written_at(name)) for name in self._names("logs"))
        return list(islice(((name, at) for name, at in found if at < before), limit))

    def _written_at(self, name: Name) -> Micros:
        try:
            return self.log_of(name).lstat().st_mtime_ns // 1_000
        except FileNotFoundError:  # it was just handed in
            return 2**63 - 1

    def forget(self, name: Name) -> None:
        """Remove the output of this attempt, because the output store has it."""
        folder = self._folder(name)
        for path in sorted(folder.iterdir(), key=lambda path: path.name != "log") if folder.is_dir() else ():
            path.unlink(missing_ok=True)
        try:
            folder.rmdir()
        except OSError:  # another process is compressing it, and removes it afterwards
            return

    def drop_oldest(self, most: int) -> tuple[int, int]:
        """Remove the oldest waiting output until at most `most` bytes wait. Return how many attempts lost their output,
        and how many bytes. Output that another process keeps meanwhile is counted as lost, too."""
        waiting = sorted(self._sizes())
        room = most - sum(size for _, size, _ in waiting)
        dropped = lost = 0
        for _, size, name in waiting:
            if room >= 0:
                break
            self.forget(name)
            room += size
            dropped += 1
            lost += size
        return dropped, lost

    def _sizes(self) -> Iterator[tuple[int, int, Name]]:
        """Yield for each waiting attempt: when it was handed in, its bytes (including some for its folder), and its
        name."""
        for name in self._names("ended"):
            try:
                files = [file.stat(follow_symlinks=False) for file in os.scandir(self._folder(name))]
                handed_in = self._folder(name).stat().st_mtime_ns
            except OSError:  # it was just kept
                continue
            yield handed_in, _FOLDER_BYTES + sum(file.st_size for file in files), name

    def _names(self, folder: str) -> Iterator[Name]:
        if self._given is None or not (self._given / folder).is_dir():
            return
        with os.scandir(self._given / folder) as entries:
            yield from (name for name in (_name(entry.name) for entry in entries) if name is not None)

    def _ended(self, name: Name) -> Ended | None:
        folder = self._folder(name)
        try:
            names = json.loads((folder / "names").read_text("ascii"))
        except (OSError, ValueError):
            names = []
        if not (folder / "log").is_file():
            return None
        return Ended(name, folder / "log", [(str(called), folder / str(at)) for at, called in enumerate(names)])

    def _folder(self, name: Name) -> Path:
        return self.root / "ended" / _text(name)


def _has_said(log: Path) -> bool:
    """Return whether there is a log with output. Remove an empty log."""
    try:
        if os.lstat(log).st_size:
            return True
        os.unlink(log)
    except FileNotFoundError:
        return False
    return False


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _text(name: Name) -> str:
    name.folder  # noqa: B018 - its parts are checked there
    return f"{int(name.run_id)}_{int(name.attempt)}_{name.lease_id}"


def _name(text: str) -> Name | None:
    """Return the name that `_text` wrote; None for any other file."""
    run_id, _, rest = text.partition("_")
    attempt, _, lease_id = rest.partition("_")
    if not (run_id.isdecimal() and attempt.isdecimal() and lease_id) or text.startswith(PACKED):
        return None
    name = Name(int(run_id), int(attempt), lease_id)
    try:
        return name if _text(name) == text else None
    except ValueError:
        return None
