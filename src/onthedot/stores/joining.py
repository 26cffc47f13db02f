"""What a store can offer beyond the protocol: runs that are submitted inside a transaction of the caller's own.

The caller has a connection to the database that the store is in, and a transaction open on it. What is submitted there
exists exactly if that transaction is committed: it is one commit with whatever else the caller writes. A store that can
has `submit_within`; the others refuse, and say who can.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from onthedot.clock import Micros
from onthedot.errors import DefinitionError
from onthedot.job import JobRecord
from onthedot.run import NewRun
from onthedot.stores.base import Store

T = TypeVar("T")


class _Outside:
    """The default of `connection`: not None, which a program may pass by mistake."""

    def __repr__(self) -> str:
        return "OUTSIDE"


OUTSIDE: Any = _Outside()
"""No connection was given: the run is submitted in a transaction of our own."""


def given_connection(connection: Any) -> Any:
    """What a caller has given, on the caller's own thread; `DefinitionError` for None.

    Django's `connection` leads each thread to another connection: here it becomes the one of this thread.
    """
    if connection is None:
        raise DefinitionError(
            "connection: expected a connection with a transaction that is open, got None; leave 'connection' out to "
            "submit without one; with Django, give 'django.db.connection' itself"
        )
    kind = type(connection)
    if (kind.__module__.partition(".")[0], kind.__name__) == ("django", "ConnectionProxy"):
        return sys.modules["django.db"].connections[connection.alias]
    return connection


class Joined(NamedTuple):
    """A run that was submitted: its id, and whether it was there already, under its key."""

    id: int
    created: bool


@runtime_checkable
class Joins(Protocol):
    """The capability: a store that has these two."""

    def blocks(self, connection: Any) -> bool:
        """Whether this connection is used without `await`. `DefinitionError` for what is no connection of this store's
        kind; it says which are."""
        ...

    async def submit_within(
        self, connection: Any, runs: Sequence[NewRun], jobs: Sequence[JobRecord], *, now: Micros | None = None
    ) -> list[Joined]:
        """Submit runs of these jobs in the transaction that is open on the caller's connection.

        As `RunsSlice.submit`, with the caller's commit: until then nobody else sees the runs, and whoever submits
        under the same key waits for it. Who sleeps is told by the commit itself. Edits, pauses and the end of the jobs
        wait for it, too.

        Called on the loop that the connection belongs to; with one that `blocks`, it never suspends. `KeyConflict`
        and `UnknownJob` leave the transaction as it was. `StateError` if there is none, or if the connection leads to
        another database: then nothing is written. What the server refuses is raised as the connection's own library
        tells it.
        """
        ...


def joining(store: Store) -> Joins:
    """The store, if it can; `DefinitionError` if it cannot."""
    if isinstance(store, Joins):
        return store
    raise DefinitionError(
        "connection: expected a store that can take part in a transaction of yours (PostgreSQL), got one that cannot; "
        "leave 'connection' out, and submit when your transaction is committed"
    )


async def wait_for(work: Coroutine[Any, Any, T], *, blocks: bool) -> T:
    """What comes of it: here, or if it blocks on a thread of its own, so that this loop goes on.

    A thread of its own, not one of a pool: somebody may wait there for as long as another's transaction is open, and
    that one must find a thread to end it. Cancelled, it ends first: nobody else may use the connection before.
    """
    if not blocks:
        return await work
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    answers: list[T] = []
    errors: list[BaseException] = []

    def go() -> None:
        try:
            answers.append(_drive(work))
        except BaseException as error:  # noqa: BLE001 - raised to who waits
            errors.append(error)
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=go, name="onthedot submit", daemon=True).start()
    waiting = asyncio.ensure_future(done.wait())
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    if errors:
        raise errors[0]
    return answers[0]


def _drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    work.close()
    raise AssertionError("expected a connection that is used without await, but it has suspended")
