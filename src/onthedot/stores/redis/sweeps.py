"""Decisions that concern many runs, in steps: no script of ours keeps the server from others for long.

The script that decides also does what follows from it for a page of runs; what is left is a sweep (`lib/sweeps.lua`).
Whoever decided goes on with it, and answers when it is done. If that process dies, upkeep goes on. Until a sweep is
done, nobody decides anew about the same job or queue: who wants to does the rest of it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onthedot.clock import SECOND, Micros
from onthedot.stores.redis.failures import Refusal
from onthedot.stores.redis.tables import Tables

STEP = 100
"""How many runs one script ends, moves or forgets at the most: some milliseconds of everybody's time."""
IDLE: Micros = 2 * SECOND
"""A sweep that has not moved for so long is upkeep's."""


class Sweeps(Tables):
    """What every slice that decides about many runs stands on."""

    rows = STEP

    async def decide(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> Any:
        """Ask for a decision; sweeps of earlier ones are done before."""
        while True:
            try:
                return await self.ask(name, now=now, rows=self.rows, **fields)
            except Refusal as refusal:
                if refusal.kind != "Unsettled":
                    raise
                swept, number = refusal.said
                await self.sweep([swept, int(str(number))], now)

    async def sweep(self, left: Sequence[Any], now: Micros | None) -> list[int]:
        """Do what is left of a decision; what has been counted from its beginning on."""
        name, number = left
        while True:
            done, first, second = await self.ask("sweep", now=now, name=name, number=number, rows=self.rows)
            if done:
                return [first, second]

    async def sweep_after_others(self, now: Micros | None) -> None:
        """Go on with the sweeps of those who have died over them."""
        for left in await self.look("unsettled", now=now, idle=IDLE):
            await self.sweep(left, now)
