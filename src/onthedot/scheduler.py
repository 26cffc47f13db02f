"""Defines the scheduler of a program: it defines jobs, starts, submits and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from onthedot.clock import Clock, SystemClock
from onthedot.define.check import check_job, parents_first
from onthedot.define.job_function import Define, JobFunction
from onthedot.define.options import HandlerOptions, ProgramOptions, build_job, show_options
from onthedot.ids import Ids, RandomIds
from onthedot.model.errors import ArgumentsError, DefinitionError, DuplicateJob, StateError, UnknownHandler
from onthedot.model.events import Events, Subscriber
from onthedot.model.job import Call, Job
from onthedot.model.task import Command, Source, Step, Steps
from onthedot.node.engine import Engine
from onthedot.node.engine_thread import EngineThread
from onthedot.observe.event_delivery import Delivery, EventBuffer
from onthedot.operations.known_jobs import KnownJobs
from onthedot.operations.put_job import refuse_without
from onthedot.operations.session import Session
from onthedot.operations.store_verbs import StoreVerbs
from onthedot.runners.context import Context
from onthedot.runners.hooks import Hooks
from onthedot.runners.registry import Handler, Registry, importable
from onthedot.runners.secrets import Provider
from onthedot.settings import Settings
from onthedot.stores.connect import has_transactions
from onthedot.stores.protocol import Store
from onthedot.stores.values import PutJob

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _words(given: Sequence[str]) -> tuple[str, ...]:
    """Return a list of texts as a tuple. A single text is returned unchanged, because the checks of a definition refuse
    it."""
    return given if isinstance(given, str) else tuple(given)  # type: ignore[return-value]  # said there


class Scheduler(StoreVerbs):
    """A node of onthedot inside a Python program. The store is given by its URL (or as an object, in tests).

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(schedule=otd.cron("0 9 1 1 *"), timeout="20m")
    ... async def report(region: str = "eu") -> str:
    ...     return f"all is well in {region}"
    >>> async with sched:
    ...     run = await sched.submit(report.call(region="us"))
    ...     print(await run.result(timeout="10s"))
    all is well in us
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
        self._deliveries: list[Delivery] = []
        self._thread: EngineThread | None = None
        self._known: KnownJobs | None = None
        self._stopping: EngineThread | None = None

    # ── define ───────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def job(self, function: Callable[Concatenate[Context, P], R], /) -> JobFunction[Concatenate[Context, P], P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> JobFunction[P, P, R]: ...
    @overload
    def job(self, function: None = None, /, **options: Unpack[HandlerOptions]) -> Define: ...

    @show_options(HandlerOptions)
    def job(self, function: Callable[..., Any] | None = None, /, **options: Unpack[HandlerOptions]) -> Any:
        """Define a job by decorating its handler: a coroutine or a plain function.

        A first parameter named `ctx` receives a `Context`. The options are keyword arguments, such as `name` (default:
        the name of the function), `schedule` or `schedules`, `after`, `args`, `retry`, `timeout`, and the hooks
        `on_success`, `on_failure` and `on_dead`. `HandlerOptions` explains each option.

        The result is still the function. It also has `call(…)` to submit it: see `JobFunction`.

        >>> @sched.job(schedule=otd.every("10s"), retry=otd.Retry(5, on=(ConnectionError,)), overlap="skip")
        ... def refresh(ctx: otd.Context, table: str = "prices") -> None: ...
        >>> sched.jobs["refresh"].retry.attempts
        5
        """

        given: object = function  # whatever the annotation says, people pass a schedule
        if given is not None and not callable(given):
            raise DefinitionError(
                "job: expected a function, or options by their names as in @sched.job(schedule=otd.every('10s')), "
                f"got {given!r}"
            )

        def define(handler: Callable[..., Any]) -> JobFunction[Any, Any, Any]:
            own = handler.function if isinstance(handler, JobFunction) else handler  # defined elsewhere, too
            name = str(options.get("name") or getattr(own, "__name__", ""))
            self._check_new(name)
            hooks = self.registry.hooks
            job = build_job(Call(handler=name), {**hooks.without(options), "name": name})
            refuse_without(has_transactions(self.store), job)
            if job.isolation == "process":
                importable(own)  # or it is refused
            handles = Handler.of(name, own)
            if problem := handles.check_guarantee(job.guarantee) or handles.check_keys(job):
                raise DefinitionError(problem, subject=f"job {name!r}")
            registered = self.registry.add(name, own)
            self.registry.learn(job)
            hooks.take(name, options)
            self.jobs[name] = job
            return JobFunction(own, registered, job)

        return define if function is None else define(function)

    def add(self, job: Job) -> Job:
        """Define a job from a `Job` value. If the job calls a handler, the handler must be registered.

        >>> from datetime import timedelta
        >>> nap = otd.Sleep(duration=timedelta(seconds=1))
        >>> job = sched.add(otd.Job(name="nap", task=nap, schedules=(otd.every("1h"),)))
        >>> sorted(sched.jobs)
        ['nap', 'report']
        """
        check_job(job)
        refuse_without(has_transactions(self.store), job)
        self._check_new(job.name)
        problem = self.registry.check(job)
        if problem is not None:
            raise UnknownHandler(f"job {job.name!r}: {problem}")
        self.registry.learn(job)
        self.jobs[job.name] = job
        return job

    @show_options(ProgramOptions)
    def command(
        self,
        name: str,
        argv: Sequence[str] = (),
        *,
        script: str = "",
        directory: str = "",
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        **options: Unpack[ProgramOptions],
    ) -> Job:
        """Define a job that runs a program. Give its arguments (`argv`), or a text for `/bin/sh -e` (`script`).

        The program runs in its own workspace, and succeeds with exit code 0. `env` is added to a small clean
        environment. `directory` is inside the workspace, or an absolute path. `ProgramOptions` explains the options.

        >>> backup = sched.command("backup", ["pg_dump", "--file=all.sql"], schedule="@daily", isolation="sandbox")
        >>> backup.task.argv, backup.isolation
        (('pg_dump', '--file=all.sql'), 'sandbox')
        >>> sched.command("count", script="ls | wc -l", timeout="1m", retry=otd.Retry(3, on=("onthedot.ExitCode.75",)))
        ... # doctest: +ELLIPSIS
        Job(name='count', task=Command(argv=(), script='ls | wc -l', ...
        """
        task = Command(argv=_words(argv), script=script, directory=directory, env=dict(env or {}), stdin=stdin)
        return self.add(build_job(task, {**options, "name": name}))

    @show_options(ProgramOptions)
    def steps(
        self,
        name: str,
        steps: Sequence[Step],
        *,
        env: Mapping[str, str] | None = None,
        source: Source | str | None = None,
        artifacts: Sequence[str] = (),
        **options: Unpack[ProgramOptions],
    ) -> Job:
        """Define a job of several programs that run in order, in one workspace.

        `source` is checked out first: a `Source`, or the URL of a git repository. Files that match `artifacts` are kept
        when the last step has ended. If another worker takes over the run, it continues after the last finished step.
        `ProgramOptions` explains the options.

        >>> nightly = sched.steps(
        ...     "nightly",
        ...     [otd.Step(name="build", argv=("make",)), otd.Step(name="mourn", script="cat log", when="failure")],
        ...     source="https://example.org/shop.git", artifacts=["dist/*.whl"], schedule="0 2 * * *",
        ... )
        >>> [step.name for step in nightly.task.steps]
        ['build', 'mourn']
        """
        checkout = Source(git=source) if isinstance(source, str) else source
        task = Steps(steps=tuple(steps), env=dict(env or {}), source=checkout, artifacts=_words(artifacts))
        return self.add(build_job(task, {**options, "name": name}))

    def add_file(self, path: str | Path) -> list[Job]:
        """Define the jobs of a YAML file. `docs/guides/files.md` explains the format.

        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "jobs.yaml")
        >>> _ = file.write_text("jobs: [{name: tidy, schedule: every 1h, run: rm -f *.tmp}]")
        >>> [job.name for job in sched.add_file(file)]
        ['tidy']
        """
        from onthedot.define.job_reader import read_file  # loaded by who has one

        return [self.add(job) for job in read_file(Path(path))]

    def _check_new(self, name: str) -> None:
        if self._thread is not None:
            raise StateError(f"job {name!r}: expected to be defined before start(); define it earlier")
        if name in self.jobs:
            raise DuplicateJob(f"job {name!r} is defined already in this program; choose another name with name=…")

    @property
    def hooks(self) -> Hooks:
        """The functions that are called after attempts of any job: `@sched.hooks.on_dead`, `on_failure`, `on_success`.

        >>> @sched.hooks.on_dead
        ... async def tell(ended: otd.Ended) -> None:
        ...     print(f"run {ended.run_id} of {ended.job} has failed for good: {ended.error}")
        """
        return self.registry.hooks

    def secrets_from(self, provider: Provider) -> None:
        """Add a provider of secrets. Tasks ask it after the environment, files and the store. Call this before `start`.

        See `onthedot.runners.secrets.Provider`.

        >>> class Vault:
        ...     name = "the vault"
        ...     async def get(self, namespace: str, name: str) -> str | None:
        ...         return None  # ask it
        >>> sched.secrets_from(Vault())
        """
        if self._thread is not None:
            raise StateError("secrets_from: expected to be called before start(); call it earlier")
        if not callable(getattr(provider, "get", None)) or not isinstance(getattr(provider, "name", None), str):
            raise DefinitionError(
                f"provider: expected an object with a name and 'async def get', got {type(provider).__name__}"
            )
        self.registry.providers.append(provider)

    def subscribe(self, subscriber: Subscriber | EventBuffer) -> None:
        """Call a function with each event of this node, in order (see `onthedot.model.events`). Use it before `start`.

        The function is called on its own thread, and cannot harm the engine. If it is slow and more than 10,000 events
        wait, further events are dropped, and it receives `EventsLeftOut` with their number. If it raises an error, the
        error is logged, and the function still receives the next event. `stop` waits up to two seconds for the function
        to receive the last events. An `EventBuffer` is only filled, and the program that created it reads it.

        >>> told: list[str] = []
        >>> sched.subscribe(lambda event: told.append(type(event).__name__))
        >>> async with sched:
        ...     pass
        >>> told[0], told[-1]
        ('NodeJoined', 'NodeLeft')
        """
        if self._thread is not None:
            raise StateError("subscribe: expected to be called before start(); call it earlier")
        if isinstance(subscriber, EventBuffer):
            self._events.subscribe(subscriber.take)
            return
        if not callable(subscriber):
            raise DefinitionError(f"subscriber: expected a function that takes an event, got {subscriber!r}")
        delivery = Delivery(subscriber, self._clock)
        self._deliveries.append(delivery)
        self._events.subscribe(delivery.take)

    # ── run ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Open the store, store the jobs, and start the node. Coroutine handlers run on this event loop.

        >>> await sched.start()
        >>> len(await sched.list_jobs())
        1
        >>> await sched.stop()
        """
        if self._thread is not None:
            raise StateError("the scheduler is running already; stop it before you start it again")
        for job in self.jobs.values():
            problem = self.registry.check(job)
            if problem is not None:
                raise ArgumentsError(problem, subject=f"job {job.name!r}")
        jobs = parents_first(self.jobs.values())
        thread = EngineThread(
            self.store, self.registry, self.settings, self._events, self._clock, self._ids, self._deliveries
        )
        self._thread = thread
        try:
            await thread.start(jobs)
        except BaseException:  # cancelled while it started, too: its thread must not stay, and `start` may come again
            self._thread = None
            thread.give_up()
            raise

    async def stop(self) -> None:
        """Stop the node. It takes no new work, waits up to `settings.grace` for its attempts, hands over, and closes
        the store.

        >>> await sched.start()
        >>> await sched.stop()
        >>> await sched.stop()  # twice is fine
        """
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._stopping = thread
            await thread.stop()

    def stop_now(self) -> None:
        """Stop waiting for attempts. Call this while `stop` is waiting.

        >>> import asyncio
        >>> await sched.start()
        >>> _ = await asyncio.gather(sched.stop(), asyncio.to_thread(sched.stop_now))
        """
        thread = self._thread or self._stopping
        if thread is not None:
            thread.hurry()

    async def broken(self) -> None:
        """Wait until the engine fails, and raise its error. Returns if the engine is stopped normally.

        >>> import asyncio
        >>> async with sched:
        ...     broken = asyncio.create_task(sched.broken())
        ...     done, waiting = await asyncio.wait({broken}, timeout=0.01)  # beside whatever else ends your program
        ...     print(broken in done)
        False
        """
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

    # ── the verbs: each is an operation on the engine's loop ─────────────────────────────────────────────────────

    async def put(self, job: Job, *, revision: int | None = None) -> PutJob:
        check_job(job)
        problem = self.registry.check(job)
        if problem is not None:
            raise UnknownHandler(f"job {job.name!r}: {problem}")

        async def work(engine: Engine) -> PutJob:
            return await engine.put_job(job, revision=revision)

        put = await self._running().on_engine(work)
        self.jobs[job.name] = job
        return put

    async def _with_session(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        return await self._running().on_engine(lambda engine: work(self._session(engine)))

    async def _with_session_here(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        return await self._running().on_any_loop(lambda engine: work(self._session(engine)))

    def _session(self, engine: Engine) -> Session:
        if self._known is None or self._known.store is not engine.store:
            self._known = KnownJobs(engine.store)
        return Session(
            store=engine.store,
            clock=engine.clock,
            settings=self.settings,
            ids=self._ids,
            events=self._events,
            ends=engine.ends,
            known=self._known,
            outputs=None if engine.output is None else engine.output.outputs,
            recorder=engine.recorder,
            jobs=self.jobs,
        )

    def _name_of(self, function: Callable[..., Any]) -> str:
        """Return the name of the job that calls this function."""
        if not isinstance(function, JobFunction):
            for name, job in self.jobs.items():
                if isinstance(job.task, Call) and self.registry.get(job.task.handler).function is function:
                    return name
        return super()._name_of(function)

    def _check_signature(self, job: str, args: Mapping[str, Any] | None) -> None:
        own = self.jobs.get(job)
        if own is not None and isinstance(own.task, Call):
            problem = self.registry.get(own.task.handler).check_arguments(dict(own.args if args is None else args))
            if problem is not None:
                raise ArgumentsError(problem, subject=f"job {job!r}")


def ping_engine(scheduler: Scheduler, answer: Callable[[], None]) -> None:
    """Call `answer` on the event loop of the scheduler's engine, as a sign that the loop runs. Without an engine, call
    it at once."""
    thread = scheduler._thread or scheduler._stopping
    if thread is None:
        answer()
    else:
        thread.ping(answer)
