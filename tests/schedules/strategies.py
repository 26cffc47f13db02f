"""Hypothesis strategies for schedules of every kind, as the constructors make them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from onthedot.model.duration import LONGEST
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule
from tests.schedules import oracle

ids = st.just("") | st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,20}", fullmatch=True)
lengths = st.timedeltas(timedelta(milliseconds=10), LONGEST)
instants = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
crons = st.builds(
    Cron,
    expression=oracle.expressions() | st.sampled_from(["@daily", "@Hourly"]),
    tz=oracle.zones(),
    gap=st.sampled_from(["run_after", "skip"]),
    fold=st.sampled_from(["first", "second", "both"]),
    run_once=st.booleans(),
    id=ids,
)
everys = st.builds(Every, interval=lengths, anchor=st.none() | instants, run_once=st.booleans(), id=ids)
jitters = st.timedeltas(timedelta(0), timedelta(days=1))
arguments = st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=3) | st.none(), max_size=2)


@st.composite
def with_options(draw: st.DrawFn, kind: st.SearchStrategy[Schedule]) -> Schedule:
    """Add options that many kinds of schedules take. Never both start and end: there might be no slot between them."""
    schedule = draw(kind)
    options: dict[str, Any] = {"args": draw(arguments)}
    if not isinstance(schedule, FixedDelay):
        options["jitter"] = draw(jitters)
    if isinstance(schedule, Cron | Every):
        options[draw(st.sampled_from(["start", "end"]))] = draw(instants)
        if not schedule.run_once:
            options["max_count"] = draw(st.none() | st.integers(1, 20))
    return replace(schedule, **options)


@st.composite
def several_instants(draw: st.DrawFn) -> At:
    first, *more = sorted(draw(st.sets(instants, min_size=1, max_size=5)))
    return At(instant=first, more=tuple(more), id=draw(ids))


plain: st.SearchStrategy[Schedule] = st.one_of(
    crons,
    everys,
    st.builds(FixedDelay, delay=lengths, start=st.none() | instants, id=ids),
    st.builds(At, instant=instants, id=ids),
    several_instants(),
    st.builds(In, delay=lengths, id=ids),
)
schedules: st.SearchStrategy[Schedule] = plain | with_options(plain)
