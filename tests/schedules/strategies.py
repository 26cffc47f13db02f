"""Schedules of every kind, as the constructors make them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from onthedot.duration import LONGEST
from onthedot.job import At, Cron, Every, FixedDelay, In, Schedule
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
schedules: st.SearchStrategy[Schedule] = st.one_of(
    crons,
    everys,
    st.builds(FixedDelay, delay=lengths, start=st.none() | instants, id=ids),
    st.builds(At, instant=instants, id=ids),
    st.builds(In, delay=lengths, id=ids),
)
