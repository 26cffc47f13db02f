"""Dead letters, in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onthedot.clock import Micros
from onthedot.retention import Mark
from onthedot.run import RunRecord
from onthedot.stores.redis.rows import read_run
from onthedot.stores.redis.tables import Tables
from onthedot.stores.values import LAST_MARK, most


class Letters(Tables):
    """See `Store`."""

    async def list_dead(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        since: Micros = 0,
        before: Mark = LAST_MARK,
        limit: int | None = None,
    ) -> list[RunRecord]:
        found: list[Any] = []
        mark: Sequence[int] | None = before
        while mark is not None and len(found) < most(limit):
            rows, mark = await self.look(
                "list_dead",
                job=job,
                namespace=namespace,
                since=since,
                before=list(mark),
                limit=most(limit) - len(found),
            )
            found += rows
        return [read_run(row) for row in found]

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        asked = [{"run_id": run_id, "word": word} for run_id, word in settled]
        return [bool(accepted) for accepted in await self.ask("settle_dead", settled=asked)]
