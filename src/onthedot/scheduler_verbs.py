"""The verbs of `Scheduler`: each one is a call to the engine, on its own thread."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from onthedot.access.audit_recorder import Recorder
from onthedot.clock import Clock
from onthedot.define.check import check_job
from onthedot.define.job_function import JobFunction
from onthedot.model.errors import ArgumentsError, UnknownHandler
from onthedot.model.job import Call, Job
from onthedot.model.run import RunRecord, stored_number
from onthedot.node.engine import Engine
from onthedot.node.engine_thread import EngineThread
from onthedot.operations.run_handle import Run, run_number
from onthedot.operations.store_verbs import StoreVerbs
from onthedot.output.run_output import read_logs
from onthedot.runners.registry import Registry
from onthedot.stores.protocol import Store
from onthedot.stores.values import LogRecord, PutJob

T = TypeVar("T")


class SchedulerVerbs(StoreVerbs):
    """See `Verbs`. The engine's thread has the store; this program has handlers, whose signatures are looked at."""

    jobs: dict[str, Job]
    registry: Registry

    @abstractmethod
    def _running(self) -> EngineThread:
        """The engine; `StateError` if there is none."""

    # ── the way to the store ─────────────────────────────────────────────────────────────────────────────────

    async def _on_store(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        return await self._running().on_store(work)

    def _store_clock(self) -> Clock:
        return self._running().clock

    def _recorder(self) -> Recorder | None:
        return self._running().recorder

    def _namespace_of(self, job: str) -> str:
        return self.jobs[job].namespace if job in self.jobs else "default"

    async def _wait_for(self, run_id: int, seconds: float | None) -> RunRecord | None:
        async def wait(engine: Engine) -> RunRecord | None:
            async with asyncio.timeout(seconds):
                return await engine.ends.wait(run_id)

        return await self._running().on_engine(wait)

    def _name_of(self, function: Callable[..., Any]) -> str:
        """The job that calls this function, whatever name it was given."""
        if isinstance(function, JobFunction):
            return function.job.name
        for name, job in self.jobs.items():
            if isinstance(job.task, Call) and self.registry.get(job.task.handler).function is function:
                return name
        return str(getattr(function, "__name__", ""))

    def _check_signature(self, name: str, args: Mapping[str, Any]) -> None:
        task = self.jobs[name].task if name in self.jobs else None
        if isinstance(task, Call):
            problem = self.registry.get(task.handler).check_arguments(dict(args))
            if problem is not None:
                raise ArgumentsError(problem, subject=f"job {name!r}")

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────

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

    async def logs(self, run_id: Run | int) -> list[LogRecord]:
        async def read(engine: Engine) -> list[LogRecord]:
            outputs = None if engine.leaving is None else engine.leaving.outputs
            return await read_logs(engine.store, outputs, stored_number(run_number(run_id)))

        return await self._running().on_engine(read)
