"""The banner of a node: it shows the node, its jobs and the previous state of the store."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from datetime import datetime
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.cli.node_process.banner import Banner, PreviousState, read_previous_state
from onthedot.cli.node_process.samples import add_samples
from onthedot.clock import SECOND, to_datetime, to_micros
from onthedot.model.events import Event, JobPut, NodeJoined, TermWon
from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.schedules import schedule_id
from onthedot.stores.values import Node
from tests.cli.conftest import Call as CallCommand
from tests.cli.conftest import past_program
from tests.observe.sample_events import NOON, started

NOW = NOON + 2 * SECOND
EVENTS: list[Event] = [
    NodeJoined("one", "boot", NOW),
    TermWon(0, 3),
    JobPut("heartbeat", "created", 1, 6, 0),
    JobPut("nap", "changed", 4, 2, 1),
    JobPut("flaky_import", "unchanged", 1, 0, 0),
]


def new_banner(events: list[Event], found: PreviousState | None = None) -> Banner:
    sched = otd.Scheduler("memory:")
    add_samples(sched)
    return Banner.of("memory:", found, sched, events, NOW)


def test_the_banner_of_a_first_start(in_berlin: None):
    assert new_banner(EVENTS).in_words() == [
        f"onthedot  {otd.__version__}",
        "store     memory: (gone when this process ends)",
        "node      one, leads (term 3)",
        "jobs      heartbeat      every 5s           next 2026-01-01 13:00:05 +01:00, in 3.0 s   new",
        "          minute_report  every minute, UTC  next 2026-01-01 13:01:00 +01:00, in 58.0 s",
        "          flaky_import   every 20s          next 2026-01-01 13:00:20 +01:00, in 18.0 s",
        "          nap            every 15s          next 2026-01-01 13:00:15 +01:00, in 13.0 s  changed: revision 4",
        "planned   8 runs of 2 jobs",
        "replaced  the stored definition of nap, by that of this program",
        "Ctrl-C drains and stops; a second one stops now",
        "",
    ]


def test_a_paused_job_has_no_next_start():
    said = new_banner([*EVENTS, JobPut("nap", "unchanged", 4, 0, 0, paused=True)])
    [line] = [line for line in said.in_words() if " nap " in line]
    assert line.split() == ["nap", "every", "15s", "paused"]
    [told] = [job for job in json.loads(said.as_json())["jobs"] if job["job"] == "nap"]
    assert (told["paused"], told["next_at"]) == (True, None)


def test_the_url_of_a_server_is_shown_without_its_password():
    sched = otd.Scheduler("postgresql://ann:secret@db/shop")
    said = Banner.of("postgresql://ann:secret@db/shop", None, sched, EVENTS, NOW)
    assert said.in_words()[1] == "store     postgresql://ann:***@db/shop"
    assert json.loads(said.as_json())["store"] == "postgresql://ann:***@db/shop"


def test_a_follower_is_shown_as_follower():
    assert new_banner(EVENTS[:1]).in_words()[2] == (
        "node      one, follows: another node has the term; this one takes over when that ends"
    )


def test_a_stored_job_that_the_program_cannot_run_is_a_warning():
    forged = Job(name="old\nname", task=Call(handler="old"))
    found = PreviousState(NOW, jobs=[JobRecord(1, 1, forged, JobState.ACTIVE, NOON, NOON)])
    lines = new_banner(EVENTS, found).in_words()
    assert "found     1 job, 0 runs waiting" in lines
    [warning] = [line for line in lines if line.startswith("warning")]
    assert warning == (
        "warning   stored job 'old\\\\nname' needs 'call:old', which this program does not have: "
        "its runs wait for a program that has it"
    )


def test_the_banner_can_be_json():
    fields = json.loads(new_banner(EVENTS, PreviousState(NOW)).as_json())
    assert (fields["event"], fields["node_id"], fields["leads"]) == ("Opening", "one", True)
    assert [job["job"] for job in fields["jobs"]] == ["heartbeat", "minute_report", "flaky_import", "nap"]
    assert fields["jobs"][0]["next_at"] == "2026-01-01T12:00:05.000000Z"
    assert fields["found"]["jobs"] == 0


def test_events_in_the_banner_are_marked_as_told():
    assert all(Banner.is_told(event) for event in EVENTS)
    assert not Banner.is_told(started())


NO_PROCESS = 2**22 + 1  # above the largest process id of Linux


async def test_a_missing_store_has_no_previous_state(tmp_path: Path):
    assert await read_previous_state(f"sqlite:///{tmp_path}/new.db", NOON) is None
    assert await read_previous_state(f"sqlite:///{tmp_path}/new.db", NOON) is None, "reading must not create the file"
    assert await read_previous_state("memory:", NOON) is None


async def test_an_invalid_file_has_no_previous_state(tmp_path: Path):
    (tmp_path / "text.db").write_text("this is not a database " * 100)
    assert await read_previous_state(f"sqlite:///{tmp_path}/text.db", NOON) is None


async def test_the_previous_state_has_jobs_and_runs(database: Path):
    now = to_micros(datetime.fromisoformat("2026-03-28T12:00:45+01:00"))
    found = await read_previous_state(f"sqlite:///{database}", now)
    assert found is not None
    assert [record.job.name for record in found.jobs] == ["broken", "long", "on_demand", "poll", "report", "tick"]
    assert (found.waiting, found.overdue, found.running) == (3, 2, 1)
    assert found.in_words()[0] == "6 jobs, 3 runs waiting (2 of them due already), 1 running"
    assert found.as_json()["runs_overdue"] == 2


def node(**fields: object) -> Node:
    made = {"host": socket.gethostname(), "pid": NO_PROCESS, "registered_at": NOON, "lease_until": NOON + 9 * SECOND}
    return Node("one", "boot", **{**made, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (node(left_at=NOON - SECOND), "node one stopped in order at 2026-01-01 12:59:59 +01:00, 1.0 s ago"),
        (
            node(lease_until=NOON - 2 * SECOND),
            "node one vanished: its lease ended at 2026-01-01 12:59:58 +01:00, 2.0 s ago",
        ),
        (
            node(),
            f"node one vanished (process {NO_PROCESS} is gone): what it ran is recovered when its lease ends, "
            "at 2026-01-01 13:00:09 +01:00, in 9.0 s",
        ),
        (node(pid=os.getppid()), f"node one is running too (process {os.getppid()} on {socket.gethostname()})"),
        (node(host="elsewhere"), f"node one is running too (process {NO_PROCESS} on elsewhere)"),
        (
            node(pid=os.getpid()),
            f"node one vanished (process {os.getpid()} is gone): what it ran is recovered when its lease ends, "
            "at 2026-01-01 13:00:09 +01:00, in 9.0 s",
        ),
    ],
    ids=["stopped", "vanished", "killed", "alive", "alive elsewhere", "its number is ours now"],
)
def test_the_state_of_the_last_node_is_described(in_berlin: None, last: Node, words: str):
    assert PreviousState(NOON, nodes=[last]).in_words() == ["0 jobs, 0 runs waiting", words]


async def test_the_previous_state_leaves_out_skipped_starts(database: Path, call: CallCommand):
    report = next(one for one in past_program().jobs.values() if one.name == "report")
    by_cron = schedule_id(report.schedules[0])
    now = to_micros(datetime.fromisoformat("2026-03-28T12:00:27+01:00"))
    before = await read_previous_state(f"sqlite:///{database}", now, [report])
    await asyncio.to_thread(call, "skip-next", "report", "--schedule", by_cron, "--db", database)
    after = await read_previous_state(f"sqlite:///{database}", now, [report])
    key = ("default", "report", by_cron)
    assert before is not None
    assert after is not None
    assert [to_datetime(one.next[key]).isoformat() for one in (before, after)] == [
        "2026-03-29T01:00:00+00:00",
        "2026-03-30T00:30:00+00:00",
    ]
