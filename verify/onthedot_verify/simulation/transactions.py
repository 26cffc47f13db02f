"""Transactions in the simulated cluster: their effects are recorded, and each call goes through the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from onthedot.model.run import Lease
from onthedot.model.verdict import Finish
from onthedot.stores.memory import MemoryStore
from onthedot.stores.transactions import Transaction, Transactions

Call = Callable[[str, Callable[..., Any], Any, Any], Awaitable[Any]]
NoteEffect = Callable[[int, int], None]
NoteFinish = Callable[[Finish, bool], Awaitable[None]]


class RecordedTransactions:
    """The store's transactions. Their outcome is recorded: first the effects, as the resource has them."""

    loop_bound = False

    def __init__(self, store: MemoryStore, note_effect: NoteEffect, note_finish: NoteFinish) -> None:
        self.store = store
        self.note_effect = note_effect
        self.note_finish = note_finish

    async def begin(self, lease: Lease, **options: Any) -> RecordedTransaction:
        return RecordedTransaction(self, await self.store.transactions.begin(lease, **options))


class RecordedTransaction:
    """See `Transaction`."""

    def __init__(self, recorded: RecordedTransactions, inner: Transaction) -> None:
        self._recorded = recorded
        self._inner = inner
        self.connection = inner.connection

    async def commit(self, finish: Finish, **options: Any) -> bool:
        statements = self._recorded.store.statements
        known = len(statements)
        try:
            accepted = await self._inner.commit(finish, **options)
        finally:
            for statement in statements[known:]:
                self._recorded.note_effect(statement.run_id, statement.fence)
        await self._recorded.note_finish(finish, accepted)
        return accepted

    async def rollback(self) -> None:
        await self._inner.rollback()


class NetworkTransactions:
    """Transactions as one boot of a node reaches them."""

    loop_bound = False

    def __init__(self, inner: Transactions, call: Call) -> None:
        self._inner = inner
        self._call = call

    async def begin(self, lease: Lease, **options: Any) -> NetworkTransaction:
        return NetworkTransaction(await self._call("begin", self._inner.begin, (lease,), options), self._call)


class NetworkTransaction:
    """See `Transaction`."""

    def __init__(self, inner: Transaction, call: Call) -> None:
        self._inner = inner
        self._call = call
        self.connection = inner.connection

    async def commit(self, finish: Finish, **options: Any) -> bool:
        accepted: bool = await self._call("commit", self._inner.commit, (finish,), options)
        return accepted

    async def rollback(self) -> None:
        await self._inner.rollback()
