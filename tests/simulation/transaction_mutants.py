"""Mutants of transactions: effects and completion are not one commit, or a commit is assumed. See `mutants.py`."""

from __future__ import annotations

import asyncio

from onthedot.node.engine import Engine
from onthedot.stores.memory import MemoryStore, MemoryTransaction, MemoryTransactions, Statements, is_running
from onthedot_verify.simulation.node import SimulatedEngine


class _Unfenced(MemoryTransaction):
    async def commit(self, finish, *, now=None):
        accepted = await super().commit(finish, now=now)
        if not accepted:
            self.keep_effects(finish.lease)
        return accepted


class _TwoWrites(MemoryTransaction):
    async def commit(self, finish, *, now=None):
        if not await self._store.database.read(is_running, finish.lease):
            return False
        self.keep_effects(finish.lease)
        self.connection.noted.clear()
        await asyncio.sleep(0.2)
        return await super().commit(finish, now=now)


class _Wrong(MemoryTransactions):
    """Begins transactions of another kind."""

    def __init__(self, store, kind) -> None:
        super().__init__(store, Statements)
        self._kind = kind

    async def begin(self, lease, *, now=None):
        return self._kind(self._store, (await super().begin(lease, now=now)).connection)


class EffectsUnfenced(MemoryStore):
    """Effects are committed even if another node has the run. Only the completion is fenced."""

    def __init__(self, clock=None) -> None:
        super().__init__(clock)
        self.transactions = _Wrong(self, _Unfenced)


class EffectsFirst(MemoryStore):
    """Effects are committed in one transaction, the completion in the next."""

    def __init__(self, clock=None) -> None:
        super().__init__(clock)
        self.transactions = _Wrong(self, _TwoWrites)


def takes_commits_for_granted(*args, **kwargs) -> Engine:
    """A commit without an answer is reported as a success."""
    engine = SimulatedEngine(*args, **kwargs)
    finish_of = engine._finisher._finish_of

    def patched(attempt):
        completion = attempt.context.completion if attempt.context is not None else None
        if completion is not None and completion.finish is not None:
            return completion.finish
        return finish_of(attempt)

    engine._finisher._finish_of = patched  # type: ignore[method-assign]
    return engine


def believes_its_handlers(*args, **kwargs) -> Engine:
    """A handler that returns has succeeded, even if its commit failed."""
    engine = SimulatedEngine(*args, **kwargs)
    finish_of = engine._finisher._finish_of

    def patched(attempt):
        guarantee = attempt.lease.record.job.guarantee
        object.__setattr__(attempt.lease.record.job, "guarantee", "at_least_once")
        try:
            return finish_of(attempt)
        finally:
            object.__setattr__(attempt.lease.record.job, "guarantee", guarantee)

    engine._finisher._finish_of = patched  # type: ignore[method-assign]
    return engine
