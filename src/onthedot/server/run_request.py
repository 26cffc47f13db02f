"""A run that is asked for: what may be said of it, and what is stored. Checked here; nothing is written."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field, JsonValue
from pydantic_core import from_json

from onthedot.clock import Micros
from onthedot.define.arguments import encode_arguments
from onthedot.model.duration import micros, parse_duration
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun, submit_trigger
from onthedot.operations.submit import check_arguments
from onthedot.server.json_response import is_too_deep, read_body
from onthedot.server.models import Body
from onthedot.server.params import Text

MOST_NAME = 100


class Submit(Body):
    """One run that is asked for."""

    job: Text = Field(max_length=MOST_NAME, examples=["nightly_report"])
    args: dict[str, JsonValue] | None = Field(None, examples=[{"region": "eu"}])
    key: Text = Field("", description="Asked for once, however often this is sent.")
    delay: Text | None = Field(None, max_length=50, examples=["10m"])
    expires: Text | None = Field(None, max_length=50, examples=["1h"])


class Asked(NamedTuple):
    """What a `Submit` says."""

    job: str
    args: dict[str, JsonValue] | None = None
    key: str = ""
    delay: str | None = None
    expires: str | None = None


def read_asked(body: bytes) -> Asked:
    """A body, or a line of one; `RequestValidationError` or `Problem` with every reason."""
    return _read_plain(body) or Asked(**dict(read_body(Submit, body)))


def _read_plain(body: bytes) -> Asked | None:
    """The same for what has a job and arguments, as nearly all have, in a third of the time. None: the model says."""
    try:
        read = from_json(body, allow_inf_nan=False)
    except ValueError:
        return None
    if type(read) is not dict or len(read) != 2 or is_too_deep(body):
        return None
    job, args = read.get("job"), read.get("args")
    if type(job) is not str or len(job) > MOST_NAME or "\0" in job or type(args) is not dict:
        return None
    return Asked(job, args)


def new_run(record: JobRecord, asked: Asked, *, token: str, key: str, now: Micros) -> NewRun:
    """What is stored for it. `DefinitionError` for what cannot be. The token is drawn for this asking."""
    args = arguments(record, asked.args)
    due_at = now if asked.delay is None else now + micros(parse_duration(asked.delay, what="delay"))
    expires_at = None
    if asked.expires is not None:
        expires_at = due_at + micros(parse_duration(asked.expires, what="expires"))
    return NewRun(record.id, submit_trigger(token), due_at, args, key, expires_at)


def arguments(record: JobRecord, args: dict[str, JsonValue] | None) -> str | None:
    """Arguments that were read from JSON, if the job takes them; None: the job's own."""
    text = None if args is None else encode_arguments(args, subject=f"job {record.job.name!r}", from_json=True)
    check_arguments(record, text)
    return text
