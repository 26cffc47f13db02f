"""From schedules to runs, in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onthedot.clock import Micros
from onthedot.shards import check_shards
from onthedot.stores.queries import SCANNED
from onthedot.stores.redis.rows import read_schedule, read_term, term_asked, window_asked
from onthedot.stores.redis.tables import Tables, told
from onthedot.stores.values import Due, Layout, NextSchedules, Replanned, ScheduleCursor, Term
from onthedot.window import ScheduleState, Window

ROWS = 500
"""How many schedules one script looks at."""


class Plan(Tables):
    """See `Store`."""

    async def due_schedules(self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> Due:
        rows, more = await self.look("due_schedules", until_=until, limit=limit, shard=shard, layout=layout)
        return Due(await self._schedules(rows), more=bool(more))

    async def next_schedules(
        self,
        *,
        until: Micros,
        limit: int,
        namespaces: Sequence[str] | None = None,
        owner: str | None = None,
        after: ScheduleCursor | None = None,
    ) -> NextSchedules:
        found: list[ScheduleState] = []
        asked: dict[str, Any] = {"until_": until, "namespaces": namespaces, "owner": owner, "rows": ROWS}
        place = after
        for _ in range(max(1, SCANNED // ROWS)):
            rows, reached = await self.look("next_schedules", **asked, after=place, limit=limit - len(found))
            found += await self._schedules(rows)
            place = None if reached is None else ScheduleCursor(*reached)
            if place is None or len(found) >= limit:
                break
        return NextSchedules(found, place)

    async def _schedules(self, rows: Sequence[Sequence[Any]]) -> list[ScheduleState]:
        records = await self.records(row[0] for row in rows)
        return [read_schedule(row, record) for row, record in zip(rows, records, strict=True)]

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        asked = [
            window_asked(window, seen.record.job) | {"job_id": seen.record.id, "revision": seen.record.revision}
            for seen, window in windows
        ]
        said = await self.ask("plan", now=now, term=term_asked(term), windows=asked)
        return [bool(planned) for planned in said]

    # ── shards ───────────────────────────────────────────────────────────────────────────────────────────────

    async def layout(self) -> Layout:
        return Layout(*await self.look("layout"))

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> Layout:
        check_shards(shards)
        return Layout(*await self.ask("set_shards", now=now, shards=shards, expected=expected))

    async def list_terms(self) -> list[Term]:
        found = [read_term(row) for row in await self.look("list_terms")]
        return [term for term in found if term is not None]

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        return await self._schedules(
            await self.look("zoned_schedules", term=term_asked(term), after=list(after), limit=limit)
        )

    async def replan(
        self, term: Term, rows: Sequence[Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        asked = [told(**row._asdict()) for row in rows]
        said = await self.ask("replan", now=now, term=term_asked(term), rows=asked, done=done or None)
        return [bool(moved) for moved in said]
