"""What the verbs over HTTP share: the server, the namespace, pages, and how values are said in a request."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from onthedot.client.connection import ServerConnection
from onthedot.client.values import read
from onthedot.clock import to_micros
from onthedot.model.duration import Duration, format_duration, parse_duration
from onthedot.model.errors import DefinitionError, UnknownJob, UnknownRun
from onthedot.model.run import stored_number
from onthedot.observe.formats import iso
from onthedot.operations.run_handle import Run, run_number
from onthedot.operations.verbs import Verbs
from onthedot.schedules.instants import read_instant
from onthedot.stores.values import most

T = TypeVar("T")

PAGE = 1_000

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


class Asking(Verbs):
    """A server that is asked for a namespace."""

    server: ServerConnection
    namespace: str

    async def _pages(
        self, kind: Callable[[Any], T], path: str, query: Mapping[str, Any], limit: int | None
    ) -> AsyncIterator[T]:
        async for one in pages(self.server, kind, path, query, limit):
            yield one

    def _of_job(self, job: str, deed: str = "") -> str:
        """A job's address. What can be nobody's name is nobody's, and is not asked for: it might be another address."""
        if len(job) > 100 or not _NAME.fullmatch(job):
            raise UnknownJob(f"no job {job!r} is stored")
        return f"/api/v1/jobs/{quote(job, safe='')}{deed and '/'}{deed}"

    def _of_run(self, run_id: Run | int, deed: str = "") -> str:
        number = run_number(run_id)
        if not stored_number(number):
            raise UnknownRun(f"there is no run {number}: expected one that was submitted and not forgotten since")
        return f"/api/v1/runs/{number}{deed and '/'}{deed}"


async def pages(
    server: ServerConnection, kind: Callable[[Any], T], path: str, query: Mapping[str, Any], limit: int | None
) -> AsyncIterator[T]:
    """Page by page, so many at the most; None: all. A page may be short, or empty, and have a next one."""
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


def said_instant(value: datetime | str | None, what: str) -> str | None:
    """A point in time that has an offset, as a request says it."""
    return None if value is None else iso(to_micros(read_instant(value, what=what)))


def said_local(value: datetime | str, what: str) -> str:
    """A point in time that may be one of a schedule's own zone."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise DefinitionError(f"{what}: expected a datetime or ISO text, got {type(value).__name__} {value!r}")
    return value.isoformat()


def said_length(value: Duration | None, what: str) -> str | None:
    """A length of time; `DefinitionError` if it is none.

    >>> said_length(90, "delay")
    '1m30s'
    """
    return None if value is None else format_duration(parse_duration(value, what=what))


def said_distance(value: timedelta) -> str:
    """
    >>> said_distance(timedelta(hours=-2))
    '-2h'
    """
    text = format_duration(value)
    return text if text.startswith("-") else f"+{text}"
