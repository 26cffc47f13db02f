"""Reads a request for a run, checks it, and makes the run to store."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, JsonValue, ValidationError
from pydantic_core import from_json

from onthedot.access.permissions import Principal
from onthedot.clock import Micros
from onthedot.define.arguments import encode_arguments
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import DefinitionError
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun, submit_trigger
from onthedot.operations.submit import check_arguments
from onthedot.server.models import Body
from onthedot.server.params import Text
from onthedot.server.problems import Problem

MOST_NAME = 100


class Submit(Body):
    """One run that is asked for."""

    job: Text = Field(max_length=MOST_NAME, examples=["nightly_report"])
    args: dict[str, JsonValue] | None = Field(None, examples=[{"region": "eu"}])
    key: Text = Field("", description="Asked for once, however often this is sent.")
    delay: Text | None = Field(None, max_length=50, examples=["10m"])
    expires: Text | None = Field(None, max_length=50, examples=["1h"])


class RunRequest(NamedTuple):
    """The fields of a `Submit`, which is much slower to make."""

    job: str
    args: dict[str, JsonValue] | None = None
    key: str = ""
    delay: str | None = None
    expires: str | None = None


def read_run_request(body: bytes) -> RunRequest:
    """Read a body, or a line of one; `RequestValidationError` or `Problem` with every reason."""
    return _read_plain(body) or RunRequest(**dict(read_body(Submit, body)))


def _read_plain(body: bytes) -> RunRequest | None:
    """Read a request with only a job and arguments, as nearly all are, in a third of the time; None for any other."""
    try:
        read = from_json(body, allow_inf_nan=False)
    except ValueError:
        return None
    if type(read) is not dict or len(read) != 2 or is_too_deep(body):
        return None
    job, args = read.get("job"), read.get("args")
    if type(job) is not str or len(job) > MOST_NAME or "\0" in job or type(args) is not dict:
        return None
    return RunRequest(job, args)


def new_run(record: JobRecord, wanted: RunRequest, *, token: str, key: str, now: Micros) -> NewRun:
    """The run to store; `DefinitionError` if the job cannot have it. The token is new for each request."""
    args = arguments(record, wanted.args)
    due_at = now if wanted.delay is None else now + micros(parse_duration(wanted.delay, what="delay"))
    expires_at = None
    if wanted.expires is not None:
        expires_at = due_at + micros(parse_duration(wanted.expires, what="expires"))
    return NewRun(record.id, submit_trigger(token), due_at, args, key, expires_at)


def arguments(record: JobRecord, args: dict[str, JsonValue] | None) -> str | None:
    """Encode arguments that the job takes (None: the job's own); `DefinitionError` if it does not take them."""
    text = None if args is None else encode_arguments(args, subject=f"job {record.job.name!r}", from_json=True)
    check_arguments(record, text)
    return text


# ── idempotency keys ──────────────────────────────────────────────────────────────────────────────────────────

_PREFIX = "idempotency:"


def run_key(who: Principal, header: str | None, verb: str, own: str = "") -> str:
    """The key of a run: the caller's `own`, or one made of the header Idempotency-Key. No other caller, and no other
    verb, can have the same.

    >>> from onthedot.access.permissions import LOCAL
    >>> run_key(LOCAL, None, "submit", "order-7"), run_key(LOCAL, "7", "submit") == run_key(LOCAL, "7", "trigger")
    ('order-7', False)
    """
    if header is None:
        return own_key(own)
    if own:
        raise DefinitionError("key: expected either a key in the body or the header Idempotency-Key, got both")
    said = "\0".join((who.kind, who.id, verb, header))
    return _PREFIX + hashlib.sha256(said.encode(errors="surrogateescape")).hexdigest()


def own_key(own: str) -> str:
    """A key that the caller has chosen. It must not look like one that is made of a header."""
    if own.startswith(_PREFIX):
        raise DefinitionError(f"key: expected one that does not begin with {_PREFIX!r}; those are made here")
    return own


# ── the body ──────────────────────────────────────────────────────────────────────────────────────────────────

MOST_DEEP = 64
"""How deep lists and objects of a body may be nested."""

B = TypeVar("B", bound=BaseModel)


def read_body(model: type[B], body: bytes) -> B:
    """Read a body by its model; `RequestValidationError` with every reason."""
    try:
        read = model.model_validate_json(body)
    except ValidationError as error:
        told = error.errors(include_url=False)
        raise RequestValidationError([{**part, "loc": ("body", *part["loc"])} for part in told]) from None
    if is_too_deep(body):
        raise Problem(422, "invalid", f"body: expected at most {MOST_DEEP} lists and objects in one another, got more")
    return read


def is_too_deep(body: bytes) -> bool:
    """Whether lists and objects are nested deeper than `MOST_DEEP`."""
    if len(body) <= 2 * MOST_DEEP:  # each opens and closes
        return False
    return body.count(b"[") + body.count(b"{") > MOST_DEEP and _depth(body) > MOST_DEEP


_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def _depth(body: bytes) -> int:
    """How deep JSON is nested.

    >>> _depth(b'{"a": [[], "[[[["]}')
    3
    """
    deepest = depth = 0
    for found in _BRACKETS.finditer(body):
        if found[0] in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return deepest
