"""`onthedot trigger`, `cancel`, `pause` and `resume`: one write each, by the verbs that programs use."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from onthedot.cli import logs
from onthedot.cli.writing import write_store
from onthedot.clock import Clock, Micros, SystemClock
from onthedot.model.job import Job
from onthedot.model.run import RunState
from onthedot.model.task import Command, Param
from onthedot.stores.protocol import Store
from tests.cli.conftest import Look, Stand, seconds

Call = Callable[..., Result]


def runs_of(look: Look, job: str) -> list[tuple[str, str, str]]:
    return [
        (run.trigger.partition(":")[0], run.state, run.reason) for run in look(lambda s: s.queries.list_runs(job=job))
    ]


# ── trigger ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_trigger_asks_for_one_run_now(call: Call, cluster: Path, look: Look):
    result = call("trigger", "scan", "--db", cluster)
    assert (result.exit_code, result.output) == (0, "run 7 of scan is stored\n")
    run = look(lambda store: store.queries.get_run(7))
    assert (run.trigger.partition(":")[0], run.state, run.slot_at == run.due_at) == ("manual", "scheduled", True)
    assert look(lambda store: store.queries.get_run(7)).args is None


def test_arguments_are_json_or_text(call: Call, cluster: Path, look: Look):
    pairs = ["--arg", "n=3", "--arg", "who=ann=b", "--arg", 'quoted="3"', "--arg", "none=", "--arg", "on=true"]
    run = json.loads(call("trigger", "scan", *pairs, "--db", cluster, "--json").output)
    assert (run["run_id"], run["job"], run["state"], run["queue"]) == (7, "scan", "scheduled", "default")
    args = json.loads(look(lambda store: store.queries.get_run(7)).args)
    assert args == {"n": 3, "who": "ann=b", "quoted": "3", "none": "", "on": True}


def test_who_stops_to_follow_a_run_is_told_that_it_goes_on(
    call: Call, cluster: Path, look: Look, monkeypatch: pytest.MonkeyPatch
):
    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(logs, "_follow", interrupted)
    result = call("trigger", "scan", "--follow", "--db", cluster)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == (
        f"run 7 of scan is stored\nrun 7 goes on; 'onthedot logs 7 -f --db {cluster}' follows it\n"
    )
    assert look(lambda store: store.queries.get_run(7)).state == "scheduled"


def test_trigger_in_another_namespace_and_of_a_paused_job(call: Call, cluster: Path):
    assert call("trigger", "own", "--namespace", "team", "--db", cluster).exit_code == 0
    call("pause", "scan", "--db", cluster)
    told = call("trigger", "scan", "--db", cluster).output
    assert told == "run 8 of scan is stored; the job is paused, and the run waits until it is resumed\n"


def test_a_run_is_due_by_the_stores_clock(call: Call, cluster: Path, look: Look, monkeypatch: pytest.MonkeyPatch):
    """This machine's clock may be ten minutes ahead of it: the run would wait for that long."""
    behind = seconds(-600)

    async def clock_of(store: Store, own: Clock) -> Clock:
        class Behind(SystemClock):
            def now(self) -> Micros:
                return behind

        return Behind()

    monkeypatch.setattr("onthedot.operations.open_verbs.clock_of", clock_of)
    assert call("trigger", "scan", "--db", cluster).exit_code == 0
    assert look(lambda store: store.queries.get_run(7)).due_at == behind


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cancel_a_run_that_waits_and_one_that_runs(call: Call, cluster: Path, look: Look):
    assert call("cancel", "3", "--reason", "gone", "--db", cluster).output == "run 3 is cancelled\n"
    run = look(lambda store: store.queries.get_run(3))
    assert (run.state, run.reason) == (RunState.CANCELLED, "gone")
    told = json.loads(call("cancel", "1", "--db", cluster, "--json").output)
    assert told == {"run_id": 1, "answer": "asked", "state": "running"}
    assert look(lambda store: store.queries.why_waiting(1)).cancel_wanted == "cancelled"
    assert "its attempt is asked to stop: cancelled" in call("show", "1", "--db", cluster).output


# ── skip-next and move-next ──────────────────────────────────────────────────────────────────────────────────────


def test_the_next_start_is_skipped_and_what_comes_is_shown(call: Call, database: Path):
    told = call("skip-next", "report", "--db", database)
    assert (told.exit_code, told.output.splitlines()[:3]) == (0, [
        "job report: the start at 2026-03-29 03:00:00 +02:00, in 13 h 59 m, is skipped",
        "next starts:",
        "  2026-03-29 11:00:00 +02:00, in 21 h 59 m (schedule 6ce89a21c7)",
    ])  # fmt: skip


def test_the_next_start_is_moved_and_the_run_is_told(call: Call, database: Path):
    schedules = json.loads(call("jobs", "--db", database, "--json").output)
    by_cron, daily = [one["id"] for job in schedules if job["job"] == "report" for one in job["schedules"]]
    told = json.loads(call("move-next", "report", "-10m", "--schedule", daily, "--json", "--db", database).output)
    assert (told["schedule"], told["slot_at"]) == (daily, "2026-03-29T09:00:00.000000Z")
    assert (told["reason"], told["due_at"]) == ("moved", "2026-03-29T08:50:00.000000Z")
    assert [one["schedule"] for one in told["next"]] == [by_cron, daily, by_cron]
    run = json.loads(call("show", told["run_id"], "--db", database, "--json").output)
    assert (run["state"], run["trigger"].partition(":")[0]) == ("scheduled", "manual")
    local = call("move-next", "report", "2026-03-29T06:00", "--db", database).output  # in the schedule's own zone
    assert "the start at 2026-03-29 03:00:00 +02:00 is moved to 2026-03-29 06:00:00 +02:00, in" in local


def test_a_paused_job_says_that_nothing_starts(call: Call, database: Path):
    call("pause", "poll", "--db", database)
    told = call("skip-next", "poll", "--db", database).output
    assert "the job is paused: nothing starts until 'onthedot resume poll'" in told


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["skip-next", "tikc"], "did you mean 'tick'?"),
        (["skip-next", "tick", "--slot", "soon"], "--slot: expected a point in time"),
        (["skip-next", "tick", "--slot", "2026-03-28T11:00:30"], "--slot: expected"),
        (["skip-next", "tick", "--schedule", "x"], "schedule: expected one of job 'tick'"),
        (["skip-next", "on_demand"], "expected a job with a slot ahead"),
        (["move-next", "tick", "soon"], "expected a point in time"),
        (["move-next", "tick", "-1h"], "expected an instant that lies ahead"),
    ],
)
def test_a_start_that_cannot_be_changed_is_told(call: Call, database: Path, command: list[str], words: str):
    refused = call(*command, "--db", database)
    assert refused.exit_code in (1, 2)
    assert words in refused.output


# ── pause and resume ─────────────────────────────────────────────────────────────────────────────────────────────


def test_pause_and_resume_with_a_preview(call: Call, database: Path, stand: Stand):
    told = json.loads(call("pause", "tick", "--reason", "moving", "--db", database, "--json").output)
    assert told == {
        "job": "tick", "namespace": "default", "state": "paused", "reason": "moving", "until": None, "withdrawn": 3,
        "skipped": 0, "held": 0,
    }  # fmt: skip
    stand("2026-03-28T12:00:55+01:00")
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


def test_pause_until(call: Call, database: Path):
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
def test_points_in_the_future_in_plain_words(call: Call, database: Path, words: str, local: str):
    assert f"job tick is paused until {local}" in call("pause", "tick", "--until", words, "--db", database).output
    if words != "in 2h":
        assert f" is moved to {local}, in" in call("move-next", "report", words, "--db", database).output


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


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
def test_what_cannot_be_done_is_refused(call: Call, database: Path, arguments: list[str], message: str):
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
def test_a_database_of_another_version_is_left_as_it_is(call: Call, database: Path, arguments: list[str]):
    """To change a job is no reason to migrate the file under nodes that run."""
    db = sqlite3.connect(database)
    db.execute("PRAGMA user_version = 0")
    db.close()
    before = database.read_bytes()
    result = call(*arguments, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected schema version 3, got 0" in result.stderr
    assert database.read_bytes() == before


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_no_database_is_made(call: Call, tmp_path: Path, arguments: list[str]):
    result = call(*arguments, "--db", tmp_path / "gone.db")
    assert result.exit_code == 2
    assert "found none" in result.stderr
    assert list(tmp_path.iterdir()) == []


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────────


KINDS = (
    Param(name="tag"), Param(name="depth", kind="whole"), Param(name="share", kind="number"),
    Param(name="fast", kind="yes_or_no"),
)  # fmt: skip


def test_arguments_are_read_as_their_parameters_declare(call: Call, cluster: Path, look: Look):
    job = Job(name="list", task=Command(argv=("ls",)), params=KINDS)
    write_store(f"sqlite:///{cluster}", lambda store: store.put_job(job))

    def args_of(*arguments: str) -> dict[str, object]:
        told = call("trigger", "list", *arguments, "--db", cluster, "--json")
        assert told.exit_code == 0, told.output
        found: dict[str, object] = json.loads(
            look(lambda store: store.queries.get_run(json.loads(told.stdout)["run_id"])).args
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
def test_a_value_of_another_kind_is_told(call: Call, cluster: Path, arguments: list[str], words: str):
    job = Job(name="list", task=Command(argv=("ls",)), params=KINDS)
    write_store(f"sqlite:///{cluster}", lambda store: store.put_job(job))
    refused = call("trigger", "list", *arguments, "--db", cluster)
    assert (refused.exit_code, words in refused.stderr) == (2, True), refused.output


def test_trigger_passes_declared_parameters_and_no_others(call: Call, cluster: Path, look: Look):
    task = Command(argv=("ls", "${{ params.depth }}"))
    job = Job(name="list", task=task, params=(Param(name="depth", kind="whole", default=1),))
    write_store(f"sqlite:///{cluster}", lambda store: store.put_job(job))
    before = look(lambda store: store.queries.count_runs())
    result = call("trigger", "list", "--arg", "depth=deep", "--arg", "dept=1", "--db", cluster)
    assert result.exit_code == 2
    assert 'depth: expected a whole number, got "deep"' in result.output
    assert "dept: expected a parameter of the job, did you mean 'depth'?" in result.output
    assert look(lambda store: store.queries.count_runs()) == before
    assert call("trigger", "list", "--arg", "depth=2", "--db", cluster).exit_code == 0
    assert call("trigger", "list", "--db", cluster).exit_code == 0
