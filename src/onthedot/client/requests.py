"""Builds requests: paths, pages, values in a request, and many runs in one request."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

from onthedot.client.connection import ServerConnection
from onthedot.client.errors import error_of
from onthedot.client.values import read
from onthedot.clock import to_micros
from onthedot.define.check import check_job
from onthedot.define.job_reader import read_job
from onthedot.define.job_writer import Written, written
from onthedot.define.yaml_text import WrongText
from onthedot.model.duration import Duration, format_duration, parse_duration
from onthedot.model.errors import DefinitionError, StoreError, UnknownJob, UnknownRun
from onthedot.model.job import Job
from onthedot.model.run import stored_number
from onthedot.observe.formats import iso
from onthedot.operations.run_handle import RunHandle, run_number
from onthedot.operations.run_request import Asked, read_request
from onthedot.schedules.instants import read_instant
from onthedot.stores.values import most

T = TypeVar("T")

PAGE = 1_000

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


def job_path(job: str, action: str = "") -> str:
    """Return the path of a job. Raises `UnknownJob` for a name that no job can have, because it might lead to another
    path."""
    if len(job) > 100 or not _NAME.fullmatch(job):
        raise UnknownJob(f"no job {job!r} is stored")
    return f"/api/v1/jobs/{quote(job, safe='')}{action and '/'}{action}"


def run_path(run_id: RunHandle | int, action: str = "") -> str:
    """Return the path of a run. Raises `UnknownRun` for a number that no run can have."""
    number = run_number(run_id)
    if not stored_number(number):
        raise UnknownRun(f"there is no run {number}: expected one that was submitted and not removed")
    return f"/api/v1/runs/{number}{action and '/'}{action}"


async def pages(
    server: ServerConnection, kind: Callable[[Any], T], path: str, query: Mapping[str, Any], limit: int | None
) -> AsyncIterator[T]:
    """Read a list page by page, at most `limit` items (None: all). A page may be empty and have a next one."""
    after: str | None = None
    left = most(limit)
    while left > 0:
        told = await server.ask("GET", path, query={**query, "limit": min(left, PAGE), "after": after})
        for one in told["items"][:left]:
            yield read(kind, one)
        left -= len(told["items"])
        after = told["next"]
        if after is None:
            return


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────


def instant_text(value: datetime | str | None, what: str) -> str | None:
    """Return a point in time with an offset, as text of a request."""
    return None if value is None else iso(to_micros(read_instant(value, what=what)))


def local_text(value: datetime | str, what: str) -> str:
    """Return a point in time as text. It may be local to the schedule's time zone."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise DefinitionError(f"{what}: expected a datetime or ISO text, got {type(value).__name__} {value!r}")
    return value.isoformat()


def duration_text(value: Duration | None, what: str) -> str | None:
    """Return a length of time as text. Raises `DefinitionError` if it cannot be read.

    >>> duration_text(90, "delay")
    '1m30s'
    """
    return None if value is None else format_duration(parse_duration(value, what=what))


def offset_text(value: timedelta) -> str:
    """Return a distance as text with its sign.

    >>> offset_text(timedelta(hours=-2))
    '-2h'
    """
    text = format_duration(value)
    return text if text.startswith("-") else f"+{text}"


# ── jobs and runs ─────────────────────────────────────────────────────────────────────────────────────────────


def written_job(job: Job) -> Written:
    """Return a job in the form in which it is sent. Raises `DefinitionError` if a file cannot express it."""
    check_job(job)
    said = written(job)
    try:
        same = read_job(said) == job
    except WrongText as error:
        raise DefinitionError(error.problems, subject=f"job {job.name!r} cannot be sent to a server") from None
    if not same:
        raise DefinitionError(
            "expected a job that a file can express; store this one with a Scheduler",
            subject=f"job {job.name!r}",
        )
    return said


def job_and_args(job: Asked, args: Mapping[str, Any] | None) -> tuple[str, str | None]:
    """Return the job's name, and the arguments of its run in canonical JSON. None: the job's own arguments."""
    request = read_request(job, args)
    if not request.job:
        raise UnknownJob(f"expected a job's name, its function or a call of it, got {job!r}")
    return request.job, request.args


def run_body(name: str, args: str | None, delay: Duration | None, expires: Duration | None) -> dict[str, Any]:
    said = {
        "job": name,
        "args": None if args is None else json.loads(args),
        "delay": duration_text(delay, "delay"),
        "expires": duration_text(expires, "expires"),
    }
    return {field: value for field, value in said.items() if value is not None}


def refuse_connection() -> NoReturn:
    raise DefinitionError(
        "connection: expected none: a server cannot join a transaction of yours; "
        "submit with a Scheduler on the store itself, or after the commit with a key"
    )


# ── many runs in one request ────────────────────────────────────────────────────────────────────────────────────────


NDJSON = "application/x-ndjson"
MOST_LINES = 10_000
MOST_BYTES = 16 * 1024 * 1024
SECONDS = 120.0


async def send_many(
    server: ServerConnection, namespace: str, bodies: Sequence[dict[str, Any]]
) -> list[tuple[int, bool]]:
    """Submit runs, and return for each its id and whether it is new, in order. Every line has a key, so a request may
    be sent again. The first refused line raises its error. The runs before it stay."""
    stored: list[tuple[int, bool]] = []
    for lines in _parts(bodies):
        stored += await _send(server, namespace, lines)
    return stored


def _parts(bodies: Sequence[dict[str, Any]]) -> Iterator[list[bytes]]:
    """Yield the lines of each request."""
    part: list[bytes] = []
    size = 0
    for body in bodies:
        line = json.dumps(body, separators=(",", ":")).encode() + b"\n"
        if part and (len(part) == MOST_LINES or size + len(line) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


async def _send(server: ServerConnection, namespace: str, lines: list[bytes]) -> list[tuple[int, bool]]:
    answer = await server.send(
        "POST", "/api/v1/runs", query={"namespace": namespace}, content=b"".join(lines), kind=NDJSON,
        repeat=True, seconds=SECONDS,
    )  # fmt: skip
    stored = []
    for text in answer.text.splitlines():
        told = json.loads(text)
        if "problem" in told:
            raise error_of(int(told["problem"]["status"]), told["problem"], server=server.url)
        stored.append((int(told["run_id"]), bool(told["created"])))
    if len(stored) != len(lines):
        raise StoreError(f"{server.url}: expected an answer for each of {len(lines)} runs, got {len(stored)}")
    return stored
