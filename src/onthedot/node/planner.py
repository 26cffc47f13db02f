"""The planner: writes runs before they are due, while this node is the leader.

Runs are planned `lookahead` (30 s) ahead, longer than a term's time-out, so that the runs of the next seconds are
in the store when a leader dies. The term fences every write; the watermark, moved by compare-and-set in the same
transaction as the runs, makes sure that each slot is planned exactly once, by any node.
"""

from __future__ import annotations

from onthedot import fault_points
from onthedot.clock import SECOND, Clock, Micros
from onthedot.loop import Service
from onthedot.model.errors import TermLost
from onthedot.model.events import ClockStepped, Events, RunsPlanned, SlotsSkipped
from onthedot.model.window import ScheduleState, Window
from onthedot.node.leadership import Leadership
from onthedot.operations.cluster import live_workers
from onthedot.rules.placement import Place, targets
from onthedot.rules.windows import aimed, find_schedule, plan_window
from onthedot.schedules import next_after
from onthedot.settings import Settings
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store
from onthedot.stores.values import Replanned, Term

MOST_SLOTS_PER_PASS = 5_000
"""How many slots one pass decides about, over all schedules: after an outage, about 20 ms of arithmetic."""
LARGEST_STEP: Micros = 300 * SECOND
"""The planner doubts a clock that jumps further ahead."""
LOOK_TWICE: Micros = SECOND
"""How long the planner waits while it doubts a clock."""


class Planner(Service):
    """Writes runs for the schedules whose next slot is near."""

    name = "planner"

    def __init__(self, store: Store, leadership: Leadership, clock: Clock, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._steps = StepGuard(clock)
        self._replanner = Replanner(store, settings)

    async def tick(self, now: Micros) -> Micros:
        """Plan the due schedules of each of our shards once."""
        terms = sorted(self._leadership.terms.values(), key=lambda term: term.shard)
        if not terms:
            return self._settings.plan_every
        ahead = self._steps.jump(now)
        if ahead:
            self._events.emit(ClockStepped(ahead))
            return LOOK_TWICE
        return min([await self._pass(term, now) for term in terms])

    async def _pass(self, term: Term, now: Micros) -> Micros:
        """Plan the due schedules of a shard once. Return the delay until the next pass."""
        try:
            if not await self._replanner.step(term):
                return 0  # before planning, the next slots must be right
            return await self._plan(term, now)
        except TermLost:
            self._leadership.lost(term)
            return self._settings.plan_every

    async def _plan(self, term: Term, now: Micros) -> Micros:
        until = now + self._settings.lookahead
        due = await self._store.due_schedules(
            until=until, limit=self._settings.batch, shard=term.shard, layout=term.layout
        )
        everywhere = any(state.record.job.on == "all" for state in due.schedules)
        places = await live_workers(self._store, now) if everywhere else []
        windows, more = self._windows(due.schedules, until, now, places)
        if not windows:
            return self._settings.plan_every
        await self._write(term, windows)
        behind = any(window.next_at is not None and window.next_at <= until for _, window in windows)
        return 0 if due.more or more or behind else self._settings.plan_every

    def _windows(
        self, schedules: list[ScheduleState], until: Micros, now: Micros, places: list[Place]
    ) -> tuple[list[tuple[ScheduleState, Window]], bool]:
        """Return the windows of one pass, and whether schedules are left for the next pass. A pass must not block the
        engine for long.
        """
        windows: list[tuple[ScheduleState, Window]] = []
        slots = 0
        for state in schedules:
            if slots > MOST_SLOTS_PER_PASS:
                return windows, True
            window = plan_window(state, until=until, now=now, late_after=self._settings.late_after)
            if window is not None:
                window = aimed(window, targets(state.record.job, places), now)
                windows.append((state, window))
                slots += len(window.slots) + sum(skip.count for skip in window.skips)
        return windows, False

    async def _write(self, term: Term, windows: list[tuple[ScheduleState, Window]]) -> None:
        fault_points.point("plan.before_write")
        answers = await self._store.plan(term, windows)
        fault_points.point("plan.after_write")
        for (state, window), written in zip(windows, answers, strict=True):
            if written:
                self._tell(state, window)

    def _tell(self, state: ScheduleState, window: Window) -> None:
        name, namespace = state.record.job.name, state.record.job.namespace
        if window.slots:
            first, last = window.slots[0].slot_at, window.slots[-1].slot_at
            self._events.emit(RunsPlanned(name, window.schedule_id, len(window.slots), first, last))
        for skip in window.skips:
            told = SlotsSkipped(name, window.schedule_id, skip.count, skip.first, skip.last, skip.reason, namespace)
            self._events.emit(told)

    def wants(self, hint: Hint) -> bool:
        """Return whether this hint is a reason to plan now."""
        return hint.kind == "schedules"


class Replanner:
    """Computes next slots again after an update of the zone data.

    A term knows which version its shard's next slots were computed with. If this node has another version, it checks
    all next slots before it plans anything, one batch at a time. New zone data may have moved a slot to before the
    instant at which the planner would check it. Runs that are planned already stay, because people have seen them.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._passed: dict[tuple[int, int], tuple[int, str]] = {}  # by shard and term: where the next batch begins
        self._done: dict[int, int] = {}  # shard → the term that has nothing left to do

    async def step(self, term: Term) -> bool:
        """Handle one batch of a shard. Return whether none is left. Raise `TermLost` as `plan` does."""
        if term.zones == term.tzdata or self._done.get(term.shard) == term.number:
            return True
        here, most = (term.shard, term.number), self._settings.batch
        seen = await self._store.queries.zoned_schedules(term, after=self._passed.get(here, (0, "")), limit=most)
        rows = [row for state in seen if (row := _anew(state)) is not None]
        done = len(seen) < most
        await self._store.replan(term, rows, done=done)
        if done:
            self._passed.pop(here, None)
            self._done[term.shard] = term.number
        else:
            self._passed[here] = (seen[-1].record.id, seen[-1].schedule_id)
        return done


def _anew(state: ScheduleState) -> Replanned | None:
    """Return the next slot by our zone data, if it differs."""
    schedule = find_schedule(state.record.job, state.schedule_id)
    if schedule is None:
        return None
    next_at = next_after(schedule, state.watermark, origin=state.origin)
    if next_at is None or next_at == state.next_at:
        return None
    return Replanned(state.record.id, state.schedule_id, state.record.revision, state.watermark, next_at)


class StepGuard:
    """Doubts a clock that jumps ahead: by such a clock the planner would skip all slots in between as missed.

    A step of more than five minutes against the steady clock is accepted after the guard has seen it three times. Time
    spent suspended is not a step, because the steady clock counts it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zero: Micros | None = None  # what the wall clock says at the steady clock's zero
        self._doubts = 0

    def jump(self, now: Micros) -> Micros:
        """Return how far the clock has jumped ahead while the jump is in doubt; otherwise 0."""
        zero = now - self._clock.steady()
        ahead = 0 if self._zero is None else zero - self._zero
        if ahead > LARGEST_STEP and self._doubts < 2:
            self._doubts += 1
            return ahead
        self._zero, self._doubts = zero, 0
        return 0
