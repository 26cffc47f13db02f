"""What every slice of the driver stands on: transactions, the server's clock, definitions, and a few shared moves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from onthedot.clock import MILLISECOND, SECOND, Micros, SystemClock
from onthedot.errors import NodeExpired, StoreUnusable
from onthedot.ids import RandomIds
from onthedot.job import JobRecord, JobState
from onthedot.run import Checkpoint
from onthedot.stores.base import Hint, Hints
from onthedot.stores.definitions import Unreadable, decode
from onthedot.stores.homes import Home, Homes
from onthedot.stores.postgres.connections import Connection, Connections, Session, begin_statement, is_limited
from onthedot.stores.postgres.failures import (
    TROUBLE,
    is_broken,
    is_missing_partition,
    is_overrun,
    may_try_again,
    translate,
)
from onthedot.stores.postgres.limits import SHORT, SHOWING, Limits
from onthedot.stores.postgres.prepared import Prepared, Unprepared
from onthedot.stores.postgres.prepared import prepare as prepare_statements
from onthedot.stores.postgres.schema import check_current, prepare
from onthedot.stores.postgres.transaction import READ_CLOCK, Transaction
from onthedot.stores.postgres.url import Address
from onthedot.stores.postgres.wakeup import Listener, Notifier

T = TypeVar("T")

TRIES = 12
"""How often a transaction is made at most that others keep from passing: some 2 s in all."""

MOST_STATEMENTS = 200
"""How many statements a transaction has at most, by far: each may have to be prepared (`prepared.py`)."""

KEPT_RECORDS = 10_000

SHOW_TIMEOUT = 60.0
"""How long a listing for people may take, in seconds: counting ten million finished runs takes some."""

TAKE_NUMBERS = "SELECT nextval($1::regclass) FROM generate_series(1, $2)"

# Until the end of the transaction nobody ends, drains or voids this incarnation: that takes FOR UPDATE (`LOCK_NODE`).
# A beat changes no key and passes: a node's heartbeat never waits for its other calls.
FIND_NODE_LEASE = "SELECT ended, lease_until FROM nodes WHERE incarnation = $1 FOR KEY SHARE"

# Whoever changes more of a node than its lease locks it so first; a plain UPDATE would not be seen by FOR KEY SHARE.
LOCK_NODE = "SELECT 1 FROM nodes WHERE incarnation = $1 FOR UPDATE"

FIND_CHECKPOINTS = "SELECT run_id, revision, value FROM checkpoints WHERE run_id = ANY($1)"

FIND_REVISIONS = """
SELECT v.job_id, v.revision, j.created_at, v.created_at, v.definition
FROM unnest($1::bigint[], $2::integer[]) wanted (job_id, revision)
JOIN job_revisions v ON v.job_id = wanted.job_id AND v.revision = wanted.revision
JOIN jobs j ON j.id = v.job_id
"""


class Kind(NamedTuple):
    """What is to be known of a transaction before it begins. `name` tells it from others of the same limits."""

    name: str
    limit: Micros
    reading: bool = False
    timeout: float | None = None  # of each statement, in seconds, if it is not the connection's own


class PostgresHome(Home):
    """What belongs to one event loop: its connections, and what tells other processes of its commits."""

    def __init__(self, address: Address, sender: str) -> None:
        super().__init__()
        self.connections = Connections(address)
        self.effects = Connections(address, effects=True)  # for what handlers write
        self.notifier = Notifier(self.connections, address, sender)

    async def leave(self) -> None:
        await self.notifier.close()
        await self.effects.close()
        await self.connections.close()


class Tables:
    """The state behind every slice."""

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        self.address = address
        self.hints = Hints()
        self.records = Records()
        self.limits = Limits(timeout=address.timeout)
        self.months: frozenset[int] = frozenset()  # whose partitions are known to be there
        self.commits = 0
        self._left: deque[Hint] = deque()  # of transactions that were committed on the loops of handlers
        self._read_only = read_only
        self._ids = RandomIds()
        self._clock = SystemClock()  # real time: the server is real
        self._needed: dict[str, dict[str, None]] = {}  # by kind of transaction: its statements, in order
        self._sender = self._ids.token()[:16]
        self._homes = Homes(lambda: PostgresHome(address, self._sender), address.shown)
        self.listener: Listener | None = None

    @property
    def clock(self) -> None:
        """Not this machine's: the server tells the time with its answers."""
        return

    async def tell_time(self) -> Micros:
        """In one round trip: the shorter it is, the more its answer is worth."""
        try:
            [[now]] = await self._alone(await self.home(), READ_CLOCK)
        except Exception as error:
            raise translate(error, self.address.shown) from error
        return int(now)

    async def connect(self) -> None:
        """See that the server is there, and its tables up to date. Hints of other processes come on this loop."""
        try:
            await (check_current if self._read_only else prepare)(self.address)
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error
        if self.address.listen_dsn is not None and not self._read_only:
            self.listener = Listener(self.address, self._sender, self.hints)
            self.listener.start()

    async def write(self, work: Callable[[Transaction], Awaitable[T]], *, limit: Micros | None = None) -> T:
        """A transaction that writes. What it answers has been committed.

        One that was undone because of what others did meanwhile is made again, after a while that differs for each.
        Without a `limit` it is one that others wait for, and has to be short (`limits.py`).
        """
        if self._read_only:
            raise StoreUnusable(
                f"{self.address.shown}: expected a store that may be written, got one that was opened for reading only"
            )
        name = getattr(work, "__qualname__", "")
        for number in range(TRIES):
            try:
                return await self._write_once(work, Kind(name, self.limits.of(name) if limit is None else limit))
            except Exception as error:
                if is_missing_partition(error):
                    self.months = frozenset()
                if not may_try_again(error) or number == TRIES - 1:
                    raise translate(error, self.address.shown) from error
            longest = min(300 * MILLISECOND, 4 * MILLISECOND << number)
            await asyncio.sleep(longest * self._ids.fraction() / SECOND)
        raise AssertionError("unreachable")

    async def _write_once(self, work: Callable[[Transaction], Awaitable[T]], kind: Kind) -> T:
        """Undone for a statement that was not prepared, it is made again with that one."""
        for _ in range(MOST_STATEMENTS):
            try:
                return await self._transact(work, kind)
            except Unprepared as error:
                self._needed.setdefault(kind.name, {})[error.statement] = None
        raise AssertionError(f"{kind.name}: expected some statements, got {MOST_STATEMENTS} different ones")

    async def read(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """All that it sees is of one moment. Nothing waits for it, and it waits for nobody."""
        try:
            return await self._transact(work, Kind("read", self.limits.long, reading=True))
        except Exception as error:
            raise translate(error, self.address.shown) from error

    async def show(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """A read for people, which may take its time: the engine does not wait for it."""
        try:
            return await self._transact(work, Kind("show", SHOWING, reading=True, timeout=SHOW_TIMEOUT))
        except Exception as error:
            raise translate(error, self.address.shown) from error

    async def at_once(self, statement: str, *values: object, hint: Hint) -> list[Any]:
        """One statement that is a transaction of its own, and the hint to send if it has changed something.

        If there is no partition for what it writes, it changes nothing: the long way makes one.
        """

        async def work(tx: Transaction) -> list[Any]:
            rows = await tx.rows(statement, *values)
            tx.hints += [hint] if rows else []
            return rows

        name = work.__qualname__
        if self.address.pooled or self._read_only or self.limits.of(name) != SHORT:  # settings come with a transaction
            return await self.write(work)
        home = await self.home()
        began = self._clock.steady()
        try:
            rows = await self._alone(home, statement, *values)
        except Exception as error:
            if is_overrun(error, after=self._clock.steady() - began, limit=SHORT):
                self.limits.overran(name)
            if is_missing_partition(error):
                self.months = frozenset()
                return []
            if may_try_again(error):
                return await self.write(work)
            raise translate(error, self.address.shown) from error
        self.commits += 1
        self.tell(home, [hint] if rows else [])
        return rows

    async def _alone(self, home: PostgresHome, statement: str, *values: object) -> list[Any]:
        """One statement, without BEGIN and COMMIT around it."""
        async with home.connections.lend() as db:
            return await db.fetch(statement, *values)

    async def _transact(self, work: Callable[[Transaction], Awaitable[T]], kind: Kind) -> T:
        home = await self.home()
        db = await home.connections.take()
        limited = is_limited(db)
        began = self._clock.steady()
        try:
            tx = Transaction(db, self.months, kind.timeout)
            if not kind.reading and (self.address.pooled or not limited):
                tx.db = cast(Connection, await self._prepared(cast(Session, db), kind, limited=limited))
            await db.execute(self._begin(kind, limited=limited))
            answer = await work(tx)
            await db.execute("COMMIT")
        except BaseException as error:  # a cancelled call, too, is undone, and its connection goes back or is ended
            self.records.forget()  # what was read in it may never have been written
            if is_overrun(error, after=self._clock.steady() - began, limit=kind.limit if limited else None):
                self.limits.overran(kind.name)
            await _undo(home.connections, db, error)
            raise
        self.limits.took(kind.name, self._clock.steady() - began)
        await home.connections.give_back(db)
        self.commits += 1
        self.months |= tx.months
        self.tell(home, tx.hints)
        return answer

    async def _prepared(self, db: Session, kind: Kind, *, limited: bool) -> Prepared:
        """The connection, with all that this kind of transaction is known to need."""
        reading = Kind("prepare", self.limits.long, reading=True)
        await prepare_statements(db, self._needed.get(kind.name, ()), self._begin(reading, limited=limited))
        return Prepared(db)

    def _begin(self, kind: Kind, *, limited: bool) -> str:
        begin = begin_statement(
            self.address, limited=limited, limit=kind.limit, lease=self.limits.lease, reading=kind.reading
        )
        if kind.timeout is None:
            return begin
        return f"{begin}; SET LOCAL statement_timeout = '{round(kind.timeout * 1000)}'"

    def committed(self, home: PostgresHome, tx: Transaction) -> None:
        """A handler's transaction is committed, on the handler's loop. Whoever listens here does so on the engine's,
        and is told with its next call, which is the repetition of this finish; other processes are told now."""
        self.commits += 1
        self.months |= tx.months
        self._left.extend(tx.hints)
        home.notifier.tell(hint.kind for hint in tx.hints)

    def tell(self, home: PostgresHome, hints: Sequence[Hint]) -> None:
        """Send the hints of what was committed: here, and to other processes."""
        while self._left:
            self.hints.send(self._left.popleft())
        for hint in hints:
            self.hints.send(hint)
        if hints:
            home.notifier.tell(hint.kind for hint in hints)

    async def home(self) -> PostgresHome:
        """What belongs to the loop that this is called on."""
        return await self._homes.here()

    async def close(self) -> None:
        """Send the last hints and let go of the connections. Whatever was acknowledged stays. Twice is fine."""
        if self.listener is not None:
            await self.listener.close()
            self.listener = None
        await self._homes.close()


async def _undo(connections: Connections, db: Connection, error: BaseException) -> None:
    """Roll back, and give the connection back if that has worked; else it is ended, which rolls back, too."""
    trouble: BaseException = error
    if not is_broken(error) and not db.is_closed():
        try:
            await db.execute("ROLLBACK")
        except Exception as second:  # noqa: BLE001 - the first error is raised by the caller
            trouble = second
        except BaseException as second:  # a cancel is not lost, though the first error may be one to try again after
            await connections.give_back(db, second)
            raise
    await connections.give_back(db, trouble)


async def take_numbers(tx: Transaction, name: str, count: int) -> list[int]:
    """The next `count` numbers of a sequence (job_ids, run_ids, fences). Never given out twice."""
    return [number for (number,) in await tx.rows(TAKE_NUMBERS, name, count)]


async def find_checkpoints(tx: Transaction, run_ids: Iterable[int]) -> dict[int, Checkpoint]:
    """How far earlier attempts of these runs have come, where one has said so."""
    wanted = list(run_ids)
    if not wanted:
        return {}
    return {run_id: Checkpoint(revision, value) for run_id, revision, value in await tx.rows(FIND_CHECKPOINTS, wanted)}


async def check_lease(tx: Transaction, incarnation: str, now: int) -> None:
    """`NodeExpired` unless the incarnation's lease is alive. It is not ended before this transaction is."""
    row = await tx.row(FIND_NODE_LEASE, incarnation)
    if row is None or row[0] or row[1] <= now:
        raise NodeExpired(f"incarnation {incarnation}: its lease has ended; register a new one to go on")


class Records:
    """Job definitions, parsed once per revision and shared by every lease. Bounded; the oldest goes first.

    Loaded with `load`, by one question for all that are missing; found with `find`.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], JobRecord | StoreUnusable] = {}
        self._doubtful: set[tuple[int, int]] = set()  # to be read anew before they are used again

    async def load(self, tx: Transaction, wanted: Iterable[tuple[int, int, str]]) -> None:
        """Have these revisions (job, revision, the job's state) at hand, as far as they can be read."""
        missing = {
            (job_id, revision): state for job_id, revision, state in wanted if self._lacks(job_id, revision, state)
        }
        if not missing:
            return
        rows = await tx.rows(FIND_REVISIONS, [key[0] for key in missing], [key[1] for key in missing])
        found = {(row[0], row[1]): row for row in rows}
        for key, state in missing.items():
            self._put(key, _parsed(key, state, found.get(key)))

    def _lacks(self, job_id: int, revision: int, state: str) -> bool:
        record = self._kept.get((job_id, revision))
        in_doubt = (job_id, revision) in self._doubtful
        return in_doubt or not isinstance(record, JobRecord) or record.state != state

    def find(self, job_id: int, revision: int) -> JobRecord:
        """One revision that was loaded; `StoreUnusable` if its definition cannot be read."""
        record = self._kept[job_id, revision]
        if isinstance(record, StoreUnusable):
            raise record
        return record

    async def get(self, tx: Transaction, job_id: int, revision: int, state: str) -> JobRecord:
        """Load and find one."""
        await self.load(tx, [(job_id, revision, state)])
        return self.find(job_id, revision)

    def _put(self, key: tuple[int, int], record: JobRecord | StoreUnusable) -> None:
        while len(self._kept) >= KEPT_RECORDS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = record
        self._doubtful.discard(key)

    def forget(self) -> None:
        """Trust none of them: a revision that was read but not committed may come back as another one. They stay to be
        found, because another call may be between its `load` and its `find` at this moment."""
        self._doubtful = set(self._kept)


def _parsed(key: tuple[int, int], state: str, row: Any) -> JobRecord | StoreUnusable:
    job_id, revision = key
    if row is None:
        return StoreUnusable(f"job {job_id}: expected its revision {revision}, which is missing; put the job again")
    _, _, created_at, updated_at, definition = row
    try:
        return JobRecord(job_id, revision, decode(definition), JobState(state), created_at, updated_at)
    except (Unreadable, ValueError) as error:
        return StoreUnusable(f"job {job_id}, revision {revision}: {error}; put the job again")
