"""`onthedot jobs | trigger | pause | resume`: they list, start, stop and restart jobs, or refuse with advice."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import onthedot as otd
from onthedot.cli import logs
from onthedot.cli.connect import write_store
from onthedot.cli.main import cli
from onthedot.clock import Clock, Micros, SystemClock
from onthedot.model.job import Job
from onthedot.model.task import Command, Param
from onthedot.stores.protocol import Store
from tests.cli.conftest import AskStore, Call, SetClock, seconds

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


def test_jobs_are_listed_in_a_table(call: Call, database: Path):
    assert cells(call("jobs", "--db", database)) == [HEADINGS, *ROWS]


def test_the_columns_of_the_table_are_aligned(call: Call, database: Path):
    head, *lines = call("jobs", "--db", database).output.splitlines()
    column = head.index("SCHEDULE")
    assert {line[column - 2 : column] for line in lines} == {"  "}


def test_store_and_db_name_the_same_file(call: Call, database: Path):
    assert cells(call("jobs", "--store", f"sqlite:///{database}")) == [HEADINGS, *ROWS]


def test_the_list_can_be_json(call: Call, database: Path):
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
            "user_version = 1",
            "expected schema version 3, got 1: an older onthedot wrote it; 'onthedot store migrate --db ",
        ),
        (
            "user_version = 0",
            "expected the tables of onthedot, found none; 'onthedot store migrate --db ",
        ),
        (
            "user_version = 99",
            "expected schema version 3 or older, got 99: a newer onthedot wrote it; upgrade this one",
        ),
        ("application_id = 7", "expected a database of onthedot or an empty file, got one of another program"),
    ],
)
@pytest.mark.parametrize("command", ["jobs", "runs"])
def test_reading_does_not_migrate_a_database_of_another_version(
    call: Call, database: Path, command: str, pragma: str, message: str
):
    """The user decides when to migrate."""
    db = sqlite3.connect(database)
    db.execute(f"PRAGMA {pragma}")
    db.close()
    before = database.read_bytes()
    result = call(command, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert database.read_bytes() == before


async def test_the_parents_of_a_job_are_shown_in_the_schedule_column(tmp_path: Path):
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
        ["no node is living: nothing starts until one is"],
    ]
    jobs = json.loads((await asyncio.to_thread(call_jobs, "--db", str(path), "--json")).output)
    assert jobs[1]["after"] == {"jobs": ["clean", "load"], "any": False, "on": "success"}


def call_jobs(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", *arguments], prog_name="onthedot")


def test_the_list_can_be_limited_to_a_namespace(call: Call, database: Path):
    assert call("jobs", "--namespace", "default", "--db", database).output == call("jobs", "--db", database).output
    assert call("jobs", "--namespace", "team", "--db", database).output == "no jobs are stored\n"
    told = call("--db", database, "jobs")
    assert (told.exit_code, "put --db behind the command" in told.output) == (2, True)


def runs_of(ask_store: AskStore, job: str) -> list[tuple[str, str, str]]:
    return [
        (run.trigger.partition(":")[0], run.state, run.reason)
        for run in ask_store(lambda s: s.queries.list_runs(job=job))
    ]


# ── trigger ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_trigger_stores_one_run_that_is_due_now(call: Call, cluster: Path, ask_store: AskStore):
    result = call("trigger", "scan", "--db", cluster)
    assert (result.exit_code, result.output) == (0, "run 7 of scan is stored\n")
    run = ask_store(lambda store: store.queries.get_run(7))
    assert (run.trigger.partition(":")[0], run.state, run.slot_at == run.due_at) == ("manual", "scheduled", True)
    assert ask_store(lambda store: store.queries.get_run(7)).args is None


def test_arguments_are_json_or_text(call: Call, cluster: Path, ask_store: AskStore):
    pairs = ["--arg", "n=3", "--arg", "who=ann=b", "--arg", 'quoted="3"', "--arg", "none=", "--arg", "on=true"]
    run = json.loads(call("trigger", "scan", *pairs, "--db", cluster, "--json").output)
    assert (run["run_id"], run["job"], run["state"], run["queue"]) == (7, "scan", "scheduled", "default")
    args = json.loads(ask_store(lambda store: store.queries.get_run(7)).args)
    assert args == {"n": 3, "who": "ann=b", "quoted": "3", "none": "", "on": True}


def test_interrupting_trigger_follow_leaves_the_run_running(
    call: Call, cluster: Path, ask_store: AskStore, monkeypatch: pytest.MonkeyPatch
):
    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(logs, "_follow", interrupted)
    result = call("trigger", "scan", "--follow", "--db", cluster)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == (
        f"run 7 of scan is stored\nrun 7 goes on; 'onthedot logs 7 -f --db {cluster}' follows it\n"
    )
    assert ask_store(lambda store: store.queries.get_run(7)).state == "scheduled"


def test_trigger_works_in_another_namespace_and_for_a_paused_job(call: Call, cluster: Path):
    assert call("trigger", "own", "--namespace", "team", "--db", cluster).exit_code == 0
    call("pause", "scan", "--db", cluster)
    told = call("trigger", "scan", "--db", cluster).output
    assert told == "run 8 of scan is stored; the job is paused, and the run waits until it is resumed\n"


def test_a_triggered_run_is_due_by_the_clock_of_the_store(
    call: Call, cluster: Path, ask_store: AskStore, monkeypatch: pytest.MonkeyPatch
):
    """With the clock of this machine, which may be ten minutes ahead, the run would wait that long."""
    behind = seconds(-600)

    async def clock_of(store: Store, own: Clock) -> Clock:
        class Behind(SystemClock):
            def now(self) -> Micros:
                return behind

        return Behind()

    monkeypatch.setattr("onthedot.operations.open_verbs.clock_of", clock_of)
    assert call("trigger", "scan", "--db", cluster).exit_code == 0
    assert ask_store(lambda store: store.queries.get_run(7)).due_at == behind


# ── pause and resume ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_paused_and_resumed_after_a_preview(call: Call, database: Path, set_clock: SetClock):
    told = json.loads(call("pause", "tick", "--reason", "moving", "--db", database, "--json").output)
    assert told == {
        "job": "tick", "namespace": "default", "state": "paused", "reason": "moving", "until": None, "withdrawn": 3,
        "skipped": 0, "held": 0,
    }  # fmt: skip
    set_clock("2026-03-28T12:00:55+01:00")
    preview = call("resume", "tick", "--missed", "last", "--dry-run", "--db", database)
    assert preview.output.splitlines() == [
        "job tick would go on: 0 held runs free",
        "  skipped: 2 slots from 2026-03-28 12:00:30 +01:00 to 2026-03-28 12:00:40 +01:00: paused",
        *(f"  runs: the slot at 2026-03-28 {at} +01:00" for at in ("12:00:50", "12:01:00", "12:01:10", "12:01:20")),
    ]
    assert "paused" in call("jobs", "--db", database).output
    done = json.loads(call("resume", "tick", "--missed", "last", "--db", database, "--json").output)
    assert done["skips"] == [
        {
            "first": "2026-03-28T11:00:30.000000Z",
            "last": "2026-03-28T11:00:40.000000Z",
            "count": 2,
            "reason": "paused",
        }
    ]
    assert (done["dry_run"], done["was_paused"], len(done["slots"]), done["released"]) == (False, True, 4, 0)
    assert "paused" not in call("jobs", "--db", database).output
    assert call("resume", "tick", "--db", database).output == "job tick is not paused\n"


def test_a_pause_can_have_an_end(call: Call, database: Path):
    told = call("pause", "tick", "--until", "+2h", "--db", database).output
    assert told.startswith("job tick is paused until 2026-03-28 14:00:27 +01:00: 3 planned runs withdrawn, 0 runs held")
    until = json.loads(call("pause", "tick", "--until", "2026-03-29T09:00Z", "--db", database, "--json").output)
    assert until["until"] == "2026-03-29T09:00:00.000000Z"


@pytest.mark.parametrize(
    ("words", "local"),
    [
        ("monday 03:00", "2026-03-30 03:00:00 +02:00"),
        ("tomorrow 03:00", "2026-03-29 03:00:00 +02:00"),
        ("2026-12-24 03:00", "2026-12-24 03:00:00 +01:00"),
        ("in 2h", "2026-03-28 14:00:27 +01:00"),
        ("12:00", "2026-03-29 12:00:00 +02:00"),
    ],
)
def test_a_future_instant_can_be_given_in_words(call: Call, database: Path, words: str, local: str):
    assert f"job tick is paused until {local}" in call("pause", "tick", "--until", words, "--db", database).output
    if words != "in 2h":
        assert f" is moved to {local}, in" in call("move-next", "report", words, "--db", database).output


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trigger", "tikc"], "no job 'tikc' is stored, did you mean 'tick'?"),
        (["trigger", "tick", "--arg", "x"], "--arg: expected NAME=VALUE like 'region=us', got 'x'"),
        (["trigger", "tick", "--arg", "x=1", "--arg", "x=2"], "--arg: expected 'x' once, got it twice"),
        (["trigger", "tick", "--arg", "x=NaN"], "arguments: expected JSON"),
        (["pause", "tikc"], "no job 'tikc' is stored, did you mean 'tick'?"),
        (["pause", "tick", "--namespace", "team"], "no job 'tick' is stored"),
        (["pause", "tick", "--until", "+2parsecs"], "unknown unit 'parsecs'"),
        (
            ["pause", "tick", "--until", "2026-03-28T12:00"],
            "lies ahead, got '2026-03-28T12:00', which is 2026-03-28 12",
        ),
        (
            ["pause", "tick", "--until", "2h"],
            "'+2h', 'in 2h', '2026-12-24 03:00' or 'monday 03:00', got '2h'; did you me",
        ),
        (["pause", "tick", "--until", "2020-01-01T00:00Z"], "--until: expected an instant that lies ahead"),
        (["resume", "tikc"], "no job 'tikc' is stored, did you mean 'tick'?"),
        (["resume", "tick", "--missed", "some"], "'some' is not one of 'none', 'last', 'all'"),
        (["cancel", "99"], "RUN: expected a stored run, got 99; 'onthedot runs --db "),
        (["cancel", "1"], "expected a run that waits or runs, got 1, which has ended already: succeeded"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_refused_and_changes_nothing(call: Call, database: Path, arguments: list[str], message: str):
    before = call("runs", "--db", database).output, call("jobs", "--db", database).output
    result = call(*arguments, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert (call("runs", "--db", database).output, call("jobs", "--db", database).output) == before


WRITING = [
    ["trigger", "tick"], ["cancel", "3"], ["pause", "tick"], ["resume", "tick"], ["node", "drain", "a"],
    ["backfill", "tick", "--from", "2026-01-01T00:00Z"],
    ["queue", "pause", "default"], ["queue", "resume", "default"], ["queue", "share", "default"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_change_does_not_migrate_a_database_of_another_version(call: Call, database: Path, arguments: list[str]):
    """Nodes of the other version may be running on the file."""
    db = sqlite3.connect(database)
    db.execute("PRAGMA user_version = 1")
    db.close()
    before = database.read_bytes()
    result = call(*arguments, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected schema version 3, got 1" in result.stderr
    assert database.read_bytes() == before


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_change_does_not_create_a_database(call: Call, tmp_path: Path, arguments: list[str]):
    result = call(*arguments, "--db", tmp_path / "gone.db")
    assert result.exit_code == 2
    assert "found none" in result.stderr
    assert list(tmp_path.iterdir()) == []


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────────


KINDS = (
    Param(name="tag"), Param(name="depth", kind="whole"), Param(name="share", kind="number"),
    Param(name="fast", kind="yes_or_no"),
)  # fmt: skip


def test_arguments_are_read_as_their_parameters_declare(call: Call, cluster: Path, ask_store: AskStore):
    job = Job(name="list", task=Command(argv=("ls",)), params=KINDS)
    write_store(f"sqlite:///{cluster}", lambda store: store.put_job(job))

    def args_of(*arguments: str) -> dict[str, object]:
        told = call("trigger", "list", *arguments, "--db", cluster, "--json")
        assert told.exit_code == 0, told.output
        found: dict[str, object] = json.loads(
            ask_store(lambda store: store.queries.get_run(json.loads(told.stdout)["run_id"])).args
        )
        return found

    given = ["--arg", "tag=137", "--arg", "depth=137", "--arg", "share=2", "--arg", "fast=yes"]
    assert args_of(*given) == {"tag": "137", "depth": 137, "share": 2, "fast": True}
    assert args_of("--arg", "tag=true", "--arg", "fast=False") == {"tag": "true", "fast": False}
    assert args_of("--arg", 'tag="quoted"') == {"tag": '"quoted"'}
    assert args_of("--arg-json", 'tag="137"', "--arg", "share=0.5") == {"tag": "137", "share": 0.5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arg", "depth=deep"], 'depth: expected a whole number, got "deep"'),
        (["--arg", "depth=1.5"], 'depth: expected a whole number, got "1.5"'),
        (["--arg", "fast=maybe"], 'fast: expected true or false, got "maybe"'),
        (["--arg", "share=NaN"], 'share: expected a number, got "NaN"'),
        (["--arg-json", "tag=137"], "tag: expected text, got 137"),
        (["--arg-json", "tag=abc"], "--arg-json: expected JSON for 'tag', got 'abc'; text needs quotes of its own"),
        (["--arg", "tag=1", "--arg-json", "tag=1"], "expected 'tag' once, got it twice"),
        (["--arg-json", "tag"], "--arg-json: expected NAME=VALUE"),
    ],
)
def test_a_value_of_another_kind_is_refused(call: Call, cluster: Path, arguments: list[str], words: str):
    job = Job(name="list", task=Command(argv=("ls",)), params=KINDS)
    write_store(f"sqlite:///{cluster}", lambda store: store.put_job(job))
    refused = call("trigger", "list", *arguments, "--db", cluster)
    assert (refused.exit_code, words in refused.stderr) == (2, True), refused.output


def test_trigger_passes_declared_parameters_and_no_others(call: Call, cluster: Path, ask_store: AskStore):
    task = Command(argv=("ls", "${{ params.depth }}"))
    job = Job(name="list", task=task, params=(Param(name="depth", kind="whole", default=1),))
    write_store(f"sqlite:///{cluster}", lambda store: store.put_job(job))
    before = ask_store(lambda store: store.queries.count_runs())
    result = call("trigger", "list", "--arg", "depth=deep", "--arg", "dept=1", "--db", cluster)
    assert result.exit_code == 2
    assert 'depth: expected a whole number, got "deep"' in result.output
    assert "dept: expected a parameter of the job, did you mean 'depth'?" in result.output
    assert ask_store(lambda store: store.queries.count_runs()) == before
    assert call("trigger", "list", "--arg", "depth=2", "--db", cluster).exit_code == 0
    assert call("trigger", "list", "--db", cluster).exit_code == 0


def test_an_edit_of_a_job_with_a_handler_names_the_program(call: Call, database: Path):
    """A program that defines the job stores its own definition again when it starts."""
    kinds = {
        job["name"]: "call" in job
        for job in json.loads(call("export", "--format", "json", "--db", database).stdout)["jobs"]
    }
    assert set(kinds.values()) == {True, False}
    for name, is_handler in kinds.items():
        told = call("edit", name, "--set", "timeout=7m", "--db", database)
        assert told.stdout.startswith(f"job {name} is changed: revision ")
        assert ("its next start undoes this" in told.stderr) == is_handler
        again = call("edit", name, "--set", "timeout=7m", "--db", database)
        assert (again.stdout, again.stderr) == (f"job {name} is as it was\n", "")
