"""Decides what an HTTP job sends, and what follows from the answer. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from onthedot.clock import SECOND, Micros, to_micros
from onthedot.model.addresses import AddressRefused, Target, read_redirect, read_url
from onthedot.model.job import job_name
from onthedot.model.run import Lease
from onthedot.model.task import Http

MOST_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOR_ANYBODY = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_OURS = ("onthedot-", "idempotency-key")
_SECONDS = re.compile(r"[0-9]{1,9}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Request(NamedTuple):
    """One request, complete except for the address."""

    method: str
    target: Target
    headers: tuple[tuple[str, str], ...]  # without Host and the length, which belong to the connection
    body: bytes | None = None


def first_request(task: Http, lease: Lease) -> Request:
    """The job's request, with headers that tell the server which run this is.

    `Idempotency-Key` is the same for every attempt of a run, and no other run has it. A job may set its own.
    """
    headers = {"user-agent": "onthedot", "accept": "*/*", "accept-encoding": "identity"}
    body = None
    if task.body is not None:
        body = json.dumps(task.body, ensure_ascii=False, allow_nan=False).encode()
        headers["content-type"] = "application/json"
    headers |= {"idempotency-key": idempotency_key(lease)}
    headers |= {name.lower(): value for name, value in task.headers.items()}
    headers |= {
        "onthedot-run-id": str(lease.run_id),
        "onthedot-attempt": str(lease.attempt),
        "onthedot-fence": str(lease.fence),
    }
    for name, value in headers.items():
        if not _HEADER_VALUE.fullmatch(value):  # the value may be a secret: it is not said
            raise AddressRefused(f"header {name}: expected one line of printable text, got something else")
    return Request(task.method, read_url(task.url), tuple(headers.items()), body)


def idempotency_key(lease: Lease) -> str:
    """A key that all attempts of a run share, and no other run has."""
    key = (job_name(lease.record.job), lease.run_id, lease.trigger, lease.slot_at, lease.target)
    return hashlib.sha256(repr(key).encode()).hexdigest()[:32]


def is_expected(task: Http, status: int) -> bool:
    """Whether this answer is a success.

    >>> is_expected(Http(url="http://x"), 204), is_expected(Http(url="http://x", expect=(200, 404)), 204)
    (True, False)
    """
    return status in task.expect if task.expect else 200 <= status <= 299


def redirect_of(task: Http, status: int, location: str | None) -> str:
    """The location to which the answer redirects. Empty if it does not, or if the job expects that status.

    >>> redirect_of(Http(url="http://x"), 302, "/y"), redirect_of(Http(url="http://x", expect=(302,)), 302, "/y")
    ('/y', '')
    """
    return location if location and status in _REDIRECTS and status not in task.expect else ""


def redirected(request: Request, status: int, location: str) -> Request:
    """The request that follows a redirect. Its target must be checked like the first one.

    The method becomes GET after 303, and after 301 or 302 to a POST, as all clients do it. Another origin does not get
    the job's own headers, except those that any client sends. `AddressRefused` for a redirect from https to http.
    """
    target = read_redirect(request.target, location)
    if request.target.scheme == "https" and target.scheme == "http":
        raise AddressRefused(f"redirected from https to {target.url}: expected https there, too; ask it directly")
    headers, method, body = request.headers, request.method, request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = tuple((name, value) for name, value in headers if name != "content-type")
    if target.origin != request.target.origin:
        headers = tuple((name, value) for name, value in headers if name in _FOR_ANYBODY or name.startswith(_OURS))
    return Request(method, target, headers, body)


def wished_for(status: int, retry_after: str | None, now: Micros) -> Micros:
    """Earliest retry that the server allows (`Retry-After`); 0 if it sets none that can be read.

    >>> wished_for(429, "120", 0) // SECOND, wished_for(503, "Thu, 01 Jan 1970 00:01:00 GMT", 0) // SECOND
    (120, 60)
    >>> wished_for(500, "120", 0), wished_for(503, "soon", 0)
    (0, 0)
    """
    if status not in (429, 503) or retry_after is None:
        return 0
    text = retry_after.strip()
    if _SECONDS.fullmatch(text):
        return now + int(text) * SECOND
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return 0
    return to_micros(instant if instant.tzinfo else instant.replace(tzinfo=UTC))
