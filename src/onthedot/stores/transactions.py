"""What a store can offer beyond the protocol: a transaction in which an attempt's effects and its completion are one.

This is what `exactly_once` means here. The handler writes through the transaction's connection; the commit checks the
lease and records the run as succeeded. Either all of that is there or none of it, and no second attempt can add to it.

A store that can has `transactions`; for the others it is None, and jobs under exactly_once are refused. How it goes:

    transaction = await store.transactions.begin(lease)
    … the handler writes through transaction.connection …
    await transaction.commit(finish)      effects, fence and completion in one commit: True
                                          or the lease is lost: all is rolled back: False
    await transaction.rollback()          instead of commit, when the handler has raised or was cancelled

Around it (`work/transacting.py`): neither call is ever cancelled while it is under way. After an accepted commit the
worker sends the same finish once more by `finish`, with all others, and is told True: it was recorded before. After a
commit without an answer it looks for its attempt in `list_attempts`; if that is not there, it sends `finish` with
outcome lost. Whichever the store sees first holds, and the other one is refused: both are fenced by the same lease.
"""

from __future__ import annotations

from typing import Any, Protocol

from onthedot.clock import Micros
from onthedot.errors import DefinitionError
from onthedot.job import Guarantee, Job
from onthedot.run import Lease
from onthedot.verdict import Finish


class Transaction(Protocol):
    """An open transaction of one attempt. Over with the first `commit` or `rollback`."""

    @property
    def connection(self) -> Any:
        """What the handler is given: the driver's own connection, inside the transaction."""
        ...

    async def commit(self, finish: Finish, *, now: Micros | None = None) -> bool:
        """Effects, fence check and completion, in one commit; True: accepted.

        Accepted if the run is running under this lease: then all that `RunsSlice.finish` does with this verdict is
        done in the same commit as the effects. Otherwise False: everything is rolled back, and nothing is written.
        Until then nobody sees the effects, and nobody waits for this transaction who wants to touch the run.

        Repeated, it gives the same answer and writes nothing. `StateError`, and all is rolled back, for a verdict that
        is not succeeded, after a rollback, and if the handler has ended the transaction by itself.

        `StoreUnavailable`: nobody knows. It may be committed even later, but never once another verdict under this
        lease was accepted; repeated, it is raised again. Any other error comes from the effects (a deferred constraint,
        a serialization failure): it is raised as it is, and everything is rolled back.
        """
        ...

    async def rollback(self) -> None:
        """Give it up: no effect is left. After a commit nothing happens. Never fails for want of the store: what
        cannot be reached has no transaction left."""
        ...


class Transactions(Protocol):
    """The capability. `Store.transactions` is one of these, or None."""

    @property
    def loop_bound(self) -> bool:
        """Whether a connection can be used only on the event loop that began it.

        True: `begin`, `commit` and `rollback` are called on the handler's loop, which is not the one that the rest of
        the store is used on, and may be another one each time. False: they are called on the store's own loop, and
        the connection is used from other threads, too.
        """
        ...

    async def begin(self, lease: Lease, *, now: Micros | None = None) -> Transaction:
        """Begin a transaction for an attempt, on a connection that nobody else uses meanwhile.

        `LeaseLost` if the run is not running under this lease any more. That is a look and no lock: what counts is the
        commit. `StoreUnavailable` if there is no connection to be had; then nothing was begun.
        """
        ...


def refuse_without(transactions: bool, job: Job) -> None:
    """`DefinitionError` for a job under exactly_once on a store that has no transactions."""
    if job.guarantee is Guarantee.EXACTLY_ONCE and not transactions:
        raise DefinitionError(
            "guarantee: expected a store with transactions for 'exactly_once' (PostgreSQL, or memory for tests), got "
            "one without; choose 'at_least_once', and let ctx.run_id make its effects idempotent",
            subject=f"job {job.name!r}",
        )
