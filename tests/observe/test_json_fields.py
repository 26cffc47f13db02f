"""Events as JSON: each event is one object on one line, with its name, instant and fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onthedot.clock import SECOND
from onthedot.model.events import AttemptEnded, Event, JobPut, StoreTrouble
from onthedot.model.job import Retry
from onthedot.observe.json_fields import json_line
from tests.observe.sample_events import NOON, ONE_OF_EACH, failure, finish, missed, started

AT = "2026-01-01T12:00:00.000000Z"


def read(event: Event) -> dict[str, Any]:
    line = json_line(event, NOON)
    assert "\n" not in line
    fields: dict[str, Any] = json.loads(line)
    return fields


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_each_event_has_its_name_and_instant(event: Event):
    fields = read(event)
    assert fields["event"] == type(event).__name__
    assert fields["at"] == AT


def test_a_start_has_its_lateness():
    fields = read(started())
    assert fields["job"] == "import"
    assert fields["run_id"] == 41
    assert fields["late_ms"] == 1.2
    assert fields["due_at"] == AT
    assert fields["started_at"] == "2026-01-01T12:00:00.001200Z"


def test_an_end_has_its_outcome_and_next_instant():
    fields = read(AttemptEnded(finish(failure(), retry=Retry(5))))
    assert fields["state"] == "scheduled"
    assert fields["outcome"] == "failed"
    assert fields["error"] == "OSError: no"
    assert fields["again_at"] == "2026-01-01T12:00:03.250000Z"
    assert fields["duration_ms"] == 50.0


def test_an_attempt_that_never_began_has_no_duration():
    fields = read(AttemptEnded(finish(began=False)))
    assert fields["started_at"] is None
    assert fields["duration_ms"] is None


def test_lengths_are_milliseconds_and_ranges_are_instants():
    assert read(StoreTrouble("reserver", "x", 3 * SECOND))["again_in_ms"] == 3000.0
    by_name = {type(event).__name__: event for event in ONE_OF_EACH}
    skipped = read(by_name["SlotsSkipped"])
    assert (skipped["first"], skipped["slots"]) == ("2026-01-01T11:58:50.000000Z", 14)


def test_a_missed_run_has_its_fields():
    fields = read(missed())
    assert (fields["run_id"], fields["state"], fields["reason"]) == (41, "skipped", "missed")


def test_a_job_name_cannot_forge_a_line():
    assert read(JobPut('a\n{"event": "x"}', "created", 1, 0, 0))["job"] == 'a\n{"event": "x"}'
