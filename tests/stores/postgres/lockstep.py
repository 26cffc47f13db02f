"""Runs two store calls in lockstep: one stops between two statements while the other continues as far as it can.

    with hooked():
        await race(watcher, first, second, cut=3)

The first call stops before its fourth statement. The second one starts, and ends or waits for a lock. Then the first
one continues. If two calls can wait for each other, one of the cuts shows it, because one of them waits first, after
some number of statements of the other.

This holds for locks of different statements. Two statements that lock several rows each, in different orders, meet at
an obstacle: a row that a third transaction locks until both calls wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import asyncpg
import pytest

from onthedot.clock import SECOND
from onthedot.model.errors import OnTheDotError, StoreError
from onthedot.stores.postgres.connections import Limits
from tests.stores.postgres.footprints import Footprint, Footprints

LONGEST = 15.0
"""Seconds that a call in a race may take on a busy machine. A call that takes longer hangs."""

IS_BLOCKED = "SELECT cardinality(pg_blocking_pids($1)) > 0"

_METHODS = ("fetch", "fetchrow", "fetchval", "execute", "executemany")

Call = Callable[[], Awaitable[object]]
Look = Callable[[Any], Awaitable[None]]


class Undone(Exception):
    """Raised in place of a commit."""


class Side:
    """One of the two calls. It stops once, before statement number `cut` of its first transaction that writes."""

    def __init__(self, cut: int | None = None, *, undo: bool = False, look: Look | None = None) -> None:
        self.cut = cut
        self.undo = undo
        self.look = look  # called with its connection after each statement
        self.count = 0  # statements of its transactions that write
        self.pid = 0
        self.halted = asyncio.Event()  # set when it has stopped, was rolled back, or has ended
        self.go = asyncio.Event()
        self.deadlocks: list[str] = []
        self.rolled_back = False
        self._reading = False

    async def step(self, db: Any, statement: str, do: Call) -> object:
        words = statement.split()
        if words[0].startswith("BEGIN"):
            self._reading = "READ ONLY" in statement
            self.pid = db.get_server_pid()
        if words[0] == "ROLLBACK":
            self.rolled_back = True
            self.halted.set()
        elif self.undo and self.rolled_back:
            raise Undone  # undo only once
        elif db.is_in_transaction() and not self._reading:
            await self._count(is_commit=words[0].startswith("COMMIT"))
        try:
            answer = await do()
        except asyncpg.DeadlockDetectedError as error:
            self.deadlocks.append(f"{' '.join(words)[:150]} ({error.detail})")
            raise
        if self.look is not None and db.is_in_transaction() and not self._reading:
            token = _side.set(None)
            await self.look(db)
            _side.reset(token)
        return answer

    async def _count(self, *, is_commit: bool) -> None:
        if self.cut is not None and (self.count == self.cut or is_commit):
            self.cut = None
            self.halted.set()
            await self.go.wait()
        self.count += 1
        if is_commit and self.undo:
            raise Undone


_side: ContextVar[Side | None] = ContextVar("side", default=None)


def _stepping(method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    async def call(db: Any, statement: str, *values: object, **named: object) -> object:
        side = _side.get()
        if side is None:
            return await method(db, statement, *values, **named)
        return await side.step(db, statement, lambda: method(db, statement, *values, **named))

    return call


@contextmanager
def hooked() -> Iterator[None]:
    """Pass every statement of a side through `Side.step`. No transaction times out while it is stopped."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _METHODS:
            patch.setattr(asyncpg.Connection, name, _stepping(getattr(asyncpg.Connection, name)))
        patch.setattr(Limits, "of", lambda *_: 60 * SECOND)
        yield


class Outcome(NamedTuple):
    """The result of a race. `blocked`: the second call had to wait for the first."""

    blocked: bool
    deadlocks: list[str]
    errors: list[Exception]
    statements: int  # of the first call


class Watcher:
    """One connection that observes the others, and one that locks obstacles."""

    def __init__(self, watching: Any, locking: Any) -> None:
        self.watching = watching
        self.locking = locking

    async def settle(self, side: Side) -> bool:
        """Wait until a side has stopped, has ended or waits for a lock. Returns whether it waits."""
        while True:
            try:
                async with asyncio.timeout(0.004):
                    await side.halted.wait()
                return False
            except TimeoutError:
                if side.pid and await self.watching.fetchval(IS_BLOCKED, side.pid):
                    return True


async def _run(side: Side, call: Call) -> Exception | None:
    """Run a call as a side. Returns its error. Refusals that belong to the protocol are no errors."""
    _side.set(side)
    limit = asyncio.timeout(LONGEST)
    try:
        async with limit:
            await call()
    except TimeoutError as error:
        return TimeoutError(f"the call did not return within {LONGEST} s") if limit.expired() else error
    except OnTheDotError as error:
        return error if isinstance(error, StoreError) else None
    except Undone:
        return None
    except Exception as error:  # noqa: BLE001 - the test names it
        return error
    finally:
        side.halted.set()
    return None


def _begin(side: Side, call: Call) -> asyncio.Task[Exception | None]:
    return asyncio.create_task(_run(side, call))


async def race(
    watcher: Watcher, first: Call, second: Call, *, cut: int | None = None, obstacle: str | None = None
) -> Outcome:
    """Run both calls as the module describes. `obstacle` is a statement that locks rows until both have come as far as
    they can."""
    one, other = Side(cut), Side()
    tasks: list[asyncio.Task[Exception | None]] = []
    try:
        if obstacle is not None:
            await watcher.locking.execute("BEGIN")
            await watcher.locking.execute(obstacle)
        tasks.append(_begin(one, first))
        await watcher.settle(one)
        tasks.append(_begin(other, second))
        blocked = await watcher.settle(other)
        one.go.set()
        if obstacle is not None:
            await watcher.locking.execute("ROLLBACK")
        errors = [error for error in await asyncio.gather(*tasks) if error is not None]
    finally:  # also after an error, no transaction may hold a lock or wait for one
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if watcher.locking.is_in_transaction():
            await watcher.locking.execute("ROLLBACK")
    return Outcome(blocked, one.deadlocks + other.deadlocks, errors, one.count)


async def trace(footprints: Footprints, call: Call) -> list[Footprint]:
    """Returns the locks that a call holds after each statement of its transaction, beginning with none. The call is
    undone."""
    found: list[Footprint] = []

    async def look(db: Any) -> None:
        found.append(await footprints.look(db))

    error = await _begin(Side(undo=True, look=look), call)
    assert error is None, error
    return found
