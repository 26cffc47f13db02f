"""Transactions of handlers (`ctx.transaction()`): from the first statement to the commit that completes the run.

    begin ──▶ the handler's statements ──▶ commit: effects + fence + completion ──▶ succeeded, whatever comes after
                     │ raises, is cancelled           │ the lease is lost         │ no answer
                     └──▶ rollback                    └──▶ LeaseLost              └──▶ look, else StoreUnavailable

A call to the store is never cancelled halfway. A caller that is cancelled gets the cancellation after the answer. So
after a time-out during a commit we know whether the commit happened.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar

from onthedot.clock import Clock, Micros
from onthedot.model.errors import LeaseLost, StateError, StoreUnavailable
from onthedot.model.run import AttemptRecord, Lease
from onthedot.model.verdict import Finish, Outcome, OutcomeKind
from onthedot.rules import retry
from onthedot.stores.protocol import Store
from onthedot.stores.transactions import Transaction, Transactions

State = Literal["none", "open", "unknown", "committed"]
"""none: not begun, or rolled back. unknown: the commit was sent, and has no answer yet."""


@dataclass(slots=True)
class Completion:
    """The transaction of one attempt under exactly_once. One is open at a time; after a commit there is none."""

    lease: Lease
    started_at: Micros = 0
    result: str | None = None  # JSON: what the commit records
    state: State = "none"
    finish: Finish | None = None  # as it was committed

    def begin(self) -> None:
        """Note that a transaction begins. `StateError` if one is open or committed."""
        if self.state == "committed":
            raise StateError(f"run {self.lease.run_id} has succeeded with its transaction; there is no second one")
        if self.state != "none":
            raise StateError(f"run {self.lease.run_id}: expected one transaction at a time; leave the first one before")
        self.state = "open"

    def commits(self, finish: Finish) -> None:
        """Note that the commit was sent."""
        self.finish = finish
        self.state = "unknown"

    def rolled_back(self) -> None:
        """Note that the transaction was rolled back."""
        self.finish = None
        self.state = "none"


T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between two tries to reach the store

NO_ANSWER = "the commit of its transaction was not answered"
"""The error of an attempt if we do not know whether its transaction was committed."""


class Transactor:
    """Begins and commits transactions. It holds the store and the store's event loop."""

    def __init__(self, store: Store, clock: Clock, write_notes: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self.store = store
        self.clock = clock
        self.write_notes = write_notes  # writes the newest notes of the attempt with this lease id
        self.loop: asyncio.AbstractEventLoop | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    def leave(
        self,
        loop: asyncio.AbstractEventLoop,
        roll_back: Callable[[Transaction], Coroutine[Any, Any, None]],
        transaction: Transaction,
    ) -> None:
        """Roll back in a task, for a coroutine that cannot wait."""
        task = loop.create_task(roll_back(transaction))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def transactions(self, lease: Lease) -> Transactions:
        """The transactions of the store. `StateError` if it has none."""
        found = self.store.transactions
        if found is None:
            raise StateError(f"run {lease.run_id}: the store has no transactions; use PostgreSQL, or memory in tests")
        return found

    def home(self, lease: Lease) -> asyncio.AbstractEventLoop:
        """The store's loop; `LeaseLost` once the node has stopped."""
        if self.loop is None or self.loop.is_closed():
            raise LeaseLost(f"run {lease.run_id}: its node has stopped; another attempt does its work")
        return self.loop

    @contextmanager
    def blocking(self, completion: Completion) -> Iterator[Any]:
        """Provide a transaction for a plain function. Each call of the connection runs on the store's loop, and the
        function waits."""
        loop = self.home(completion.lease)
        block = TransactionBlock(self, completion)
        connection = asyncio.run_coroutine_threadsafe(block.__aenter__(), loop).result()
        try:
            yield BlockingConnection(connection, loop)
        except BaseException as error:  # also SystemExit: the transaction is rolled back
            leaving = block.__aexit__(type(error), error, error.__traceback__)
            asyncio.run_coroutine_threadsafe(leaving, loop).result()
            raise
        asyncio.run_coroutine_threadsafe(block.__aexit__(None, None, None), loop).result()


class TransactionBlock:
    """The block of `async with ctx.transaction()`."""

    def __init__(self, transactor: Transactor, completion: Completion) -> None:
        self._transactor = transactor
        self._completion = completion
        self._lease = completion.lease
        self._transaction: Transaction | None = None

    async def __aenter__(self) -> Any:
        self._completion.begin()
        try:
            self._transaction = await self._begin(self._transactor.transactions(self._lease))
        except BaseException:  # nothing was begun, so the attempt may try another block
            self._completion.rolled_back()
            raise
        return self._transaction.connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        transaction = self._transaction
        if transaction is None:
            raise StateError("a transaction ended that was not begun; write 'async with ctx.transaction() as db:'")
        self._transaction = None
        if error is not None:
            await self._give_up(transaction, error)
            return
        try:
            with suppress(StoreUnavailable):  # missing notes must not undo the transaction
                await self._home(self._transactor.write_notes(self._lease.lease_id))
        except BaseException as stopped:  # cancelled meanwhile: nothing else would roll back
            await self._give_up(transaction, stopped)
            raise
        await self._commit(transaction)

    async def _begin(self, transactions: Transactions) -> Transaction:
        pause = _FIRST_PAUSE
        while True:
            begun, stopped = await whole(self._there(transactions.begin(self._lease)))
            if stopped is not None:
                if begun.exception() is None:
                    await self._roll_back(begun.result())
                raise stopped
            try:
                transaction: Transaction = begun.result()
                return transaction
            except StoreUnavailable:  # nothing was begun, so retry
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _commit(self, transaction: Transaction) -> None:
        lease, completion = self._lease, self._completion
        ended_at = self._transactor.clock.now()
        outcome = Outcome(OutcomeKind.SUCCEEDED, result=completion.result)
        verdict = retry.decide(
            outcome, lease.record.job, failures=lease.failures, ended_at=ended_at, chance=0.0, due_at=lease.due_at
        )
        finish = Finish(lease, verdict, completion.started_at, ended_at)
        completion.commits(finish)
        committed, stopped = await whole(self._there(transaction.commit(finish)))
        try:
            accepted = committed.result()
        except StoreUnavailable:
            await self._look(stopped)
            return
        except BaseException:  # the commit failed or was cancelled: it is undone
            completion.rolled_back()
            raise
        if not accepted:
            completion.rolled_back()
            raise LeaseLost(
                f"run {lease.run_id}: attempt {lease.attempt} has lost its lease, and its transaction is rolled back; "
                "end it, another attempt continues"
            )
        completion.state = "committed"
        if stopped is not None:
            raise stopped

    async def _look(self, stopped: asyncio.CancelledError | None) -> None:
        """Check whether a commit without an answer is recorded. If it is not, the outcome is still unknown."""
        if stopped is not None:
            raise stopped
        lease, pause = self._lease, _FIRST_PAUSE
        attempts: list[AttemptRecord] | None = None
        while attempts is None:
            try:
                attempts = await self._home(self._transactor.store.queries.list_attempts(lease.run_id))
            except StoreUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        if not any(a.lease_id == lease.lease_id and a.outcome == OutcomeKind.SUCCEEDED for a in attempts):
            raise StoreUnavailable(
                f"run {lease.run_id}: {NO_ANSWER}, and is not to be seen; end this attempt, the run is tried again "
                "unless it is committed after all"
            )
        self._completion.state = "committed"

    async def _give_up(self, transaction: Transaction, error: BaseException) -> None:
        """Roll back. A coroutine that is being closed cannot wait, so a task does it."""
        if not isinstance(error, GeneratorExit):
            await self._roll_back(transaction)
            return
        self._completion.rolled_back()
        with suppress(RuntimeError):  # without a loop the process is at its end, and the connection with it
            self._transactor.leave(asyncio.get_running_loop(), self._roll_back, transaction)

    async def _roll_back(self, transaction: Transaction) -> None:
        try:
            done, stopped = await whole(self._there(transaction.rollback()))
        finally:
            self._completion.rolled_back()
        done.result()
        if stopped is not None:
            raise stopped

    # ── on which loop ────────────────────────────────────────────────────────────────────────────────────────

    async def _there(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call of the transaction on the transaction's loop."""
        if self._transactor.transactions(self._lease).loop_bound:
            return await call
        return await self._home(call)

    async def _home(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call of the store on the store's loop."""
        try:
            home = self._transactor.home(self._lease)
        except LeaseLost:
            call.close()
            raise
        here = home is asyncio.get_running_loop()
        done, stopped = await whole(call if here else asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, home)))
        if stopped is not None:
            done.exception()  # seen
            raise stopped
        answer: T = done.result()
        return answer


class BlockingConnection:
    """A connection for plain functions: each call is made on the connection's loop, and waited for here.

    Its methods must return plain values: a cursor or a nested transaction would belong to that loop.
    """

    def __init__(self, connection: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            async def on_loop() -> Any:
                answer = found(*args, **kwargs)
                return await answer if inspect.isawaitable(answer) else answer

            return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()

        return call


async def whole(call: Any) -> tuple[asyncio.Future[Any], asyncio.CancelledError | None]:
    """Wait until a call has ended. Also returns the cancellation of the caller, if it was cancelled meanwhile."""
    done, stopped = asyncio.ensure_future(call), None
    while not done.done():
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError as error:
            stopped = error
    return done, stopped
