"""Runs transactions on a thread with its own connection. Whole transactions cross to it, never statements.

                    calls                        one transaction
    event loops ───────────▶ queue ──▶ thread ───────────────────▶ file
         ▲                               │   SAVEPOINT per call when there are several
         └───── answers, hints ◀─────────┘   one COMMIT for all of them

A hand-over and back costs about 0.1 ms and a commit 0.3 ms and more, so the thread takes whatever has queued up
meanwhile and commits it together: the finish of a worker's last batch and the reserve of its next share one commit.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from onthedot.clock import Clock, Micros
from onthedot.model.errors import StateError
from onthedot.stores.hints import Hint, Hints
from onthedot.stores.sql.port import Statement
from onthedot.stores.sql.records import Records
from onthedot.stores.sqlite.connection import begin, commit, is_full, limit_log, roll_back, translate
from onthedot.stores.sqlite.wakeup import Counts, Wakeup

T = TypeVar("T")
R = TypeVar("R")

SHORT = 64
"""Up to how many values a list has whose JSON is kept."""

READ_AT_ONCE = 8
"""How many rows of a line are read before anybody asks for them."""

TAKE_NUMBERS = "UPDATE meta SET value = value + ?2 WHERE name = ?1 RETURNING value"


class Transaction:
    """What a call works on: the connection inside its transaction, and the hints to send once it is committed.

    See `sql.port.Tx`. Its coroutines never suspend. Locks cost nothing here: there is one writer at a time."""

    __slots__ = ("_clock", "db", "hints", "records")
    concurrent = False

    def __init__(self, db: sqlite3.Connection, records: Records, clock: Clock) -> None:
        self.db = db
        self.hints: list[Hint] = []
        self.records = records
        self._clock = clock

    async def rows(self, statement: Statement[R], *values: object) -> list[R]:
        rows = self.db.execute(statement.sqlite, _bound(values)).fetchall()
        return rows if statement.make is None else list(map(statement.make, rows))

    async def row(self, statement: Statement[R], *values: object) -> R | None:
        rows = self.db.execute(statement.sqlite, _bound(values)).fetchall()  # RETURNING writes with the last row
        if not rows:
            return None
        first: R = rows[0]
        return first if statement.make is None else statement.make(first)

    async def values(self, statement: Statement[Any], *values: object) -> list[Any]:
        return [value for value, *_ in self.db.execute(statement.sqlite, _bound(values)).fetchall()]

    async def value(self, statement: Statement[Any], *values: object) -> Any:
        rows = self.db.execute(statement.sqlite, _bound(values)).fetchall()
        return rows[0][0] if rows else None

    async def do(self, statement: Statement[Any], *values: object) -> int:
        return self.db.execute(statement.sqlite, _bound(values)).rowcount

    async def each(self, statement: Statement[Any], rows: Sequence[Sequence[Any]]) -> None:
        self.db.executemany(statement.sqlite, rows)

    async def scan(self, statement: Statement[R], lines: Sequence[Sequence[Any]], *values: object) -> list[Iterable[R]]:
        if not lines:
            return []
        bound = _bound(values)
        scans = [self._scan(statement.sqlite, (*bound, *line)) for line in lines]
        return list(scans) if statement.make is None else [map(statement.make, scan) for scan in scans]

    def _scan(self, statement: str, values: Sequence[Any]) -> Iterable[Any]:
        """The rows of a line. A few are read at once: when that is all, the next line can use the same prepared
        statement. To prepare one takes as long as to read ten rows."""
        cursor = self.db.execute(statement, values)
        first = cursor.fetchmany(READ_AT_ONCE)
        return first if len(first) < READ_AT_ONCE else chain(first, cursor)

    async def clock(self, now: Micros | None) -> Micros:
        return self._clock.now() if now is None else now

    async def numbers(self, name: str, count: int) -> range:
        [last] = self.db.execute(TAKE_NUMBERS, (name, count)).fetchone()
        return range(last - count + 1, last + 1)

    async def lock_keys(self, keys: Iterable[str], *, late: bool = False) -> None:
        """Nothing to do: the transaction holds the write lock."""

    async def make_room(self, instants: Iterable[Micros]) -> None:
        """Nothing to do: history is one table."""


def _bound(values: Sequence[object]) -> Sequence[object]:
    """Lists cross as JSON."""
    for value in values:
        if isinstance(value, _LISTS):
            return [_as_json(value) if isinstance(value, _LISTS) else value for value in values]
    return values


def _as_json(value: Any) -> str:
    """A short list is most often one of the last ones, and making JSON of it costs as much as a small statement."""
    return _known_json(tuple(value)) if len(value) <= SHORT else json.dumps(value)


_known_json = lru_cache(256)(json.dumps)
_LISTS = (list, tuple)


@dataclass(slots=True)
class Call(Generic[T]):
    """One transaction: the work, the future of its caller, and the result."""

    work: Callable[[Transaction], T]
    writes: bool
    future: asyncio.Future[T] | None = None
    answer: T | None = None
    error: Exception | None = None
    hints: Sequence[Hint] = ()
    last: bool = False  # nothing comes after it

    def work_on(self, tx: Transaction, name: str) -> None:
        """Do the work inside an open transaction."""
        try:
            self.answer = self.work(tx)
            self.hints = tx.hints
        except Exception as error:  # noqa: BLE001 - the caller's to handle: handed over, not dropped
            self.fail(translate(error, name))

    def fail(self, error: Exception) -> None:
        """Nothing of this call was stored. The first error is reported."""
        self.error = self.error or error
        self.hints = ()


def do_nothing(tx: Transaction) -> None:
    """What a thread is asked first, to see that it works, and last, to know that all is done."""
    del tx


class ConnectionThread:
    """Runs calls one after the other on one connection, up to `together` of them in one transaction.

    The first call makes thread and connection; if that fails, the next call tries again. `wakeup` exchanges hints with
    other processes. The call of a cancelled caller completes, and nobody gets its answer."""

    def __init__(
        self, name: str, connect: Callable[[], sqlite3.Connection], records: Records, hints: Hints, *, clock: Clock,
        together: int, inline: bool, wakeup: Wakeup | None = None,
    ) -> None:  # fmt: skip
        self.commits = 0
        self._name = name
        self._connect = connect
        self._records = records
        self._clock = clock
        self._hints = hints
        self._together = together
        self._inline = inline
        self._wakeup = wakeup
        self._calls: SimpleQueue[Call[Any]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._db: sqlite3.Connection | None = None
        self._closed = False
        self._gate = threading.Lock()  # between "is it closed?" and "in the queue", nobody closes

    async def run(self, work: Callable[[Transaction], T], *, writes: bool = False) -> T:
        """Run `work` in a transaction and return its answer once that is committed."""
        call = Call(work, writes=writes)
        if self._inline:
            self._refuse_if_closed()
            self._execute([call])
            self._send_hints([call])
            if call.error is not None:
                raise call.error
            return call.answer  # type: ignore[return-value]  # no error: it was answered
        call.future = asyncio.get_running_loop().create_future()
        with self._gate:
            self._refuse_if_closed()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"onthedot {self._name}", daemon=True)
                self._thread.start()
            self._calls.put(call)
        return await call.future

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StateError(f"{self._name}: expected an open store, but it was closed; open it again")

    async def close(self) -> None:
        """Finish what is queued, end the thread, let go of the file. Closing twice is fine."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            if self._thread is None:
                self._close_connection()
                return
            done = asyncio.get_running_loop().create_future()
            self._calls.put(Call(do_nothing, writes=False, future=done, last=True))
        await asyncio.wait([done])  # waits without blocking the loop; its error matters to nobody
        done.exception()
        self._thread.join()  # its last act is to close the connection

    def _close_connection(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    # ── on the thread ────────────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        batch: list[Call[Any]] = []
        while not (batch and batch[-1].last):
            batch = self._next_batch()
            if batch:
                self._execute(batch)
            if self._wakeup is not None:
                self._wakeup.look(self._db)
            self._answer(batch)
        self._close_connection()

    def _next_batch(self) -> list[Call[Any]]:
        """Wait for a call, then take what else is there. None: it is time to look."""
        batch: list[Call[Any]] = []
        try:
            batch.append(self._calls.get(timeout=None if self._wakeup is None else self._wakeup.seconds_left()))
            while len(batch) < self._together:
                batch.append(self._calls.get_nowait())
        except Empty:
            pass
        return batch

    def _execute(self, batch: Sequence[Call[Any]]) -> None:
        """One transaction for all. After this, every call has its answer or its error."""
        try:
            if self._db is None:
                self._db = self._connect()
            begin(self._db, writing=any(call.writes for call in batch))
            for call in batch:
                self._work(self._db, call, alone=len(batch) == 1)
            if self._db.in_transaction:
                self._commit(self._db, batch)
        except Exception as error:  # noqa: BLE001 - every caller gets it, and the thread lives on
            for call in batch:
                call.fail(translate(error, self._name))
            self._start_over()
            if self._db is not None and is_full(error):
                limit_log(self._db, self._name)  # else it takes all the room that somebody makes

    def _commit(self, db: sqlite3.Connection, batch: Sequence[Call[Any]]) -> None:
        hinted = {hint.kind for call in batch for hint in call.hints}
        counted: Counts = self._wakeup.count(db, hinted) if self._wakeup is not None and hinted else {}
        commit(db)
        self.commits += 1
        if self._wakeup is not None:
            self._wakeup.confirm(counted)

    def _start_over(self) -> None:
        """Forget what was read in the transaction, and end it: nothing of it was kept."""
        self._records.forget()
        if self._db is not None:
            try:
                roll_back(self._db)
            except sqlite3.Error:
                self._close_connection()  # the next call connects anew

    def _work(self, db: sqlite3.Connection, call: Call[Any], *, alone: bool) -> None:
        """Do one call. If it fails, only its own work is undone, unless SQLite has ended the whole transaction (a full
        disk does)."""
        if not alone:
            db.execute("SAVEPOINT one_call")
        call.work_on(Transaction(db, self._records, self._clock), self._name)
        if alone:
            if call.error is not None:
                roll_back(db)
            return
        if call.error is not None:
            if not db.in_transaction:
                raise call.error
            db.execute("ROLLBACK TO one_call")
        db.execute("RELEASE one_call")

    def _answer(self, batch: Sequence[Call[Any]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = defaultdict(list)
        for call in batch:
            if call.future is not None:
                by_loop[call.future.get_loop()].append(call)
        for loop, calls in by_loop.items():
            with suppress(RuntimeError):  # the loop was closed: nobody is waiting any more
                loop.call_soon_threadsafe(self._deliver, calls)

    # ── on the caller's loop ─────────────────────────────────────────────────────────────────────────────────────

    def _deliver(self, calls: Sequence[Call[Any]]) -> None:
        for call in calls:
            if call.future is None or call.future.done():
                continue  # cancelled
            if call.error is not None:
                call.future.set_exception(call.error)
            else:
                call.future.set_result(call.answer)
        self._send_hints(calls)

    def _send_hints(self, calls: Sequence[Call[Any]]) -> None:
        for call in calls:
            for hint in call.hints:
                self._hints.send(hint)
