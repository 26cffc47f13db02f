"""Layouts, and schedules whose zone data changed, in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import Micros
from onthedot.errors import LayoutConflict
from onthedot.job import JobState
from onthedot.shards import check_shards, zoned_ids
from onthedot.stores.hints import Hint
from onthedot.stores.values import Layout, Replanned, Term
from onthedot.window import ScheduleState
from tests.review.dictionaries.tables import Tables


class Shards(Tables):
    """See `Store`."""

    async def layout(self) -> Layout:
        return self.current_layout

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> Layout:
        now = self.read_clock(now)
        check_shards(shards)
        old = self.current_layout
        if old.shards == shards:
            return old
        if expected not in (None, old.version):
            raise LayoutConflict(f"layout: expected version {expected}, found {old.version}; read it again")
        self.current_layout = new = Layout(old.version + 1, shards)
        known = {term.zones for shard, term in self.terms.items() if shard < old.shards}
        zones = known.pop() if len(known) == 1 else ""
        for shard in {*self.terms, *range(shards)}:
            number = self.terms[shard].number if shard in self.terms else 0
            self.terms[shard] = Term(shard, number, "", now, new.version, "", zones)
            self.term_ttls.setdefault(shard, 0)
        self.hints.send(Hint("terms", now))
        return new

    async def list_terms(self) -> list[Term]:
        shards = self.current_layout.shards
        return [replace(term) for shard, term in sorted(self.terms.items()) if shard < shards]

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        self.check_layout(term.layout, term.shard)
        found = [
            ((job_id, name), state)
            for job_id in self.jobs_of(term.shard)
            for name, state in self.schedules[job_id].items()
            if (job_id, name) > after and name in zoned_ids(state.record.job) and state.next_at is not None
        ]
        return [replace(state) for _, state in sorted(found, key=lambda entry: entry[0])[:limit]]

    async def replan(
        self, term: Term, rows: Sequence[Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        self.check_term(term, self.read_clock(now))
        answers = [self._replan_one(row) for row in rows]
        if done:
            self.terms[term.shard].zones = self.terms[term.shard].tzdata
        return answers

    def _replan_one(self, row: Replanned) -> bool:
        state = self.schedules.get(row.job_id, {}).get(row.schedule_id)
        record = self.jobs.get(row.job_id)
        if state is None or record is None or record.state is JobState.DELETED:
            return False
        if (record.revision, state.watermark) != (row.revision, row.watermark) or state.next_at is None:
            return False
        self.expect(state, row.next_at)
        return True
