"""A run that is asked for: what may be said of it, and what is stored. Checked here; nothing is written."""

from __future__ import annotations

from pydantic import Field, JsonValue

from onthedot.clock import Micros
from onthedot.define.arguments import encode_arguments
from onthedot.duration import micros, parse_duration
from onthedot.job import JobRecord
from onthedot.plan.asking import check_arguments
from onthedot.run import NewRun, submit_trigger
from onthedot.server.asked import Text
from onthedot.server.shapes import Body


class Submit(Body):
    """One run that is asked for."""

    job: Text = Field(max_length=100, examples=["nightly_report"])
    args: dict[str, JsonValue] | None = Field(None, examples=[{"region": "eu"}])
    key: Text = Field("", description="Asked for once, however often this is sent.")
    delay: Text | None = Field(None, max_length=50, examples=["10m"])
    expires: Text | None = Field(None, max_length=50, examples=["1h"])


def new_run(record: JobRecord, asked: Submit, *, token: str, key: str, now: Micros) -> NewRun:
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
