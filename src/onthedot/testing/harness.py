"""Runs a scheduler's own jobs on a virtual clock. Days pass in seconds, and nodes start and stop when the test tells
them.

It uses the engine of production with the same ticks, on one virtual loop instead of two threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from onthedot.clock import SECOND, Micros, to_datetime, to_micros
from onthedot.define.check import parents_first
from onthedot.ids import SeededIds
from onthedot.model.duration import Duration, micros, parse_duration
from onthedot.model.errors import DefinitionError, StateError, UnknownJob, did_you_mean
from onthedot.model.events import AttemptEnded, AttemptStarted, Event, Events, LeaseLost
from onthedot.model.run import RunRecord, RunState, SkipRecord, is_slot
from onthedot.scheduler import Scheduler
from onthedot.schedules.instants import read_instant
from onthedot.schedules.zones import zone
from onthedot.simulate.virtual_loop import VirtualClock, VirtualLoop
from onthedot.simulate.virtual_node import VirtualEngine, alone, quiet
from onthedot.stores.memory import MemoryStore, Statement, Statements
from onthedot.stores.protocol import Store
from onthedot.testing.bound_engine import BoundEngine
from onthedot.testing.event_log import EventLog
from onthedot.testing.store_wrapper import LosingStore

JobLike = str | Callable[..., Any]
"""A job: its name, or its function."""

_MOST = 1_000_000


class Harness:
    """A store, a virtual clock, and at most one node. Use it inside `run_virtual`, or through the fixture
    `otd_harness`.

    From `start` to `stop`, the scheduler counts as running. So `await sched.submit(…)` and all its other verbs work
    anywhere in the application. Coroutine handlers run on the test's loop, so `asyncio.sleep` in them takes virtual
    time. Plain functions, also those with `isolation="process"`, are called in a thread, one at a time, and take no
    virtual time.

    The store is in memory unless `store` opens another one. `connect` makes the connection that `ctx.transaction()`
    yields to handlers. The default connection records statements, and `statements` has the committed ones.

    `quiet` stops heartbeats and polls that only other nodes would need, and stops removal of old runs. A day then takes
    half a second.

    >>> import onthedot as otd
    >>> from datetime import UTC
    >>> from onthedot.clock import to_datetime
    >>> from onthedot.testing import Harness, run_virtual
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(schedule=otd.every("1m"))
    ... async def report() -> None: ...
    >>> new_year = datetime(2027, 1, 1, tzinfo=UTC)
    >>> async def main() -> None:
    ...     harness = Harness(new_year)
    ...     await harness.start(sched)
    ...     await harness.advance("7m10s")
    ...     print(len(await harness.runs("report")), len(harness.events) > 7, harness.store.clock is harness.clock)
    ...     print(harness.engine is not None, harness.statements)
    ...     print(harness.now)
    ...     await harness.stop()
    >>> run_virtual(main())
    7 True True
    True []
    2027-01-01 00:07:10+00:00
    """

    def __init__(
        self,
        at: datetime | str,
        *,
        store: Callable[[VirtualClock], Store | Awaitable[Store]] | None = None,
        connect: Callable[[], Any] = Statements,
        seed: int | str = 1,
        quiet: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise RuntimeError("a Harness needs virtual time; run it with onthedot.testing.run_virtual(…)")
        self._loop = loop
        self.clock = VirtualClock(loop, read_instant(at, what="at"))
        self._open = store or partial(MemoryStore, connect=connect)
        self._quiet = quiet
        self._store: Store | None = None
        self._line: LosingStore | None = None
        self.events: list[Event] = []
        self.event_log = EventLog(self.clock)
        self._running: set[str] = set()  # leases of attempts that have started and not ended
        self._news = asyncio.Event()
        self._ids = SeededIds(seed)
        self._engine: VirtualEngine | None = None
        self._scheduler: Scheduler | None = None
        self._only: list[str] | None = None
        self._bound: BoundEngine | None = None
        self._broken: asyncio.Task[BaseException] | None = None
        self._trouble: BaseException | None = None
        loop.set_exception_handler(self._note_trouble)

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def engine(self) -> VirtualEngine:
        """The running node."""
        if self._engine is None:
            raise StateError("no node is running; start one first")
        return self._engine

    @property
    def store(self) -> Store:
        """The store. It exists from the first `start` on, and outlives every node."""
        if self._store is None:
            raise StateError("the harness has no store yet; start a node first")
        return self._store

    @property
    def statements(self) -> list[Statement]:
        """The statements of handlers in committed transactions, in the order of the commits."""
        if not isinstance(self.store, MemoryStore):
            raise StateError("statements are noted by the memory store only")
        return list(self.store.statements)

    @property
    def now(self) -> datetime:
        """The current virtual time, in UTC."""
        return to_datetime(self.clock.now())

    # ── a node's life ────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, scheduler: Scheduler, only: Iterable[JobLike] | None = None) -> None:
        """Start a node with this program's jobs. `only` selects some of them. The other jobs are left out, and take no
        time.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     print([stored.job.name for stored in await harness.store.queries.list_jobs()])
        >>> run_virtual(main())
        ['report']
        """
        if self._engine is not None:
            raise StateError("a node is running already; stop() or crash() it first")
        if self._store is None:
            opened = self._open(self.clock)
            self._store = await opened if isinstance(opened, Awaitable) else opened
            self._line = LosingStore(self._store)
        self._only = None if only is None else [_name_of(job) for job in only]
        for name in self._only or ():
            if name not in scheduler.jobs:
                raise _no_such_job(name, scheduler.jobs)
        jobs = [
            replace(job, isolation="none")
            for job in parents_first(scheduler.jobs.values())
            if self._only is None or job.name in self._only
        ]
        settings = alone(scheduler.settings, jobs)
        # Subscribers are called at once, not on threads, so that what they raise fails the test.
        events = Events([self._take, self.event_log.hear, *(delivery.subscriber for delivery in scheduler._deliveries)])
        self._engine = VirtualEngine(
            cast(Store, self._line), self.event_log.watch(scheduler), quiet(settings) if self._quiet else settings,
            events, self.clock, self._ids,
        )  # fmt: skip
        self._scheduler = scheduler
        await self._engine.start(jobs, self._loop)
        self._broken = asyncio.create_task(self._engine.broken())
        self._bound = BoundEngine(self._engine, scheduler, self.clock, self.stop)
        self._bound.bind(scheduler)

    async def stop(self) -> None:
        """Stop the node normally. It drains, hands over and leaves.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.stop()
        ...     print(type(harness.events[-1]).__name__)
        >>> run_virtual(main())
        NodeLeft
        """
        engine = self._let_go()
        if engine is not None:
            await engine.stop(asyncio.Event())

    async def crash(self) -> None:
        """Crash the node now. It writes nothing more, and its lease ends as in production.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.crash()
        ...     await harness.advance("3d10s")
        ...     await harness.start(sched)  # of what was missed the last slot is caught up
        ...     await harness.advance("5s")
        ...     print([run.state.value for run in await harness.runs("report")])
        >>> run_virtual(main())
        ['succeeded']
        """
        engine, scheduler = self._let_go(), self._scheduler
        if engine is None or scheduler is None:
            return
        settings = scheduler.settings
        await engine.die(settings)
        self._running.clear()
        # Whoever comes next has a slow pulse, and would look for what is left only much later.
        for service, after in (("leadership", settings.term_ttl), ("reaper", settings.node_ttl)):
            self._loop.call_later((after + 1_000) / SECOND, self._wake, service)

    async def restart(self) -> None:
        """Start a new node with the same program, after `stop` or `crash`.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance("1m10s")
        ...     await harness.crash()
        ...     await harness.restart()
        ...     await harness.advance("1m")
        ...     print(len(await harness.runs("report")))
        >>> run_virtual(main())
        2
        """
        if self._scheduler is None:
            raise StateError("there was no node yet; start one first")
        await self.start(self._scheduler, self._only)

    def lose_answer(self, operation: str, *, times: int = 1) -> None:
        """Lose the answer to the next call of this operation ('reserve', 'arm', 'finish', …). The store performs the
        call.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     harness.lose_answer("finish")
        ...     await harness.advance("1m30s")
        ...     print(len(harness.starts("report")), [run.state.value for run in await harness.runs("report")])
        >>> run_virtual(main())
        1 ['succeeded']
        """
        if self._line is None:
            raise StateError("the harness has no store yet; start a node first")
        self._line.lose(operation, times)

    def _let_go(self) -> VirtualEngine | None:
        engine, self._engine = self._engine, None
        if self._bound is not None and self._scheduler is not None:
            self._bound.unbind(self._scheduler)
            self._bound = None
        if self._broken is not None:
            self._broken.cancel()
            self._broken = None
        return engine

    def _wake(self, service: str) -> None:
        if self._engine is not None:
            self._engine.wake(service)

    def close(self) -> None:
        """End the test. Everything that runs is abandoned.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     harness.close()
        >>> run_virtual(main())
        """
        engine = self._let_go()
        if engine is not None:
            engine.let_go()
        self._raise_trouble()

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def advance(self, length: Duration) -> None:
        """Advance the virtual time. Everything that is due by then, including that instant, runs in order.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance("1m30s")
        ...     print(to_datetime(harness.clock.now()))
        >>> run_virtual(main())
        2027-01-01 00:01:30+00:00
        """
        await self._pass(self.clock.now() + micros(parse_duration(length, what="advance")))

    async def advance_to(self, instant: datetime | str) -> None:
        """Advance the virtual time to this instant.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance_to(datetime(2027, 1, 1, 0, 1, 1, tzinfo=UTC))
        ...     print([run.state.value for run in await harness.runs("report")])
        >>> run_virtual(main())
        ['succeeded']
        """
        await self._pass(to_micros(read_instant(instant, what="advance_to")))

    async def _pass(self, until: Micros) -> None:
        wait = max(0, until - self.clock.now())
        if self._quiet and self._store is not None:
            await self._wake_after_pauses(until)
        await self._unless_broken(asyncio.create_task(asyncio.sleep(wait / SECOND)))
        await self._settle()

    async def _wake_after_pauses(self, until: Micros) -> None:
        """Resume jobs whose pause ends by then at that instant, and not at the next slow poll."""
        for record in await self.store.queries.list_jobs(limit=_MOST):
            if record.paused_until is not None and record.paused_until <= until:
                wait = max(0, record.paused_until - self.clock.now())
                self._loop.call_later(wait / SECOND, self._wake, "resumer")

    async def _settle(self) -> None:
        """Do everything that can be done at this instant."""
        await self._loop.settled()
        if self._quiet and self._engine is not None:
            self._engine.wake("expiry")  # else it would be up to half a minute late
            await self._loop.settled()
        self._raise_trouble()

    async def plan_once(self) -> list[RunRecord]:
        """Run one pass of the planner. Return the runs of schedules that wait for their due time after it.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     print([to_datetime(run.due_at).minute for run in await harness.plan_once()])
        >>> run_virtual(main())
        []
        """
        await self.engine.plan()
        waiting = await self.store.queries.list_runs(states=[RunState.SCHEDULED, RunState.RESERVED], limit=_MOST)
        return sorted((run for run in waiting if is_slot(run.trigger)), key=lambda run: (run.due_at, run.id))

    async def work_once(self) -> list[RunRecord]:
        """Run everything that is due now, and wait until all running attempts have ended. Return the runs that were
        tried.

        Virtual time advances only while handlers sleep.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await sched.submit("report")
        ...     print([run.state.value for run in await harness.work_once()], harness.now == new_year)
        >>> run_virtual(main())
        ['succeeded'] True
        """
        first = len(self.events)
        await self._settle()
        while self._running:
            self._news.clear()
            await self._unless_broken(asyncio.create_task(self._news.wait()))
            await self._settle()
        ended = [event.finish.lease.run_id for event in self.events[first:] if isinstance(event, AttemptEnded)]
        found = {run.id: run for run in await self.store.queries.get_runs(list(dict.fromkeys(ended)))}
        return [found[run_id] for run_id in dict.fromkeys(ended) if run_id in found]

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────

    async def runs(self, job: JobLike | None = None, state: str | Iterable[str] | None = None) -> list[RunRecord]:
        """Return the runs of a job, or of all jobs, in a state or several, ordered by the instant that they are for.

        Without `state`, slots in the future are left out.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance("2m10s")
        ...     print([to_datetime(run.slot_at).minute for run in await harness.runs("report")])
        >>> run_virtual(main())
        [1, 2]
        """
        wanted = _read_states(state)
        found = await self.store.queries.list_runs(job=await self._known(job), states=wanted, limit=_MOST)
        now = self.clock.now()
        to_come = (RunState.SCHEDULED, RunState.RESERVED)
        if wanted is None:
            found = [run for run in found if not (is_slot(run.trigger) and run.state in to_come and run.due_at > now)]
        return sorted(found, key=lambda run: (run.slot_at, run.id))

    async def skips(self, job: JobLike) -> list[SkipRecord]:
        """Return every range of a job's slots that were skipped when they were planned.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.crash()
        ...     await harness.advance("1h30s")
        ...     await harness.start(sched)
        ...     await harness.advance("20s")
        ...     print([(skip.count, skip.reason) for skip in await harness.skips("report")])
        >>> run_virtual(main())
        [(59, 'missed')]
        """
        skips = await self.store.queries.list_skips(job=await self._known(job), limit=_MOST)
        return sorted(skips, key=lambda skip: skip.first)

    def starts(self, job: JobLike | None = None, *, tz: str = "UTC") -> list[datetime]:
        """Return the times at which handlers were called, in this time zone. Every attempt counts.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance("2m")
        ...     print([str(start) for start in harness.starts("report", tz="Europe/Berlin")])
        >>> run_virtual(main())
        ['2027-01-01 01:01:00+01:00', '2027-01-01 01:02:00+01:00']
        """
        started = [event for event in self.events if isinstance(event, AttemptStarted)]
        if job is not None:
            name, known = _name_of(job), self._scheduler.jobs if self._scheduler is not None else {}
            started = [event for event in started if event.lease.record.job.name == name]
            if not started and name not in known:
                raise _no_such_job(name, known)
        return [to_datetime(event.started_at).astimezone(zone(tz)) for event in started]

    def lines(self) -> list[str]:
        """Return the lines that the node has logged so far, as `onthedot up` writes them, in UTC.

        A failing test shows them automatically, with the tracebacks of handlers below.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance("1m")
        ...     print(harness.lines()[-1])
        >>> run_virtual(main())
        2027-01-01 00:01:00.000  finished   report          run 1      succeeded in 0.0 ms
        """
        return self.event_log.lines()

    async def _known(self, job: JobLike | None) -> str | None:
        """Return the job's name. A name without a job is a mistake in the test, and raises `UnknownJob`."""
        if job is None:
            return None
        name = _name_of(job)
        known = {record.job.name for record in await self.store.queries.list_jobs(limit=_MOST)}
        known.update(self._scheduler.jobs if self._scheduler is not None else ())
        if name not in known:
            raise _no_such_job(name, known)
        return name

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────

    def _take(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case AttemptStarted(lease, _):
                self._running.add(lease.lease_id)
            case AttemptEnded(finish) | LeaseLost(finish):
                self._running.discard(finish.lease.lease_id)
                self._news.set()
            case _:
                pass

    async def _unless_broken(self, waiting: asyncio.Task[Any]) -> None:
        """Wait for this task. If the engine fails meanwhile, raise its error, so that a test never waits for ever."""
        watched = {waiting} if self._broken is None else {waiting, self._broken}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._broken is not None and self._broken.done():
            raise self._broken.result()
        self._raise_trouble()

    def _note_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an error of a callback. It is a bug, in the engine or in a subscriber, and must fail the test."""
        error = context.get("exception")
        if isinstance(error, Exception) and "future" not in context and "task" not in context:
            self._trouble = self._trouble or error
        else:
            loop.default_exception_handler(context)

    def _raise_trouble(self) -> None:
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble


# ── what tests ask for, read and checked ─────────────────────────────────────────────────────────────────────


def _name_of(job: JobLike) -> str:
    """Return the job's name."""
    return job if isinstance(job, str) else str(getattr(getattr(job, "job", None), "name", job))


def _no_such_job(name: str, known: Iterable[str]) -> UnknownJob:
    """Return an error that names the job that may have been meant."""
    return UnknownJob(f"expected a job of this scheduler, got {name!r}{did_you_mean(name, known)}")


def _read_states(state: str | Iterable[str] | None) -> list[RunState] | None:
    """Read a state or several, by name. None: all."""
    if state is None:
        return None
    names = [state] if isinstance(state, str) else list(state)
    known = [known.value for known in RunState]
    for name in names:
        if name not in known:
            raise DefinitionError(f"state: expected one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")
    return [RunState(name) for name in names]
