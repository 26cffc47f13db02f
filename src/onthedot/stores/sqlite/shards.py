"""Layouts, and schedules whose zone data changed, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.errors import LayoutConflict, StoreUnusable
from onthedot.stores.base import Hint, Layout, Replanned, ScheduleState, Term
from onthedot.stores.shards import check_shards
from onthedot.stores.sqlite.exceptions import Ahead
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.nodes import check_layout, check_term, find_layout
from onthedot.stores.sqlite.plan import Plan

CHANGE_LAYOUT = "INSERT INTO layouts (version, shards, since) VALUES (:version, :shards, :now)"

# The zone data that all shards of the old layout are computed with, if it is one.
FIND_ZONES = "SELECT CASE WHEN min(zones) = max(zones) THEN min(zones) ELSE '' END FROM terms WHERE shard < ?"

# Nobody holds it any more; its number goes on.
END_TERM = """
INSERT INTO terms (shard, number, incarnation, until, ttl, layout, tzdata, zones)
VALUES (:shard, 0, '', :now, 0, :version, '', :zones)
ON CONFLICT (shard) DO UPDATE
SET incarnation = '', until = :now, layout = excluded.layout, tzdata = '', zones = excluded.zones
"""

LIST_SHARDS = "SELECT shard FROM terms"

LIST_TERMS = """
SELECT shard, number, incarnation, until, layout, tzdata, zones FROM terms WHERE shard < ? ORDER BY shard
"""

LIST_ZONED = """
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state
FROM schedules s INDEXED BY schedules_zoned CROSS JOIN jobs j ON j.id = s.job_id
WHERE s.zoned = 1 AND (s.job_id, s.schedule_id) > (:job_id, :schedule_id) AND s.next_at IS NOT NULL
  AND s.bucket >= :low AND s.bucket < :high AND j.state <> 'deleted'
ORDER BY s.job_id, s.schedule_id
"""

REPLAN = """
UPDATE schedules SET next_at = :next_at
WHERE job_id = :job_id AND schedule_id = :schedule_id AND watermark = :watermark AND next_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM jobs WHERE id = :job_id AND revision = :revision AND state <> 'deleted')
"""

ZONES_DONE = "UPDATE terms SET zones = tzdata WHERE shard = ?"


class Shards(Plan):
    """See `ShardsSlice`."""

    async def layout(self) -> Layout:
        return await self.look(lambda tx: find_layout(tx.db))

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> Layout:
        check_shards(shards)

        def work(tx: Transaction) -> Layout:
            at = self.read_clock(now)
            old = find_layout(tx.db)
            if old.shards == shards:
                return old
            if expected not in (None, old.version):
                raise LayoutConflict(f"layout: expected version {expected}, found {old.version}; read it again")
            new = Layout(old.version + 1, shards)
            [zones] = tx.db.execute(FIND_ZONES, (old.shards,)).fetchone()
            values = {"version": new.version, "shards": shards, "now": at, "zones": zones or ""}
            tx.db.execute(CHANGE_LAYOUT, values)
            known = {shard for (shard,) in tx.db.execute(LIST_SHARDS)}
            tx.db.executemany(END_TERM, [values | {"shard": shard} for shard in known | set(range(shards))])
            tx.hints.append(Hint("terms", at))
            return new

        return await self.write(work)

    async def list_terms(self) -> list[Term]:
        def work(tx: Transaction) -> list[Term]:
            return [Term(*row) for row in tx.db.execute(LIST_TERMS, (find_layout(tx.db).shards,))]

        return await self.read(work)  # nothing hangs on it: campaigns are decided in their own write

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        def work(tx: Transaction) -> list[ScheduleState]:
            buckets = check_layout(tx.db, term.layout, term.shard)
            job_id, schedule_id = after
            ends = {"low": buckets.start, "high": buckets.stop}
            ahead = Ahead(tx.db)
            found: list[ScheduleState] = []
            for row in tx.db.execute(LIST_ZONED, {"job_id": job_id, "schedule_id": schedule_id, **ends}):
                if len(found) == limit:
                    break
                try:
                    found.append(self.schedule_state(tx.db, row, ahead))
                except StoreUnusable:
                    continue  # reading that job tells why
            return found

        return await self.look(work)

    async def replan(
        self, term: Term, rows: Sequence[Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        def work(tx: Transaction) -> list[bool]:
            check_term(tx.db, term, self.read_clock(now))
            answers = [tx.db.execute(REPLAN, row._asdict()).rowcount == 1 for row in rows]
            if done:
                tx.db.execute(ZONES_DONE, (term.shard,))
            return answers

        return await self.write(work)
