"""The verbs that every front door speaks, and the handle of a run that they give.

`Scheduler` implements them in this process; whatever speaks for it from elsewhere (HTTP, a portal for programs without
an event loop) offers the same verbs with the same meaning, and adds none of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from onthedot.define.calls import BoundCall
from onthedot.duration import Duration
from onthedot.job import Job, JobRecord, Json
from onthedot.plan.backfill import Backfill
from onthedot.plan.moving import To
from onthedot.plan.windows import Missed
from onthedot.run import AttemptRecord, RunRecord, RunState
from onthedot.stores.base import CancelAnswer, Excepted, Layout, LogRecord, Paused, PutJob, Resumed

Asked = str | Callable[..., Any] | BoundCall
"""What a run is asked for by: a job's name, its function, or a call of it with arguments (`report.call(…)`)."""


class Verbs(Protocol):
    """What can be asked of onthedot. Jobs are named; runs are given by id, or by their handle, which is one.

    >>> async def nightly(onthedot: Verbs) -> int:
    ...     return len(await onthedot.list_runs("report"))
    """

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, job: Job) -> PutJob:
        """Store a definition while everything runs: created, changed (a new revision) or unchanged. One transaction,
        with the runs of its next moments."""
        ...

    async def remove(self, job: str) -> int:
        """End a job; how many waiting runs were cancelled with it. Running attempts end, and are not tried again."""
        ...

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        """Stop planning and starting runs of a job, until it is resumed (by itself at `until`). Running ones go on."""
        ...

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        """Let a paused job go on. `missed` says what becomes of the slots of the pause; `dry_run` only tells."""
        ...

    async def get_job(self, job: str) -> JobRecord | None:
        """A job as it is stored, or None."""
        ...

    async def list_jobs(self, *, limit: int = 1000) -> list[JobRecord]:
        """The stored jobs, by namespace and name."""
        ...

    async def set_shards(self, shards: int) -> Layout:
        """Divide the planning of all jobs among so many nodes, of those that there are."""
        ...

    async def skip_next(self, job: str, *, slot: datetime | None = None) -> Excepted:
        """Leave out the next slot of a job, of whichever schedule; or the one that `slot` names."""
        ...

    async def move_next(self, job: str, *, to: To, slot: datetime | None = None) -> Excepted:
        """Run the next slot of a job at another instant; or the slot that `slot` names."""
        ...

    async def backfill(
        self,
        job: str,
        start: datetime | str,
        end: datetime | str,
        *,
        schedule: str | None = None,
        dry_run: bool = False,
        limit: int = 10_000,
    ) -> Backfill:
        """Run the slots of a range in the past, one run for each; `dry_run` only tells."""
        ...

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def submit(
        self,
        job: Asked,
        args: Mapping[str, Any] | None = None,
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        key: str = "",
    ) -> Run:
        """Ask for one run of a job, now or after `delay`. Stored when this returns."""
        ...

    async def submit_many(
        self,
        jobs: Iterable[Asked],
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        keys: Sequence[str] = (),
    ) -> list[Run]:
        """Ask for many runs, in as few writes as that takes; one handle each, in order."""
        ...

    async def trigger(self, job: Asked, args: Mapping[str, Any] | None = None) -> Run:
        """Ask for one run now, by hand. A run beside the schedule's own, never in place of one."""
        ...

    async def cancel(self, run_id: int, *, why: str = "cancelled") -> CancelAnswer:
        """Cancel a run: at once if it waits; if it runs, it is asked to stop."""
        ...

    async def get_run(self, run_id: int) -> RunRecord | None:
        """A run, live or finished, or None."""
        ...

    async def list_runs(
        self, job: str | None = None, *, states: Iterable[RunState] | None = None, limit: int = 100
    ) -> list[RunRecord]:
        """Live runs first, by due instant; then finished ones, newest end first."""
        ...

    async def history(self, run_id: int) -> list[AttemptRecord]:
        """The ended attempts of a run, in order."""
        ...

    async def logs(self, run_id: int) -> list[LogRecord]:
        """What the attempts of a run have logged, in order."""
        ...

    async def result(self, run_id: int, *, timeout: Duration | None = None) -> Json:
        """Wait until a run has ended, and what its handler has returned.

        `RunFailed` if it did not succeed, `UnknownRun` if there is no such run (any more), `TimeoutError` if it has not
        ended in time: then it goes on.
        """
        ...


class Run(int):
    """A run that was asked for: its id, with the verbs that can be said of it. Equal to the id, and usable as one.

    `created` is False if a run with the same key was there already.

    >>> import asyncio, onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job
    ... async def add(a: int, b: int) -> int:
    ...     return a + b
    >>> async def main() -> None:
    ...     async with sched:
    ...         run = await sched.submit(add.call(1, b=2), key="sum")
    ...         print(run.created, await run.result(timeout="10s"), str(await run.state()))
    ...         again = await sched.submit(add.call(1, b=2), key="sum")
    ...         print(again.created, again == run)
    >>> asyncio.run(main())
    True 3 succeeded
    False True
    """

    job: str
    created: bool

    def __new__(cls, run_id: int, *, job: str, created: bool, verbs: Verbs) -> Run:
        run = super().__new__(cls, run_id)
        run.__dict__.update(job=job, created=created, _verbs=verbs)
        return run

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a run's handle does not change: {name!r} cannot be set")

    @property
    def id(self) -> int:
        """The run's id, plain."""
        return int(self)

    @property
    def _asking(self) -> Verbs:
        verbs: Verbs = self.__dict__["_verbs"]
        return verbs

    async def result(self, *, timeout: Duration | None = None) -> Json:
        """Wait for the end; what the handler returned. See `Verbs.result` for what is raised if there is nothing."""
        return await self._asking.result(self.id, timeout=timeout)

    async def state(self) -> RunState | None:
        """Where the run stands; None if it is gone."""
        run = await self._asking.get_run(self.id)
        return None if run is None else run.state

    async def cancel(self, *, why: str = "cancelled") -> CancelAnswer:
        """Cancel it: at once if it waits; if it runs, it is asked to stop."""
        return await self._asking.cancel(self.id, why=why)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (self.id,)  # elsewhere, nobody is there to ask

    def __repr__(self) -> str:
        return f"Run({self.id}, job={self.job!r}, created={self.created})"

    __str__ = int.__repr__
