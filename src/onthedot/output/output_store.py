"""The output store: keeps the logs and artifacts of attempts in a directory, in S3, or in memory.

    runs/<run id / 1000>/<run id>/<attempt>/<lease id>/log.gz        its log, compressed
                                                      artifact-0     …
                                                      index.json     its files, with sizes and checksums

Paths are made of ids, never of text that users wrote: the names of artifacts are in the index. The index is written
last and only once. So if an attempt has an index, all of its output is stored and never changes. A thousand runs share
a folder, so that the pruner can read the store in small parts.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from onthedot.clock import Micros, to_micros
from onthedot.model.errors import OutputUnavailable
from onthedot.output.locations import Location
from onthedot.output.records import Record, decode

if TYPE_CHECKING:
    from obstore.store import ObjectStore, S3Config


T = TypeVar("T")

LOG, INDEX = "log.gz", "index.json"
PACKED = "packed-"
"""Prefix of files that are still being packed."""
GROUP = 1_000
"""Runs per folder."""
_LEASE_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
_PATH = re.compile(r"runs/\d+/(\d+)/(\d+)/([A-Za-z0-9-]+)/([a-z0-9.-]+)")
_LONGEST_ERROR = 300


class Name(NamedTuple):
    """Names an attempt. The lease id makes it unique over all stores."""

    run_id: int
    attempt: int
    lease_id: str

    @property
    def folder(self) -> str:
        """
        >>> Name(41_007, 2, "c0ffee-1").folder
        'runs/0000000000041/41007/2/c0ffee-1'
        """
        if not _LEASE_ID.fullmatch(self.lease_id):
            raise ValueError(f"expected a lease id, got {self.lease_id!r}")
        return f"runs/{int(self.run_id) // GROUP:013d}/{int(self.run_id)}/{int(self.attempt)}/{self.lease_id}"


_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept file: its name in the attempt (`name`) and in the output store (`stored`)."""

    name: str
    stored: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Index:
    """The kept files of an attempt: its compressed log, and its artifacts."""

    log: Kept
    artifacts: tuple[Kept, ...] = ()

    def by_name(self) -> dict[str, Kept]:
        """Return the artifacts by names that fit into a line and a URL. Control characters, and bytes that are not
        text, are escaped (`%0A`). If another file has the same name, a `~` is added.

        >>> list(Index(Kept("log", "log", 0, ""), (Kept("a\\nb", "artifact-0", 0, ""),)).by_name())
        ['a%0Ab']
        """
        taken = {kept.name for kept in self.artifacts}
        names: dict[str, Kept] = {}
        for kept in self.artifacts:
            name = _NO_TEXT.sub(_escaped, kept.name)
            while name != kept.name and (name in taken or name in names):
                name += "~"
            names[name] = kept
        return names


class Found(NamedTuple):
    """An object in the output store, and the time at which it was written."""

    path: str
    run_id: int
    since: Micros


class OutputStore:
    """The output store at one location. A call raises `OutputUnavailable` if the location itself fails."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._opened: ObjectStore | None = None

    def __str__(self) -> str:
        return "memory" if self.location is None else str(self.location)

    # ── keep ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def keep(self, name: Name, log: Path, artifacts: Sequence[tuple[str, Path]] = ()) -> Index:
        """Keep an attempt's log and artifacts (their names, and the files that hold them). Returns the index.

        If the attempt has an index already, this changes nothing and returns that index. While it runs, a compressed
        copy of the log lies next to the log.
        """
        known = await self.index(name)
        if known is not None:
            return known
        packed = await asyncio.to_thread(_pack, log)
        try:
            kept = [await self._keep_file(name, LOG, "log", packed)]
        finally:
            packed.unlink(missing_ok=True)
        for number, (called, path) in enumerate(artifacts):
            kept.append(await self._keep_file(name, f"artifact-{number}", called, path))
        index = Index(kept[0], tuple(kept[1:]))
        await self._try(self._create(f"{name.folder}/{INDEX}", _encode(index)))
        return await self.index(name) or index

    async def _keep_file(self, name: Name, stored: str, called: str, path: Path) -> Kept:
        size, digest = await asyncio.to_thread(_measure, path)
        try:
            await self._try(self._put(f"{name.folder}/{stored}", path))
        except FileNotFoundError as error:
            await asyncio.to_thread(path.stat)  # raises if the file is gone: another process has kept it
            told = f"expected a place that exists; {_first_words(error)}"
            raise OutputUnavailable(f"{self} cannot be used: {told}") from None
        return Kept(called, stored, size, digest)

    async def _put(self, path: str, data: Path | bytes, *, create: bool = False) -> None:
        import obstore

        store = await self._store()
        if isinstance(self.location, Path):
            await asyncio.to_thread(make_private, self.location, path)
        await obstore.put_async(store, path, data, mode="create" if create else "overwrite")
        if isinstance(self.location, Path):
            (self.location / path).chmod(0o600)

    async def _create(self, path: str, data: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError

        try:
            await self._put(path, data, create=True)
        except AlreadyExistsError:
            return  # another process has just kept the same output

    # ── read ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def index(self, name: Name) -> Index | None:
        """Return the index of an attempt; None if none is kept (yet)."""
        if self._is_unused():
            return None
        try:
            text = await self._try(self._get(f"{name.folder}/{INDEX}"))
        except FileNotFoundError:
            return None
        try:
            return _decode(text)
        except (ValueError, KeyError, TypeError) as error:
            raise OutputUnavailable(
                f"{self}: expected an index at {name.folder}, got something else: {error}"
            ) from None

    async def read(self, name: Name, kept: Kept, *, start: int = 0, length: int | None = None) -> bytes:
        """Return the bytes of one kept file, or a part of them."""
        path = f"{name.folder}/{kept.stored}"
        end = kept.size if length is None else min(kept.size, start + length)
        if start >= end:
            return b""
        try:
            whole = start == 0 and end == kept.size
            return await self._try(self._get(path) if whole else self._get_range(path, start, end))
        except FileNotFoundError:
            raise OutputUnavailable(f"{self}: expected {path}, which its index names, and found nothing") from None

    async def records(self, name: Name) -> list[Record] | None:
        """Return the records of an attempt's log; None if nothing is kept. Raise `OutputUnavailable` if the log does
        not match its index."""
        index = await self.index(name)
        if index is None:
            return None
        packed = await self.read(name, index.log)
        if hashlib.sha256(packed).hexdigest() != index.log.sha256:
            raise OutputUnavailable(f"{self}: the log of run {name.run_id} was changed since it was kept")
        try:
            return await asyncio.to_thread(lambda: list(decode(gzip.decompress(packed).splitlines(keepends=True))))
        except (OSError, EOFError, zlib.error) as error:
            raise OutputUnavailable(f"{self}: the log of run {name.run_id} cannot be unpacked: {error}") from None

    async def _get(self, path: str) -> bytes:
        import obstore

        store = await self._store()
        if isinstance(self.location, Path):
            refuse_links(self.location, path)
        return bytes(await (await obstore.get_async(store, path)).bytes_async())

    async def _get_range(self, path: str, start: int, end: int) -> bytes:
        import obstore

        store = await self._store()
        if isinstance(self.location, Path):
            refuse_links(self.location, path)
        return bytes(await obstore.get_range_async(store, path, start=start, end=end))

    # ── forget ───────────────────────────────────────────────────────────────────────────────────────────────

    async def groups(self) -> list[str]:
        """Return the folders of runs, smallest ids first."""
        if self._is_unused():
            return []
        try:
            return await self._try(self._list_groups())
        except FileNotFoundError:
            return []

    async def _list_groups(self) -> list[str]:
        import obstore

        listed = await obstore.list_with_delimiter_async(await self._store(), "runs")
        return sorted(listed["common_prefixes"])

    async def of_group(self, group: str) -> list[Found]:
        """Return the objects in a folder of runs."""
        try:
            return await self._try(self._list_objects(group))
        except FileNotFoundError:
            return []

    async def _list_objects(self, group: str) -> list[Found]:
        import obstore

        found = await obstore.list(await self._store(), group).collect_async()
        matches = ((_PATH.fullmatch(meta["path"]), meta) for meta in found)
        return [Found(match[0], int(match[1]), to_micros(meta["last_modified"])) for match, meta in matches if match]

    async def forget(self, paths: Iterable[str]) -> None:
        """Remove objects, the index first: without an index, the other objects count as no output."""
        ordered = sorted(paths, key=lambda path: not path.endswith(INDEX))
        for path in ordered:
            try:
                await self._try(self._delete(path))
            except FileNotFoundError:
                continue  # another process was faster

    async def _delete(self, path: str) -> None:
        import obstore

        await obstore.delete_async(await self._store(), path)

    # ── the location ────────────────────────────────────────────────────────────────────────────────────────────

    def _is_unused(self) -> bool:
        """Return whether nothing can be stored yet. Then readers create nothing and load no library."""
        return self._opened is None and (
            self.location is None or (isinstance(self.location, Path) and not self.location.exists())
        )

    async def _store(self) -> ObjectStore:
        if self._opened is None:
            opened = await asyncio.to_thread(_open, self.location)
            return self._first(opened)
        return self._opened

    def _first(self, opened: ObjectStore) -> ObjectStore:
        """Keep the object store that was opened first: two in memory would not share their contents."""
        if self._opened is None:
            self._opened = opened
        return self._opened

    async def _try(self, work: Awaitable[T]) -> T:
        from obstore.exceptions import BaseError

        try:
            return await work
        except FileNotFoundError:
            raise
        except (BaseError, OSError) as error:
            raise OutputUnavailable(f"{self} cannot be used: {_first_words(error)}") from None


def _first_words(error: Exception) -> str:
    return " ".join(str(error).partition("Debug source:")[0].split())[:_LONGEST_ERROR]


def _open(place: Location) -> ObjectStore:
    from datetime import timedelta

    from obstore.store import LocalStore, MemoryStore, S3Store

    if place is None:
        return MemoryStore()
    if isinstance(place, Path):
        make_private(place, "")
        return LocalStore(place, automatic_cleanup=True)
    config: S3Config = {}
    if place.endpoint:
        config["endpoint"] = place.endpoint
    if place.region:
        config["region"] = place.region
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options={"allow_http": place.endpoint.startswith("http://"), "connect_timeout": "5s", "timeout": "60s"},
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=20)},
    )


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pack(log: Path) -> Path:
    """Compress a log into a new file. The same log always gives the same bytes, because they contain no time and no
    file name. Each caller gets its own file, because another process may compress the same log."""
    with open(open_regular(log), "rb") as source:
        handle, packed = tempfile.mkstemp(dir=log.parent, prefix=PACKED)
        with open(handle, "wb") as target, gzip.GzipFile("", "wb", 6, target, mtime=0) as file:
            shutil.copyfileobj(source, file, 1 << 20)
    return Path(packed)


def _escaped(found: re.Match[str]) -> str:
    is_byte = "\udc80" <= found[0] <= "\udcff"  # Python's form for bytes of a file name that are not UTF-8
    return quote(found[0], errors="surrogateescape" if is_byte else "surrogatepass")


def _measure(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def _encode(index: Index) -> bytes:
    def fields(kept: Kept) -> dict[str, str | int]:
        return {"name": kept.name, "stored": kept.stored, "size": kept.size, "sha256": kept.sha256}

    shown = {"log": fields(index.log), "artifacts": [fields(kept) for kept in index.artifacts]}
    return json.dumps(shown, indent=1).encode(errors="backslashreplace")


def _decode(text: bytes) -> Index:
    shown = json.loads(text)
    return Index(_kept(shown["log"]), tuple(_kept(fields) for fields in shown["artifacts"]))


def _kept(fields: dict[str, Any]) -> Kept:
    stored = str(fields["stored"])
    if stored != LOG and not re.fullmatch(r"artifact-\d+", stored):
        raise ValueError(f"{stored!r} is no name of ours")
    return Kept(str(fields["name"]), stored, int(fields["size"]), str(fields["sha256"]))


# ── private folders ─────────────────────────────────────────────────────────────────────────────────────────────────


def make_private(root: Path, inside: str) -> None:
    """Create `root`, and the folders on the path to the file `inside` it, with mode 0700. Existing folders keep their
    mode, except `root`, which gets mode 0700. Raise `OSError` for a link below `root`."""
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
    """Raise `OSError` if any part of the path from `root` to the file `inside` it is a link. A missing file is
    allowed."""
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
    """Open a regular file for reading, and return its descriptor. Raise `OSError` for a link, a device or a pipe."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"expected a regular file at {path}")
    return file
