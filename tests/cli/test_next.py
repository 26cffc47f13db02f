"""`onthedot next`: the reading, the fields, the instants, and the nights when the clocks change."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

Call = Callable[..., Result]
Stand = Callable[[str], None]


def test_the_night_the_clocks_go_forward(call: Call):
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


def test_the_night_the_clocks_go_back(call: Call):
    found = rows(call("next", "0 * * * *", "--tz", "Europe/Berlin", "--from", "2026-10-24T23:30:00Z", "-n", "3"))
    assert [row.partition("  ")[0] for row in found] == [
        "Sun 2026-10-25 02:00:00 +02:00",
        "Sun 2026-10-25 02:00:00 +01:00",
        "Sun 2026-10-25 03:00:00 +01:00",
    ]
    assert [row.partition("← ")[2] for row in found] == ["", "clocks go back 1h", ""]


@pytest.mark.parametrize(("gap", "expected"), [("run_after", "2026-03-29 03:00:00"), ("skip", "2026-03-30 02:30:00")])
def test_gap_is_selectable(call: Call, gap: str, expected: str):
    arguments = ("30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T12:00+01:00", "-n", "1")
    assert expected in rows(call("next", *arguments, "--gap", gap))[0]


@pytest.mark.parametrize(("fold", "count"), [("first", 1), ("second", 1), ("both", 2)])
def test_fold_is_selectable(call: Call, fold: str, count: int):
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
def test_the_fields_are_read_back(call: Call, expression: str, fields: str):
    assert f"fields    {fields}\n" in call("next", expression).output


def test_four_fields_need_to_be_said(call: Call):
    told = call("next", "*/5 * * *")
    assert told.exit_code == 2
    assert "write '*/5 * * * *' (every 5 minutes)" in told.output
    assert "--seconds on the command line) for 'second minute hour day' (every 5 seconds)" in told.output
    assert "reading   every 5 seconds, UTC\n" in call("next", "*/5 * * *", "--seconds").output
    assert "(every 5 seconds, UTC)" in call("lint", "*/5 * * *", "--seconds").output
    assert "expected with EXPR only" in call("lint", "jobs.yaml", "--seconds").output


def test_without_from_it_is_now(call: Call, stand: Stand):
    stand("2026-01-01T12:00:00+00:00")
    [row] = rows(call("next", "every 1h30m", "-n", "1"))
    assert row == "Thu 2026-01-01 13:30:00 +00:00  2026-01-01T13:30Z  in 1 h 30 m"


def test_an_interval_is_shown_in_the_zone_asked_for(call: Call):
    found = rows(call("next", "every 250ms", "--tz", "Asia/Kolkata", "--from", "2026-01-01T00:00Z", "-n", "1"))
    assert found[0].startswith("Thu 2026-01-01 05:30:00.250 +05:30")


def test_a_fixed_delay_has_one_instant(call: Call):
    *_, last = rows(call("next", "gap 10m", "--from", "2026-01-01T00:00Z"))
    assert last == "the following ones depend on when its runs end"


def test_what_is_over_says_so(call: Call):
    result = call("next", "at 2020-01-01T00:00Z", "--from", "2026-01-01T00:00Z")
    assert result.exit_code == 0
    assert "no instant after 2026-01-01 00:00:00 +00:00: this schedule is over" in result.output


def test_json(call: Call):
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


def test_h_is_shown_as_the_job_has_it(call: Call):
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
