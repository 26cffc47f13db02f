"""`onthedot next | upcoming`: they explain a schedule and list its next instants, also through clock changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import Call

SetClock = Callable[[str], None]


def test_next_marks_the_night_when_clocks_go_forward(call: Call):
    result = call("next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-27T12:00+01:00", "-n", "3")
    assert result.exit_code == 0
    assert result.output == (
        "reading   at 02:30 every day, Europe/Berlin\n"
        "fields    second 0, minute 30, hour 2, day *, month *, weekday *\n"
        "zone      Europe/Berlin\n"
        "\n"
        "LOCAL TIME                      UTC                WHEN\n"
        "Sat 2026-03-28 02:30:00 +01:00  2026-03-28T01:30Z  in 14 h 30 m\n"
        "Sun 2026-03-29 03:00:00 +02:00  2026-03-29T01:00Z  in 1 d 14 h   ← clocks go forward 1h\n"
        "Mon 2026-03-30 02:30:00 +02:00  2026-03-30T00:30Z  in 2 d 13 h\n"
    )


def rows(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.output.partition("WHEN\n")[2].splitlines()


def test_next_marks_the_night_when_clocks_go_back(call: Call):
    found = rows(call("next", "0 * * * *", "--tz", "Europe/Berlin", "--from", "2026-10-24T23:30:00Z", "-n", "3"))
    assert [row.partition("  ")[0] for row in found] == [
        "Sun 2026-10-25 02:00:00 +02:00",
        "Sun 2026-10-25 02:00:00 +01:00",
        "Sun 2026-10-25 03:00:00 +01:00",
    ]
    assert [row.partition("← ")[2] for row in found] == ["", "clocks go back 1h", ""]


@pytest.mark.parametrize(("gap", "expected"), [("run_after", "2026-03-29 03:00:00"), ("skip", "2026-03-30 02:30:00")])
def test_the_option_gap_decides_about_skipped_times(call: Call, gap: str, expected: str):
    arguments = ("30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T12:00+01:00", "-n", "1")
    assert expected in rows(call("next", *arguments, "--gap", gap))[0]


@pytest.mark.parametrize(("fold", "count"), [("first", 1), ("second", 1), ("both", 2)])
def test_the_option_fold_decides_about_repeated_times(call: Call, fold: str, count: int):
    arguments = ("30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-10-24T12:00+02:00", "-n", "2")
    found = rows(call("next", *arguments, "--fold", fold))
    assert sum("2026-10-25" in row for row in found) == count


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        ("*/10 0 12 * * MON", "second */10, minute 0, hour 12, day *, month *, weekday MON"),
        ("@daily", "second 0, minute 0, hour 0, day *, month *, weekday *"),
    ],
)
def test_next_prints_the_fields_of_an_expression(call: Call, expression: str, fields: str):
    assert f"fields    {fields}\n" in call("next", expression).output


def test_four_fields_need_the_option_seconds(call: Call):
    told = call("next", "*/5 * * *")
    assert told.exit_code == 2
    assert "write '*/5 * * * *' (every 5 minutes)" in told.output
    assert "--seconds on the command line) for 'second minute hour day' (every 5 seconds)" in told.output
    assert "reading   every 5 seconds, UTC\n" in call("next", "*/5 * * *", "--seconds").output
    assert "(every 5 seconds, UTC)" in call("lint", "*/5 * * *", "--seconds").output
    assert "expected with EXPR only" in call("lint", "jobs.yaml", "--seconds").output


def test_next_begins_now_by_default(call: Call, set_clock: SetClock):
    set_clock("2026-01-01T12:00:00+00:00")
    [row] = rows(call("next", "every 1h30m", "-n", "1"))
    assert row == "Thu 2026-01-01 13:30:00 +00:00  2026-01-01T13:30Z  in 1 h 30 m"


def test_instants_of_an_interval_are_shown_in_the_given_zone(call: Call):
    found = rows(call("next", "every 250ms", "--tz", "Asia/Kolkata", "--from", "2026-01-01T00:00Z", "-n", "1"))
    assert found[0].startswith("Thu 2026-01-01 05:30:00.250 +05:30")


def test_a_fixed_delay_has_one_instant(call: Call):
    *_, last = rows(call("next", "gap 10m", "--from", "2026-01-01T00:00Z"))
    assert last == "the following ones depend on when its runs end"


def test_next_reports_a_past_schedule(call: Call):
    result = call("next", "at 2020-01-01T00:00Z", "--from", "2026-01-01T00:00Z")
    assert result.exit_code == 0
    assert "no instant after 2026-01-01 00:00:00 +00:00: this schedule is over" in result.output


def test_next_can_print_json(call: Call):
    result = call(
        "next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T00:00+01:00", "-n", "2", "--json"
    )
    assert json.loads(result.output) == {
        "expression": "30 2 * * *",
        "reading": "at 02:30 every day, Europe/Berlin",
        "fields": {"second": "0", "minute": "30", "hour": "2", "day": "*", "month": "*", "weekday": "*"},
        "tz": "Europe/Berlin",
        "from": "2026-03-27T23:00:00.000000Z",
        "instants": [
            {
                "local": "2026-03-28T02:30:00+01:00",
                "utc": "2026-03-28T01:30:00.000000Z",
                "in_s": 9000.0,
                "clocks": None,
            },
            {
                "local": "2026-03-29T03:00:00+02:00",
                "utc": "2026-03-29T01:00:00.000000Z",
                "in_s": 93600.0,
                "clocks": "forward 1h",
            },
        ],
    }


def test_next_shows_the_value_of_h_for_a_job(call: Call):
    result = call("next", "H/20 H(0-5) * * *", "--job", "report", "--from", "2026-01-01T00:00Z", "-n", "1")
    assert "fields    second 0, minute 17-59/20, hour 0, day *" in result.output
    assert "note" not in result.output
    other = call("next", "H/20 H(0-5) * * *", "--job", "team/report", "--json", "--from", "2026-01-01T00:00Z")
    assert json.loads(other.output)["expression"] == "H/20 H(0-5) * * *"
    assert json.loads(other.output)["fields"] != {"second": "0", "minute": "17-59/20", "hour": "0"}
    nobody = call("next", "H * * * *")
    assert "note      H is another value for each job: say for which with --job" in nobody.output


def test_several_instants_are_shown(call: Call):
    result = call("next", "at 2026-02-01T09:00Z, 2026-03-01T09:00Z", "--from", "2026-01-01T00:00Z")
    assert "reading   at 2026-02-01 09:00 UTC, 2026-03-01 09:00 UTC" in result.output
    assert len(rows(result)) == 2


def columns(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def test_upcoming_starts_are_listed_in_a_table(call: Call, database: Path):
    assert call("pause", "on_demand", "--db", database).exit_code == 0
    head, *found, last = columns(call("upcoming", "--db", database, "--limit", "6").output)
    assert head == ["DUE (CET)", "WHEN", "JOB", "WHAT"]
    assert found[0] == ["12:00:30", "in 3.0 s", "tick", "6 a minute: every 10s"]
    assert found[1][2:] == ["poll", "run 9 (schedule)"] or found[1][2] == "poll"
    assert found[2][:1] == ["2026-03-29 03:00:00 CEST"], "the clocks go forward over 02:30"
    assert last == ["1 job is paused and not listed; 'onthedot jobs' names them"]


def test_upcoming_takes_an_end_and_prints_utc(call: Call, database: Path):
    found = columns(call("upcoming", "--db", database, "--until", "13:00", "--utc").output)
    assert [row[2] for row in found[1:]] == ["tick", "poll"]
    assert found[1][0] == "11:00:30"
    told = json.loads(call("upcoming", "--db", database, "--until", "+5s", "--json").output)
    assert [(one["job"], one["due_at"], one["every_s"]) for one in told["starts"]] == [
        ("tick", "2026-03-28T11:00:30.000000Z", None)
    ]
    assert call("upcoming", "--db", database, "--until", "+1s").output == "nothing is to start\n"
    assert call("upcoming", "--db", database, "--limit", "1").output.endswith("--limit sets how many\n")


def test_upcoming_can_be_limited_to_a_job(call: Call, database: Path):
    head, *found = columns(call("upcoming", "tick", "-n", "2", "--db", database).output)
    assert head == ["DUE (CET)", "WHEN", "SCHEDULE"]
    assert [row[0] for row in found] == ["12:00:30", "12:00:40"]
    assert columns(call("upcoming", "--job", "tick", "-n", "2", "--db", database).output) == [head, *found]
    assert "leave one out" in call("upcoming", "poll", "--job", "tick", "--db", database).output
    runs = [call("runs", option, "1", "--db", database).output for option in ("-n", "--limit")]
    assert runs[0] == runs[1]
    call("pause", "tick", "--db", database)
    assert call("upcoming", "tick", "--db", database).output.startswith("job tick is paused: it starts when it is")
    assert call("upcoming", "on_demand", "--db", database).output == "job on_demand has no start that is known\n"


def test_a_moved_start_is_shown_by_all_commands(call: Call, database: Path):
    moved = json.loads(call("move-next", "report", "2026-03-29T06:00", "--json", "--db", database).output)
    word = f"run {moved['run_id']} (moved from 2026-03-29 03:00:00 CEST)"
    found = [row for row in columns(call("upcoming", "--db", database).output) if row[2] == "report"]
    assert found[0][0] == "2026-03-29 06:00:00 CEST"
    assert found[0][3] == word
    head, first, *_ = columns(call("upcoming", "report", "--db", database).output)
    assert head == ["DUE (CET)", "WHEN", "SCHEDULE", "WHAT"]
    assert (first[0], first[2:]) == ("2026-03-29 06:00:00 CEST", [moved["schedule"], word])
    told = json.loads(call("upcoming", "report", "--json", "--db", database).output)["starts"][0]
    assert (told["run_id"], told["moved"], told["slot_at"]) == (moved["run_id"], True, "2026-03-29T01:00:00.000000Z")
    assert told == moved["next"][0]
    assert "2026-03-29 06:00:00 CEST" in call("jobs", "--db", database).output
    call("skip-next", "report", "--schedule", moved["schedule"], "--db", database)
    assert "2026-03-30 02:30:00" not in call("upcoming", "report", "--db", database).output


def test_a_skipped_start_is_shown_as_skipped_by_hand(call: Call, database: Path):
    call("skip-next", "tick", "--slot", "2026-03-28T11:00:30Z", "--db", database)
    assert columns(call("upcoming", "tick", "--db", database).output)[1][0] == "12:00:40"
    found = call("runs", "--job", "tick", "--state", "skipped", "--db", database).output
    assert "skipped by hand" in found + call("skips", "--db", database).output
    assert "'skip-next' leaves out" in " ".join(call("skips", "--job", "poll", "--db", database).output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tikc"], "no job 'tikc' is stored, did you mean 'tick'?"),
        (["--until", "yesterday"], "--until: expected a point in time to come, got 'yesterday'"),
        (["--until", "soon"], "--until: expected a point in time like"),
        (["--limit", "0"], "0 is not in the range"),
    ],
)
def test_bad_input_is_refused(call: Call, database: Path, arguments: list[str], message: str):
    result = call("upcoming", "--db", database, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("fold", "remarks"),
    [
        ("first", ["", "02:30 comes twice, and it starts once: the first time", "clocks go back 1h"]),
        ("second", ["", "clocks go back 1h; 02:30 comes twice, and it starts once: the second time", ""]),
        ("both", ["", "", "clocks go back 1h"]),
    ],
)
def test_a_time_that_comes_twice_has_a_remark(call: Call, fold: str, remarks: list[str]):
    asked = ("next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-10-23T12:00Z", "-n", "3")
    assert [row.partition("← ")[2] for row in rows(call(*asked, "--fold", fold))] == remarks
    hourly = rows(call("next", "30 * * * *", "--tz", "Europe/Berlin", "--from", "2026-10-24T23:45Z", "-n", "3"))
    assert [row.partition("← ")[2] for row in hourly] == ["", "clocks go back 1h", ""], "it starts at both"


@pytest.mark.parametrize("program", ["app.py", "app.py:sched", "none.py"])
@pytest.mark.parametrize("command", ["check", "lint"])
def test_a_program_is_no_file_of_jobs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, program: str
):
    (tmp_path / "app.py").write_text("import onthedot as otd\n\nsched = otd.Scheduler('memory:')\n")
    monkeypatch.chdir(tmp_path)
    result = call(command, program)
    told = f"FILE: expected YAML or JSON, got '{program}', which is a Python program; use 'onthedot plan {program}'"
    assert (result.exit_code, told in result.output) == (2, True), result.output


@pytest.mark.parametrize("arguments", [["jobs"], ["upcoming"], ["upcoming", "tick"], ["upcoming", "--job", "tick"]])
def test_starts_that_nobody_would_make_have_a_note(
    call: Call, database: Path, set_clock: SetClock, arguments: list[str]
):
    note = "no node is living: nothing starts until one is\n"
    assert note not in call(*arguments, "--db", database).output, "its lease has not ended"
    set_clock("2026-03-28T12:01:00+01:00")
    assert call(*arguments, "--db", database).output.endswith(note)
    assert "note" not in call(*arguments, "--db", database, "--json").output
    json.loads(call(*arguments, "--db", database, "--json").output)


def test_without_starts_there_is_no_such_note(call: Call, database: Path, set_clock: SetClock):
    set_clock("2026-03-28T12:01:00+01:00")
    assert "living" not in call("upcoming", "on_demand", "--db", database).output
    assert "living" not in call("upcoming", "--until", "+1ms", "--db", database).output
