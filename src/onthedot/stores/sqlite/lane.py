"""A connection with a thread of its own. Whole transactions cross to it, never statements.

                    calls                        one transaction
    event loops ───────────▶ queue ──▶ thread ───────────────────▶ file
         ▲                               │   SAVEPOINT per call when there are several
         └───── answers, hints ◀─────────┘   one COMMIT for all of them

A hand-over and back costs about 0.1 ms and a commit 0.3 ms and more, so the thread takes whatever has queued up
meanwhile and commits it together: the finish of a worker's last batch and the reserve of its next share one commit.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from onthedot.errors import StateError
from onthedot.stores.base import Hint, Hints
from onthedot.stores.sqlite.connection import begin, commit, roll_back
from onthedot.stores.sqlite.failures import translate
from onthedot.stores.sqlite.wakeup import Counts, Wakeup

T = TypeVar("T")


class Transaction:
    """What a call works on: the connection inside its transaction, and the hints to send once it is committed."""

    __slots__ = ("db", "hints")

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.hints: list[Hint] = []


class Call(Generic[T]):
    """One transaction on its way: what to do, for whom, and what came of it."""

    __slots__ = ("answer", "error", "future", "hints", "work", "writes")

    def __init__(self, work: Callable[[Transaction], T], *, writes: bool) -> None:
        self.work = work
        self.writes = writes
        self.future: asyncio.Future[T] | None = None
        self.answer: T | None = None
        self.error: Exception | None = None
        self.hints: Sequence[Hint] = ()

    def work_on(self, db: sqlite3.Connection, name: str) -> None:
        """Do the work inside an open transaction."""
        tx = Transaction(db)
        try:
            self.answer = self.work(tx)
            self.hints = tx.hints
        except sqlite3.Error as error:
            self.fail(translate(error, name))
        except Exception as error:  # noqa: BLE001 - the caller's to handle: handed over, not dropped
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Nothing of this call was kept. The first error is the one that tells."""
        self.error = self.error or error
        self.hints = ()


def do_nothing(tx: Transaction) -> None:
    """What a lane is asked first, to see that it works, and last, to know that all is done."""
    del tx


class Lane:
    """Runs calls one after the other on one connection, up to `together` of them in one transaction.

    Thread and connection are made at the first call, by `connect`; if that fails, the next call tries again.
    `forget` is called when a transaction was lost: what it had read may never have been written.
    `wakeup` carries hints to other processes and brings theirs: between calls, the thread looks.
    Awaiting a call and being cancelled leaves the call alone: it completes, and its answer is dropped.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        forget: Callable[[], None],
        hints: Hints,
        *,
        together: int,
        inline: bool,
        wakeup: Wakeup | None = None,
    ) -> None:
        self.commits = 0
        self._name = name
        self._connect = connect
        self._forget = forget
        self._hints = hints
        self._together = together
        self._inline = inline
        self._wakeup = wakeup
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
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
            self._start()
            self._calls.put(call)
        return await call.future

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StateError(f"{self._name}: expected an open store, but it was closed; open it again")

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=f"onthedot {self._name}", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Finish what is queued, end the thread, let go of the file. Closing twice is fine."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            farewell = Call(do_nothing, writes=False)
            if self._thread is not None:
                farewell.future = asyncio.get_running_loop().create_future()
                self._calls.put(farewell)
                self._calls.put(None)
        if farewell.future is not None:
            await asyncio.wait([farewell.future])  # waits without blocking the loop; its error matters to nobody
            farewell.future.exception()
        if self._thread is not None:
            self._thread.join()  # its last act is to close the connection
        elif self._db is not None:
            self._db.close()

    # ── on the thread ────────────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            if batch:
                self._execute(batch)
            if self._wakeup is not None:
                self._wakeup.look(self._db)
            if batch:
                self._answer(batch)
        if self._db is not None:
            self._db.close()

    def _next_batch(self) -> tuple[list[Call[Any]], bool]:
        """Wait for a call, then take what else is there; and whether it was the last. None: it is time to look."""
        batch: list[Call[Any]] = []
        try:
            call = self._calls.get(timeout=None if self._wakeup is None else self._wakeup.seconds_left())
        except Empty:
            return batch, False
        while call is not None:
            batch.append(call)
            if len(batch) == self._together:
                return batch, False
            try:
                call = self._calls.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _execute(self, batch: Sequence[Call[Any]]) -> None:
        """One transaction for all. After this, every call has its answer or its error."""
        try:
            if self._db is None:
                self._db = self._connect()
            begin(self._db, writing=any(call.writes for call in batch))
            if len(batch) == 1:
                self._work_alone(self._db, batch[0])
            else:
                for call in batch:
                    self._work_among_others(self._db, call)
            if self._db.in_transaction:
                self._commit(self._db, batch)
        except Exception as error:  # noqa: BLE001 - every caller gets it, and the thread lives on
            for call in batch:
                call.fail(translate(error, self._name))
            self._start_over()

    def _commit(self, db: sqlite3.Connection, batch: Sequence[Call[Any]]) -> None:
        hinted = {hint.kind for call in batch for hint in call.hints}
        counted: Counts = self._wakeup.count(db, hinted) if self._wakeup is not None and hinted else {}
        commit(db)
        self.commits += 1
        if self._wakeup is not None:
            self._wakeup.confirm(counted)

    def _start_over(self) -> None:
        """Nothing of this transaction was kept: forget what was read in it, and leave no half of it open."""
        self._forget()
        if self._db is not None:
            try:
                roll_back(self._db)
            except sqlite3.Error:
                self._db.close()
                self._db = None  # the next call connects anew

    def _work_alone(self, db: sqlite3.Connection, call: Call[Any]) -> None:
        call.work_on(db, self._name)
        if call.error is not None:
            roll_back(db)

    def _work_among_others(self, db: sqlite3.Connection, call: Call[Any]) -> None:
        """If the call fails, its own work is undone and its neighbours' is not. Unless SQLite itself has ended
        the transaction (a full disk does): then there is nothing left to commit for anybody."""
        db.execute("SAVEPOINT one_call")
        call.work_on(db, self._name)
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
            try:
                loop.call_soon_threadsafe(self._deliver, calls)
            except RuntimeError:
                continue  # the loop was closed: nobody is waiting any more

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
