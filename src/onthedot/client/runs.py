"""The verbs about runs, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NoReturn

from onthedot.client import values
from onthedot.client.asking import Asking, said_instant, said_length
from onthedot.client.bulk import send_many
from onthedot.client.values import read
from onthedot.clock import SECOND, SystemClock
from onthedot.define.arguments import encode_arguments
from onthedot.define.calls import BoundCall, JobFunction
from onthedot.model.duration import Duration, format_duration, micros, parse_duration
from onthedot.model.errors import AccessDenied, DefinitionError, RunFailed, UnknownJob, UnknownRun
from onthedot.model.job import Json
from onthedot.model.run import TERMINAL, AttemptRecord, RunRecord, RunState, SkipRecord
from onthedot.operations.run_handle import Run, run_number
from onthedot.operations.submit import check_arguments
from onthedot.operations.verbs import OUTSIDE, Asked
from onthedot.stores.values import CancelAnswer, LogRecord

_ONE_WAIT = 20 * SECOND
"""How long one request waits for an end: proxies end those that are silent for longer."""
_RECORDS = 1_000


class RunsAsked(Asking):
    """See `Verbs`."""

    # ── asking for them ──────────────────────────────────────────────────────────────────────────────────────

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
            _refuse_connection()
        name, given = _wanted(job, args)
        _check_key(key)
        body = _body(name, given, delay, expires) | ({"key": key} if key else {})
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
            _refuse_connection()
        wanted = [_wanted(job, None) for job in jobs]
        if keys and len(keys) != len(wanted):
            raise DefinitionError(f"keys: expected one for each of {len(wanted)} runs, got {len(keys)}")
        for key in keys:
            _check_key(key)
        await self._check(wanted)
        token = self.server.ids.token()  # so that all of it can be sent again
        bodies = [
            _body(name, args, delay, expires) | {"key": keys[number] if keys else f"{token}-{number}"}
            for number, (name, args) in enumerate(wanted)
        ]
        stored = await send_many(self.server, self.namespace, bodies)
        return [
            Run(run_id, job=name, created=created or not keys, verbs=self)
            for (run_id, created), (name, _) in zip(stored, wanted, strict=True)
        ]

    async def _check(self, wanted: Sequence[tuple[str, str | None]]) -> None:
        """Refuse all of it before anything is written, as far as this key lets one look at the jobs."""
        records = {}
        for name in dict.fromkeys(name for name, _ in wanted):
            try:
                told = await self.server.ask("GET", self._of_job(name), query={"namespace": self.namespace})
            except AccessDenied:
                return  # who may submit, and not read: the server looks at each
            records[name] = read(values.job_record, told)
        for name, args in wanted:
            check_arguments(records[name], args)

    async def trigger(self, job: Asked, args: Mapping[str, Any] | None = None) -> Run:
        name, given = _wanted(job, args)
        body = {} if given is None else {"args": json.loads(given)}
        return await self._new_run(self._of_job(name, "trigger"), name, body)

    async def retry_run(self, run_id: Run | int, *, from_step: str | None = None) -> Run:
        body = {} if from_step is None else {"from_step": from_step}
        run = await self._new_run(self._of_run(run_id, "retry"), "", body)
        made = await self.get_run(run)
        return Run(run.id, job="" if made is None else made.job, created=True, verbs=self)

    async def _new_run(self, path: str, name: str, body: dict[str, Any], *, own_key: str = "") -> Run:
        """Whoever has no key of their own is given one: sent twice, it is one run."""
        headers = {} if own_key else {"Idempotency-Key": self.server.ids.token()}
        query = {} if path.startswith("/api/v1/runs/") else {"namespace": self.namespace}
        told = await self.server.ask("POST", path, query=query, body=body, headers=headers, repeat=True)
        return Run(int(told["run_id"]), job=name, created=bool(told["created"]) or not own_key, verbs=self)

    # ── runs that exist ──────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, run_id: Run | int, *, why: str = "cancelled") -> CancelAnswer:
        try:
            told = await self.server.ask("POST", self._of_run(run_id, "cancel"), body={"why": why})
        except UnknownRun:
            return CancelAnswer("unknown")
        return CancelAnswer(told["answer"], None if told["state"] is None else RunState(told["state"]))

    async def get_run(self, run_id: Run | int) -> RunRecord | None:
        try:
            return read(values.run_record, await self.server.ask("GET", self._of_run(run_id)))
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
        query = {
            "namespace": self.namespace,
            "job": job,
            "state": wanted,
            "owner": owner,
            "queue": queue,
            "label": label,
            "worker": node,
            "since": said_instant(since, "since"),
            "until": said_instant(until, "until"),
        }
        return [run async for run in self._pages(values.run_record, "/api/v1/runs", query, limit)]

    async def list_skips(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[SkipRecord]:
        query = {
            "namespace": self.namespace,
            "job": job,
            "since": said_instant(since, "since"),
            "until": said_instant(until, "until"),
        }
        return [skip async for skip in self._pages(values.skip_record, "/api/v1/skips", query, limit)]

    async def history(self, run_id: Run | int) -> list[AttemptRecord]:
        try:
            told = await self.server.ask("GET", self._of_run(run_id, "attempts"))
        except UnknownRun:
            return []
        return [read(values.attempt_record, one) for one in told]

    async def logs(self, run_id: Run | int) -> list[LogRecord]:
        records: list[tuple[int, str]] = []
        offset: int | None = 0
        while offset is not None:
            query = {"offset": offset, "limit": _RECORDS}
            try:
                told = await self.server.ask("GET", self._of_run(run_id, "logs"), query=query)
            except UnknownRun:
                return []
            records += [(one["attempt"], one["text"]) for one in told["items"]]
            offset = told["next"]
        return [
            LogRecord(attempt, "".join(text for _, text in some))
            for attempt, some in groupby(records, lambda record: record[0])
        ]

    async def result(self, run_id: Run | int, *, timeout: Duration | None = None) -> Json:
        length = None if timeout is None else micros(parse_duration(timeout, what="timeout"))
        clock = SystemClock()
        until = None if length is None else clock.steady() + length
        while True:
            left = _ONE_WAIT if until is None else min(_ONE_WAIT, until - clock.steady())
            if left <= 0:
                raise TimeoutError(f"run {run_number(run_id)} has not ended in time; it goes on")
            query = {"wait": format_duration(left)}
            told = await self.server.ask("GET", self._of_run(run_id, "result"), query=query)
            if RunState(told["state"]) in TERMINAL:
                return _result(told)


def _result(told: values.Told) -> Json:
    if told["state"] != RunState.SUCCEEDED:
        raise RunFailed(told["run_id"], state=told["state"], reason=told["reason"], error=told["error"])
    result: Json = told["result"]
    return result


def _wanted(job: Asked, args: Mapping[str, Any] | None) -> tuple[str, str | None]:
    """The job's name, and the arguments of its run in canonical JSON; None: the job's own."""
    if isinstance(job, BoundCall):
        if args is not None:
            raise DefinitionError(f"job {job.job!r}: expected its arguments in the call, got more beside it")
        return job.job, job.args
    name = job if isinstance(job, str) else _name_of(job)
    if not name:
        raise UnknownJob(f"expected a job's name, its function or a call of it, got {job!r}")
    return name, None if args is None else encode_arguments(args, subject=f"job {name!r}")


def _name_of(function: Callable[..., Any]) -> str:
    return function.job.name if isinstance(function, JobFunction) else str(getattr(function, "__name__", ""))


def _body(name: str, args: str | None, delay: Duration | None, expires: Duration | None) -> dict[str, Any]:
    said = {
        "job": name,
        "args": None if args is None else json.loads(args),
        "delay": said_length(delay, "delay"),
        "expires": said_length(expires, "expires"),
    }
    return {field: value for field, value in said.items() if value is not None}


def _check_key(key: str) -> None:
    if len(key) > 200:
        raise DefinitionError(f"key: expected at most 200 characters, got {len(key)}: {key[:40]!r}…")


def _refuse_connection() -> NoReturn:
    raise DefinitionError(
        "connection: expected none: a server cannot join a transaction of yours; "
        "submit with a Scheduler on the store itself, or after the commit with a key"
    )
