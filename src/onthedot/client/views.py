"""Reads from a server what the command line shows and no operation of `Client` returns."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from onthedot.client import values
from onthedot.client.connection import ServerConnection
from onthedot.client.requests import instant_text, pages
from onthedot.client.values import Told, read
from onthedot.clock import Micros, to_datetime
from onthedot.model.errors import StoreUnavailable
from onthedot.model.run import WaitReason
from onthedot.observe.json_fields import NodeShown
from onthedot.operations.next_slots import Next, Shown
from onthedot.output.records import Record
from onthedot.output.run_output import AttemptOutput
from onthedot.schedules import schedule_id
from onthedot.stores.queries import FIRST_JOB, JobCursor, JobFilter, JobPage, decode_cursor, encode_cursor
from onthedot.stores.values import Held, Node, Queue

_RECORDS = 1_000
_MISSES = 5
"""The number of times in a row that a stream may end without an event."""


async def jobs_shown(server: ServerConnection, *, limit: int | None, namespace: str | None = None) -> list[Shown]:
    """Return the stored jobs with their next instants and last runs."""
    return [
        job async for job in pages(server, _job, "/api/v1/jobs", {"details": "true", "namespace": namespace}, limit)
    ]


class ServerQueries:
    """The queries that checks of names and queues need (`operations/job_lookup.py`), on a server."""

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        """Return the jobs of one namespace or of all, in a queue, whose names contain this text."""
        query = {
            "namespace": wanted.namespaces[0] if wanted.namespaces else None, "queue": wanted.queue,
            "name": wanted.name_contains, "limit": limit,
            "after": None if after in (None, FIRST_JOB) else encode_cursor(after),
        }  # fmt: skip
        told = await self._server.ask("GET", "/api/v1/jobs", query=query)
        following = None if told["next"] is None else decode_cursor(told["next"], JobCursor)
        return JobPage([read(values.job_record, one) for one in told["items"]], following)

    async def list_queues(self) -> list[Queue]:
        """Return the queues that have unfinished runs, or that are paused or shared."""
        return [read(values.queue, one) for one in (await self._server.ask("GET", "/api/v1/queues"))["items"]]

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        """Return the registered nodes, the latest first."""
        return [shown.node for shown in await nodes_shown(self._server)][:limit]


def _job(told: Told) -> Shown:
    record = values.job_record(told)
    schedules = {schedule_id(one): one for one in record.job.schedules}
    upcoming = [
        Next(schedules[one["schedule"]], one["schedule"], values.optional(one["at"]), one["note"])
        for one in told["next"]
    ]
    last = told["last_run"]
    return Shown(record, upcoming, None if last is None else values.run_record(last))


async def nodes_shown(server: ServerConnection) -> list[NodeShown]:
    """Return every registered node, the latest first."""
    told = await server.ask("GET", "/api/v1/nodes", query={"all": "true"})
    return [read(_node, one) for one in told["items"]]


def _node(told: Told) -> NodeShown:
    return NodeShown(values.node(told), told["state"], list(told["shards"]), Held(told["reserved"], told["running"]))


async def standing(server: ServerConnection, run_id: int) -> tuple[WaitReason | None, list[str]]:
    """Return why a run waits: the facts, and the reasons in words."""
    told = await server.ask("GET", f"/api/v1/runs/{run_id}/standing")
    return read(_standing, told["standing"]), list(told["waits_for"])


def _standing(told: Told | None) -> WaitReason | None:
    if told is None:
        return None
    instants = {name: values.optional(told[name]) for name in ("expires_at", "reserved_at", "granted_at")}
    return WaitReason(**{**told, **instants, "holders": tuple(told["holders"])})


class Upcoming(NamedTuple):
    """The next starts (see `start_fields`), the number of paused jobs, and the instant up to which waiting runs were
    read."""

    starts: Sequence[Told]
    paused: int
    read_until: Micros | None


async def upcoming(server: ServerConnection, *, limit: int, until: Micros | None, namespace: str | None) -> Upcoming:
    """Return the next starts of all jobs."""
    end = None if until is None else instant_text(to_datetime(until), "until")
    told = await server.ask("GET", "/api/v1/upcoming", query={"limit": limit, "until": end, "namespace": namespace})
    return Upcoming(list(told["items"]), int(told["paused"]), values.optional(told["read_until"]))


async def next_of(server: ServerConnection, job: str, *, count: int, namespace: str) -> tuple[str, list[Told]]:
    """Return the state of a job, and its next starts (see `coming_fields`)."""
    path = f"/api/v1/jobs/{quote(job, safe='')}/next"
    told = await server.ask("GET", path, query={"count": count, "namespace": namespace})
    return told["state"], [{"run_id": None, "moved": False, **one} for one in told["items"]]


# ── logs and artifacts ──────────────────────────────────────────────────────────────────────────────────────


async def read_output(server: ServerConnection, run_id: int) -> list[AttemptOutput]:
    """Return the output of each attempt of a run, in order."""
    found: dict[int, list[Told]] = {}
    trouble: list[str] = []
    offset: int | None = 0
    while offset is not None:
        query = {"offset": offset, "limit": _RECORDS}
        told = await server.ask("GET", f"/api/v1/runs/{run_id}/logs", query=query)
        for one in told["items"]:
            found.setdefault(one["attempt"], []).append(one)
        offset, trouble = told["next"], told["trouble"]
    said = [_said(attempt, some) for attempt, some in sorted(found.items())]
    return [*said, *(AttemptOutput(0, "", None, one) for one in trouble)]


def _said(attempt: int, some: list[Told]) -> AttemptOutput:
    text = "".join(one["text"] for one in some)
    records = [record for one in some if (record := record_of(one)) is not None]
    known = len(records) == len(some)
    return AttemptOutput(attempt, text, records if known else None, kept=known)


def record_of(told: Told) -> Record | None:
    """Return a record of output. None if its instant is not known yet."""
    if told["at"] is None:
        return None
    return Record(values.instant(told["at"]), told["stream"], told["step"], told["text"])


async def artifacts(server: ServerConnection, run_id: int) -> list[Told]:
    """Return the files that the attempts of a run have kept: attempt, name, size, sha256."""
    told: list[Told] = await server.ask("GET", f"/api/v1/runs/{run_id}/artifacts")
    return told


async def read_artifact(server: ServerConnection, run_id: int, attempt: int, name: str) -> AsyncGenerator[bytes]:
    """Yield the content of one of these files, piece by piece."""
    path = f"/api/v1/runs/{run_id}/artifacts/{attempt}/{quote(name, safe='')}"
    async with server.stream(path, headers={"Accept-Encoding": "identity"}) as answer:
        async for piece in answer.aiter_bytes():
            yield piece


class StreamEvent(NamedTuple):
    """One event of a stream."""

    kind: str
    data: dict[str, Any]


async def follow_logs(server: ServerConnection, run_id: int) -> AsyncGenerator[StreamEvent]:
    """Yield the output of a run from its beginning to its end. If the stream breaks, it is opened again at the same
    place."""
    last, misses = "", 0
    while True:
        try:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
            async with server.stream(f"/api/v1/runs/{run_id}/logs/follow", headers=headers) as answer:
                async for event, name in _events(answer.aiter_lines()):
                    last, misses = name or last, 0
                    yield event
                    if event.kind == "end":
                        return
        except StoreUnavailable:
            misses += 1
            if misses >= _MISSES:
                raise
        else:
            misses += 1
            if misses >= _MISSES:
                raise StoreUnavailable(f"{server.url}: expected the output of run {run_id}, but the stream ended again")
        await server.pause(misses)


async def _events(lines: AsyncIterator[str]) -> AsyncGenerator[tuple[StreamEvent, str]]:
    """Yield server-sent events, with their ids."""
    kind, name, data = "message", "", ""
    async for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield StreamEvent(kind, json.loads(data)), name
            kind, name, data = "message", "", ""
        elif field == "event":
            kind = value
        elif field == "id":
            name = value
        elif field == "data":
            data += value
