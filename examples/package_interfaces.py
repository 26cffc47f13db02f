"""The interfaces of a common scheduler package, by the names that its document gives them, on top of onthedot.

For services that were written against such a package: `docs/interfaces.md` says name by name what stands behind each.
`python package_interfaces.py` goes through all of them. Where the document returns an error, an exception is raised;
its `context.Context` is the attempt's `otd.Context` for handlers, and elsewhere the task that awaits, which can be
cancelled.

A lock is a lease. Its holder is registered with a lease of `ttl`, as a node is; the lock itself is a run of a job of
the lock's name with room for one, armed under that lease. When the time is over anybody may take it, and what its late
holder says then is refused: the lease is compared, not a clock. The lock named `leader` is the planner's term.
"""
# ruff: noqa: N802 - the names are the document's

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import onthedot as otd
from onthedot.clock import Micros, SystemClock, to_datetime, to_micros
from onthedot.define.options import build_job
from onthedot.ids import RandomIds
from onthedot.model.duration import micros
from onthedot.model.job import Call, JobState, ability_of
from onthedot.model.job import Schedule as Rule
from onthedot.model.run import Armed, GateAsk, Lease, NewRun, submit_trigger
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.operations.job_lookup import find_job
from onthedot.operations.put_job import put_job, resume_job
from onthedot.rules import recovery
from onthedot.rules.gates import gates_of
from onthedot.schedules import next_after
from onthedot.stores.connect import open_store
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node, ReserveRequest, Term

JobHandler = Callable[[otd.Context], Any]  # a coroutine or a plain function; what it raises is the error
RetryPolicy = otd.Retry
JobStatus = JobState

LOCKS = "locks"  # the namespace and the queue of locks: no worker serves it
LEADER = "leader"


@dataclass(frozen=True)
class Schedule:
    """Cron, interval or timestamp: `Schedule(otd.cron("0 9 * * *"))`. Data, so that every node can compute it."""

    rule: Rule

    def NextRun(self, after: datetime) -> datetime | None:
        """The first instant strictly after this one; None if there is none."""
        instant = to_micros(after)
        slot = next_after(self.rule, instant, origin=instant)
        return None if slot is None else to_datetime(slot)


AnySchedule = Schedule


@dataclass(frozen=True)
class Job:
    """A scheduled task. One that was loaded has a handler only if this program has registered it."""

    Name: str
    Schedule: AnySchedule | None = None
    RetryPolicy: otd.Retry = otd.Retry()  # noqa: RUF009 - frozen
    Timeout: timedelta | None = None
    Handler: JobHandler | None = None

    def options(self) -> dict[str, Any]:
        """As `@sched.job` takes them."""
        schedules = [] if self.Schedule is None else [self.Schedule.rule]
        return {"name": self.Name, "schedules": schedules, "retry": self.RetryPolicy, "timeout": self.Timeout}


class Scheduler:
    """Manages registration and execution."""

    def __init__(self, store: str | Store = "memory:") -> None:
        self.inner = otd.Scheduler(store)

    def Register(self, job: Job) -> None:
        """Define a job, before `Start`."""
        if job.Handler is None:
            raise otd.DefinitionError(f"job {job.Name!r}: expected a Handler, got none")
        self.inner.job(**job.options())(named(job.Handler))

    async def Start(self) -> None:
        """Store the jobs, and begin."""
        await self.inner.start()

    async def Stop(self) -> None:
        """Take no new work, let attempts end, close."""
        await self.inner.stop()

    async def Pause(self, job_name: str) -> None:
        """Plan and start nothing of this job until it is resumed."""
        await self.inner.pause(job_name)

    async def Resume(self, job_name: str) -> None:
        """Let it go on, without what it has missed."""
        await self.inner.resume(job_name)

    async def Remove(self, job_name: str) -> None:
        """End it; what waits is cancelled."""
        await self.inner.remove(job_name)


def named(handler: JobHandler) -> Callable[..., Any]:
    """The same handler with a parameter that is called `ctx`, by which it is known to want one."""
    if inspect.iscoroutinefunction(handler):

        async def call(ctx: otd.Context) -> Any:
            return await handler(ctx)

        return call
    return lambda ctx: handler(ctx)


class JobExecutor:
    """Processes one execution, with the job's retries and time-out; whatever a handler raises is an outcome."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def Execute(self, job: Job) -> Any:
        """Run it now and wait for its end: what it returned; `otd.RunFailed` says why there is nothing."""
        run = await self._scheduler.inner.submit(job.Name)
        return await run.result()


class BackendProvider:
    """Persistence and locks, on any store of onthedot. `handlers` are the functions of this program, by job."""

    def __init__(self, store: Store, handlers: Mapping[str, JobHandler] | None = None) -> None:
        self.store = store
        self.held: dict[str, Lease | Term] = {}
        self._handlers = dict(handlers or {})
        self._clock = store.clock or SystemClock()
        self._settings = otd.Settings()
        self._ids = RandomIds()

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def SaveJob(self, job: Job) -> None:
        """Create it, or edit it in one transaction with the runs of its next moments. The function is not stored."""
        definition = build_job(Call(handler=job.Name), job.options())
        await put_job(self.store, definition, clock=self._clock, settings=self._settings)

    async def LoadJobs(self) -> list[Job]:
        """The stored jobs. A handler comes from `handlers`, by name: nothing stored is ever imported."""
        return [
            Job(one.name, Schedule(rule) if rule else None, one.retry, one.timeout, self._handlers.get(one.name))
            for one in (record.job for record in await self.store.queries.list_jobs())
            if one.namespace != LOCKS
            for rule in one.schedules[:1] or (None,)
        ]

    async def UpdateStatus(self, job_name: str, status: JobStatus) -> None:
        """Pause, resume or end a job. What becomes of a run is not said by status: see `finish` in the store."""
        record = await find_job(self.store, job_name)
        match status:
            case JobState.PAUSED:
                await self.store.pause_job(record.id, reason="UpdateStatus")
            case JobState.ACTIVE:
                await resume_job(self.store, record.id, missed="none", clock=self._clock, settings=self._settings)
            case JobState.DELETED:
                await self.store.delete_job(record.id)
            case _:
                raise otd.DefinitionError(f"status: expected active, paused or deleted, got {status!r}")

    # ── locks ────────────────────────────────────────────────────────────────────────────────────────────────

    async def AcquireLock(self, lock_key: str, ttl: timedelta) -> bool:
        """Take a lock for so long, if it is free; whoever has it, oneself too, is refused."""
        length = micros(ttl)
        if lock_key != LEADER and await self._is_held(lock_key):
            return False
        holder = Node(id=f"lock:{lock_key}", incarnation=self._ids.token(), roles=())
        now = (await self.store.register(holder, ttl=length)).now
        held: Lease | Term | None
        if lock_key == LEADER:
            held = await self.store.campaign(holder.incarnation, ttl=length)
        else:
            held = await self._take(lock_key, holder.incarnation, now, now + length)
        if held is None:
            await self.store.leave(holder.incarnation)
            return False
        self.held[lock_key] = held
        return True

    async def ReleaseLock(self, lock_key: str) -> None:
        """Give a lock back; `otd.LeaseLost` if it is somebody else's by now: then nothing is changed."""
        held = self.held.pop(lock_key, None)
        if held is None:
            raise otd.LeaseLost(f"lock {lock_key!r}: expected one that this provider holds; call AcquireLock first")
        if isinstance(held, Term):
            ours = await self.store.resign(held)
        else:
            released = Verdict(otd.RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)
            [ours] = await self.store.finish([Finish(held, released, held.armed_at, self._clock.now())])
        await self.store.leave(held.incarnation)
        if not ours:
            raise otd.LeaseLost(f"lock {lock_key!r}: its time was over, and somebody else has taken it since")

    async def _take(self, key: str, incarnation: str, now: Micros, until: Micros) -> Lease | None:
        """A run of the lock's job, reserved and armed under this holder's lease; None if the lock is held."""
        record = (await self.store.put_job(lock_job(key))).record
        await self.store.submit([NewRun(record.id, submit_trigger(self._ids.token()), now, expires_at=until)])
        tasks = frozenset({ability_of(record.job)})
        ask = ReserveRequest(incarnation, self._ids.leases(1), seats=1, queues=(LOCKS,), tasks=tasks)
        for lease in (await self.store.reserve(ask)).held:
            gates = {lease.lease_id: GateAsk(gates_of(lease.record, target="", arguments={}))}
            [answer] = await self.store.arm([lease], gates=gates)
            if isinstance(answer, Armed):
                return replace(lease, attempt=answer.attempt, fence=answer.fence, armed_at=answer.armed_at)
            await self.store.cancel([lease.run_id], why="the lock is held")
        return None

    async def _is_held(self, key: str) -> bool:
        """A look before anything is written. Locks whose time is over are freed, as the reaper of every node does."""
        now = self._clock.now()
        over = [one for one in await self.store.orphans(limit=500) if one.record.job.namespace == LOCKS]
        why = "its time was over"
        lost = [
            (one, recovery.decide(one.record.job, recoveries=0, now=now, why=why, due_at=one.due_at)) for one in over
        ]
        await self.store.reap(lost)
        return bool(
            await self.store.queries.list_runs(job=key, namespace=LOCKS, states=[otd.RunState.RUNNING], limit=1)
        )


def lock_job(key: str) -> otd.Job:
    """There is room for one run of it, in the whole cluster; one that is lost with its holder does not come again."""
    return otd.Job(
        name=key, namespace=LOCKS, task=Call(handler=f"lock:{key}"), queue=LOCKS,
        concurrency=otd.Limit(1), guarantee=otd.Guarantee.AT_MOST_ONCE,
    )  # fmt: skip


async def main() -> None:
    async def report(ctx: otd.Context) -> str:
        return f"report {ctx.attempt}"

    url = "sqlite:///interfaces.db"
    daily = Job("report", Schedule(otd.cron("0 9 * * *")), RetryPolicy(3), timedelta(minutes=5), report)
    print(Schedule(otd.cron("0 9 * * *")).NextRun(datetime(2027, 1, 1, 12, tzinfo=UTC)))
    scheduler = Scheduler(url)
    scheduler.Register(daily)
    await scheduler.Start()
    print(await JobExecutor(scheduler).Execute(daily))
    await scheduler.Pause("report")
    await scheduler.Resume("report")

    backend = BackendProvider(await open_store(url), {"report": report})
    print([(job.Name, job.Handler is report) for job in await backend.LoadJobs()])
    half_a_minute = timedelta(seconds=30)
    print([await backend.AcquireLock("import", half_a_minute) for _ in range(2)])
    print(await backend.AcquireLock(LEADER, half_a_minute))  # no: the scheduler has it
    await backend.ReleaseLock("import")
    await backend.SaveJob(Job("tidy", Schedule(otd.every("1h"))))
    await backend.UpdateStatus("tidy", JobStatus.PAUSED)
    await scheduler.Remove("report")
    print([job.Name for job in await backend.LoadJobs()])
    await backend.store.close()
    await scheduler.Stop()


if __name__ == "__main__":
    asyncio.run(main())
# prints: 2027-01-02 09:00:00+00:00
# prints: report 1
# prints: [('report', True)]
# prints: [True, False]
# prints: False
# prints: ['tidy']
