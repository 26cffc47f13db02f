"""`onthedot skip-next | move-next | backfill | skips`: they skip, move and repeat slots, and list skipped ones."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onthedot.cli import slots as module
from onthedot.cli.main import cli
from onthedot.model.run import RunRecord
from onthedot.stores.sqlite import SqliteStore
from tests.cli.conftest import Call, SetClock

WEEK = ["--from", "2026-03-21", "--to", "2026-03-28"]
HOUR = ["--from", "2026-03-28T09:00Z", "--to", "2026-03-28T10:00Z"]
DAILY = "report: 7 slots from 2026-03-21 02:30:00 +01:00 to 2026-03-27 02:30:00 +01:00"


@pytest.fixture
def only(call: Call, database: Path) -> list[str]:
    """The options that choose the cron schedule of `report`."""
    [found] = [job for job in json.loads(call("jobs", "--db", database, "--json").output) if job["job"] == "report"]
    ids = [schedule["id"] for schedule in found["schedules"] if "02:30" in schedule["reading"]]
    return ["--schedule", *ids]


def runs_of(database: Path, job: str) -> list[RunRecord]:
    """The stored runs of a job that backfills created."""

    async def read() -> list[RunRecord]:
        store = await SqliteStore.open(database, read_only=True)
        try:
            return await store.queries.list_runs(job=job, limit=1_000)
        finally:
            await store.close()

    return [run for run in asyncio.run(read()) if run.trigger.startswith("backfill:")]


def test_a_dry_run_prints_the_number_and_range_of_slots(call: Call, database: Path, only: list[str]):
    told = call("backfill", "report", *WEEK, *only, "--dry-run", "--db", database)
    assert (told.exit_code, told.output) == (0, f"{DAILY}, 7 new runs would be made\n")
    assert runs_of(database, "report") == []


def test_a_range_can_be_relative(call: Call, database: Path, only: list[str]):
    told = call("backfill", "report", "--from", "-8d", "--to", "-1d", *only, "--dry-run", "--db", database)
    assert told.exit_code == 0
    assert told.output.startswith("report: 7 slots from ")
    wrong = call("backfill", "report", "--from", "-8 moons", *only, "--dry-run", "--db", database)
    assert (wrong.exit_code, "--from: expected a length of time" in wrong.stderr) == (2, True)


def test_a_repeated_backfill_creates_one_run_for_each_slot(call: Call, database: Path, only: list[str]):
    done = call("backfill", "report", *WEEK, *only, "--db", database)
    assert (done.exit_code, done.output) == (0, f"{DAILY}, 7 new runs\n")
    made = runs_of(database, "report")
    assert len(made) == 7
    assert {run.state for run in made} == {"scheduled"}
    again = call("backfill", "report", *WEEK, *only, "--db", database).output
    assert again == f"{DAILY}, 0 new runs, 7 were there before\n"
    assert runs_of(database, "report") == made


def test_the_result_of_a_backfill_can_be_json(call: Call, database: Path):
    told = json.loads(call("backfill", "tick", *HOUR, "--db", database, "--json").output)
    assert len(told.pop("run_ids")) == 360
    assert told == {
        "job": "tick", "namespace": "default", "dry_run": False, "slots": 360, "created": 360, "existing": 0,
        "succeeded": 0, "first": "2026-03-28T09:00:00.000000Z", "last": "2026-03-28T09:59:50.000000Z",
    }  # fmt: skip


def test_a_backfill_ends_now_by_default(call: Call, database: Path):
    told = call("backfill", "tick", "--from", "2026-03-28T11:00:00Z", "--dry-run", "--db", database).output
    assert told.startswith("tick: 3 slots from 2026-03-28 12:00:00 +01:00 to 2026-03-28 12:00:20 +01:00")


def test_backfilled_runs_of_a_paused_job_wait(call: Call, database: Path):
    call("pause", "tick", "--db", database)
    told = call("backfill", "tick", *HOUR, "--db", database).output
    assert told.endswith("the job is paused, and the runs wait until it is resumed\n")


def test_a_range_can_be_given_in_words(call: Call, database: Path):
    told = call("backfill", "tick", "--from", "yesterday", "--to", "today", "--dry-run", "--db", database).output
    assert told.startswith("tick: 8640 slots from 2026-03-27 00:00:00 +01:00 to 2026-03-27 23:59:50 +01:00")
    told = call(
        "backfill", "tick", "--from", "yesterday", "--to", "today", "--dry-run", "--utc", "--db", database
    ).output
    assert told.startswith("tick: 8640 slots from 2026-03-27 00:00:00 +00:00")
    refused = call("backfill", "tick", "--from", "2026-03-28T10:00", "--db", database).stderr
    assert "add one ('2026-03-28T10:00:00+01:00')" in refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "lunch"], "--from: expected a point in time like"),
        (["--from", "2026-03-28T10:00Z", "--to", "2026-03-28T09:00Z"], "--to: expected an instant after start"),
        (["--from", "2026-03-28T10:00"], "--from: expected a point in time with an offset"),
        ([*HOUR, "--limit", "10"], "--limit: expected at most 10 slots in the range"),
        ([*HOUR, "--limit", "0"], "0 is not in the range x>=1"),
        ([*HOUR, "--schedule", "other"], "--schedule: expected one of job 'tick'"),
        (["--to", "2026-03-28T10:00Z"], "Missing option '--from'"),
    ],
)
def test_bad_input_of_a_backfill_is_refused(call: Call, database: Path, options: list[str], message: str):
    result = call("backfill", "tick", *options, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert runs_of(database, "tick") == []


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("tikc", "no job 'tikc' is stored, did you mean 'tick'?"),
        ("poll", "got a fixed delay; its slots follow its runs"),
        ("on_demand", "got none; submit the runs instead"),
    ],
)
def test_jobs_without_fixed_slots_are_refused(call: Call, database: Path, job: str, message: str):
    result = call("backfill", job, *HOUR, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


# ── on a terminal ────────────────────────────────────────────────────────────────────────────────────────────────


class Terminal:
    """Standard streams that are a terminal, as far as the command asks."""

    class stdin:  # noqa: N801 - replaces an attribute of the module
        isatty = staticmethod(lambda: True)

    stdout = stderr = stdin


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, database: Path) -> Callable[..., Result]:
    """`onthedot backfill tick` on a terminal, with what is typed there."""
    monkeypatch.setattr(module, "sys", Terminal)

    def run(typed: str, *options: str) -> Result:
        arguments = ["backfill", "tick", *HOUR, *options, "--db", str(database)]
        return CliRunner().invoke(cli, arguments, input=typed, prog_name="onthedot")

    return run


def test_many_runs_need_a_confirmation(answer: Callable[..., Result], database: Path):
    asked = answer("n\n")
    assert asked.exit_code == 1
    assert "tick: 360 slots from 2026-03-28 10:00:00 +01:00" in asked.stdout
    assert "360 new runs would be made. Go on?" in asked.stdout
    assert runs_of(database, "tick") == []
    done = answer("y\n")
    assert done.exit_code == 0
    assert "360 of 360 runs asked for" in done.stderr
    assert len(runs_of(database, "tick")) == 360
    assert answer("").exit_code == 0, "the runs exist already, so no question is needed"


@pytest.mark.parametrize("option", ["--yes", "--json", "--dry-run"])
def test_options_replace_the_confirmation(answer: Callable[..., Result], option: str):
    done = answer("", option)
    assert done.exit_code == 0
    assert "Go on?" not in done.stdout


def test_few_runs_need_no_confirmation(answer: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, database: Path):
    monkeypatch.setattr(module, "ASK_ABOVE", 360)
    assert answer("").exit_code == 0
    assert len(runs_of(database, "tick")) == 360


@pytest.fixture
def paused(call: Call, database: Path, set_clock: SetClock) -> Path:
    """A database whose job `tick` was paused twice for 25 seconds."""
    for begin, end in (("12:00:30", "12:00:55"), ("12:02:00", "12:02:25")):
        set_clock(f"2026-03-28T{begin}+01:00")
        assert call("pause", "tick", "--db", database).exit_code == 0
        set_clock(f"2026-03-28T{end}+01:00")
        assert call("resume", "tick", "--db", database).exit_code == 0
    return database


def test_skips_are_listed_in_a_table(call: Call, paused: Path):
    head, *rows = (re.split(r" {2,}", line) for line in call("skips", "--db", paused).output.splitlines())
    assert head == ["JOB", "SLOTS", "FIRST (CET)", "LAST", "REASON", "RECORDED"]
    assert {row[0] for row in rows} == {"tick"}
    assert rows[-1][4:] == ["paused", "12:00:55"]
    assert "FIRST (UTC)" in call("skips", "--utc", "--db", paused).output


def test_skips_can_be_limited_to_a_range_of_time(call: Call, paused: Path):
    def found(*arguments: str) -> list[str]:
        return [one["first"][11:19] for one in json.loads(call("skips", "--db", paused, "--json", *arguments).output)]

    assert found() == ["11:01:30", "11:00:40"]
    assert found("--since", "12:02:00") == ["11:01:30"], "a range that overlaps is included"
    assert found("--until", "12:01:30") == ["11:00:40"]
    assert found("--since", "tomorrow") == found("--job", "nobody") == []
    assert call("skips", "--db", paused, "--since", "tomorrow").output.startswith("no skipped slots match")
    assert "showing 1 range, and there are more; -n sets how many" in call("skips", "--db", paused, "-n", "1").output


def test_a_bad_range_of_skips_is_refused(call: Call, paused: Path):
    result = call("skips", "--db", paused, "--since", "lunch")
    assert result.exit_code == 2
    assert "--since: expected a point in time like 'yesterday'" in result.output


# ── skip-next and move-next ──────────────────────────────────────────────────────────────────────────────────────


def test_skip_next_skips_a_start_and_shows_the_next_ones(call: Call, database: Path):
    told = call("skip-next", "report", "--db", database)
    assert (told.exit_code, told.output.splitlines()[:3]) == (0, [
        "job report: the start at 2026-03-29 03:00:00 +02:00, in 13 h 59 m, is skipped",
        "next starts:",
        "  2026-03-29 11:00:00 +02:00, in 21 h 59 m (schedule 6ce89a21c7)",
    ])  # fmt: skip


def test_move_next_moves_a_start_and_names_its_run(call: Call, database: Path):
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


def test_skip_next_of_a_paused_job_says_that_nothing_starts(call: Call, database: Path):
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
def test_bad_changes_of_a_start_are_refused(call: Call, database: Path, command: list[str], words: str):
    refused = call(*command, "--db", database)
    assert refused.exit_code in (1, 2)
    assert words in refused.output
