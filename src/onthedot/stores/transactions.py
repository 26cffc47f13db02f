"""Optional parts of a store: they put its writes into one transaction with those of a handler or a caller.

**A transaction of an attempt** makes `exactly_once` possible. The handler writes through the transaction's connection.
The commit checks the lease and records the run as succeeded: all of it is stored or nothing. A store without
`transactions` (None) refuses jobs under exactly_once.

    transaction = await store.transactions.begin(lease)
    … the handler writes through transaction.connection …
    await transaction.commit(finish)      effects, fence and completion in one commit: True
                                          or the lease is lost: all is rolled back: False
    await transaction.rollback()          instead of commit, when the handler has raised or was cancelled

No call is cancelled while it runs (`runners/transactions.py`). docs/design/store-moves.md, "exactly_once", has
what follows a commit with or without an answer.

**A transaction of the caller**: the caller has a transaction open on a connection to the store's database. Runs that
are submitted there exist if, and only if, it is committed. Only stores with `submit_within` can do this.
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
    """An open transaction of one attempt. It ends with the first `commit` or `rollback`."""

    @property
    def connection(self) -> Any:
        """What the handler is given: the driver's own connection, inside the transaction."""

    async def commit(self, finish: Finish, *, now: Micros | None = None) -> bool:
        """Check the fence, do all that `Store.finish` does with this verdict, and commit it together with the effects.

        Returns True if it was accepted. Returns False, and rolls everything back, if the run is not running under this
        lease. A second call returns the same answer and writes nothing. Before the commit nobody sees the effects, and
        no call that changes the run waits for them.

        `StateError` if the verdict is not succeeded, if the transaction was rolled back before, or if the handler has
        ended it by itself; then everything is rolled back. `StoreUnavailable` if the commit has no answer: it may
        happen now or later, but no more once another verdict under this lease is accepted. A second call raises it
        again. Any other error comes from the effects (a deferred constraint, a serialization failure): everything is
        rolled back."""

    async def rollback(self) -> None:
        """Give the transaction up: no effect remains. After a commit it does nothing. It never fails because the store
        is unavailable: a server that cannot be reached has ended the transaction anyway."""


class Transactions(Protocol):
    """The capability. `Store.transactions` is one of these, or None."""

    @property
    def loop_bound(self) -> bool:
        """Whether a connection can be used only on the event loop that began it.

        True: `begin`, `commit` and `rollback` are called on the handler's loop. That is not the loop of the rest of the
        store, and it may differ from one attempt to the next. False: they are called on the store's own loop, and the
        connection is used from other threads, too."""

    async def begin(self, lease: Lease, *, now: Micros | None = None) -> Transaction:
        """Begin a transaction for an attempt, on a connection that no other attempt uses meanwhile.

        `LeaseLost` if the run is not running under this lease any more. This check locks nothing: the commit decides.
        `StoreUnavailable` if no connection is available; then nothing was begun."""


# ── of the caller ────────────────────────────────────────────────────────────────────────────────────────────


class Joined(NamedTuple):
    """A run that was submitted: its id, and whether this submit created it (False: its key existed already)."""

    id: int
    created: bool


@runtime_checkable
class Joins(Protocol):
    """The capability: a store that has these two."""

    def blocks(self, connection: Any) -> bool:
        """Whether this connection is used without `await`. `DefinitionError` if this store does not support
        this kind of connection; the message lists those that it does."""

    async def submit_within(
        self, connection: Any, runs: Sequence[NewRun], jobs: Sequence[JobRecord], *, now: Micros | None = None
    ) -> list[Joined]:
        """Submit runs of these jobs in the transaction that is open on the caller's connection, as `Store.submit` does.

        Until the caller commits, nobody else sees the runs. Other calls wait for the commit if they submit under the
        same key, or edit, pause or delete the jobs. Call it on the connection's loop. With a connection that `blocks`,
        it never suspends.

        `KeyConflict` and `UnknownJob` leave the transaction as it was. `StateError`, and nothing is written, if no
        transaction is open, or if the connection leads to another database. If the server refuses something, the error
        of the connection's own library is raised."""


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    work.close()
    raise AssertionError("expected a coroutine that never suspends, but it has suspended")
