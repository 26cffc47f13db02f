"""The embeddable front door: define jobs, start, submit, stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar, overload

from onthedot.clock import Clock, Micros, SystemClock, to_micros
from onthedot.define.arguments import encode_arguments
from onthedot.define.check import check_job, parents_first
from onthedot.define.options import build_job
from onthedot.duration import Duration, micros, parse_duration
from onthedot.engine_thread import EngineThread
from onthedot.errors import ArgumentsError, DefinitionError, DuplicateJob, StateError, UnknownHandler
from onthedot.events import Events, Subscriber
from onthedot.ids import Ids, RandomIds
from onthedot.job import Call, Job, JobRecord
from onthedot.plan.asking import find_job, submit_run
from onthedot.plan.controls import resume_job
from onthedot.plan.moving import To, except_next
from onthedot.plan.windows import Missed
from onthedot.run import RunRecord, manual_trigger, submit_trigger
from onthedot.settings import Settings
from onthedot.stores.base import CancelAnswer, Excepted, Paused, Resumed, Store
from onthedot.tasks.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])


class Scheduler:
    """A node of onthedot inside a Python program, on a store given by its URL (or as an object, in tests).

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(schedule=otd.every("10s"), timeout="5s")
    ... async def tick() -> None: ...
    >>> sched.jobs["tick"].timeout
    datetime.timedelta(seconds=5)
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///onthedot.db",
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.jobs: dict[str, Job] = {}
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self.registry = Registry()
        self._events = Events()
        self._thread: EngineThread | None = None

    # ── define ───────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def job(self, function: F, /) -> F: ...
    @overload
    def job(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...

    def job(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Define a job by decorating its handler: a coroutine or a plain function.

        A first parameter named `ctx` receives a `Context`. Options: name (default: the function's), schedule or
        schedules, after, args, retry, timeout, catch_up, overlap, concurrency, rate, guarantee, max_recoveries,
        namespace, owner.
        """

        def define(handler: F) -> F:
            name = str(options.get("name") or getattr(handler, "__name__", ""))
            self._check_new(name)
            job = build_job(Call(handler=name), {**options, "name": name})
            self.registry.add(name, handler)
            self.jobs[name] = job
            return handler

        return define if function is None else define(function)

    def add(self, job: Job) -> Job:
        """Define a job from a `Job` value. Its handler, if it calls one, must be registered."""
        check_job(job)
        self._check_new(job.name)
        problem = self.registry.check(job)
        if problem is not None:
            raise UnknownHandler(f"job {job.name!r}: {problem}")
        self.jobs[job.name] = job
        return job

    def _check_new(self, name: str) -> None:
        if self._thread is not None:
            raise StateError(f"job {name!r}: expected to be defined before the scheduler starts; move it up")
        if name in self.jobs:
            raise DuplicateJob(f"job {name!r} is defined already in this program; choose another name with name=…")

    def subscribe(self, subscriber: Subscriber) -> None:
        """Be told of every event, on the engine's thread. Subscribe before `start`."""
        self._events.subscribe(subscriber)

    # ── run ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Open the store, store the jobs, and begin. Handlers that are coroutines run on this event loop."""
        if self._thread is not None:
            raise StateError("the scheduler is running already; stop it before you start it again")
        for job in self.jobs.values():
            problem = self.registry.check(job)
            if problem is not None:
                raise ArgumentsError(problem, subject=f"job {job.name!r}")
        jobs = parents_first(self.jobs.values())
        thread = EngineThread(self.store, self.registry, self.settings, self._events, self._clock, self._ids)
        self._thread = thread
        try:
            await thread.start(jobs)
        except BaseException:
            self._thread = None
            thread.give_up()
            raise

    async def stop(self) -> None:
        """Drain: take no new work, let attempts end (up to `settings.grace`), hand over, close."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._stopping = thread
            await thread.stop()

    def stop_now(self) -> None:
        """Do not wait any longer for attempts: called while `stop` is waiting."""
        thread = self._thread or getattr(self, "_stopping", None)
        if thread is not None:
            thread.hurry()

    async def broken(self) -> None:
        """Wait until the engine breaks, and raise what broke it. Returns if it is stopped in order."""
        error = await asyncio.shield(self._running().ended)
        if error is not None:
            raise error

    async def __aenter__(self) -> Scheduler:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _running(self) -> EngineThread:
        if self._thread is None:
            raise StateError("the scheduler is not running; call start() first, or use 'async with'")
        return self._thread

    # ── ask ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        """Stop planning and starting runs of a job, until it is resumed (by itself at `until`). Running ones go on."""
        at = None if until is None else to_micros(until)

        async def work(store: Store) -> Paused:
            return await store.pause((await self._stored(store, job)).id, reason=reason, until=at)

        return await self._running().on_store(work)

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        """Let a paused job go on. `missed` says what becomes of the slots of the pause; `dry_run` only tells."""
        if missed not in ("none", "last", "all"):
            raise DefinitionError(f"missed: expected 'none', 'last' or 'all', got {missed!r}")

        async def work(store: Store) -> Resumed:
            job_id = (await self._stored(store, job)).id
            clock = self._running().clock
            return await resume_job(store, job_id, missed=missed, clock=clock, settings=self.settings, dry_run=dry_run)

        return await self._running().on_store(work)

    async def delete(self, job: str) -> int:
        """End a job; how many waiting runs were cancelled with it. Running attempts end, and are not tried again."""

        async def work(store: Store) -> int:
            return await store.delete_job((await self._stored(store, job)).id)

        return await self._running().on_store(work)

    async def cancel(self, run_id: int, *, why: str = "cancelled") -> CancelAnswer:
        """Cancel a run: at once if it waits; if it runs, it is asked to stop."""

        async def work(store: Store) -> CancelAnswer:
            [answer] = await store.cancel([run_id], why=why)
            return answer

        return await self._running().on_store(work)

    async def skip_next(self, job: str, *, slot: datetime | None = None) -> Excepted:
        """Leave out the next slot of a job, of whichever schedule; or the one that `slot` names.

        The slot is skipped(cancelled), whatever is edited or paused until then; all others stay as they are. One that
        has begun is left alone: `SlotSettled`. Called twice, it leaves out two; with `slot` it is the same one.

        >>> import asyncio, onthedot as otd
        >>> sched = otd.Scheduler("memory:")
        >>> @sched.job(schedule=otd.cron("0 9 1 1 *"))
        ... async def report() -> None: ...
        >>> async def main() -> None:
        ...     async with sched:
        ...         skipped = await sched.skip_next("report")
        ...         print(f"{skipped.slot:%d %B %H:%M}", skipped.reason, skipped.run_id)
        >>> asyncio.run(main())
        01 January 09:00 cancelled None
        """
        return await self._except(job, slot, None)

    async def move_next(self, job: str, *, to: To, slot: datetime | None = None) -> Excepted:
        """Run the next slot of a job at another instant; or the slot that `slot` names. Which one, and the run's id.

        `to` is an instant; or a timedelta or text like "+2h", counted from the slot; or "now". ISO text without an
        offset is in the schedule's own zone. The slot is skipped(moved), and a run by hand takes its place in the same
        write. A slot that has begun is left alone: `SlotSettled`. A fixed delay goes on from the new instant. Called
        twice, it moves two slots; with `slot` the second call says where the first one went.

        >>> import asyncio, onthedot as otd
        >>> sched = otd.Scheduler("memory:")
        >>> @sched.job(schedule=otd.cron("0 9 1 1 *"))
        ... async def report() -> None: ...
        >>> async def main() -> None:
        ...     async with sched:
        ...         moved = await sched.move_next("report", to="+2h")
        ...         run = await sched.get_run(moved.run_id)
        ...         print(f"{moved.slot:%H:%M}", moved.reason, (run.due_at - moved.slot_at) // 1_000_000)
        >>> asyncio.run(main())
        09:00 moved 7200
        """
        return await self._except(job, slot, to)

    async def _except(self, job: str, slot: datetime | None, to: To | None) -> Excepted:
        trigger = manual_trigger(self._ids.token())

        async def work(store: Store) -> Excepted:
            job_id = (await self._stored(store, job)).id
            return await except_next(store, job_id, slot=slot, to=to, trigger=trigger, clock=self._clock)

        return await self._running().on_store(work)

    async def trigger(self, job: str | Callable[..., Any], args: Mapping[str, Any] | None = None) -> int:
        """Ask for one run now, by hand; its id. A run beside the schedule's own, never in place of one."""
        return await self._ask_for(job, args, manual_trigger(self._ids.token()), 0)

    async def _stored(self, store: Store, job: str) -> JobRecord:
        namespace = self.jobs[job].namespace if job in self.jobs else "default"
        return await find_job(store, job, namespace=namespace, known=self.jobs)

    async def submit(
        self,
        job: str | Callable[..., Any],
        args: Mapping[str, Any] | None = None,
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        key: str = "",
    ) -> int:
        """Ask for one run of a job, now or after `delay`; its id. Stored when this returns.

        With a `key` it is asked for once, however often this is called: the same key and arguments give the same
        run, other arguments raise `KeyConflict`. A run that has not started when it `expires` (counted from its due
        instant) is skipped.
        """
        wait = 0 if delay is None else micros(parse_duration(delay, what="delay"))
        lives = None if expires is None else micros(parse_duration(expires, what="expires"))
        if len(key) > 200:
            raise DefinitionError(f"key: expected at most 200 characters, got {len(key)}: {key[:40]!r}…")
        return await self._ask_for(job, args, submit_trigger(self._ids.token()), wait, key, lives)

    async def _ask_for(
        self,
        job: str | Callable[..., Any],
        args: Mapping[str, Any] | None,
        trigger: str,
        wait: Micros,
        key: str = "",
        lives: Micros | None = None,
    ) -> int:
        name = job if isinstance(job, str) else self._name_of(job)
        text = None if args is None else encode_arguments(args, subject=f"job {name!r}")
        if name in self.jobs:
            self._check_arguments(name, self.jobs[name].args if args is None else args)

        async def insert(store: Store) -> int:
            record = await self._stored(store, name)
            clock = self._running().clock
            return await submit_run(
                store, record, trigger=trigger, clock=clock, args=text, wait=wait, key=key, lives=lives
            )

        return await self._running().on_store(insert)

    def _name_of(self, function: Callable[..., Any]) -> str:
        """The job that calls this function, whatever name it was given."""
        for name, job in self.jobs.items():
            if isinstance(job.task, Call) and self.registry.get(job.task.handler).function is function:
                return name
        return str(getattr(function, "__name__", ""))

    def _check_arguments(self, name: str, args: Mapping[str, Any]) -> None:
        task = self.jobs[name].task
        if isinstance(task, Call):
            problem = self.registry.get(task.handler).check_arguments(dict(args))
            if problem is not None:
                raise ArgumentsError(problem, subject=f"job {name!r}")

    async def get_run(self, run_id: int) -> RunRecord | None:
        """A run, live or finished."""

        async def read(store: Store) -> RunRecord | None:
            return await store.get_run(run_id)

        return await self._running().on_store(read)
