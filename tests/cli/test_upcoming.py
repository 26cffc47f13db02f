"""`onthedot upcoming`, on a database that a dead node left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Call


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def test_the_table(call: Call, database: Path):
    assert call("pause", "on_demand", "--db", database).exit_code == 0
    head, *found, last = rows(call("upcoming", "--db", database, "--limit", "6").output)
    assert head == ["DUE (CET)", "WHEN", "JOB", "WHAT"]
    assert found[0] == ["12:00:30", "in 3.0 s", "tick", "6 a minute: every 10s"]
    assert found[1][2:] == ["poll", "run 9 (schedule)"] or found[1][2] == "poll"
    assert found[2][:1] == ["2026-03-29 03:00:00 CEST"], "the clocks go forward, and 02:30 is left out"
    assert last == ["1 job is paused and not listed; 'onthedot jobs' names them"]


def test_until_and_utc(call: Call, database: Path):
    found = rows(call("upcoming", "--db", database, "--until", "13:00", "--utc").output)
    assert [row[2] for row in found[1:]] == ["tick", "poll"]
    assert found[1][0] == "11:00:30"
    told = json.loads(call("upcoming", "--db", database, "--until", "+5s", "--json").output)
    assert [(one["job"], one["due_at"], one["every_s"]) for one in told["starts"]] == [
        ("tick", "2026-03-28T11:00:30.000000Z", None)
    ]
    assert call("upcoming", "--db", database, "--until", "+1s").output == "nothing is to start\n"
    assert call("upcoming", "--db", database, "--limit", "1").output.endswith("--limit sets how many\n")


def test_of_one_job(call: Call, database: Path):
    head, *found = rows(call("upcoming", "tick", "-n", "2", "--db", database).output)
    assert head == ["DUE (CET)", "WHEN", "SCHEDULE"]
    assert [row[0] for row in found] == ["12:00:30", "12:00:40"]
    assert rows(call("upcoming", "--job", "tick", "-n", "2", "--db", database).output) == [head, *found]
    assert "leave one out" in call("upcoming", "poll", "--job", "tick", "--db", database).output
    runs = [call("runs", option, "1", "--db", database).output for option in ("-n", "--limit")]
    assert runs[0] == runs[1]
    call("pause", "tick", "--db", database)
    assert call("upcoming", "tick", "--db", database).output.startswith("job tick is paused: it starts when it is")
    assert call("upcoming", "on_demand", "--db", database).output == "job on_demand has no start that is known\n"


def test_a_start_that_was_moved_is_the_next_one_everywhere(call: Call, database: Path):
    moved = json.loads(call("move-next", "report", "2026-03-29T06:00", "--json", "--db", database).output)
    word = f"run {moved['run_id']} (moved from 2026-03-29 03:00:00 CEST)"
    found = [row for row in rows(call("upcoming", "--db", database).output) if row[2] == "report"]
    assert found[0][0] == "2026-03-29 06:00:00 CEST"
    assert found[0][3] == word
    head, first, *_ = rows(call("upcoming", "report", "--db", database).output)
    assert head == ["DUE (CET)", "WHEN", "SCHEDULE", "WHAT"]
    assert (first[0], first[2:]) == ("2026-03-29 06:00:00 CEST", [moved["schedule"], word])
    told = json.loads(call("upcoming", "report", "--json", "--db", database).output)["starts"][0]
    assert (told["run_id"], told["moved"], told["slot_at"]) == (moved["run_id"], True, "2026-03-29T01:00:00.000000Z")
    assert told == moved["next"][0]
    assert "2026-03-29 06:00:00 CEST" in call("jobs", "--db", database).output
    call("skip-next", "report", "--schedule", moved["schedule"], "--db", database)
    assert "2026-03-30 02:30:00" not in call("upcoming", "report", "--db", database).output


def test_a_start_that_was_skipped_says_who_did_that(call: Call, database: Path):
    call("skip-next", "tick", "--slot", "2026-03-28T11:00:30Z", "--db", database)
    assert rows(call("upcoming", "tick", "--db", database).output)[1][0] == "12:00:40"
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
def test_what_is_wrong_is_told(call: Call, database: Path, arguments: list[str], message: str):
    result = call("upcoming", "--db", database, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
