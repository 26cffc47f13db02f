"""The client: the operations of a `Scheduler` over HTTP, on an event loop (`Client`) or without one (`BlockingClient`).

Client ──▶ requests.py   a path, a query and a body
       ──▶ connection.py the request, sent again where that is safe
       ──▶ values.py     the answer, read as the library's values; errors.py the refusal, as its errors
"""

from __future__ import annotations

import json
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from onthedot.client import values
from onthedot.client.connection import ServerConnection
from onthedot.client.requests import (
    instant_text,
    job_and_args,
    job_path,
    local_text,
    offset_text,
    pages,
    refuse_connection,
    run_body,
    run_path,
    send_many,
    written_job,
)
from onthedot.client.values import read
from onthedot.clock import SECOND, SystemClock
from onthedot.loop_thread import LoopThread
from onthedot.model.duration import Duration, format_duration, micros, parse_duration
from onthedot.model.errors import AccessDenied, DefinitionError, StoreError, UnknownJob, UnknownRun
from onthedot.model.job import Job, JobRecord, Json
from onthedot.model.policies import Rate
from onthedot.model.run import TERMINAL, AttemptRecord, RunRecord, RunState, SkipRecord
from onthedot.operations.apply import Applied, checked
from onthedot.operations.backfill import Backfill
from onthedot.operations.blocking_verbs import BlockingVerbs
from onthedot.operations.dead_letters import REPLAYED, DeadLetters, Replayed
from onthedot.operations.move_slot import To
from onthedot.operations.run_handle import Run, RunHandle, run_number, run_numbers
from onthedot.operations.run_request import OUTSIDE, Asked, check_key
from onthedot.operations.submit import check_arguments
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

if TYPE_CHECKING:
    import httpx2


T = TypeVar("T")

_ONE_WAIT = 20 * SECOND
"""The time that one request waits for the end of a run. Proxies close connections that are silent for longer."""
_RECORDS = 1_000
_LETTERS = "/api/v1/dead-letters"
_LETTERS_AT_ONCE = 1_000


class Client(Verbs):
    """The verbs of a `Scheduler` over HTTP, with the same results and the same errors.

    `url` is the server's address, and `key` an API key (`onthedot keys create`). Jobs are looked up in `namespace`. A
    key is sent to another machine only over `https://`. Plain `http://` raises `DefinitionError` unless `insecure` is
    set, because others on the network could read the key. `AccessDenied` means that the key may not do this.
    `KeyRefused` means that no valid key was sent. `StoreUnavailable` means that the server or its store cannot be
    reached.

    Requests that only read, and requests that make a run, are retried a few times with backoff. The run is still made
    only once. Use a client on one event loop, and close it or use `async with`. `transport` replaces the sockets.

    >>> from datetime import timedelta
    >>> import onthedot as otd
    >>> from onthedot.model.host_port import Listen
    >>> from onthedot.server.http_server import HttpServer
    >>> server = HttpServer("memory:", otd.Settings(), Listen(port=0), knows=None)
    >>> server.start()
    >>> nap = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)))
    >>> async with otd.Client(server.url) as client:
    ...     _ = await client.put(nap)
    ...     run = await client.submit("nap", delay="1h")
    ...     print(await run.state(), [queue.waiting for queue in await client.list_queues()])
    scheduled [1]
    >>> server.stop()
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        namespace: str = "default",
        insecure: bool = False,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.server = ServerConnection(url, key, insecure=insecure, transport=transport)
        self.namespace = namespace

    async def close(self) -> None:
        """Close the connections to the server. A second call does nothing.

        >>> client = Client("http://127.0.0.1:7411")
        >>> await client.close()
        """
        await self.server.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Client({self.server.url!r}, namespace={self.namespace!r})"

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, job: Job, *, revision: int | None = None) -> PutJob:
        said = written_job(job)
        query = {"namespace": job.namespace, "revision": revision}
        told = await self.server.ask("PUT", job_path(job.name), query=query, body=said, repeat=True)
        return read(values.put_job, told)

    async def apply(
        self, jobs: Iterable[Job], *, source: str, prune: bool = False, dry_run: bool = False, take_over: bool = False
    ) -> Applied:
        written = [written_job(job) for job in checked(jobs, source)]
        body: dict[str, Any] = {"jobs": written, "prune": prune, "dry_run": dry_run}
        body |= {"take_over": True} if take_over else {}  # an older server does not know it
        path = f"/api/v1/sources/{quote(source, safe='/')}"
        return read(values.applied, await self.server.ask("PUT", path, body=body, repeat=dry_run))

    async def remove(self, job: str) -> int:
        return int((await self.server.ask("DELETE", job_path(job), query=self._here))["cancelled"])

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        body = {"reason": reason, "until": instant_text(until, "until")}
        return read(values.paused, await self._post_job(job, "pause", body))

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        if missed not in ("none", "last", "all"):
            raise DefinitionError(f"missed: expected 'none', 'last' or 'all', got {missed!r}")
        body = {"missed": missed, "dry_run": dry_run}
        return read(values.resumed, await self._post_job(job, "resume", body, repeat=dry_run))

    async def get_job(self, job: str) -> JobRecord | None:
        try:
            told = await self.server.ask("GET", job_path(job), query=self._here)
        except UnknownJob:
            return None
        return read(values.job_record, told)

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        return [job async for job in pages(self.server, values.job_record, "/api/v1/jobs", {}, limit)]

    async def skip_next(self, job: str, *, slot: datetime | None = None, schedule: str | None = None) -> MovedSlot:
        body = {"slot": instant_text(slot, "slot"), "schedule": schedule}
        return read(values.moved_slot, await self._post_job(job, "skip-next", body, repeat=slot is not None))

    async def move_next(
        self, job: str, *, to: To, slot: datetime | None = None, schedule: str | None = None
    ) -> MovedSlot:
        where = offset_text(to) if isinstance(to, timedelta) else local_text(to, "to")
        body = {"to": where, "slot": instant_text(slot, "slot"), "schedule": schedule}
        return read(values.moved_slot, await self._post_job(job, "move-next", body))

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
        body = {
            "start": local_text(start, "start"),
            "end": local_text(end, "end"),
            "schedule": schedule,
            "dry_run": dry_run,
            "limit": limit,
        }
        return read(values.backfill, await self._post_job(job, "backfill", body, repeat=dry_run))

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────

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
        if connection is not OUTSIDE:
            refuse_connection()
        name, given = job_and_args(job, args)
        check_key(key)
        body = run_body(name, given, delay, expires) | ({"key": key} if key else {})
        return await self._new_run("/api/v1/runs", name, body, own_key=key)

    async def submit_many(
        self,
        jobs: Iterable[Asked],
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        keys: Sequence[str] = (),
        connection: Any = OUTSIDE,
    ) -> list[Run]:
        if connection is not OUTSIDE:
            refuse_connection()
        wanted = [job_and_args(job, None) for job in jobs]
        if keys and len(keys) != len(wanted):
            raise DefinitionError(f"keys: expected one for each of {len(wanted)} runs, got {len(keys)}")
        for key in keys:
            check_key(key)
        await self._check_jobs(wanted)
        token = self.server.ids.token()  # so that all of it can be sent again
        bodies = [
            run_body(name, args, delay, expires) | {"key": keys[number] if keys else f"{token}-{number}"}
            for number, (name, args) in enumerate(wanted)
        ]
        stored = await send_many(self.server, self.namespace, bodies)
        return [
            Run(run_id, job=name, created=created or not keys, verbs=self)
            for (run_id, created), (name, _) in zip(stored, wanted, strict=True)
        ]

    async def _check_jobs(self, wanted: Sequence[tuple[str, str | None]]) -> None:
        """Refuse wrong runs before any is written, if this key may read the jobs."""
        records = {}
        for name in dict.fromkeys(name for name, _ in wanted):
            try:
                told = await self.server.ask("GET", job_path(name), query=self._here)
            except AccessDenied:
                return  # this key may submit, but not read: the server checks each run
            records[name] = read(values.job_record, told)
        for name, args in wanted:
            check_arguments(records[name], args)

    async def trigger(self, job: Asked, args: Mapping[str, Any] | None = None) -> Run:
        name, given = job_and_args(job, args)
        body = {} if given is None else {"args": json.loads(given)}
        return await self._new_run(job_path(name, "trigger"), name, body)

    async def retry_run(self, run_id: RunHandle | int, *, from_step: str | None = None) -> Run:
        body = {} if from_step is None else {"from_step": from_step}
        run = await self._new_run(run_path(run_id, "retry"), "", body)
        made = await self.get_run(run)
        return Run(run.id, job="" if made is None else made.job, created=True, verbs=self)

    async def _new_run(self, path: str, name: str, body: dict[str, Any], *, own_key: str = "") -> Run:
        """Make a run. A request without a key receives a generated one, so that it can safely be sent twice."""
        headers = {} if own_key else {"Idempotency-Key": self.server.ids.token()}
        query = {} if path.startswith("/api/v1/runs/") else self._here
        told = await self.server.ask("POST", path, query=query, body=body, headers=headers, repeat=True)
        return Run(int(told["run_id"]), job=name, created=bool(told["created"]) or not own_key, verbs=self)

    async def cancel(self, run_id: RunHandle | int, *, why: str = "cancelled") -> CancelAnswer:
        try:
            told = await self.server.ask("POST", run_path(run_id, "cancel"), body={"why": why})
        except UnknownRun:
            return CancelAnswer("unknown")
        return CancelAnswer(told["answer"], None if told["state"] is None else RunState(told["state"]))

    async def get_run(self, run_id: RunHandle | int) -> RunRecord | None:
        try:
            return read(values.run_record, await self.server.ask("GET", run_path(run_id)))
        except UnknownRun:
            return None

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
        wanted = None if states is None else [str(state) for state in states]
        if wanted == []:
            return []
        more = {"state": wanted, "owner": owner, "queue": queue, "label": label, "worker": node}
        query = {**self._in_period(job, since, until), **more}
        return [run async for run in pages(self.server, values.run_record, "/api/v1/runs", query, limit)]

    async def list_skips(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[SkipRecord]:
        query = self._in_period(job, since, until)
        return [skip async for skip in pages(self.server, values.skip_record, "/api/v1/skips", query, limit)]

    async def history(self, run_id: RunHandle | int) -> list[AttemptRecord]:
        try:
            told = await self.server.ask("GET", run_path(run_id, "attempts"))
        except UnknownRun:
            return []
        return [read(values.attempt_record, one) for one in told]

    async def logs(self, run_id: RunHandle | int) -> list[LogRecord]:
        records: list[tuple[int, str]] = []
        offset: int | None = 0
        while offset is not None:
            query = {"offset": offset, "limit": _RECORDS}
            try:
                told = await self.server.ask("GET", run_path(run_id, "logs"), query=query)
            except UnknownRun:
                return []
            records += [(one["attempt"], one["text"]) for one in told["items"]]
            offset = told["next"]
        return [
            LogRecord(attempt, "".join(text for _, text in some))
            for attempt, some in groupby(records, lambda record: record[0])
        ]

    async def result(self, run_id: RunHandle | int, *, timeout: Duration | None = None) -> Json:
        length = None if timeout is None else micros(parse_duration(timeout, what="timeout"))
        clock = SystemClock()
        until = None if length is None else clock.steady() + length
        while True:
            left = _ONE_WAIT if until is None else min(_ONE_WAIT, until - clock.steady())
            if left <= 0:
                raise TimeoutError(f"run {run_number(run_id)} has not ended in time; it continues")
            query = {"wait": format_duration(left)}
            told = await self.server.ask("GET", run_path(run_id, "result"), query=query)
            if RunState(told["state"]) in TERMINAL:
                return values.result(told)

    # ── dead letters ──────────────────────────────────────────────────────────────────────────────────────────────

    async def dead_letters(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 10_000,
    ) -> list[DeadLetters]:
        query = {**self._in_period(job, since, until), "limit": limit}
        return [
            read(values.dead_letters, one) for one in await self.server.ask("GET", f"{_LETTERS}/groups", query=query)
        ]

    async def dead_runs(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        query = {**self._in_period(job, since, until), "fingerprint": fingerprint}
        return [run async for run in pages(self.server, values.run_record, _LETTERS, query, limit)]

    async def replay(self, run_id: RunHandle | int) -> Run:
        number = run_number(run_id)
        letter = await self.get_run(number)
        if letter is None:
            raise UnknownRun(f"there is no run {number}: expected one that is dead and not removed")
        told = await self._replay({"run_ids": [number]}, repeat=True)  # asked twice, it is one run
        if len(told.run_ids) != 1:
            raise StoreError(f"{self.server.url}: expected the run that replays {number}, got {told.run_ids}")
        created = not letter.settled.startswith(REPLAYED)
        return Run(told.run_ids[0], job=letter.job, created=created, verbs=self)

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
        body = {
            "job": job,
            "fingerprint": fingerprint,
            "since": instant_text(since, "since"),
            "until": instant_text(until, "until"),
            "rate": None if rate is None else {"most": rate.most, "per": format_duration(rate.per)},
            "limit": limit,
            "dry_run": dry_run,
        }
        return await self._replay(body, repeat=dry_run)

    async def _replay(self, body: dict[str, Any], *, repeat: bool) -> Replayed:
        path = f"{_LETTERS}/replay"
        return read(values.replayed, await self.server.ask("POST", path, query=self._here, body=body, repeat=repeat))

    async def discard(self, run_ids: RunHandle | int | Iterable[RunHandle | int], *, why: str = "") -> int:
        ids = run_numbers(run_ids)
        done = 0
        for first in range(0, len(ids), _LETTERS_AT_ONCE):
            done += await self._discard(ids[first : first + _LETTERS_AT_ONCE], why)
        return done

    async def _discard(self, ids: list[int], why: str) -> int:
        """Return how many were discarded. If one run is unknown, the server refuses all, so send them one by one."""
        try:
            told = await self.server.ask("POST", f"{_LETTERS}/discard", body={"run_ids": ids, "why": why})
            return int(told["discarded"])
        except UnknownRun:
            return 0 if len(ids) == 1 else sum([await self._discard([one], why) for one in ids])

    # ── nodes and queues ──────────────────────────────────────────────────────────────────────────────────────────

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        told = await self.server.ask("GET", "/api/v1/nodes", query={"all": "true"})
        return [read(values.node, one) for one in told["items"][:limit]]

    async def drain_node(self, node: str, *, draining: bool = True) -> int:
        path = f"/api/v1/nodes/{quote(node, safe='')}/drain"
        try:
            return int((await self.server.ask("POST", path, body={"draining": draining}))["incarnations"])
        except UnknownJob:  # no such node
            return 0

    async def list_terms(self) -> list[Term]:
        told = await self.server.ask("GET", "/api/v1/terms")
        return [read(values.term, one) for one in told["items"]]

    async def set_shards(self, shards: int) -> Layout:
        return read(values.layout, await self.server.ask("PUT", "/api/v1/shards", body={"shards": shards}))

    async def list_queues(self) -> list[Queue]:
        told = await self.server.ask("GET", "/api/v1/queues")
        return [read(values.queue, one) for one in told["items"]]

    async def pause_queue(self, queue: str, *, reason: str = "") -> Queue:
        return await self._post_queue(queue, "pause", {"reason": reason})

    async def resume_queue(self, queue: str) -> Queue:
        return await self._post_queue(queue, "resume", None)

    async def share_queue(self, queue: str, weights: Mapping[str, int] | None) -> Queue:
        return await self._post_queue(queue, "share", {"weights": None if weights is None else dict(weights)})

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _here(self) -> dict[str, str]:
        return {"namespace": self.namespace}

    def _in_period(
        self, job: str | None, since: datetime | str | None, until: datetime | str | None
    ) -> dict[str, str | None]:
        """Return the query for one job, or for all jobs of the namespace, between two instants."""
        return {
            "namespace": self.namespace,
            "job": job,
            "since": instant_text(since, "since"),
            "until": instant_text(until, "until"),
        }

    async def _post_job(self, job: str, action: str, body: dict[str, Any], *, repeat: bool = False) -> Any:
        return await self.server.ask("POST", job_path(job, action), query=self._here, body=body, repeat=repeat)

    async def _post_queue(self, queue: str, action: str, body: dict[str, Any] | None) -> Queue:
        path = f"/api/v1/queues/{quote(queue, safe='')}/{action}"
        told = await self.server.ask("POST", path, query={"unused": "true"}, body=body, repeat=True)
        return read(values.queue, told)


class BlockingClient(BlockingVerbs):
    """A `Client` for programs without an event loop. It has the same verbs, and each call returns when it is done.

    Verbs may be called on any thread. The first call starts a thread, and `close` ends it. After a fork, make another
    client. `submit` returns a `BlockingRun`.

    >>> import onthedot as otd
    >>> from onthedot.model.host_port import Listen
    >>> from onthedot.server.http_server import HttpServer
    >>> server = HttpServer("memory:", otd.Settings(), Listen(port=0), knows=None)
    >>> server.start()
    >>> with otd.BlockingClient(server.url) as client:
    ...     client.list_jobs()
    []
    >>> server.stop()
    """

    def __init__(self, url: str, *, key: str = "", namespace: str = "default", insecure: bool = False) -> None:
        self.client = Client(url, key=key, namespace=namespace, insecure=insecure)
        self._thread: LoopThread | None = None
        self._changing = threading.Lock()

    def close(self) -> None:
        """Close the connections and end the thread. A second call does nothing. The next verb starts another thread.

        >>> client.close()
        """
        with self._changing:
            thread, self._thread = self._thread, None
            if thread is not None:
                try:
                    thread.ask(self.client.close())
                finally:
                    thread.close()

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _door(self) -> Client:
        return self.client

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        with self._changing:
            thread = self._thread = self._thread or LoopThread()
        return thread.ask(work)
