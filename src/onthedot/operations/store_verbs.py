"""The verbs on an open store: `Scheduler` and the front doors without an engine call the operations through them."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from onthedot.batcher import Batcher
from onthedot.model.duration import Duration
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job, JobRecord, Json
from onthedot.model.policies import Rate
from onthedot.model.run import AttemptRecord, RunRecord, RunState, SkipRecord
from onthedot.operations import cluster, dead_letters, runs, submit
from onthedot.operations import jobs as job_operations
from onthedot.operations.apply import Applied
from onthedot.operations.backfill import Backfill
from onthedot.operations.dead_letters import DeadLetters, Replayed
from onthedot.operations.move_slot import To
from onthedot.operations.run_handle import Run, RunHandle, run_number, run_numbers
from onthedot.operations.run_request import (
    OUTSIDE,
    Asked,
    RunRequest,
    SubmittedRun,
    Timing,
    given_connection,
    name_of,
    read_request,
)
from onthedot.operations.session import Session
from onthedot.operations.verbs import Verbs
from onthedot.rules.windows import Missed
from onthedot.stores.values import (
    CancelAnswer,
    Layout,
    LogRecord,
    MovedSlot,
    Node,
    Paused,
    PutJob,
    Queue,
    Resumed,
    Term,
)

P = ParamSpec("P")
T = TypeVar("T")


class StoreVerbs(Verbs):
    """See `Verbs` for what each promises. Each calls one operation with a session; a subclass provides the session."""

    _batcher: tuple[asyncio.AbstractEventLoop, Batcher[tuple[RunRequest, Timing], SubmittedRun]] | None = None

    @abstractmethod
    async def _with_session(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """Run this work with a session, on the store's event loop."""

    async def _with_session_here(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """Run this work on the caller's event loop if the store can be used there. That saves two changes of
        threads.
        """
        return await self._with_session(work)

    async def _call(
        self,
        operation: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return await self._with_session(lambda session: operation(session, *args, **kwargs))

    def _name_of(self, function: Callable[..., Any]) -> str:
        """Return the name of the job that calls this function."""
        return name_of(function)

    def _check_signature(self, job: str, args: Mapping[str, Any] | None) -> None:
        """Raise an error if a handler of this program does not take these arguments (None: the default arguments of the
        job).
        """

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, job: Job, *, revision: int | None = None) -> PutJob:
        return await self._call(job_operations.put, job, revision=revision)

    async def apply(
        self, jobs: Iterable[Job], *, source: str, prune: bool = False, dry_run: bool = False, take_over: bool = False
    ) -> Applied:
        return await self._call(
            job_operations.apply, list(jobs), source=source, prune=prune, dry_run=dry_run, take_over=take_over
        )

    async def remove(self, job: str) -> int:
        return await self._call(job_operations.remove, job)

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        return await self._call(job_operations.pause, job, reason=reason, until=until)

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        return await self._call(job_operations.resume, job, missed=missed, dry_run=dry_run)

    async def get_job(self, job: str) -> JobRecord | None:
        return await self._call(job_operations.get_job, job)

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        return await self._call(job_operations.list_jobs, limit=limit)

    async def skip_next(self, job: str, *, slot: datetime | None = None, schedule: str | None = None) -> MovedSlot:
        return await self._call(job_operations.skip_next, job, slot=slot, schedule=schedule)

    async def move_next(
        self, job: str, *, to: To, slot: datetime | None = None, schedule: str | None = None
    ) -> MovedSlot:
        return await self._call(job_operations.move_next, job, to=to, slot=slot, schedule=schedule)

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
        return await self._call(
            job_operations.backfill, job, start, end, schedule=schedule, dry_run=dry_run, limit=limit
        )

    # ── submitting runs ──────────────────────────────────────────────────────────────────────────────────────────

    async def submit(
        self,
        job: Asked,
        args: Mapping[str, Any] | None = None,
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        key: str = "",
        connection: Any = OUTSIDE,
    ) -> Run:
        request = self._request(job, args, key)
        [run] = await self._submit([request], delay, expires, connection)
        return run

    async def submit_many(
        self,
        jobs: Iterable[Asked],
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        keys: Sequence[str] = (),
        connection: Any = OUTSIDE,
    ) -> list[Run]:
        asked = list(jobs)
        if keys and len(keys) != len(asked):
            raise DefinitionError(f"keys: expected one for each of {len(asked)} runs, got {len(keys)}")
        requests = [self._request(job, None, keys[number] if keys else "") for number, job in enumerate(asked)]
        return await self._submit(requests, delay, expires, connection)

    async def trigger(self, job: Asked, args: Mapping[str, Any] | None = None) -> Run:
        return self._run(await self._call(submit.trigger, self._request(job, args)))

    async def retry_run(self, run_id: RunHandle | int, *, from_step: str | None = None) -> Run:
        return self._run(await self._call(runs.retry_run, run_number(run_id), from_step=from_step))

    async def replay(self, run_id: RunHandle | int) -> Run:
        return self._run(await self._call(dead_letters.replay, run_number(run_id)))

    def _request(self, job: Asked, args: Mapping[str, Any] | None, key: str = "") -> RunRequest:
        """Read and check a request on the caller's thread, before anything is written."""
        request = read_request(job, args, key=key, name_of=self._name_of)
        given = json.loads(request.args) if args is None and request.args is not None else args
        self._check_signature(request.job, given)
        return request

    async def _submit(
        self, requests: Sequence[RunRequest], delay: Duration | None, expires: Duration | None, connection: Any
    ) -> list[Run]:
        given, timing = given_connection(connection), Timing.read(delay, expires)
        if given is OUTSIDE and len(requests) == 1 and not requests[0].key:
            made = [await self._submits().one((requests[0], timing))]
        elif given is OUTSIDE:
            made = await self._call(submit.submit, requests, timing)
        else:
            made = await self._join(requests, timing, given)
        return [self._run(one) for one in made]

    def _submits(self) -> Batcher[tuple[RunRequest, Timing], SubmittedRun]:
        """Return the batcher of this event loop. It stores runs that are submitted at the same time with one write."""
        loop = asyncio.get_running_loop()
        if self._batcher is None or self._batcher[0] is not loop:
            self._batcher = loop, Batcher(self._submit_together)
        return self._batcher[1]

    async def _submit_together(self, asked: Sequence[tuple[RunRequest, Timing]]) -> list[SubmittedRun | Exception]:
        return await self._with_session_here(lambda session: submit.submit_together(session, asked))

    async def _join(self, requests: Sequence[RunRequest], timing: Timing, connection: Any) -> list[SubmittedRun]:
        """Submit in the transaction of this connection, on the caller's loop. The jobs are read on the store's loop."""
        joined = await self._call(submit.join_submit, requests, timing)
        made = await joined.submit(connection)
        if made is None:
            made = await (await self._call(submit.read_again, joined)).submit(connection)
        return made or []

    def _run(self, made: SubmittedRun) -> Run:
        return Run(made.id, job=made.job, created=made.created, verbs=self)

    # ── stored runs ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, run_id: RunHandle | int, *, why: str = "cancelled") -> CancelAnswer:
        return await self._call(runs.cancel, run_number(run_id), why=why)

    async def get_run(self, run_id: RunHandle | int) -> RunRecord | None:
        return await self._call(runs.get_run, run_number(run_id))

    async def list_runs(
        self,
        job: str | None = None,
        *,
        states: Iterable[RunState] | None = None,
        owner: str | None = None,
        queue: str | None = None,
        label: str | None = None,
        node: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        return await self._call(
            runs.list_runs,
            job,
            states=states,
            owner=owner,
            queue=queue,
            label=label,
            node=node,
            since=since,
            until=until,
            limit=limit,
        )

    async def list_skips(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[SkipRecord]:
        return await self._call(runs.list_skips, job, since=since, until=until, limit=limit)

    async def history(self, run_id: RunHandle | int) -> list[AttemptRecord]:
        return await self._call(runs.history, run_number(run_id))

    async def logs(self, run_id: RunHandle | int) -> list[LogRecord]:
        return await self._call(runs.logs, run_number(run_id))

    async def result(self, run_id: RunHandle | int, *, timeout: Duration | None = None) -> Json:
        return await self._call(runs.result, run_number(run_id), timeout=timeout)

    # ── dead letters ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def dead_letters(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 10_000,
    ) -> list[DeadLetters]:
        return await self._call(dead_letters.dead_letters, job, since=since, until=until, limit=limit)

    async def dead_runs(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        return await self._call(
            dead_letters.dead_runs, job, fingerprint=fingerprint, since=since, until=until, limit=limit
        )

    async def replay_many(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        rate: Rate | None = None,
        limit: int = 10_000,
        dry_run: bool = False,
    ) -> Replayed:
        return await self._call(
            dead_letters.replay_many,
            job,
            fingerprint=fingerprint,
            since=since,
            until=until,
            rate=rate,
            limit=limit,
            dry_run=dry_run,
        )

    async def discard(self, run_ids: RunHandle | int | Iterable[RunHandle | int], *, why: str = "") -> int:
        ids = run_numbers(run_ids)
        return await self._call(dead_letters.discard, ids, why=why)

    # ── the cluster ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        return await self._call(cluster.list_nodes, limit=limit)

    async def drain_node(self, node: str, *, draining: bool = True) -> int:
        return await self._call(cluster.drain_node, node, draining=draining)

    async def list_terms(self) -> list[Term]:
        return await self._call(cluster.list_terms)

    async def set_shards(self, shards: int) -> Layout:
        return await self._call(cluster.set_shards, shards)

    async def list_queues(self) -> list[Queue]:
        return await self._call(cluster.list_queues)

    async def pause_queue(self, queue: str, *, reason: str = "") -> Queue:
        return await self._call(cluster.pause_queue, queue, reason=reason)

    async def resume_queue(self, queue: str) -> Queue:
        return await self._call(cluster.resume_queue, queue)

    async def share_queue(self, queue: str, weights: Mapping[str, int] | None) -> Queue:
        return await self._call(cluster.share_queue, queue, weights)
