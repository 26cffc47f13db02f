"""Schedule expressions: describe, check and preview them before they are stored."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any, Literal

from pydantic import BaseModel, Field

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.model.job import Call, Cron, Job, Schedule
from onthedot.observe.formats import iso
from onthedot.rules.next_slots import HORIZON
from onthedot.schedules import check, cron_fields, describe, parse, slots, to_text
from onthedot.schedules.instants import read_instant
from onthedot.schedules.lint import lint
from onthedot.schedules.zones import zone
from onthedot.server.auth import StoreDep
from onthedot.server.compute import in_thread
from onthedot.server.models import Body, Line, fields
from onthedot.server.router import Routes
from onthedot.server.routes.jobs import MOST_INSTANTS

routes = Routes(prefix="/api/v1", tags=["schedules"])


class Expression(Body):
    """A schedule as one line of text."""

    expression: Line = Field(max_length=2000, examples=["30 2 * * *", "every 1h30m", "H H(0-5) * * *"])
    tz: Line | None = Field(None, max_length=100, description="Time zone; default UTC.", examples=["Europe/Berlin"])
    gap: Literal["run_after", "skip"] | None = Field(
        None, description="What to do with a time that a clock change leaves out."
    )
    fold: Literal["first", "second", "both"] | None = Field(
        None, description="What to do with a time that a clock change repeats."
    )
    seconds: bool = Field(False, description="The first field is the second: 6 fields, or 4 up to the day.")
    job: Line | None = Field(
        None,
        max_length=201,
        description="The job (name or namespace/name) whose hash sets the value of H.",
        examples=["report"],
    )


class Preview(Expression):
    """A schedule, and the number of instants to preview."""

    count: int = Field(10, ge=1, le=MOST_INSTANTS)
    start: Line | None = Field(
        None, max_length=50, description="Preview the instants after this one; default now.",
        examples=["2026-03-27T12:00:00+01:00"],
    )  # fmt: skip


class DescribedOut(BaseModel):
    """A schedule in words."""

    expression: str = Field(examples=["30 2 * * *"])
    reading: str = Field(examples=["at 02:30 every day, Europe/Berlin"])
    fields: dict[str, str] | None = Field(
        description="The fields of a cron expression.", examples=[{"minute": "30", "hour": "2"}]
    )
    tz: str = Field(examples=["Europe/Berlin"])


class OddOut(BaseModel):
    """A warning, and what to do about it."""

    kind: str = Field(examples=["uneven"])
    text: str
    advice: str


class LintedOut(DescribedOut):
    """A schedule in words, and warnings about it."""

    odd: list[OddOut]


class InstantOut(BaseModel):
    """An instant, in UTC and in the schedule's time zone."""

    at: str = Field(examples=["2026-01-01T01:30:00.000000Z"])
    local: str = Field(examples=["2026-01-01T02:30:00+01:00"])


class PreviewOut(DescribedOut):
    """A schedule in words, and its instants."""

    start: str = Field(examples=["2026-01-01T00:00:00.000000Z"])
    instants: list[InstantOut] = Field(
        description="Instants within a hundred years; fewer than `count` if there are no more."
    )


@routes.post("/schedules/describe", response_model=DescribedOut)
async def describe_schedule(body: Expression) -> Any:
    """Describe a schedule expression in words."""
    return await in_thread(lambda: _described(_read(body), body))


@routes.post("/schedules/lint", response_model=LintedOut)
async def lint_schedule(opened: StoreDep, body: Expression) -> Any:
    """Check a schedule expression for likely mistakes, such as uneven intervals."""
    return await in_thread(_linted, body, opened.clock.now())


@routes.post("/schedules/preview", response_model=PreviewOut)
async def preview_schedule(opened: StoreDep, body: Preview) -> Any:
    """List the instants of a schedule expression, as for a job that has it since `start`."""
    return await in_thread(_previewed, body, opened.clock.now())


def _read(body: Expression) -> Schedule:
    """The schedule as a job of this name would have it."""
    namespace, _, name = (body.job or "").rpartition("/")
    schedule = parse(body.expression, tz=body.tz, gap=body.gap, fold=body.fold, seconds=body.seconds)
    check(schedule)
    called = Job(name=name, namespace=namespace or "default", task=Call(handler=""), schedules=(schedule,))
    return called.schedules[0]


def _described(schedule: Schedule, body: Expression) -> dict[str, Any]:
    cron = schedule if isinstance(schedule, Cron) else None
    return {
        "expression": to_text(schedule),
        "reading": describe(schedule),
        "fields": None if cron is None else cron_fields(cron.expression, cron.spread),
        "tz": str(zone((body.tz or "UTC") if cron is None else cron.tz)),
    }


def _linted(body: Expression, now: Micros) -> dict[str, Any]:
    schedule = _read(body)
    return fields(LintedOut, odd=[one._asdict() for one in lint(schedule, now)], **_described(schedule, body))


def _previewed(body: Preview, now: Micros) -> dict[str, Any]:
    schedule = _read(body)
    told = _described(schedule, body)
    tz = body.tz or "UTC"
    start = now if body.start is None else to_micros(read_instant(body.start, tz=tz, what="start"))
    coming = takewhile((start + HORIZON).__ge__, slots(schedule, start, origin=start))
    where = zone(told["tz"])
    instants = [
        fields(InstantOut, at=iso(at), local=to_datetime(at).astimezone(where).isoformat())
        for at in islice(coming, body.count)
    ]
    return fields(PreviewOut, start=iso(start), instants=instants, **told)
