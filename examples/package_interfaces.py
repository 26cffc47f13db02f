"""Adapts onthedot to the interfaces of a common scheduler package, with the names of that package's document.

It is for services that were written against such a package. `docs/interfaces.md` lists what each name uses. `python
package_interfaces.py` calls all of them. Where the document returns an error, the adapter raises an exception. In place
of its `context.Context`, handlers get the attempt's `otd.Context`; to cancel any other call, cancel the task that
awaits it.

A lock is a lease. `AcquireLock` registers the holder with a lease of `ttl`, like a node. The lock itself is a run: its
job has the lock's name and room for one run, and it is armed under that lease. When the time is over, any other holder
may take the lock. Calls of the late holder are refused then, because the lease is compared, not a clock. The lock named
`leader` is the planner's term.
"""
# ruff: noqa: N802 - the names are those of the document

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

JobHandler = Callable[[otd.Context], Any]  # a coroutine or a plain function; it reports an error by raising it
RetryPolicy = otd.Retry
JobStatus = JobState

LOCKS = "locks"  # the namespace and the queue of locks: no worker serves it
LEADER = "leader"


@dataclass(frozen=True)
class Schedule:
    """A cron expression, an interval or an instant: `Schedule(otd.cron("0 9 * * *"))`. It is data, so every node can
    compute it."""

    rule: Rule

    def NextRun(self, after: datetime) -> datetime | None:
        """Return the first instant after `after`; None if there is none."""
        instant = to_micros(after)
        slot = next_after(self.rule, instant, origin=instant)
        return None if slot is None else to_datetime(slot)


AnySchedule = Schedule


@dataclass(frozen=True)
class Job:
    """A scheduled task. A loaded job has a handler only if this program has registered one."""

    Name: str
    Schedule: AnySchedule | None = None
    RetryPolicy: otd.Retry = otd.Retry()  # noqa: RUF009 - frozen
    Timeout: timedelta | None = None
    Handler: JobHandler | None = None

    def options(self) -> dict[str, Any]:
        """The options of this job for `@sched.job`."""
        schedules = [] if self.Schedule is None else [self.Schedule.rule]
        return {"name": self.Name, "schedules": schedules, "retry": self.RetryPolicy, "timeout": self.Timeout}


class Scheduler:
    """Registers jobs and executes them."""

    def __init__(self, store: str | Store = "memory:") -> None:
        self.inner = otd.Scheduler(store)

    def Register(self, job: Job) -> None:
        """Define a job. Call it before `Start`."""
        if job.Handler is None:
            raise otd.DefinitionError(f"job {job.Name!r}: expected a Handler, got none")
        self.inner.job(**job.options())(named(job.Handler))

    async def Start(self) -> None:
        """Store the jobs, and start a node."""
        await self.inner.start()

    async def Stop(self) -> None:
        """Take no new work, let attempts end, and close."""
        await self.inner.stop()

    async def Pause(self, job_name: str) -> None:
        """Plan and start nothing of this job until it is resumed."""
        await self.inner.pause(job_name)

    async def Resume(self, job_name: str) -> None:
        """Resume the job, and skip the slots of the pause."""
        await self.inner.resume(job_name)

    async def Remove(self, job_name: str) -> None:
        """Delete the job, and cancel its waiting runs."""
        await self.inner.remove(job_name)


def named(handler: JobHandler) -> Callable[..., Any]:
    """Wrap the handler, so that its parameter is called `ctx`: by this name it gets the context."""
    if inspect.iscoroutinefunction(handler):

        async def call(ctx: otd.Context) -> Any:
            return await handler(ctx)

        return call
    return lambda ctx: handler(ctx)


class JobExecutor:
    """Executes a job, with its retries and its time-out. Anything that a handler raises becomes an outcome."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def Execute(self, job: Job) -> Any:
        """Run the job now, wait for its end, and return its result. Raise `otd.RunFailed` if it did not succeed."""
        run = await self._scheduler.inner.submit(job.Name)
        return await run.result()


class BackendProvider:
    """Stores jobs and locks in any store of onthedot. `handlers` are the functions of this program, by job name."""

    def __init__(self, store: Store, handlers: Mapping[str, JobHandler] | None = None) -> None:
        self.store = store
        self.held: dict[str, Lease | Term] = {}
        self._handlers = dict(handlers or {})
        self._clock = store.clock or SystemClock()
        self._settings = otd.Settings()
        self._ids = RandomIds()

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def SaveJob(self, job: Job) -> None:
        """Create or edit a job, in one transaction with its next runs. The function is not stored."""
        definition = build_job(Call(handler=job.Name), job.options())
        await put_job(self.store, definition, clock=self._clock, settings=self._settings)

    async def LoadJobs(self) -> list[Job]:
        """Return the stored jobs. Handlers come from `handlers`, by name: nothing stored is ever imported."""
        return [
            Job(one.name, Schedule(rule) if rule else None, one.retry, one.timeout, self._handlers.get(one.name))
            for one in (record.job for record in await self.store.queries.list_jobs())
            if one.namespace != LOCKS
            for rule in one.schedules[:1] or (None,)
        ]

    async def UpdateStatus(self, job_name: str, status: JobStatus) -> None:
        """Pause, resume or delete a job. The end of a run is recorded by `finish` of the store, not by a status."""
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
        """Take a lock for `ttl` and return True; return False if it is held, also by this provider."""
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
        """Release a lock. If another holder has it now, change nothing and raise `otd.LeaseLost`."""
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
        """Reserve and arm a run of the lock's job under this holder's lease. Return None if the lock is held."""
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
        """Check before anything is written. First free locks whose time is over, as the reaper of every node does."""
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
    """The job of a lock: room for one run in the whole cluster, and a lost run is not repeated."""
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
    print(await backend.AcquireLock(LEADER, half_a_minute))  # False: the scheduler has it
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
