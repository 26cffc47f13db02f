"""From schedules to runs, in dictionaries."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from onthedot.clock import Micros
from onthedot.job import JobState
from onthedot.policy.window_rules import forget_before, recorded_in, runs_over, settle, skipped_ahead
from onthedot.run import SkipRecord, slot_trigger
from onthedot.stores.hints import Hint
from onthedot.stores.values import Due, NextSchedules, ScheduleCursor, Term
from onthedot.window import FateAhead, ScheduleState, Window
from tests.review.dictionaries.tables import RunKey, Skip, Tables


class Plan(Tables):
    """See `Store`."""

    async def due_schedules(self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> Due:
        self.check_layout(layout, shard)
        kept: set[tuple[Micros, int, str]] = set()
        due: list[ScheduleState] = []
        while self.coming and self.coming[0][0] <= until and len(due) <= limit:
            entry = heapq.heappop(self.coming)
            state = self._expected(*entry)
            if state is None or entry in kept:
                continue  # it has moved on, or is in it twice
            kept.add(entry)
            if self.is_in_shard(state.record.id, shard):
                due.append(state)
        for entry in kept:
            heapq.heappush(self.coming, entry)
        return Due([replace(state) for state in due[:limit]], more=len(due) > limit)

    async def next_schedules(
        self,
        *,
        until: Micros,
        limit: int,
        namespaces: Sequence[str] | None = None,
        owner: str | None = None,
        after: ScheduleCursor | None = None,
    ) -> NextSchedules:
        ahead = sorted({entry for entry in self.coming if entry[0] <= until and (after is None or entry > after)})
        expected = ((entry, self._expected(*entry)) for entry in ahead)
        wanted = (
            (entry, state)
            for entry, state in expected
            if state is not None and (namespaces is None or state.record.job.namespace in namespaces)
            and owner in (None, state.record.job.owner)
        )  # fmt: skip
        found = list(islice(wanted, limit + 1))
        following = ScheduleCursor(*found[limit - 1][0]) if len(found) > limit else None
        return NextSchedules([replace(state) for _, state in found[:limit]], following)

    def _expected(self, next_at: Micros, job_id: int, schedule_id: str) -> ScheduleState | None:
        """The schedule that an entry is for, if that is still its next slot and its job is active."""
        state = self.schedules[job_id].get(schedule_id)
        current = state is not None and state.next_at == next_at and self.jobs[job_id].state is JobState.ACTIVE
        return state if current else None

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        now = self.read_clock(now)
        self.check_term(term, now)
        return [self._plan_one(seen, window, now) for seen, window in windows]

    def _plan_one(self, seen: ScheduleState, window: Window, now: Micros) -> bool:
        stored = self.schedules.get(seen.record.id, {}).get(window.schedule_id)
        record = self.jobs[seen.record.id]
        if stored is None or stored.watermark != window.start:
            return False
        if record.revision != seen.record.revision or record.state is not JobState.ACTIVE:
            return False
        if runs_over(window, stored.exceptions):
            return False
        self.apply_window(stored, window, now)
        return True

    def apply_window(self, state: ScheduleState, window: Window, now: Micros) -> int:
        """Insert a window's runs and skips and move the watermark; how many runs are new."""
        before = self.last_run
        trigger = slot_trigger(state.schedule_id)
        window = settle(window, state.exceptions)
        for slot in window.slots:
            for target in window.targets:
                key = RunKey(state.record.id, trigger, slot.slot_at, target)
                self.insert(key, due_at=slot.due, now=now, expires_at=slot.expires_at, args=slot.args)
        self.record_skips(state, window, now)
        self._keep_exceptions(state, window, now)
        state.watermark = window.end
        self.expect(state, window.next_at)
        if window.slots:
            self.hints.send(Hint("runs", min(slot.due for slot in window.slots)))
        return self.last_run - before

    def record_skips(self, state: ScheduleState, window: Window, now: Micros) -> None:
        """Record ranges; one that continues the schedule's last range, with nothing between, makes it longer."""
        job_id, job = state.record.id, state.record.job
        edge = window.start
        fated = [*(slot.slot_at for slot in window.slots), *(one.slot_at for one in state.exceptions)]
        for skip in window.skips:
            entry = SkipRecord(job.name, state.schedule_id, skip.first, skip.last, skip.count, skip.reason, now)
            before = self._last_skip(job_id, state.schedule_id)
            apart = any(edge < slot < skip.first for slot in fated)
            if before is not None and (before.shown.last, before.shown.reason) == (edge, skip.reason) and not apart:
                self.skips.remove(before)
                entry = replace(entry, first=before.shown.first, count=before.shown.count + skip.count)
            self.last_skip += 1
            self.skips.append(Skip(self.last_skip, job_id, entry))
            edge = skip.last
        newest = skipped_ahead(window, now)
        if newest is not None:
            self.hold_edge((job_id, slot_trigger(state.schedule_id)), newest)

    def note_exception(self, state: ScheduleState, fate: FateAhead) -> None:
        """Remember a slot whose fate was given ahead."""
        others = [one for one in state.exceptions if one.slot_at != fate.slot_at]
        state.exceptions = tuple(sorted((*others, fate)))

    def _keep_exceptions(self, state: ScheduleState, window: Window, now: Micros) -> None:
        """Note which exceptions the window has recorded, and forget those of long ago."""
        recorded, gone = recorded_in(window, state.exceptions), forget_before(window.end, now)
        kept = [one for one in state.exceptions if one.slot_at > gone]
        state.exceptions = tuple(one._replace(recorded=one.recorded or one.slot_at in recorded) for one in kept)

    def _last_skip(self, job_id: int, schedule_id: str) -> Skip | None:
        mine = (skip for skip in self.skips if skip.job_id == job_id and skip.shown.schedule_id == schedule_id)
        return max(mine, key=lambda skip: skip.shown.last, default=None)
