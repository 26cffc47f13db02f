"""`onthedot jobs`, on a database that a dead node left behind."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import onthedot as otd
from onthedot.cli.main import cli

Call = Callable[..., Result]

HEADINGS = ["JOB", "STATE", "REV", "LAST RUN", "NEXT (CET)", "SCHEDULE"]
ROWS = [
    ["broken", "exhausted", "1", "dead 21.0 s ago", "exhausted", "once, at 2026-03-28 11:00:05 UTC"],
    ["long", "active", "1", "running", "over", "once, at 2026-03-28 11:00:20 UTC"],
    ["on_demand", "active", "1", "-", "-", "none: runs when it is submitted"],
    [
        "poll", "active", "1", "succeeded 27.0 s ago", "13:00:00, in 59 m 33 s",
        "1h after the end of the last run, the first at once",
    ],
    ["report", "active", "1", "-", "2026-03-29 03:00:00 CEST, in 13 h 59 m", "at 02:30 every day, Europe/Berlin"],
    ["", "2026-03-29 11:00:00 CEST, in 21 h 59 m", "every 1d, counted from 2026-01-01 09:00 UTC"],
    ["tick", "active", "1", "succeeded 7.0 s ago", "12:00:30, in 3.0 s", "every 10s"],
]  # fmt: skip


def cells(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [re.split(r" {2,}", line) for line in result.output.splitlines()]


def test_the_table(call: Call, database: Path):
    assert cells(call("jobs", "--db", database)) == [HEADINGS, *ROWS]


def test_columns_begin_at_the_same_place(call: Call, database: Path):
    head, *lines = call("jobs", "--db", database).output.splitlines()
    column = head.index("SCHEDULE")
    assert {line[column - 2 : column] for line in lines} == {"  "}


def test_store_and_db_name_the_same_file(call: Call, database: Path):
    assert cells(call("jobs", "--store", f"sqlite:///{database}")) == [HEADINGS, *ROWS]


def test_json(call: Call, database: Path):
    jobs = json.loads(call("jobs", "--db", database, "--json").output)
    assert [job["job"] for job in jobs] == ["broken", "long", "on_demand", "poll", "report", "tick"]
    report, tick = jobs[4], jobs[5]
    assert [schedule["next_at"] for schedule in report["schedules"]] == [
        "2026-03-29T01:00:00.000000Z",
        "2026-03-29T09:00:00.000000Z",
    ]
    assert report["schedules"][0]["reading"] == "at 02:30 every day, Europe/Berlin"
    assert (tick["state"], tick["revision"], tick["task"]) == ("active", 1, "call tick")
    assert tick["last_run"]["state"] == "succeeded"
    assert jobs[2]["schedules"] == []


def test_reading_changes_nothing(call: Call, database: Path):
    before = database.read_bytes()
    assert call("jobs", "--db", database).exit_code == 0
    assert call("runs", "--db", database).exit_code == 0
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir() if path.name.startswith(database.name)] == [database.name]


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        (
            "user_version = 0",
            "expected schema version 3, got 0: an older onthedot wrote it; 'onthedot store migrate --db ",
        ),
        (
            "user_version = 99",
            "expected schema version 3 or older, got 99: a newer onthedot wrote it; upgrade this one",
        ),
        ("application_id = 7", "expected a database of onthedot or an empty file, got one of another program"),
    ],
)
@pytest.mark.parametrize("command", ["jobs", "runs"])
def test_a_database_of_another_version_is_left_as_it_is(
    call: Call, database: Path, command: str, pragma: str, message: str
):
    """One line, and nothing is migrated: whoever runs it decides when."""
    db = sqlite3.connect(database)
    db.execute(f"PRAGMA {pragma}")
    db.close()
    before = database.read_bytes()
    result = call(command, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert database.read_bytes() == before


async def test_what_a_job_runs_after_is_shown_where_schedules_are(tmp_path: Path):
    path = tmp_path / "after.db"
    sched = otd.Scheduler(f"sqlite:///{path}")
    sleep = otd.Sleep(duration=timedelta(0))
    sched.add(otd.Job(name="alarm", task=sleep, after=otd.After("load", "clean", any=True, on="failure")))
    sched.add(otd.Job(name="report", task=sleep, after=otd.After("load", "clean"), schedules=(otd.every("1h"),)))
    async with sched:
        pass
    shown = await asyncio.to_thread(call_jobs, "--db", str(path))
    assert [line[-2:] for line in cells(shown)[1:] if len(line) < 6 or line[0] == "alarm"] == [
        ["-", "after any of clean, load, if it fails"],
        ["-", "after clean, load"],
    ]
    jobs = json.loads((await asyncio.to_thread(call_jobs, "--db", str(path), "--json")).output)
    assert jobs[1]["after"] == {"jobs": ["clean", "load"], "any": False, "on": "success"}


def call_jobs(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", *arguments], prog_name="onthedot")


def test_only_of_one_namespace(call: Call, database: Path):
    assert call("jobs", "--namespace", "default", "--db", database).output == call("jobs", "--db", database).output
    assert call("jobs", "--namespace", "team", "--db", database).output == "no jobs are stored\n"
    told = call("--db", database, "jobs")
    assert (told.exit_code, "put --db behind the command" in told.output) == (2, True)
