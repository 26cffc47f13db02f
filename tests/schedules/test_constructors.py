"""The constructors build schedules from what people write, and refuse what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from onthedot.model.errors import ScheduleError
from onthedot.model.job import At, Cron, Every, FixedDelay, In
from onthedot.schedules import at, check, cron, every, gap, in_

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def test_each_constructor_makes_the_plain_value():
    assert cron(" 30  2 * * * ") == Cron(expression="30 2 * * *")
    full = cron("@daily", tz="Asia/Tokyo", gap="skip", fold="both", run_once=True, id="x")
    assert full == Cron(expression="@daily", tz="Asia/Tokyo", gap="skip", fold="both", run_once=True, id="x")
    assert every("1h30m") == every(5400) == every(timedelta(minutes=90)) == Every(interval=timedelta(minutes=90))
    assert every(0.5, anchor="2026-01-01T01:00+01:00", run_once=True, id="x") == Every(
        interval=timedelta(milliseconds=500), anchor=NEW_YEAR, run_once=True, id="x"
    )
    assert gap("10m", start=NEW_YEAR, id="x") == FixedDelay(delay=timedelta(minutes=10), start=NEW_YEAR, id="x")
    assert at("2026-01-01T09:00", tz="Asia/Tokyo", id="x") == At(instant=NEW_YEAR, id="x")
    assert in_("10m", id="x") == In(delay=timedelta(minutes=10), id="x")


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: cron("* * *"), "expected 5 fields (minute hour day month weekday), or 6"),
        (lambda: cron(cast(str, None)), "expected text like"),
        (lambda: every("1 fortnight"), "interval: expected a length of time like '90s'"),
        (lambda: every(0), "interval: expected a length of time above zero"),
        (lambda: every("5ms"), "interval: expected at least 10ms, got 5ms"),
        (lambda: every("1h", anchor="2026-01-01"), "anchor: expected a point in time with an offset"),
        (lambda: gap(True), "delay: expected text like '1h30m'"),
        (lambda: gap("10m", start="soon"), "start: expected a point in time like"),
        (lambda: at("2026-03-29T02:30", tz="Europe/Berlin"), "which the clocks in Europe/Berlin skip"),
        (lambda: in_("-5m"), "delay: expected a length of time like '90s'"),
        (lambda: in_("10m", id="a/b"), "id: expected"),
    ],
)
def test_each_constructor_refuses_bad_arguments(make, part):
    with pytest.raises(ScheduleError) as refused:
        make()
    assert part in str(refused.value)


def test_several_instants_are_sorted_without_duplicates():
    later = datetime(2026, 2, 1, tzinfo=UTC)
    assert at(later, NEW_YEAR, "2026-01-01T01:00+01:00") == At(instant=NEW_YEAR, more=(later,))
    with pytest.raises(ScheduleError, match="at least one point in time"):
        at()
    with pytest.raises(ScheduleError, match="ascending order"):
        check(At(instant=later, more=(NEW_YEAR,)))
