"""What a node finds when it starts: nothing, a store that was left in order, or one whose node died."""

from __future__ import annotations

import asyncio
import os
import socket
from datetime import datetime
from pathlib import Path

import pytest

from onthedot.cli.node_process.previous_state import PreviousState, read_previous_state
from onthedot.clock import SECOND, to_datetime, to_micros
from onthedot.schedules import schedule_id
from onthedot.stores.values import Node
from tests.cli.conftest import Call, past_program
from tests.observe.sample_events import NOON

NO_PROCESS = 2**22 + 1  # above the largest process number that Linux gives out


async def test_no_file_is_nothing_found(tmp_path: Path):
    assert await read_previous_state(f"sqlite:///{tmp_path}/new.db", NOON) is None
    assert await read_previous_state(f"sqlite:///{tmp_path}/new.db", NOON) is None, "looking did not create it"
    assert await read_previous_state("memory:", NOON) is None


async def test_a_file_that_is_no_store_is_left_to_the_engine(tmp_path: Path):
    (tmp_path / "text.db").write_text("this is not a database " * 100)
    assert await read_previous_state(f"sqlite:///{tmp_path}/text.db", NOON) is None


async def test_a_store_with_a_past(database: Path):
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
def test_what_became_of_the_last_node(in_berlin: None, last: Node, words: str):
    assert PreviousState(NOON, nodes=[last]).in_words() == ["0 jobs, 0 runs waiting", words]


async def test_it_knows_which_starts_were_skipped_by_hand(database: Path, call: Call):
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
