"""`compare` reports which starts appear, vanish or move when definitions change."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.clock import SECOND, to_datetime
from onthedot.define.differences import MOST_STARTS, compare, load_per_hour
from onthedot.define.job_reader import read_job
from onthedot.model.job import FixedDelay, Job, Pause, Schedule
from onthedot.model.task import Command, Noop
from onthedot.schedules import cron, every

DAY = 86_400 * SECOND
HOUR = 3_600 * SECOND


def job(*schedules: Schedule, name: str = "report", **options: object) -> Job:
    return Job(name=name, task=Noop(), schedules=schedules, **options)  # type: ignore[arg-type]


def jobs(*given: Job) -> dict[str, Job]:
    return {one.name: one for one in given}


def test_equal_definitions_are_unchanged():
    [found] = compare(jobs(job(cron("@daily"))), jobs(job(cron("@daily"))), now=0)
    assert (found.kind, found.fields, found.starts_change) == ("unchanged", {}, False)


def test_starts_of_a_new_job_appear_and_those_of_a_removed_job_vanish():
    old, new = jobs(job(cron("@daily"), name="old")), jobs(job(cron("0 */12 * * *"), name="new"))
    created, removed = compare(old, new, now=0, horizon=2 * DAY)
    assert (created.name, created.kind, created.appear) == ("new", "created", (DAY // 2, DAY, 3 * DAY // 2, 2 * DAY))
    assert (removed.name, removed.kind, removed.vanish) == ("old", "removed", (DAY, 2 * DAY))


def test_starts_an_hour_later_are_moves():
    [found] = compare(jobs(job(cron("0 2 * * *"))), jobs(job(cron("0 3 * * *"))), now=0, horizon=3 * DAY)
    assert [(move.old % DAY // HOUR, move.new % DAY // HOUR) for move in found.moved] == [(2, 3)] * 3
    assert not found.appear
    assert found.fields == {"schedule.cron": ("0 2 * * *", "0 3 * * *")}


def test_starts_vanish_if_the_interval_doubles():
    [found] = compare(jobs(job(every("1h"))), jobs(job(every("2h"))), now=0, horizon=DAY)
    assert len(found.vanish) == 12
    assert not found.moved


def test_another_command_changes_no_start():
    old = Job(name="j", task=Command(argv=("a",)), schedules=(cron("@daily"),))
    new = Job(name="j", task=Command(argv=("b",)), schedules=(cron("@daily"),))
    [found] = compare(jobs(old), jobs(new), now=0)
    assert (found.kind, found.fields, found.starts_change) == ("changed", {"argv": (["a"], ["b"])}, False)


def test_only_the_first_starts_of_a_very_frequent_job_are_compared():
    [found] = compare({}, jobs(job(every("1s"))), now=0)
    assert len(found.appear) == MOST_STARTS
    assert found.until == MOST_STARTS * SECOND + SECOND - 1


def test_only_the_first_start_of_a_fixed_delay_is_known():
    [found] = compare({}, jobs(job(FixedDelay(delay=timedelta(hours=1)))), now=0)
    assert len(found.appear) == 1


def test_starts_are_counted_per_hour_of_the_day():
    load = load_per_hour(jobs(job(cron("30 2 * * *")), job(cron("0 2,4 * * *"), name="b")), now=0, horizon=10 * DAY)
    assert (load[2], load[4], sum(load)) == (20, 10, 30)


@given(old=st.integers(1, 300), new=st.integers(1, 300))
def test_the_reported_changes_turn_the_old_starts_into_the_new_ones(old: int, new: int):
    """For any two intervals, the old starts plus the changes give exactly the starts of the new definition."""
    before, after = job(every(f"{old}m")), job(every(f"{new}m"))
    [found] = compare(jobs(before), jobs(after), now=0, horizon=DAY)
    starts = {at * 60 * SECOND for at in range(old, 24 * 60 + 1, old)}
    starts -= {*found.vanish, *(move.old for move in found.moved)}
    starts |= {*found.appear, *(move.new for move in found.moved)}
    assert starts == {at * 60 * SECOND for at in range(new, 24 * 60 + 1, new)}


def test_starts_vanish_with_a_pause_and_appear_with_its_end():
    running, paused = job(every("6h")), job(every("6h"), paused=Pause(reason="it moves"))
    until = job(every("6h"), paused=Pause(until=to_datetime(DAY)))
    [found] = compare(jobs(running), jobs(paused), now=0, horizon=2 * DAY)
    assert (found.kind, len(found.vanish), found.fields) == ("changed", 8, {"paused": (False, {"reason": "it moves"})})
    [found] = compare(jobs(running), jobs(until), now=0, horizon=2 * DAY)
    assert found.vanish == (6 * HOUR, 12 * HOUR, 18 * HOUR, DAY)
    [found] = compare(jobs(paused), jobs(running), now=0, horizon=2 * DAY)
    assert (len(found.appear), found.fields["paused"][1]) == (8, False)
    assert sum(load_per_hour(jobs(paused), now=0, horizon=2 * DAY)) == 0


def test_changes_of_a_paused_job_show_what_would_start():
    pause = Pause(reason="it moves")
    old, new = job(cron("0 2 * * *"), paused=pause), job(cron("0 3 * * *"), paused=pause)
    [found] = compare(jobs(old), jobs(new), now=0, horizon=2 * DAY)
    assert (len(found.moved), "paused" in found.fields) == (2, False)
    assert compare(jobs(old), jobs(old), now=0)[0].kind == "unchanged"


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ({"schedule": "@daily"}, {"schedule": {"cron": "@daily", "jitter": "10m"}}, {"schedule.jitter": (None, "10m")}),
        ({"schedule": "every 5m"}, {"schedule": "every 90s"}, {"schedule.every": ("5m", "1m30s")}),
        ({"schedule": "@daily"}, {"schedules": ["@daily", "every 5m"]}, {"schedules.1.every": (None, "5m")}),
        ({"retry": 3}, {"retry": {"attempts": 3, "delay": "5s"}}, {"retry": (3, {"attempts": 3, "delay": "5s"})}),
        ({"timeout": "5m"}, {"timeout": "1h"}, {"timeout": ("5m", "1h")}),
        ({"env": {"A": "1"}}, {"env": {"A": "2"}}, {"env.A": ("1", "2")}),
    ],
)
def test_changed_fields_have_the_names_used_in_files(old, new, fields):
    before, after = (read_job({"name": "a", "run": "x", **one}) for one in (old, new))
    [found] = compare({"a": before}, {"a": after}, now=0)
    assert dict(found.fields) == fields
