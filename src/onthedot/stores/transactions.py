"""Optional parts of a store: its writes in one transaction with those of a handler or a caller.

**A transaction of an attempt** is what `exactly_once` means. The handler writes through the transaction's connection.
The commit checks the lease and records the run as succeeded: all of it is stored or nothing. A store without
`transactions` (None) refuses jobs under exactly_once.

    transaction = await store.transactions.begin(lease)
    … the handler writes through transaction.connection …
    await transaction.commit(finish)      effects, fence and completion in one commit: True
                                          or the lease is lost: all is rolled back: False
    await transaction.rollback()          instead of commit, when the handler has raised or was cancelled

Neither call is cancelled while it runs (`runners/transactions.py`). docs/design/store-moves.md, "exactly_once", has
what follows a commit with or without an answer.

**A transaction of the caller**: the caller has a transaction open on a connection to the store's database. Runs that
are submitted there exist exactly if it is committed. Only stores with `submit_within` can do this.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from onthedot.clock import Micros
from onthedot.model.job import JobRecord
from onthedot.model.run import Lease, NewRun
from onthedot.model.verdict import Finish

T = TypeVar("T")

# ── of an attempt ────────────────────────────────────────────────────────────────────────────────────────────


class Transaction(Protocol):
    """An open transaction of one attempt. Over with the first `commit` or `rollback`."""

    @property
    def connection(self) -> Any:
        """What the handler is given: the driver's own connection, inside the transaction."""

    async def commit(self, finish: Finish, *, now: Micros | None = None) -> bool:
        """Effects, fence check and all that `Store.finish` does with this verdict, in one commit; True: accepted.

        False, and everything is rolled back, if the run is not running under this lease. Repeated, it gives the same
        answer and writes nothing. Until then nobody sees the effects, and nobody who changes the run waits for them.

        `StateError`, and all is rolled back, for a verdict that is not succeeded, after a rollback, and if the handler
        has ended the transaction by itself. `StoreUnavailable`: it may be committed, now or later, but not once another
        verdict under this lease is accepted; repeated, it is raised again. Any other error comes from the effects (a
        deferred constraint, a serialization failure): everything is rolled back."""

    async def rollback(self) -> None:
        """Give it up: no effect is left. After a commit nothing happens. Never fails for want of the store: what
        cannot be reached has no transaction left."""


class Transactions(Protocol):
    """The capability. `Store.transactions` is one of these, or None."""

    @property
    def loop_bound(self) -> bool:
        """Whether a connection can be used only on the event loop that began it.

        True: `begin`, `commit` and `rollback` are called on the handler's loop, which is not the one that the rest of
        the store is used on, and may be another one each time. False: they are called on the store's own loop, and
        the connection is used from other threads, too."""

    async def begin(self, lease: Lease, *, now: Micros | None = None) -> Transaction:
        """Begin a transaction for an attempt, on a connection that no other attempt uses meanwhile.

        `LeaseLost` if the run is not running under this lease any more. That is a look and no lock: what counts is the
        commit. `StoreUnavailable` if there is no connection to be had; then nothing was begun."""


# ── of the caller ────────────────────────────────────────────────────────────────────────────────────────────


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

    async def submit_within(
        self, connection: Any, runs: Sequence[NewRun], jobs: Sequence[JobRecord], *, now: Micros | None = None
    ) -> list[Joined]:
        """Submit runs of these jobs in the transaction that is open on the caller's connection, as `Store.submit` does.

        Until the caller's commit nobody else sees the runs, and whoever submits under the same key, edits, pauses or
        deletes the jobs waits for it. Called on the connection's loop; with one that `blocks`, it never suspends.

        `KeyConflict` and `UnknownJob` leave the transaction as it was. `StateError`, and nothing is written, if there
        is none, or if the connection leads to another database. What the server refuses is raised as the connection's
        own library tells it."""


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    work.close()
    raise AssertionError("expected a coroutine that never suspends, but it has suspended")
