"""`onthedot runs`, on a database that a dead node left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Call = Callable[..., Result]

TABLE = r"""
RUN  JOB     STATE      DUE       LATE    TOOK     TRIES  WHY
6    long    running    12:00:20  -       7.0 s …  1
3    tick    scheduled  12:00:30  -       -        0
7    tick    scheduled  12:00:40  -       -        0
8    tick    scheduled  12:00:50  -       -        0
2    tick    succeeded  12:00:20  0.0 ms  0.0 ms   1
1    tick    succeeded  12:00:10  0.0 ms  0.0 ms   1
4    broken  dead       12:00:06  0.0 ms  0.0 ms   2      failed 2 times: ValueError: line one\nline two
5    poll    succeeded  12:00:00  0.0 ms  0.0 ms   1
"""


MORE = "showing 2 runs, and there are more; -n sets how many"


def numbers(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [int(line.split()[0]) for line in result.output.splitlines()[1:] if line != MORE]


def test_the_table(call: Call, database: Path):
    result = call("runs", "--db", database)
    assert result.exit_code == 0
    assert result.output == TABLE.lstrip()


def test_filters(call: Call, database: Path):
    assert numbers(call("runs", "--db", database, "--job", "tick", "-n", "2")) == [3, 7]
    assert MORE in call("runs", "--db", database, "--job", "tick", "-n", "2").output
    assert len(json.loads(call("runs", "--db", database, "-n", "2", "--json").stdout)) == 2
    assert numbers(call("runs", "--db", database, "--state", "dead", "--state", "running")) == [6, 4]


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
        (["4"], "unexpected extra argument (4)"),
    ],
)
def test_what_is_not_there_is_refused(call: Call, database: Path, arguments: list[str], message: str):
    result = call("runs", *arguments, "--db", database)
    assert result.exit_code == 2
    assert message in result.output
