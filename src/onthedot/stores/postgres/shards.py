"""Layouts, and schedules whose zone data changed, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.errors import LayoutConflict
from onthedot.stores.base import Hint, Layout, Replanned, ScheduleState, Term
from onthedot.stores.postgres.nodes import TERMS, check_layout, check_term, find_layout
from onthedot.stores.postgres.plan import Plan
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.shards import check_shards

CHANGE_LAYOUT = "INSERT INTO layouts (version, shards, since) VALUES ($1, $2, $3)"

# The zone data that all shards of the old layout are computed with, if it is one.
FIND_ZONES = "SELECT CASE WHEN min(zones) = max(zones) THEN min(zones) ELSE '' END FROM terms WHERE shard < $1"

# Nobody holds it any more; its number goes on.
END_TERM = """
INSERT INTO terms (shard, number, incarnation, until, ttl, layout, tzdata, zones)
VALUES ($1, 0, '', $2, 0, $3, '', $4)
ON CONFLICT (shard) DO UPDATE
SET incarnation = '', until = excluded.until, layout = excluded.layout, tzdata = '', zones = excluded.zones
"""

LIST_SHARDS = "SELECT shard FROM terms"

LIST_TERMS = """
SELECT shard, number, incarnation, until, layout, tzdata, zones FROM terms WHERE shard < $1 ORDER BY shard
"""

LIST_ZONED = """
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state
FROM schedules s JOIN jobs j ON j.id = s.job_id
WHERE s.zoned AND (s.job_id, s.schedule_id) > ($1, $2) AND s.next_at IS NOT NULL
  AND s.bucket >= $3 AND s.bucket < $4 AND j.state <> 'deleted'
ORDER BY s.job_id, s.schedule_id LIMIT $5
"""

# The job first: it is neither edited nor deleted meanwhile.
HOLD_JOB = "SELECT 1 FROM jobs WHERE id = $1 AND revision = $2 AND state <> 'deleted' FOR KEY SHARE"

REPLAN = """
UPDATE schedules SET next_at = $1
WHERE job_id = $2 AND schedule_id = $3 AND watermark = $4 AND next_at IS NOT NULL
"""

ZONES_DONE = "UPDATE terms SET zones = tzdata WHERE shard = $1"


class Shards(Plan):
    """See `ShardsSlice`."""

    async def layout(self) -> Layout:
        return await self.read(find_layout)

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> Layout:
        check_shards(shards)

        async def work(tx: Transaction) -> Layout:
            at = await tx.clock(now)
            await tx.lock_keys([TERMS])
            old = await find_layout(tx)
            if old.shards == shards:
                return old
            if expected not in (None, old.version):
                raise LayoutConflict(f"layout: expected version {expected}, found {old.version}; read it again")
            new = Layout(old.version + 1, shards)
            zones = await tx.value(FIND_ZONES, old.shards)
            await tx.do(CHANGE_LAYOUT, new.version, shards, at)
            known = {shard for (shard,) in await tx.rows(LIST_SHARDS)}
            ending = sorted(known | set(range(shards)))
            await tx.each(END_TERM, [(shard, at, new.version, zones or "") for shard in ending])
            tx.hints.append(Hint("terms", at))
            return new

        return await self.write(work)

    async def list_terms(self) -> list[Term]:
        async def work(tx: Transaction) -> list[Term]:
            return [Term(*row) for row in await tx.rows(LIST_TERMS, (await find_layout(tx)).shards)]

        return await self.read(work)  # nothing hangs on it: campaigns are decided in their own write

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        async def work(tx: Transaction) -> list[ScheduleState]:
            buckets = await check_layout(tx, term.layout, term.shard)
            found: list[ScheduleState] = []
            place = after
            while len(found) < limit:
                rows = await tx.rows(LIST_ZONED, *place, buckets.start, buckets.stop, limit)
                found += await self.schedule_states(tx, rows)
                if len(rows) < limit:
                    break
                place = (rows[-1][0], rows[-1][1])
            return found[:limit]

        return await self.read(work)

    async def replan(
        self, term: Term, rows: Sequence[Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        async def work(tx: Transaction) -> list[bool]:
            await check_term(tx, term, await tx.clock(now))
            answers = {row: await _replan(tx, row) for row in sorted(set(rows), key=lambda row: row[:2])}
            if done:
                await tx.do(ZONES_DONE, term.shard)
            return [answers[row] for row in rows]

        return await self.write(work)


async def _replan(tx: Transaction, row: Replanned) -> bool:
    if await tx.row(HOLD_JOB, row.job_id, row.revision) is None:
        return False
    return await tx.do(REPLAN, row.next_at, row.job_id, row.schedule_id, row.watermark) == 1
