"""The PostgreSQL database: transactions on lent connections, the server's clock, and hints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, cast

from onthedot.clock import Micros, SystemClock
from onthedot.ids import RandomIds
from onthedot.model.errors import StoreUnavailable, StoreUnusable
from onthedot.model.run import NewRun
from onthedot.model.verdict import Finish
from onthedot.stores.hints import Hint, Hints
from onthedot.stores.per_loop import Homes
from onthedot.stores.postgres import fast_finish, fast_submit
from onthedot.stores.postgres.connections import (
    PER_RUN,
    SHORT,
    SHOWING,
    Address,
    Connection,
    Connections,
    Kind,
    Limits,
    Prepared,
    Session,
    Unprepared,
    begin_statement,
    connect,
    connect_for_effects,
    is_limited,
    prepare_statements,
    warn_of_mixed_tables,
)
from onthedot.stores.postgres.errors import TROUBLE, is_broken, is_missing_partition, is_overrun, translate
from onthedot.stores.postgres.fast_finish import FINISH
from onthedot.stores.postgres.fast_submit import SUBMIT
from onthedot.stores.postgres.retries import may_retry, with_retries
from onthedot.stores.postgres.schema import check_current, prepare
from onthedot.stores.postgres.transaction import READ_CLOCK, Transaction, drop_empty, month_of
from onthedot.stores.postgres.wakeup import Listener, Notifier
from onthedot.stores.sql.port import Move, Statement, sql
from onthedot.stores.sql.records import Records
from onthedot.stores.values import About

T = TypeVar("T")
P = ParamSpec("P")
Work = Callable[[Transaction], Awaitable[T]]

MOST_STATEMENTS = 200
"""An upper bound for the statements of a transaction. Each may need preparation (`connections.py`)."""

SHOW_TIMEOUT = 60.0
"""The time limit of a listing for people, in seconds. Counting ten million finished runs takes several."""


TELL_PROMISE = sql("""
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')
""")


class PostgresHome:
    """The resources of one event loop: its connections, and the notifier that reports its commits to other
    processes."""

    def __init__(self, address: Address, sender: str) -> None:
        self.connections = Connections(address, connect)
        self.effects = Connections(address, connect_for_effects)  # for the writes of handlers
        self.notifier = Notifier(self.connections, address, sender)

    async def close(self) -> None:
        await self.notifier.close()
        await self.effects.close()
        await self.connections.close()


class PostgresDatabase:
    """See `sql.port.Database`."""

    any_loop = True

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        self.address = address
        self.hints = Hints()
        self.records = Records()
        self.limits = Limits(timeout=address.timeout)
        self.months: frozenset[int] = frozenset()  # months whose partitions are known to exist
        self._read_only = read_only
        self._clock = SystemClock()  # real time: the server is real
        self._needed: dict[str, dict[str, None]] = {}  # the statements of each kind of transaction, in order
        self._sender = RandomIds().token()[:16]
        self._homes = Homes(lambda: PostgresHome(address, self._sender), address.shown)
        self.listener: Listener | None = None

    @property
    def clock(self) -> None:
        """Return None: the store's clock is the server's, not this machine's."""
        return

    async def tell_time(self) -> Micros:
        """Read the server's clock in one round trip. A shorter round trip gives a more exact time."""
        try:
            home = await self.home()
            [[now]] = await home.connections.use(lambda db: db.fetch(READ_CLOCK.postgres))
        except Exception as error:
            raise translate(error, self.address.shown) from error
        return int(now)

    async def connect(self) -> None:
        """Check that the server answers, and bring its tables up to date. Hints of other processes arrive on this
        loop."""
        try:
            await (check_current if self._read_only else prepare)(self.address)
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error
        if self.address.listen_dsn is not None and not self._read_only:
            self.listener = Listener(self.address, self._sender, self.hints)
            self.listener.start()

    async def write(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a transaction for which others wait, so it must be short (`connections.Limits`)."""
        name = _name_of(move)
        return await self._write(lambda tx: move(tx, *args, **named), name, self.limits.of(name))

    async def write_long(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        return await self._write(lambda tx: move(tx, *args, **named), _name_of(move), self.limits.long)

    async def write_many(self, count: int, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        limit = SHORT + PER_RUN * count
        return await self._write(lambda tx: move(tx, *args, **named), _name_of(move), limit)

    async def _write(self, work: Work[T], name: str, limit: Micros) -> T:
        """Run a transaction, and retry it after a conflict with others."""
        if self._read_only:
            raise StoreUnusable(
                f"{self.address.shown}: expected a store that may be written, got one that was opened for reading only"
            )
        try:
            return await with_retries(lambda: self._write_once(work, Kind(name, limit)))
        except Exception as error:
            raise translate(error, self.address.shown) from error

    async def _write_once(self, work: Work[T], kind: Kind) -> T:
        """Run a transaction. If a statement was not prepared, prepare it and run the transaction again."""
        for _ in range(MOST_STATEMENTS):
            try:
                return await self._transact(work, kind)
            except Unprepared as error:
                self._needed.setdefault(kind.name, {})[error.statement] = None
        raise AssertionError(f"{kind.name}: expected some statements, got {MOST_STATEMENTS} different ones")

    async def look(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        return await self._read(lambda tx: move(tx, *args, **named), Kind("read", self.limits.long, reading=True))

    read_short = look

    async def read(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a transaction that may take long, because the engine does not wait for it."""
        kind = Kind("show", SHOWING, reading=True, timeout=SHOW_TIMEOUT)
        return await self._read(lambda tx: move(tx, *args, **named), kind)

    async def drop_room(self, until: Micros) -> None:
        with suppress(StoreUnavailable):  # in use by a reader: retry next time
            if await self.write_long(drop_empty, until):
                self.months = frozenset()

    def know_lease(self, ttl: Micros) -> None:
        self.limits.know_lease(ttl)

    async def _read(self, work: Work[T], kind: Kind) -> T:
        try:
            return await self._transact(work, kind)
        except Exception as error:
            raise translate(error, self.address.shown) from error

    async def about(self) -> About:
        [(version, fsync, commit)] = await self.read(Transaction.rows, TELL_PROMISE)
        lost = "loses nothing" if fsync == "on" and commit != "off" else "may lose the last moments"
        promise = f"fsync {fsync}, synchronous_commit {commit}; a crash of the server's machine {lost}"
        try:
            caution = await warn_of_mixed_tables(self.address)
        except Exception as error:
            raise translate(error, self.address.shown) from error
        return About("PostgreSQL", version, promise, self.address.connections, caution)

    async def finish_plain(self, finishes: Sequence[Finish]) -> frozenset[str]:
        ends = [one.ended_at for one in finishes]
        if not {month_of(min(ends)), month_of(max(ends))} <= self.months:  # a batch spans less than a month
            return frozenset()
        rows = await self.at_once(FINISH, *fast_finish.columns(finishes), hint=Hint("ends", finishes[0].ended_at))
        return frozenset(lease_id for (lease_id,) in rows)

    async def submit_new(self, runs: Sequence[NewRun], now: Micros | None) -> list[int] | None:
        if not fast_submit.fits(runs):
            return None
        hint = Hint("runs", min(run.due_at for run in runs))
        rows = await self.at_once(SUBMIT, *fast_submit.columns(runs, now), hint=hint)
        ids: dict[str, int] = {trigger: run_id for run_id, trigger in rows}
        return [ids[run.trigger] for run in runs] if len(ids) == len(runs) else None

    async def at_once(self, statement: Statement[Any], *values: object, hint: Hint) -> list[Any]:
        """Run one statement as its own transaction, and send the hint if it changed something.

        If a partition for its rows is missing, it changes nothing. The normal path creates the partition."""

        async def work(tx: Transaction) -> list[Any]:
            rows = await tx.rows(statement, *values)
            tx.hints += [hint] if rows else []
            return rows

        name = _name_of(work)
        if self.address.pooled or self._read_only or self.limits.of(name) != SHORT:  # settings need a transaction
            return await self.write(work)
        home = await self.home()
        began = self._clock.steady()
        try:
            rows: list[Any] = await home.connections.use(lambda db: db.fetch(statement.postgres, *values))
        except Exception as error:
            if is_overrun(error, after=self._clock.steady() - began, limit=SHORT):
                self.limits.overran(name)
            if self._forget_months(error):
                return []
            if may_retry(error):
                return await self.write(work)
            raise translate(error, self.address.shown) from error
        self.tell(home, [hint] if rows else [])
        return rows

    def _forget_months(self, error: BaseException) -> bool:
        """Forget the known partitions if the error reports that one of them is missing. Return whether it does."""
        missing = is_missing_partition(error)
        if missing:
            self.months = frozenset()
        return missing

    async def _transact(self, work: Work[T], kind: Kind) -> T:
        home = await self.home()
        db = await home.connections.take()
        limited = is_limited(db)
        began = self._clock.steady()
        try:
            tx = Transaction(db, self.records, self.months, kind.timeout)
            if not kind.reading and (self.address.pooled or not limited):
                reading = Kind("prepare", self.limits.long, reading=True)
                begin = begin_statement(self.address, reading, limited=limited, lease=self.limits.lease)
                await prepare_statements(cast(Session, db), self._needed.get(kind.name, ()), begin)
                tx.db = cast(Connection, Prepared(cast(Session, db)))
            await db.execute(begin_statement(self.address, kind, limited=limited, lease=self.limits.lease))
            answer = await work(tx)
            await db.execute("COMMIT")
        except BaseException as error:  # a cancelled call, too, is undone, and its connection is given back or ended
            self.records.forget()  # the records that it read may never be committed
            self._forget_months(error)
            if is_overrun(error, after=self._clock.steady() - began, limit=kind.limit if limited else None):
                self.limits.overran(kind.name)
            await _undo(home.connections, db, error)
            raise
        self.limits.took(kind.name, self._clock.steady() - began)
        await home.connections.give_back(db)
        self.months |= tx.months
        self.tell(home, tx.hints)
        return answer

    def committed(self, home: PostgresHome, tx: Transaction) -> None:
        """Note the commit of a handler's transaction, on the handler's loop."""
        self.months |= tx.months
        self.tell(home, tx.hints)

    def tell(self, home: PostgresHome, hints: Sequence[Hint]) -> None:
        """Send the hints of a commit, here and to other processes."""
        for hint in hints:
            self.hints.send(hint)
        if hints:
            home.notifier.tell(hint.kind for hint in hints)

    async def home(self) -> PostgresHome:
        """Return the resources of the calling event loop."""
        return await self._homes.here()

    async def close(self) -> None:
        """Send the last hints and release the connections. All acknowledged writes are kept. A second call does
        nothing."""
        if self.listener is not None:
            await self.listener.close()
            self.listener = None
        await self._homes.close()


def _name_of(move: Callable[..., object]) -> str:
    """Return a move's kind of transaction. Each kind has its own time limit and prepared statements."""
    return getattr(move, "__qualname__", "")


async def _undo(connections: Connections, db: Connection, error: BaseException) -> None:
    """Roll back and give the connection back. If the rollback fails, end the connection, which also rolls back."""
    trouble: BaseException = error
    if not is_broken(error) and not db.is_closed():
        try:
            await db.execute("ROLLBACK")
        except Exception as second:  # noqa: BLE001 - the first error is raised by the caller
            trouble = second
        except BaseException as second:  # a cancel is not lost, even if the first error allows a retry
            await connections.give_back(db, second)
            raise
    await connections.give_back(db, trouble)
