"""The first lines of `onthedot up`."""

from __future__ import annotations

import json

import onthedot as otd
from onthedot.cli.node_process.banner import Banner
from onthedot.cli.node_process.previous_state import PreviousState
from onthedot.cli.node_process.samples import add_samples
from onthedot.clock import SECOND
from onthedot.model.events import Event, JobPut, NodeJoined, TermWon
from onthedot.model.job import Call, Job, JobRecord, JobState
from tests.observe.sample_events import NOON, started

NOW = NOON + 2 * SECOND
EVENTS: list[Event] = [
    NodeJoined("one", "boot", NOW),
    TermWon(0, 3),
    JobPut("heartbeat", "created", 1, 6, 0),
    JobPut("nap", "changed", 4, 2, 1),
    JobPut("flaky_import", "unchanged", 1, 0, 0),
]


def opening(events: list[Event], found: PreviousState | None = None) -> Banner:
    sched = otd.Scheduler("memory:")
    add_samples(sched)
    return Banner.of("memory:", found, sched, events, NOW)


def test_a_first_start(in_berlin: None):
    assert opening(EVENTS).in_words() == [
        f"onthedot  {otd.__version__}",
        "store     memory: (gone when this process ends)",
        "node      one, leads (term 3)",
        "jobs      heartbeat      every 5s           next 2026-01-01 13:00:05 +01:00, in 3.0 s   new",
        "          minute_report  every minute, UTC  next 2026-01-01 13:01:00 +01:00, in 58.0 s",
        "          flaky_import   every 20s          next 2026-01-01 13:00:20 +01:00, in 18.0 s",
        "          nap            every 15s          next 2026-01-01 13:00:15 +01:00, in 13.0 s  changed: revision 4",
        "planned   8 runs of 2 jobs",
        "Ctrl-C drains and stops; a second one stops now",
        "",
    ]


def test_a_paused_job_has_no_next_start():
    said = opening([*EVENTS, JobPut("nap", "unchanged", 4, 0, 0, paused=True)])
    [line] = [line for line in said.in_words() if " nap " in line]
    assert line.split() == ["nap", "every", "15s", "paused"]
    [told] = [job for job in json.loads(said.as_json())["jobs"] if job["job"] == "nap"]
    assert (told["paused"], told["next_at"]) == (True, None)


def test_a_server_is_named_without_its_password():
    sched = otd.Scheduler("postgresql://ann:secret@db/shop")
    said = Banner.of("postgresql://ann:secret@db/shop", None, sched, EVENTS, NOW)
    assert said.in_words()[1] == "store     postgresql://ann:***@db/shop"
    assert json.loads(said.as_json())["store"] == "postgresql://ann:***@db/shop"


def test_a_follower_says_so():
    assert opening(EVENTS[:1]).in_words()[2] == (
        "node      one, follows: another node has the term; this one takes over when that ends"
    )


def test_a_stored_job_that_nobody_here_can_run_is_a_warning():
    forged = Job(name="old\nname", task=Call(handler="old"))
    found = PreviousState(NOW, jobs=[JobRecord(1, 1, forged, JobState.ACTIVE, NOON, NOON)])
    lines = opening(EVENTS, found).in_words()
    assert "found     1 job, 0 runs waiting" in lines
    [warning] = [line for line in lines if line.startswith("warning")]
    assert warning == (
        "warning   stored job 'old\\\\nname' needs 'call:old', which this program does not have: "
        "its runs wait for a program that has it"
    )


def test_json():
    fields = json.loads(opening(EVENTS, PreviousState(NOW)).as_json())
    assert (fields["event"], fields["node_id"], fields["leads"]) == ("Opening", "one", True)
    assert [job["job"] for job in fields["jobs"]] == ["heartbeat", "minute_report", "flaky_import", "nap"]
    assert fields["jobs"][0]["next_at"] == "2026-01-01T12:00:05.000000Z"
    assert fields["found"]["jobs"] == 0


def test_what_it_tells_is_not_told_again_as_events():
    assert all(Banner.is_told(event) for event in EVENTS)
    assert not Banner.is_told(started())
