"""Schedules that are not stored: describe, lint and preview an expression."""

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
from onthedot.server.auth import There
from onthedot.server.compute import in_thread
from onthedot.server.models import Body, Line, fields
from onthedot.server.router import Routes
from onthedot.server.routes.jobs import MOST_INSTANTS

routes = Routes(prefix="/api/v1", tags=["schedules"])


class Expression(Body):
    """A schedule, as one line of text."""

    expression: Line = Field(max_length=2000, examples=["30 2 * * *", "every 1h30m", "H H(0-5) * * *"])
    tz: Line | None = Field(None, max_length=100, description="UTC, if it is not said.", examples=["Europe/Berlin"])
    gap: Literal["run_after", "skip"] | None = Field(None, description="For a time that a clock change leaves out.")
    fold: Literal["first", "second", "both"] | None = Field(None, description="For a time that it repeats.")
    seconds: bool = Field(False, description="The first field is the second: 6 fields, or 4 up to the day.")
    job: Line | None = Field(
        None, max_length=201, description="The name (or namespace/name) that chooses what H is.", examples=["report"]
    )


class Preview(Expression):
    """A schedule, and how many of its instants."""

    count: int = Field(10, ge=1, le=MOST_INSTANTS)
    start: Line | None = Field(
        None, max_length=50, description="The instants after this one; now, if it is not said.",
        examples=["2026-03-27T12:00:00+01:00"],
    )  # fmt: skip


class DescribedOut(BaseModel):
    """How a schedule is read."""

    expression: str = Field(examples=["30 2 * * *"])
    reading: str = Field(examples=["at 02:30 every day, Europe/Berlin"])
    fields: dict[str, str] | None = Field(
        description="What each field of a cron expression is.", examples=[{"minute": "30", "hour": "2"}]
    )
    tz: str = Field(examples=["Europe/Berlin"])


class OddOut(BaseModel):
    """Something odd, and what to do about it."""

    kind: str = Field(examples=["uneven"])
    text: str
    advice: str


class LintedOut(DescribedOut):
    """How a schedule is read, and what may not be meant so."""

    odd: list[OddOut]


class InstantOut(BaseModel):
    """One instant, here and there."""

    at: str = Field(examples=["2026-01-01T01:30:00.000000Z"])
    local: str = Field(examples=["2026-01-01T02:30:00+01:00"])


class PreviewOut(DescribedOut):
    """How a schedule is read, and its instants."""

    start: str = Field(examples=["2026-01-01T00:00:00.000000Z"])
    instants: list[InstantOut] = Field(description="Within a hundred years; fewer than asked for: that was all.")


@routes.post("/schedules/describe", response_model=DescribedOut)
async def describe_schedule(body: Expression) -> Any:
    """Any expression, in words."""
    return await in_thread(lambda: _described(_read(body), body))


@routes.post("/schedules/lint", response_model=LintedOut)
async def lint_schedule(there: There, body: Expression) -> Any:
    """Any expression: what is odd about it, and may not mean what its author meant."""
    return await in_thread(_linted, body, there.clock.now())


@routes.post("/schedules/preview", response_model=PreviewOut)
async def preview_schedule(there: There, body: Preview) -> Any:
    """Any expression: its instants, as if a job had had it since `start`."""
    return await in_thread(_previewed, body, there.clock.now())


def _read(body: Expression) -> Schedule:
    """The schedule as a job of this name has it."""
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
