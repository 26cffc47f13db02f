"""Which instants come next."""

from __future__ import annotations

import onthedot as otd
from onthedot.cli.next_slots import NextStart, NextStarts
from onthedot.clock import SECOND, Micros
from onthedot.model.job import FixedDelay, Job, Schedule, Sleep
from onthedot.schedules import due_of, next_after
from tests.observe.made_up import NOON, failure, finish


def job(name: str, *schedules: Schedule) -> Job:
    return Job(name=name, task=Sleep(duration=otd.Retry().delay), schedules=schedules)


def test_the_first_ones_of_all_schedules_in_order():
    upcoming = NextStarts([job("a", otd.every("10s"), otd.every("5m")), job("b", otd.every("15s")), job("c")], NOON)
    assert upcoming.next(3, NOON) == [
        NextStart(NOON + 10 * SECOND, "a"),
        NextStart(NOON + 15 * SECOND, "b"),
        NextStart(NOON + 300 * SECOND, "a"),
    ]
    assert upcoming.next(1, NOON + 10 * SECOND) == [NextStart(NOON + 15 * SECOND, "b")]
    later = NOON + 86_400 * SECOND
    assert upcoming.next(1, later) == [NextStart(later + 10 * SECOND, "a")]


def test_a_schedule_that_has_ended_is_gone():
    once = job("once", otd.at("2026-01-01T12:00:30Z"))
    upcoming = NextStarts([once], NOON)
    assert upcoming.next(5, NOON) == [NextStart(NOON + 30 * SECOND, "once")]
    assert upcoming.next(5, NOON + 30 * SECOND) == []


def test_a_fixed_delay_goes_on_when_its_run_has_ended():
    made = otd.gap("10s")
    assert isinstance(made, FixedDelay)
    poll = job("poll", made)
    upcoming = NextStarts([poll], NOON)
    upcoming.next(5, NOON + SECOND)
    ended = finish(name="poll")
    ended.lease.record = type(ended.lease.record)(1, 1, poll, ended.lease.record.state, NOON, NOON)
    upcoming.ended(ended)
    assert upcoming.next(5, NOON + SECOND) == [NextStart(ended.ended_at + 10 * SECOND, "poll")]


def test_jitter_is_part_of_when():
    spread = otd.every("1m", jitter="30s")
    jittered = job("spread", spread)
    upcoming, at = NextStarts([jittered], NOON), NOON
    found: list[Micros] = []
    while len(found) < 5:
        [coming] = upcoming.next(1, at)
        found.append(coming.at)
        at = coming.at
    slots = [NOON + number * 60 * SECOND for number in range(1, 6)]
    assert next_after(spread, NOON, origin=NOON) == slots[0]
    assert found == [due_of(jittered, spread)(slot) for slot in slots]


def test_a_retry_goes_when_it_begins_or_its_instant_has_passed():
    upcoming = NextStarts([], NOON)
    failed = finish(failure())
    upcoming.ended(failed)
    [retry] = upcoming.next(5, NOON)
    assert (retry.at, retry.job) == (failed.verdict.due_at, "import")
    upcoming.started(failed.lease.run_id)
    assert upcoming.next(5, NOON) == []
    upcoming.ended(failed)
    assert upcoming.next(5, failed.verdict.due_at) == []
