"""Definitions and their revisions, in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.after import check_cycle
from onthedot.clock import Micros
from onthedot.definitions import encode
from onthedot.errors import WindowStale
from onthedot.job import Job, JobRecord, JobState
from onthedot.policy.window_rules import (
    begun,
    check_added,
    check_dropped,
    check_edge,
    check_past,
    check_revision,
    runs_over,
    settle,
    without,
)
from onthedot.run import slot_trigger
from onthedot.schedules import is_grid, schedule_id
from onthedot.stores.hints import Hint
from onthedot.stores.queries import Revision
from onthedot.stores.values import Parent, PutJob
from onthedot.window import ScheduleState, Window
from tests.review.dictionaries.plan import Plan


class Jobs(Plan):
    """See `Store`."""

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> PutJob:
        now = self.read_clock(now)
        job_id = self.names.get((job.namespace, job.name))
        old = None if job_id is None else self.jobs[job_id]
        found = 0 if old is None else old.revision
        if old is not None and encode(old.job) == encode(job):  # by meaning: 1 and True are equal, and not the same
            return PutJob(old, "unchanged")
        check_revision(job.name, expected, found)
        check_cycle(job.name, job.after, lambda name: self._parent_names(job.namespace, name))
        if old is None:
            for window in windows:
                check_past(window, now)
            put = PutJob(JobRecord(len(self.jobs) + 1, 1, job, JobState.ACTIVE, now, now), "created")
        else:
            self._check_windows(old.id, job, windows, now, fenced=expected is not None)
            put = PutJob(replace(old, revision=old.revision + 1, job=job, updated_at=now), "changed")
        self.jobs[put.record.id] = put.record
        self.revisions[put.record.id].append(Revision(put.record.revision, job, now))
        self.names[job.namespace, job.name] = put.record.id
        self.dependencies.put(put.record.id, job.namespace, job.after)
        if old is not None:
            self.reroute(old.id)
        self.stand_aside(self.of_job[put.record.id].values())
        self._apply(put, windows, now)
        self.hints.send(Hint("schedules", now))
        self.hints.send(Hint("runs", now))
        return put

    def _parent_names(self, namespace: str, name: str) -> list[str]:
        job_id = self.names.get((namespace, name))
        return [] if job_id is None else [parent.name for parent in self.dependencies.parents_of(job_id)]

    async def parents_of(self, job_id: int) -> list[Parent]:
        return self.dependencies.parents_of(job_id)

    def _check_windows(self, job_id: int, job: Job, windows: Sequence[Window], now: Micros, *, fenced: bool) -> None:
        grids = {schedule_id(schedule): is_grid(schedule) for schedule in job.schedules}
        surviving = self.schedules[job_id].keys() & grids.keys()
        for name in self.schedules[job_id].keys() - surviving:
            state, closing = self.schedules[job_id][name], next((w for w in windows if w.schedule_id == name), None)
            if fenced and (job_id, name) not in self.delays:
                check_dropped(name, state.watermark, state.next_at, closing, now)
        for window in windows:
            check_past(window, now)
            self.check_exceptions(job_id, window, now)
            edge = self._edge(job_id, window.schedule_id, now)
            if window.schedule_id in surviving:
                check_edge(window, edge, now)
            elif window.schedule_id in grids:
                check_added(window, now, grid=grids[window.schedule_id])

    def check_exceptions(self, job_id: int, window: Window, now: Micros) -> None:
        """`WindowStale` if the window was computed without an exception that its schedule has."""
        state = self.schedules[job_id].get(window.schedule_id)
        if state is not None and runs_over(window, state.exceptions):
            raise WindowStale(
                f"schedule {window.schedule_id!r}: a range of skips runs over an exception; read it again",
                watermark=state.watermark,
                now=now,
            )

    def _apply(self, put: PutJob, windows: Sequence[Window], now: Micros) -> None:
        record = put.record
        kept = {schedule_id(schedule): schedule for schedule in record.job.schedules}
        stored = self.schedules.setdefault(record.id, {})
        given = {window.schedule_id: window for window in windows}
        for name, state in stored.items():
            state.record = record
            edge = self._edge(record.id, name, now) if name in kept else now
            put.withdrawn += self._withdraw(record.id, name, edge)
        armed: set[Micros] = set()
        for dropped in [name for name in stored if name not in kept]:
            left = self.runs_of(record.id, slot_trigger(dropped))
            armed |= {run.key.slot_at for run in left if run.key.slot_at > now}
            closing = given.get(dropped)
            if closing is not None and closing.start == stored[dropped].watermark:
                self.record_skips(stored[dropped], settle(closing, stored[dropped].exceptions), now)
            ahead = [one for one in stored[dropped].exceptions if one.recorded and one.slot_at > now]
            self.dropped_ahead[record.id, dropped] = tuple(ahead)  # it may come back
            del stored[dropped]
            self.delays.pop((record.id, dropped), None)
            self.armed_to.pop((record.id, slot_trigger(dropped)), None)
        for name in sorted(kept.keys() & given.keys()):
            delay = given[name].delay
            self.delays.pop((record.id, name), None)
            if delay is not None:
                self.delays[record.id, name] = delay
            if name in stored:
                put.planned += self._continue(stored[name], given[name], now)
            else:
                late = put.change == "changed" and is_grid(kept[name])
                window = begun(given[name], now) if late else given[name]
                put.planned += self._begin(record, without(window, armed), now)

    def _begin(self, record: JobRecord, window: Window, now: Micros) -> int:
        """Create a schedule. Of a paused job nothing is planned: resuming it gives its slots their fates."""
        first = window.slots[0].slot_at if window.slots else window.next_at
        state = ScheduleState(record, window.schedule_id, window.start, window.start, first, None)
        state.exceptions = self.dropped_ahead.pop((record.id, window.schedule_id), ())
        self.schedules[record.id][window.schedule_id] = state
        return 0 if record.state is JobState.PAUSED else self.apply_window(state, window, now)

    def _edge(self, job_id: int, name: str, now: Micros) -> Micros:
        """W: the later of now and the newest slot ever armed. What survives is not withdrawn up to it."""
        trigger = slot_trigger(name)
        armed = [run.key.slot_at for run in self.runs_of(job_id, trigger) if run.attempt]
        ended = [
            key.slot_at
            for key, run_id in self.keys.items()
            if (key.job_id, key.trigger) == (job_id, trigger)
            and run_id in self.finished
            and self.finished[run_id].attempts
        ]
        return max([now, self.armed_to.get((job_id, trigger), now), *armed, *ended])

    def _withdraw(self, job_id: int, name: str, edge: Micros) -> int:
        never_armed = [run for run in self.runs_of(job_id, slot_trigger(name)) if not run.attempt]
        withdrawn = [run for run in never_armed if run.key.slot_at > edge]
        for run in withdrawn:
            self.withdraw(run)
        return len(withdrawn)

    def _continue(self, state: ScheduleState, window: Window, now: Micros) -> int:
        """Go on with a schedule that survives an edit."""
        edge = self._edge(state.record.id, state.schedule_id, now)
        if window.delay is not None:
            self._await_end(state, window.delay, edge)
            return 0
        if state.record.state is JobState.PAUSED:
            state.watermark = min(state.watermark, edge)
            return 0
        if state.watermark < edge and state.next_at is not None and state.next_at <= edge:
            return 0  # the planner is behind: it catches up from here under the new rule
        slots = [slot for slot in window.slots if slot.slot_at > edge]
        skips = [skip for skip in window.skips if skip.first > edge]
        ahead = replace(window, end=max(window.end, edge), slots=slots, skips=skips)
        return self.apply_window(state, ahead, now)

    def _await_end(self, state: ScheduleState, delay: Micros, edge: Micros) -> None:
        """The next slot of a fixed delay: after the open run's end, or after the last one's."""
        open_runs = self.runs_of(state.record.id, slot_trigger(state.schedule_id))
        next_at = edge if state.last_end is None else max(edge, state.last_end + delay)
        state.watermark = min(state.watermark, edge)
        self.expect(state, None if open_runs else next_at)

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        job_id = self.names.get((namespace, name))
        return None if job_id is None else self.shown_job(self.jobs[job_id])

    def shown_job(self, record: JobRecord) -> JobRecord:
        """Exhausted is not stored but seen: no schedule will yield again, and no run of theirs is open."""
        states = self.schedules[record.id].values()
        if record.state is not JobState.ACTIVE or not states or any(s.next_at is not None for s in states):
            return record
        if any(self.runs_of(record.id, slot_trigger(state.schedule_id)) for state in states):
            return record
        return replace(record, state=JobState.EXHAUSTED)

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        return [replace(state) for _, state in sorted(self.schedules.get(job_id, {}).items())]
