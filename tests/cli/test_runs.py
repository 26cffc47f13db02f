"""`onthedot runs`, on a database that a dead node left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Call = Callable[..., Result]

TABLE = r"""
RUN  JOB     STATE      DUE (CET)  LATE    TOOK     TRIES  NOTE
6    long    running    12:00:20   0.0 ms  7.0 s …  1
3    tick    scheduled  12:00:30   -       -        0
7    tick    scheduled  12:00:40   -       -        0
8    tick    scheduled  12:00:50   -       -        0
2    tick    succeeded  12:00:20   0.0 ms  0.0 ms   1
1    tick    succeeded  12:00:10   0.0 ms  0.0 ms   1
4    broken  dead       12:00:06   0.0 ms  0.0 ms   2      failed 2 times: ValueError: line one\nline two
5    poll    succeeded  12:00:00   0.0 ms  0.0 ms   1
"""


MORE = "showing 2 runs, and there are more; -n sets how many"


def numbers(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [int(line.split()[0]) for line in result.output.splitlines()[1:] if line[0].isdecimal()]


def test_the_table(call: Call, database: Path):
    result = call("runs", "--db", database)
    assert result.exit_code == 0
    assert result.output == TABLE.lstrip()


def test_filters(call: Call, database: Path):
    assert numbers(call("runs", "--db", database, "--job", "tick", "-n", "2")) == [3, 7]
    assert MORE in call("runs", "--db", database, "--job", "tick", "-n", "2").output
    assert len(json.loads(call("runs", "--db", database, "-n", "2", "--json").stdout)) == 2
    assert numbers(call("runs", "--db", database, "--state", "dead", "--state", "running")) == [6, 4]


@pytest.mark.parametrize(
    ("range_", "expected"),
    [
        (["--since", "12:00:20"], [6, 3, 7, 8, 2]),
        (["--since", "-8s", "--until", "+5s"], [6, 3, 2]),
        (["--until", "2026-03-28 12:00:10"], [4, 5]),
        (["--since", "today", "--until", "saturday 12:00:05"], [5]),
        (["--since", "11:00:20", "--until", "11:00:25", "--utc"], [6, 2]),
        (["--since", "tomorrow"], []),
    ],
)
def test_a_range_of_time(call: Call, database: Path, range_: list[str], expected: list[int]):
    result = call("runs", "--db", database, *range_)
    assert numbers(result) == expected if expected else result.output == "no runs match\n"


def test_times_are_in_the_readers_zone_or_in_utc(call: Call, database: Path):
    assert "DUE (CET)" in call("runs", "--db", database).output
    for arguments in (["runs", "--utc"], ["--utc", "runs"]):
        told = call(*arguments, "--db", database).output
        assert "DUE (UTC)" in told
        assert "11:00:06" in told
    assert "2026-03-28 11:00:05 +00:00" in call("show", "4", "--utc", "--db", database).output
    assert json.loads(call("show", "4", "--db", database, "--json").output)["slot_at"].startswith("2026-03-28T11:00:05")


def test_nothing_matches(call: Call, database: Path):
    assert call("runs", "--db", database, "--state", "lost").output == "no runs match\n"


def test_json(call: Call, database: Path):
    [run] = json.loads(call("runs", "--db", database, "--job", "broken", "--json").output)
    assert (run["run_id"], run["state"], run["failures"]) == (4, "dead", 2)
    assert run["error"] == "ValueError: line one\nline two"
    assert run["due_at"] == "2026-03-28T11:00:06.000000Z"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--job", "tikc"], "--job: expected a stored job, got 'tikc', did you mean 'tick'?"),
        (["--state", "done"], "'done' is not one of 'scheduled', 'reserved', 'running'"),
        (["-n", "0"], "0 is not in the range"),
        (["--since", "noonish"], "--since: expected a point in time like 'yesterday', '-2h', '2h ago', '2026-11-17'"),
        (["--since", "2h"], "did you mean '2h ago'?"),
        (["--until", "x" * 5_000], "--until: expected a point in time like"),
        (["--since", "-1h", "--until", "-2h"], "--until: expected an instant after --since"),
        (["4"], "unexpected extra argument (4)"),
    ],
)
def test_what_is_not_there_is_refused(call: Call, database: Path, arguments: list[str], message: str):
    result = call("runs", *arguments, "--db", database)
    assert result.exit_code == 2
    assert message in result.output
