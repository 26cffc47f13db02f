"""`Workbench`: the store under test, a clock that checks turn, and short calls for what most checks do.

Instants are seconds after `START`. The clock moves only when a check turns it. Leases go in and out as copies, as over
a network, so a check cannot depend on an object that it shares with the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from onthedot.clock import SECOND, Micros, to_datetime
from onthedot.ids import SeededIds
from onthedot.model.job import At, Call, Every, FixedDelay, Job, JobRecord, Overlap, Schedule
from onthedot.model.route import DEFAULT_QUEUE
from onthedot.model.run import ArmAnswer, Armed, Lease, NewRun, RunRecord, RunState, slot_trigger, submit_trigger
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.model.window import ScheduleState, SkipRange, Slot, Window
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node, PutJob, Reserved, ReserveRequest, Term
from onthedot_verify.contract.capabilities import Capabilities

E = TypeVar("E", bound=Exception)

START: Micros = 1_767_225_600 * SECOND  # 2026-01-01 00:00 UTC: second 0 of every check
TASK = "call:work"  # the task of the workbench's jobs, which its workers offer


@contextmanager
def raises(expected: type[E]) -> Iterator[list[E]]:
    """The body must raise this error. Yields a list that receives it."""
    caught: list[E] = []
    try:
        yield caught
    except expected as error:
        caught.append(error)
    assert caught, f"expected {expected.__name__}, but nothing was raised"


def at(seconds: float) -> Micros:
    """The instant this many seconds after the start."""
    return START + round(seconds * SECOND)


def every(seconds: float = 10, *, name: str = "s") -> Every:
    return Every(interval=timedelta(seconds=seconds), id=name)


def fixed_delay(seconds: float, *, name: str = "s") -> FixedDelay:
    return FixedDelay(delay=timedelta(seconds=seconds), id=name)


def once_at(seconds: float, *, name: str = "s") -> At:
    return At(instant=to_datetime(at(seconds)), id=name)


def window(
    start: float,
    end: float,
    slots: Iterable[float] = (),
    *,
    name: str = "s",
    next_at: float | None = None,
    late: float | None = None,
    skips: Iterable[SkipRange] = (),
    delay: float | None = None,
) -> Window:
    """A window of schedule `name`. Each slot expires `late` seconds after its instant (None: never)."""
    return Window(
        schedule_id=name,
        start=at(start),
        end=at(end),
        next_at=None if next_at is None else at(next_at),
        slots=[Slot(at(slot), None if late is None else at(slot + late)) for slot in slots],
        skips=list(skips),
        delay=None if delay is None else round(delay * SECOND),
    )


def skip(first: float, last: float, count: int, reason: str = "missed") -> SkipRange:
    return SkipRange(at(first), at(last), count, reason)


SUCCESS = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)
DEAD = Verdict(RunState.DEAD, OutcomeKind.FAILED, "no tries left", failed=True, error="boom")
LOST = Verdict(RunState.LOST, OutcomeKind.LOST, "node gone", error="node gone")
CANCELLED = Verdict(RunState.CANCELLED, OutcomeKind.FAILED, "cancelled")
VERDICTS = {verdict.state: verdict for verdict in (SUCCESS, DEAD, LOST, CANCELLED)}


def retry(due: float, *, error: str = "boom") -> Verdict:
    """The attempt failed, and the run is retried at `due`."""
    return Verdict(RunState.SCHEDULED, OutcomeKind.FAILED, "retry", at(due), failed=True, error=error)


def recover(due: float) -> Verdict:
    """The node was lost, and the run is recovered at `due`."""
    return Verdict(RunState.SCHEDULED, OutcomeKind.LOST, "recovered", at(due), recovered=True)


class Workbench:
    """One store under test.

    >>> from onthedot.stores.memory import MemoryStore
    >>> from onthedot_verify.contract import Workbench
    >>> from onthedot_verify.contract.workbench import LOST, at, every, retry, window
    >>> bench = Workbench(MemoryStore())
    >>> mail = await bench.define("mail")
    >>> node = await bench.node("a")
    >>> first = await bench.submit(mail)
    >>> [lease] = await bench.take(node)
    >>> await bench.finish(lease)
    True
    """

    def __init__(self, store: Store, capabilities: Capabilities | None = None, *, seed: int = 0) -> None:
        self.store = store
        self.capabilities = capabilities or Capabilities()
        self.ids = SeededIds(seed)
        self.now = START

    def turn(self, seconds: float) -> None:
        """Set the clock to this many seconds after the start, forward or back.

        >>> run = await bench.submit(mail, due=30)
        >>> await bench.take(node)
        []
        >>> bench.turn(30)
        >>> len(await bench.take(node))
        1
        """
        self.now = at(seconds)

    # ── jobs and plans ───────────────────────────────────────────────────────────────────────────────────────

    def job(self, *schedules: Schedule, name: str = "job", **fields: Any) -> Job:
        """Make a job, without gates unless `fields` have some.

        >>> bench.job(every(60), name="report", queue="night").queue
        'night'
        """
        fields = {"task": Call(handler="work"), "overlap": Overlap("allow"), **fields}
        return Job(name=name, schedules=schedules, **fields)

    async def put(self, job: Job, *windows: Window, expected: int | None = None) -> PutJob:
        """Store a definition with its windows.

        >>> report = bench.job(every(10), name="report")
        >>> stored = await bench.put(report, window(0, 30, [10, 20, 30], next_at=40))
        >>> stored.record.revision, await bench.slots(stored.record)
        (1, [10.0, 20.0, 30.0])
        """
        return await self.store.put_job(job, windows, expected=expected, now=self.now)

    async def define(self, name: str = "job", slots: Iterable[float] = (), **options: Any) -> JobRecord:
        """Store a job. With `slots` it has a schedule with these slots planned in (0, 60].

        >>> report = await bench.define("report", slots=[10, 20], late=5)  # each expires five seconds after its instant
        >>> [state] = await bench.store.queries.schedules_of(report.id)
        >>> (state.schedule_id, state.watermark == at(60))
        ('s', True)
        """
        late = options.pop("late", None)
        if not slots:
            return (await self.put(self.job(name=name, **options))).record
        plan = window(0, 60, slots, next_at=70, late=late)
        return (await self.put(self.job(every(), name=name, **options), plan)).record

    async def schedule(self, record: JobRecord, name: str = "s") -> ScheduleState:
        """Return the state of a schedule of a job.

        >>> report = await bench.define("report", slots=[10])
        >>> (await bench.schedule(report)).next_at == at(70)
        True
        """
        states = {state.schedule_id: state for state in await self.store.queries.schedules_of(record.id)}
        return states[name]

    async def plan(self, term: Term, record: JobRecord, *windows: Window) -> list[bool]:
        """Plan windows of a job from the current state of its schedules.

        >>> report = await bench.define("report", slots=[10])
        >>> await bench.plan(await bench.term(node), report, window(60, 90, [70, 80], next_at=100))
        [True]
        """
        pairs = [(await self.schedule(record, one.schedule_id), one) for one in windows]
        return await self.store.plan(term, pairs, now=self.now)

    async def due(self, until: float, limit: int = 100) -> list[str]:
        """List the schedules that are due, as `job/schedule`.

        >>> report = await bench.define("report", slots=[10])
        >>> await bench.due(until=69), await bench.due(until=70)
        ([], ['report/s'])
        """
        found = await self.store.due_schedules(until=at(until), limit=limit)
        return [f"{state.record.job.name}/{state.schedule_id}" for state in found.schedules]

    async def slots(self, record: JobRecord, name: str = "s") -> list[float]:
        """List the slots of a schedule that have a run, live or ended, in order.

        >>> await bench.slots(await bench.define("report", slots=[10, 20]))
        [10.0, 20.0]
        """
        runs = await self.runs(record.job.name)
        mine = [run.slot_at for run in runs if run.trigger == slot_trigger(name)]
        return sorted((slot - START) / SECOND for slot in mine)

    async def slot_run(self, record: JobRecord, slot: float, name: str = "s") -> RunRecord:
        """Return the one run of a slot.

        >>> report = await bench.define("report", slots=[10, 20])
        >>> (await bench.slot_run(report, 20)).trigger
        'schedule:s'
        """
        runs = await self.runs(record.job.name)
        [run] = [run for run in runs if (run.trigger, run.slot_at) == (slot_trigger(name), at(slot))]
        return run

    # ── nodes and terms ──────────────────────────────────────────────────────────────────────────────────────

    async def node(
        self,
        name: str = "node",
        *,
        ttl: float = 10_000,
        tasks: Iterable[str] = (TASK,),
        queues: Iterable[str] = (DEFAULT_QUEUE,),
    ) -> str:
        """Register a node with what its worker offers. Returns its incarnation.

        >>> second = await bench.node("b", ttl=15)
        >>> sorted(found.id for found in await bench.store.queries.list_nodes())
        ['a', 'b']
        """
        incarnation = f"{name}-{self.ids.token()}"
        node = Node(id=name, incarnation=incarnation, queues=tuple(queues), tasks=tuple(tasks))
        await self.store.register(node, ttl=round(ttl * SECOND), now=self.now)
        return node.incarnation

    async def term(self, incarnation: str, *, ttl: float = 10_000) -> Term:
        """Win a term. It must be free.

        >>> term = await bench.term(node, ttl=10)
        >>> term.until == at(10)
        True
        """
        term = await self.store.campaign(incarnation, ttl=round(ttl * SECOND), now=self.now)
        assert term is not None
        return term

    # ── the life of a run ────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, record: JobRecord, due: float = 0, *, key: str = "", args: str | None = None) -> int:
        """Submit a run. Returns its id.

        >>> run = await bench.submit(mail, key="order 7", args='{"order": 7}')
        >>> run == await bench.submit(mail, key="order 7", args='{"order": 7}')
        True
        """
        new = NewRun(record.id, submit_trigger(key or self.ids.token()), at(due), args)
        [run_id] = await self.store.submit([new], now=self.now)
        return run_id

    async def reserve(
        self, incarnation: str, *, seats: int = 0, ahead: int = 0, extra: int = 0, lapse: float = 0.5, **options: Any
    ) -> Reserved:
        """Reserve runs, as a worker does. The leases are copies, so the store cannot change them later.

        >>> now, later = await bench.submit(mail), await bench.submit(mail, due=1)
        >>> got = await bench.reserve(node, seats=5, ahead=5, horizon=2)
        >>> [lease.run_id for lease in got.armed] == [now], [lease.run_id for lease in got.held] == [later]
        (True, True)
        """
        horizon = round(options.pop("horizon", 0) * SECOND)
        tasks = options.pop("tasks", frozenset({TASK}))
        lease_ids = self.ids.leases(seats + ahead + extra)
        ask = ReserveRequest(
            incarnation, lease_ids, seats, ahead, extra,
            horizon=horizon, lapse=round(lapse * SECOND), tasks=tasks, **options,
        )  # fmt: skip
        got = await self.store.reserve(ask, now=self.now)
        return replace(got, armed=list(map(replace, got.armed)), held=list(map(replace, got.held)))

    async def take(self, incarnation: str, seats: int = 1) -> list[Lease]:
        """Reserve and arm due runs.

        >>> runs = [await bench.submit(mail) for _ in range(3)]
        >>> [lease.run_id for lease in await bench.take(node, seats=2)] == runs[:2]
        True
        """
        return (await self.reserve(incarnation, seats=seats)).armed

    async def hold(self, incarnation: str, ahead: int = 1, *, lapse: float = 0.5) -> list[Lease]:
        """Reserve runs that are not due yet.

        >>> run = await bench.submit(mail, due=30)
        >>> [lease] = await bench.hold(node)
        >>> lease.run_id == run, lease.fence
        (True, 0)
        """
        return (await self.reserve(incarnation, ahead=ahead, horizon=10_000, lapse=lapse)).held

    async def arm(self, *leases: Lease) -> list[ArmAnswer]:
        """Arm reservations, without gates.

        >>> run = await bench.submit(mail, due=1)
        >>> [lease] = await bench.hold(node)
        >>> [answer] = await bench.arm(lease)
        >>> answer.fence > 0
        True
        """
        return await self.store.arm(list(map(replace, leases)), now=self.now)

    async def armed(self, lease: Lease) -> Lease:
        """Arm a reservation. Returns the lease with fence, attempt and instant.

        >>> run = await bench.submit(mail, due=1)
        >>> [held] = await bench.hold(node)
        >>> lease = await bench.armed(held)
        >>> await bench.finish(lease)
        True
        """
        [answer] = await self.arm(lease)
        assert isinstance(answer, Armed), answer
        return replace(lease, fence=answer.fence, armed_at=answer.armed_at, attempt=answer.attempt)

    async def release(self, *leases: Lease) -> list[bool]:
        """Release reservations.

        >>> run = await bench.submit(mail, due=1)
        >>> leases = await bench.hold(node)
        >>> await bench.release(*leases), await bench.release(*leases)
        ([True], [False])
        """
        return await self.store.release(list(map(replace, leases)), now=self.now)

    def finished(self, lease: Lease, verdict: Verdict = SUCCESS) -> Finish:
        """What a worker sends when an attempt ends now.

        >>> runs = [await bench.submit(mail) for _ in range(2)]
        >>> batch = [bench.finished(lease) for lease in await bench.take(node, seats=2)]
        >>> await bench.store.finish(batch, now=bench.now)
        [True, True]
        """
        return Finish(replace(lease), verdict, started_at=self.now, ended_at=self.now)

    async def finish(self, lease: Lease, verdict: Verdict = SUCCESS) -> bool:
        """End an attempt now. Returns whether the store accepted that.

        >>> run = await bench.submit(mail)
        >>> [lease] = await bench.take(node)
        >>> await bench.finish(lease, retry(due=20)), str(await bench.state(run))
        (True, 'scheduled')
        """
        [accepted] = await self.store.finish([self.finished(lease, verdict)], now=self.now)
        return accepted

    async def reap(self, lease: Lease, verdict: Verdict = LOST) -> bool:
        """Take a run from a dead node. Returns whether the store accepted that.

        >>> run = await bench.submit(mail)
        >>> [lease] = await bench.take(await bench.node("b", ttl=15))
        >>> bench.turn(16)
        >>> await bench.reap(lease, LOST), await bench.finish(lease)  # the dead node comes back too late
        (True, False)
        """
        [accepted] = await self.store.reap([(replace(lease), verdict)], now=self.now)
        return accepted

    async def orphans(self, limit: int = 100) -> list[int]:
        """List the runs whose node is dead, by id.

        >>> run = await bench.submit(mail)
        >>> leases = await bench.take(await bench.node("b", ttl=15))
        >>> bench.turn(16)
        >>> await bench.orphans() == [run]
        True
        """
        return sorted(lease.run_id for lease in await self.store.orphans(limit=limit, now=self.now))

    async def expire(self, limit: int = 100) -> list[int]:
        """Skip expired runs. Returns their ids.

        >>> report = await bench.define("report", slots=[10, 20], late=5)
        >>> bench.turn(16)
        >>> await bench.expire() == [(await bench.slot_run(report, 10)).id]
        True
        """
        return sorted(run.id for run in await self.store.expire(limit=limit, now=self.now))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, run_id: int) -> RunRecord:
        """Return a run, which must exist.

        >>> (await bench.run(first)).attempts
        1
        """
        run = await self.store.queries.get_run(run_id)
        assert run is not None, f"expected run {run_id}, but it does not exist"
        return run

    async def state(self, run_id: int) -> RunState:
        """Return the state of a run.

        >>> str(await bench.state(first))
        'succeeded'
        """
        return (await self.run(run_id)).state

    async def runs(self, job: str | None = None) -> list[RunRecord]:
        """List all runs, or those of a job.

        >>> [run.id for run in await bench.runs("mail")] == [first]
        True
        """
        return await self.store.queries.list_runs(job=job, limit=100_000)

    async def everything(self) -> dict[str, object]:
        """Everything that the store shows.

        >>> seen = await bench.everything()
        >>> len(seen["jobs"]), len(seen["runs"]), len(seen["nodes"])
        (1, 1, 1)
        """
        store = self.store
        jobs = await store.queries.list_jobs()
        runs = sorted(await self.runs(), key=lambda run: run.id)
        nodes = await store.queries.list_nodes()
        holders = {node.incarnation: await store.recover(node.incarnation) for node in nodes}
        return {
            "jobs": jobs,
            "schedules": [await store.queries.schedules_of(record.id) for record in jobs],
            "runs": runs,
            "attempts": [await store.queries.list_attempts(run.id) for run in runs],
            "skips": await store.queries.list_skips(limit=100_000),
            "daily counts": await store.queries.list_daily_counts(limit=100_000),
            "nodes": nodes,
            "layout and terms": (await store.queries.get_layout(), await store.queries.list_terms()),
            "held": {who: sorted(map(replace, held), key=lambda one: one.run_id) for who, held in holders.items()},
        }

    @asynccontextmanager
    async def nothing_written(self) -> AsyncIterator[None]:
        """The body must not change anything that the store shows.

        >>> async with bench.nothing_written():
        ...     await bench.finish(lease)  # repeated after a lost answer
        True
        """
        before = await self.everything()
        yield
        after = await self.everything()
        for what, was in before.items():
            assert after[what] == was, f"expected {what} to stay the same"
