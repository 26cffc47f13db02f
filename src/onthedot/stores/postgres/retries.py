"""Retries PostgreSQL transactions that were undone by a conflict with others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from onthedot.clock import MILLISECOND, SECOND
from onthedot.ids import RandomIds
from onthedot.stores.postgres.errors import is_missing_partition
from onthedot.stores.sql.port import Contended

T = TypeVar("T")

TRIES = 12
"""Attempts per transaction after conflicts. They take about 2 s in all, plus the time of waiting for locks."""

_CONFLICTS = (Contended, asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)

_TAKEN_MEANWHILE = frozenset({"jobs_living", "submit_keys_pkey"})
"""Unique indexes over rows that two transactions may create at once. When the second one retries, it finds the first
one's row."""


def may_retry(error: Exception) -> bool:
    """Return whether only a conflict with other transactions undid this one, so that a retry may succeed."""
    if isinstance(error, _CONFLICTS):
        return True
    if isinstance(error, asyncpg.UniqueViolationError):
        return getattr(error, "constraint_name", None) in _TAKEN_MEANWHILE
    return is_missing_partition(error)


async def with_retries(work: Callable[[], Awaitable[T]], may: Callable[[Exception], bool] = may_retry) -> T:
    """Do work, and retry it while `may` accepts its error. Pauses are random and get longer. Raises the last error."""
    for number in range(TRIES - 1):
        try:
            return await work()
        except Exception as error:
            if not may(error):
                raise
        longest = min(300 * MILLISECOND, 4 * MILLISECOND << number)
        await asyncio.sleep(longest * RandomIds().fraction() / SECOND)
    return await work()
