"""The rules of the machine for jobs, plans and nodes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
)

from onthedot.clock import SECOND
from onthedot.model.after import After
from onthedot.model.job import CatchUp, Job, JobRecord, JobState, Limit, Overlap, Rate
from onthedot.model.run import (
    Lease,
    NewRun,
    manual_trigger,
)
from onthedot.model.window import ScheduleState, SkipRange, Window
from onthedot.rules.windows import aimed, edit_windows, plan_window, resume_windows
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node, Term
from onthedot_verify.contract.workbench import (
    START,
)
from tests.contract.draws import (
    AFTERS,
    LATE,
    LIMITS,
    LOOKAHEAD,
    MORE,
    NAMES,
    NUMBER,
    OFFERS,
    OVERLAPS,
    RATES,
    SCHEDULES,
    SELDOM,
    TTLS,
)
from tests.contract.oracle import control, edits, nodes, plan, show
from tests.contract.trial import Trial, same, told

aside = precondition(lambda self: self.is_focused or self.steps % 4 == 0)
"""For less important rules. Without it the walks would have too few runs."""


class PlanningRules(RuleBasedStateMachine):
    """Rules for jobs, plans and nodes."""

    is_focused = False  # whether the walk has only a few rules

    def open_store(self, loop: asyncio.AbstractEventLoop) -> Store:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        loop = asyncio.new_event_loop()
        self.trial = Trial(self.open_store(loop), loop)
        self.store, self.bench, self.world = self.trial.store, self.trial.bench, self.trial.world
        self.do, self.both = self.trial.do, self.trial.both
        self.leases: list[Lease] = []  # all leases ever given out, newest last
        self.terms: list[Term] = []
        self.workers: list[str] = []
        self.asked = 0
        self.steps = 0

    def teardown(self) -> None:
        self.trial.close()

    @property
    def now(self) -> int:
        return self.bench.now

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def record(self, name: str) -> JobRecord | None:
        """The job as a caller reads it."""
        found, known = self.do(self.store.queries.get_job(name)), self.world.job_named(name)
        same(f"job {name}", found and told(found), known and show.job(self.world, known))
        return found

    @rule(
        name=NAMES,
        overlap=st.sampled_from(OVERLAPS),
        limit=st.sampled_from(LIMITS),
        rate=st.sampled_from(RATES),
        schedules=st.sampled_from(SCHEDULES),
        after=st.sampled_from(AFTERS),
        more=st.sampled_from(MORE),
        bent=st.integers(0, 29),
        off=st.sampled_from([0] * 8 + [1, -1, None]),
        catch_up=st.sampled_from(["last", "last", "none", "all"]),
    )
    def put(
        self, name: str, overlap: Overlap | None, limit: Limit | None, rate: Rate | None, schedules: Any,
        after: After | None, more: dict[str, Any], bent: int, off: int | None, catch_up: Any,
    ) -> None:  # fmt: skip
        """Create or edit a job, now and then with wrong windows or from another revision."""
        job = self.bench.job(
            *schedules, name=name, overlap=overlap, concurrency=limit, rate=rate, after=after,
            catch_up=CatchUp(catch_up), **more,
        )  # fmt: skip
        self._put(job, bent, off)

    @rule(
        name=NAMES, off=st.sampled_from([0] * 8 + [None, 1]), bent=st.integers(0, 29), same=SELDOM,
        more=st.sampled_from(MORE),
    )  # fmt: skip
    def edit(self, name: str, off: int | None, bent: int, same: bool, more: dict[str, Any]) -> None:
        """Change one field or none. Schedules and gates stay."""
        record = self.record(name)
        if record is not None:
            job = record.job if same else replace(record.job, **{"owner": f"team {record.revision}", **more})
            self._put(job, bent, off)

    @aside
    @rule(after=st.sampled_from(AFTERS[5:9]))
    def rewire(self, after: After | None) -> None:
        """Change the parents of a job, or how they count."""
        record = self.record("c")
        if record is not None:
            self._put(replace(record.job, after=after), 0, 0)

    def _put(self, job: Job, bent: int, off: int | None) -> None:
        record = self.record(job.name)
        states = [] if record is None else self.do(self.store.queries.schedules_of(record.id))
        known = {state.schedule_id: state for state in states}
        windows = edit_windows(job, known, now=self.now, lookahead=LOOKAHEAD, late_after=LATE)
        windows = self._bend([self._aim(job, window) for window in windows], bent)
        revision = 0 if record is None else record.revision
        expected = None if off is None else max(0, revision + off)

        def wanted(answer: Any) -> None:
            job_id = 0 if answer is None else answer.record.id
            put, change, planned, withdrawn = edits.put_job(self.world, job, windows, expected, job_id, self.now)
            assert (answer.change, answer.planned, answer.withdrawn) == (change, planned, withdrawn)
            assert (answer.record.id, answer.record.revision) == (put.id, put.revision)

        self.both(lambda: self.store.put_job(job, windows, expected=expected, now=self.now), wanted)

    def _aim(self, job: Job, window: Window) -> Window:
        """Plan one run of each slot for each living node, if the job wants that."""
        if job.on != "all":
            return window
        alive = {row.node.id for row in self.world.nodes.values() if row.is_alive(self.now) and row.node.tasks}
        return aimed(window, tuple(sorted(alive)), self.now)

    def _bend(self, windows: list[Window], bent: int) -> list[Window]:
        """Change windows as a wrong clock or an old read would."""
        match bent:
            case 1:
                return windows[1:]
            case 2:
                return [replace(window, start=window.start + SECOND) for window in windows]
            case 3:
                return [replace(window, start=window.start - SECOND) for window in windows]
            case 4:
                ahead = [SkipRange(self.now, self.now + SECOND, 2, "missed")]
                return [replace(window, skips=[*window.skips, *ahead]) for window in windows]
            case 5:
                late = [slot.slot_at for window in windows for slot in window.slots]
                return [replace(window, next_at=min([self.now, *late])) for window in windows]
        return windows

    @rule(name=NAMES, until=st.sampled_from([None, 2]), why=st.sampled_from(["once", "again"]))
    def pause(self, name: str, until: int | None, why: str) -> None:
        record = self.record(name)
        job_id = 99 if record is None else record.id
        end = None if until is None else self.now + until * SECOND

        def wanted(answer: Any) -> None:
            counts = control.pause(self.world, job_id, why, end, self.now)
            assert (answer.withdrawn, answer.skipped, answer.held) == counts

        self.both(lambda: self.store.pause_job(job_id, reason=why, until=end, now=self.now), wanted)

    @rule(
        name=NAMES,
        missed=st.sampled_from(["none", "last", "all"]),
        dry_run=SELDOM,
        overdue=SELDOM,
        bent=st.integers(0, 19),
        off=st.sampled_from([0, None, 1]),
    )
    def resume(self, name: str, missed: Any, dry_run: bool, overdue: bool, bent: int, off: int | None) -> None:
        paused = [job.name for job in self.world.jobs.values() if job.state is JobState.PAUSED]
        record = self.record((paused or [name])[0])
        if record is None:
            return
        states = self.do(self.store.queries.schedules_of(record.id))
        windows = resume_windows(states, missed=missed, now=self.now, lookahead=LOOKAHEAD, late_after=LATE)
        windows = self._bend([self._aim(record.job, window) for window in windows], bent)
        expected = None if off is None else record.revision + off

        def wanted(answer: Any) -> None:
            slots, skips, held = control.resume(
                self.world, record.id, windows, expected, self.now, overdue=overdue, dry_run=dry_run
            )
            assert sorted(answer.slots) == sorted(slots)
            assert sorted(answer.skips, key=repr) == sorted(skips, key=repr)
            assert answer.released == held

        self.both(
            lambda: self.store.resume_job(
                record.id, windows, expected=expected, overdue=overdue, dry_run=dry_run, now=self.now
            ),
            wanted,
        )

    @aside
    @rule(name=NAMES, really=SELDOM, off=st.sampled_from([0, None, 1]))
    def delete(self, name: str, really: bool, off: int | None) -> None:
        record = self.record(name)
        if record is None or not really:
            return
        expected = None if off is None else record.revision + off
        self.both(
            lambda: self.store.delete_job(record.id, expected=expected, now=self.now),
            lambda _: control.delete_job(self.world, record.id, expected, self.now),
        )

    # ── time and plans ───────────────────────────────────────────────────────────────────────────────────────────

    @rule(seconds=st.sampled_from([0.5, 1, 1, 2, 2, 3, 6, -2]))
    def turn(self, seconds: float) -> None:
        """Let time pass, and now and then set the clock back."""
        self.bench.now = max(START, self.now + round(seconds * SECOND))

    @rule(bent=st.integers(0, 19), stale=SELDOM, old=st.sampled_from([0, 0, 0, 1]))
    def plan(self, bent: int, stale: bool, old: int) -> None:
        """Plan as the planner does, now and then again with old schedules or under an old term."""
        if not self.terms:
            return
        coming = plan.due(self.world, self.now + LOOKAHEAD)
        due, more = self.do(self.store.due_schedules(until=self.now + LOOKAHEAD, limit=max(1, len(coming))))
        assert not more
        if len(coming) > 1:
            assert self.do(self.store.due_schedules(until=self.now + LOOKAHEAD, limit=1)).more
        found = [(state.next_at or 0, state.record.id, state.schedule_id) for state in due]
        same("due schedules", sorted(found), coming)
        assert [one[0] for one in found] == sorted(one[0] for one in found)
        term = self.terms[-1 - old % len(self.terms)]
        windows: list[tuple[ScheduleState, Window]] = []
        for state in due:
            window = plan_window(state, until=self.now + LOOKAHEAD, now=self.now, late_after=LATE)
            assert window is not None
            [window] = self._bend([self._aim(state.record.job, window)], bent if bent != 1 else 0)
            windows += [(state, window)] * (1 + stale)
        self.both(
            lambda: self.store.plan(term, windows, now=self.now),
            lambda _: plan.plan(self.world, term, windows, self.now),
        )

    @rule(
        name=NAMES,
        schedule=st.sampled_from(["s", "s", "z"]),
        place=st.integers(-1, 4),
        moved=st.booleans(),
        off=SELDOM,
    )
    def except_slot(self, name: str, schedule: str, place: int, moved: bool, off: bool) -> None:
        """Move or cancel a slot, planned or not, also too late or twice."""
        scheduled = [job.name for job in self.world.jobs.values() if schedule in job.schedules]
        record = self.record((scheduled or [name])[0])
        if record is None:
            return
        step = 3 * SECOND if schedule == "z" else 2 * SECOND
        slot = (self.now // step + place) * step
        expected = record.revision + off
        new = NewRun(record.id, manual_trigger(str(slot)), slot + SECOND) if moved else None

        def wanted(answer: Any) -> None:
            run = control.except_slot(
                self.world, record.id, schedule, slot, "moved" if moved else "cancelled", new, expected, self.now
            )
            self.trial.adopt([run] if run else [], [answer.run_id] if run else [])
            assert answer.slot_at == slot
            assert answer.run_id == (run.id if run else None)

        self.both(
            lambda: self.store.move_slot(
                record.id, schedule, slot, reason="moved" if moved else "cancelled", run=new, expected=expected,
                now=self.now,
            ),
            wanted,
        )  # fmt: skip

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: sum(row.is_alive(self.now) for row in self.world.nodes.values()) < 4)
    @aside
    @rule(ttl=TTLS, tasks=OFFERS, name=st.sampled_from(["w1", "w2", "w3"]))
    def register(self, ttl: int, tasks: tuple[str, ...], name: str) -> None:
        """Register a worker with all or fewer tasks. So at times no worker can start a run that has a place in a
        limit."""
        node = Node(
            name, f"{name}-{self.bench.ids.token()}", queues=("default", "slow", "fair"), labels=("gpu",), tasks=tasks,
            seats=4, tzdata="2025b" if name == "w3" else "2025a",
        )  # fmt: skip
        self._register(node, ttl)
        self.workers.append(node.incarnation)

    @aside
    @rule(number=NUMBER, ttl=TTLS)
    def register_again(self, number: int, ttl: int) -> None:
        """Register a worker again, living or not."""
        row = self.world.nodes.get(self.worker(number))
        if row is not None:
            self._register(row.node, ttl)

    def _register(self, node: Node, ttl: int) -> None:
        given = replace(node)
        self.both(
            lambda: self.store.register(given, ttl=ttl * SECOND, now=self.now),
            lambda answer: self._is_beat(answer, nodes.register(self.world, node, ttl * SECOND, self.now)),
        )

    def _is_beat(self, answer: Any, row: Any) -> None:
        assert (answer.now, answer.lease_until, answer.draining) == (self.now, row.lease_until, row.draining)
        assert sorted(answer.cancels) == nodes.cancels(self.world, row.node.incarnation)

    def worker(self, number: int) -> str:
        """The incarnation of a registered worker, most often of a new one."""
        return self.workers[-1 - number % min(len(self.workers), 4)]

    @aside
    @rule(number=NUMBER, ttl=TTLS)
    def beat(self, number: int, ttl: int) -> None:
        worker = self.worker(number)
        self.both(
            lambda: self.store.beat(worker, ttl=ttl * SECOND, now=self.now),
            lambda answer: self._is_beat(answer, nodes.beat(self.world, worker, ttl * SECOND, self.now)),
        )

    @rule(number=NUMBER, politely=SELDOM)
    def stop(self, number: int, politely: bool) -> None:
        """A worker leaves, or it dies and its lease ends."""
        worker = self.worker(number)
        if politely:
            self.both(
                lambda: self.store.leave(worker, now=self.now), lambda _: nodes.leave(self.world, worker, self.now)
            )
        elif worker in self.world.nodes and self.world.nodes[worker].ttl == 5 * SECOND:
            self.bench.now = max(self.now, self.world.nodes[worker].lease_until)

    @aside
    @rule(name=st.sampled_from(["w1", "w2"]), draining=st.sampled_from([False, False, True]))
    def drain(self, name: str, draining: bool) -> None:
        self.both(
            lambda: self.store.drain(name, draining=draining, now=self.now),
            lambda _: nodes.drain(self.world, name, draining, self.now),
        )

    @aside
    @rule(number=NUMBER, ttl=st.sampled_from([5, 60]), patience=st.sampled_from([0, 3]))
    def campaign(self, number: int, ttl: int, patience: int) -> None:
        self._campaign(self.worker(number), ttl, patience)

    def _campaign(self, worker: str, ttl: int, patience: int) -> None:
        term = self.both(
            lambda: self.store.campaign(worker, ttl=ttl * SECOND, patience=patience * SECOND, now=self.now),
            lambda answer: self._same(
                answer, nodes.campaign(self.world, worker, ttl * SECOND, patience * SECOND, self.now)
            ),
        )
        self.terms += [term] if term is not None else []

    def lead(self) -> None:
        """Make sure that there is a leader."""
        living = [name for name, row in self.world.nodes.items() if row.is_alive(self.now)]
        is_over = self.world.term is None or self.world.term.until <= self.now
        for worker in living if is_over else ():
            self._campaign(worker, 60, 0)

    @aside
    @rule(old=st.sampled_from([0, 0, 1]), ttl=st.sampled_from([None, 5, 60]))
    def renew(self, old: int, ttl: int | None) -> None:
        """Renew or resign."""
        if not self.terms:
            return
        term = self.terms[-1 - old % len(self.terms)]
        if ttl is None:
            self.both(lambda: self.store.resign(term, now=self.now), lambda _: nodes.resign(self.world, term, self.now))
            return
        self.both(
            lambda: self.store.renew(term, ttl=ttl * SECOND, now=self.now),
            lambda answer: self._same(answer, nodes.renew(self.world, term, ttl * SECOND, self.now)),
        )

    @staticmethod
    def _same(answer: object, wanted: object) -> None:
        """Compare answers that may be None."""
        assert answer == wanted, f"expected {wanted}, got {answer}"
