"""What every slice of the driver stands on: the two lanes to the file, the clock, and a few shared moves."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from onthedot.clock import Clock, Micros
from onthedot.errors import NodeExpired, StoreUnusable
from onthedot.job import JobRecord, JobState
from onthedot.run import Checkpoint
from onthedot.stores.base import Hint, Hints
from onthedot.stores.definitions import Unreadable, decode
from onthedot.stores.hints import HintKind
from onthedot.stores.sqlite.connection import REFUSED, connect, create_file, find_file
from onthedot.stores.sqlite.lane import Lane, Transaction, do_nothing
from onthedot.stores.sqlite.schema import check_current, prepare
from onthedot.stores.sqlite.wakeup import Wakeup

T = TypeVar("T")

TOGETHER = 16
"""How many calls share a commit at most: enough for a worker, a planner and a heartbeat in one."""

KEPT_RECORDS = 10_000

TAKE_NUMBERS = "UPDATE meta SET value = value + :count WHERE name = :name RETURNING value"

FIND_NODE_LEASE = "SELECT ended, lease_until FROM nodes WHERE incarnation = ?"

FIND_CHECKPOINT = "SELECT revision, value FROM checkpoints WHERE run_id = ?"

FIND_REVISION = """
SELECT j.created_at, v.created_at, v.definition
FROM job_revisions v JOIN jobs j ON j.id = v.job_id
WHERE v.job_id = :job_id AND v.revision = :revision
"""


class Tables:
    """The state behind every slice."""

    def __init__(self, path: str, clock: Clock, *, inline: bool, read_only: bool = False) -> None:
        self.clock = clock
        self.hints = Hints()
        self.records = Records()
        name = os.path.abspath(path) if path not in REFUSED else path  # the working directory may change
        self._read_only = read_only
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer = Lane(
            name, lambda: _open_for_writing(name, read_only), self.records.forget, self.hints,
            together=TOGETHER, inline=inline, wakeup=Wakeup(self._pass_on),
        )  # fmt: skip
        self._reader = Lane(
            name, lambda: _open_for_reading(name, read_only), self.records.forget, self.hints, together=1, inline=inline
        )

    async def connect(self) -> None:
        """Open the file now, on the thread that will use it. Hints of other processes come on this loop."""
        self._loop = asyncio.get_running_loop()
        await (self._reader if self._read_only else self._writer).run(do_nothing)

    def _pass_on(self, kinds: Sequence[HintKind]) -> None:
        """Other processes have sent hints: send them here too. On the writer's thread."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._send, kinds)
        except RuntimeError:
            return  # the loop was closed: nobody is waiting any more

    def _send(self, kinds: Sequence[HintKind]) -> None:
        for kind in kinds:
            self.hints.send(Hint(kind, self.clock.now()))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """A transaction that writes. What it answers has been committed."""
        return await self._writer.run(work, writes=True)

    async def look(self, work: Callable[[Transaction], T]) -> T:
        """A read that the engine waits for: in line with the writes, so that no listing can delay it."""
        return await self._writer.run(work)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """A read for people: on its own connection and thread, so that it delays nobody else."""
        return await self._reader.run(work)

    def read_clock(self, now: Micros | None) -> Micros:
        return self.clock.now() if now is None else now

    async def tell_time(self) -> Micros:
        return self.clock.now()

    async def close(self) -> None:
        """Finish what was asked, end the threads, let go of the file. Whatever was acknowledged stays.

        The last connection to close writes the log back into the database. `PRAGMA optimize` is not run: it
        would let statistics change query plans that are fixed by the shape of the queries, and tested.
        """
        await self._reader.close()
        await self._writer.close()


def _open_for_writing(path: str, read_only: bool) -> sqlite3.Connection:
    if read_only:
        raise StoreUnusable(f"{path}: expected a store that may be written, got one that was opened for reading only")
    create_file(path)
    db = connect(path, writing=True)
    try:
        prepare(db, path)
    except (sqlite3.Error, StoreUnusable):
        db.close()
        raise
    return db


def _open_for_reading(path: str, read_only: bool) -> sqlite3.Connection:
    """A connection beside the writer's; or the only one, and then nobody has looked at the schema yet.

    Not SQLite's own read-only mode: that leaves its side files behind when nobody else has the database open.
    """
    if read_only:
        find_file(path)
    db = connect(path, writing=False)
    try:
        if read_only:
            check_current(db, path)
    except (sqlite3.Error, StoreUnusable):
        db.close()
        raise
    return db


def take_numbers(db: sqlite3.Connection, name: str, count: int) -> range:
    """The next `count` numbers of a sequence ("job", "run", "fence"). Never given out twice."""
    [last] = db.execute(TAKE_NUMBERS, {"name": name, "count": count}).fetchone()
    return range(last - count + 1, last + 1)


def find_checkpoint(db: sqlite3.Connection, run_id: int) -> Checkpoint | None:
    """How far an earlier attempt of this run has come, if one has said so."""
    row = db.execute(FIND_CHECKPOINT, (run_id,)).fetchone()
    return None if row is None else Checkpoint(*row)


def lease_has_ended(db: sqlite3.Connection, incarnation: str, now: Micros) -> bool:
    """Whether an incarnation's lease is over; one that nobody registered has none."""
    row = db.execute(FIND_NODE_LEASE, (incarnation,)).fetchone()
    return row is None or bool(row[0]) or row[1] <= now


def check_lease(db: sqlite3.Connection, incarnation: str, now: Micros) -> None:
    """`NodeExpired` unless the incarnation's lease is alive."""
    if lease_has_ended(db, incarnation, now):
        raise NodeExpired(f"incarnation {incarnation}: its lease has ended; register a new one to go on")


class Records:
    """Job definitions, parsed once per revision and shared by every lease. Bounded; the oldest goes first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], JobRecord] = {}
        self._lock = threading.Lock()  # both lanes use them

    def find(self, db: sqlite3.Connection, job_id: int, revision: int, state: str) -> JobRecord:
        """One revision of a job that is in `state`; `StoreUnusable` if its definition cannot be read."""
        record = self._kept.get((job_id, revision))
        if record is None or record.state != state:
            record = self._parse(db, job_id, revision, state)
            self.keep(record)
        return record

    def keep(self, record: JobRecord) -> None:
        with self._lock:
            while len(self._kept) >= KEPT_RECORDS:
                del self._kept[next(iter(self._kept))]
            self._kept[record.id, record.revision] = record

    def forget(self) -> None:
        """Drop them all: a revision that was read but not committed may come back as another one."""
        with self._lock:
            self._kept.clear()

    def _parse(self, db: sqlite3.Connection, job_id: int, revision: int, state: str) -> JobRecord:
        row = db.execute(FIND_REVISION, {"job_id": job_id, "revision": revision}).fetchone()
        if row is None:
            raise StoreUnusable(f"job {job_id}: expected its revision {revision}, which is missing; put the job again")
        created_at, updated_at, definition = row
        try:
            return JobRecord(job_id, revision, decode(definition), JobState(state), created_at, updated_at)
        except (Unreadable, ValueError) as error:
            raise StoreUnusable(f"job {job_id}, revision {revision}: {error}; put the job again") from error
