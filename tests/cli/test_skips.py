"""`onthedot skips`: slots that did not run, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import Stand

Call = Callable[..., Result]


@pytest.fixture
def paused(call: Call, database: Path, stand: Stand) -> Path:
    """A job was paused for a while, twice."""
    for begin, end in (("12:00:30", "12:00:55"), ("12:02:00", "12:02:25")):
        stand(f"2026-03-28T{begin}+01:00")
        assert call("pause", "tick", "--db", database).exit_code == 0
        stand(f"2026-03-28T{end}+01:00")
        assert call("resume", "tick", "--db", database).exit_code == 0
    return database


def test_the_table(call: Call, paused: Path):
    head, *rows = (re.split(r" {2,}", line) for line in call("skips", "--db", paused).output.splitlines())
    assert head == ["JOB", "SLOTS", "FIRST (CET)", "LAST", "REASON", "RECORDED"]
    assert {row[0] for row in rows} == {"tick"}
    assert rows[-1][4:] == ["paused", "12:00:55"]
    assert "FIRST (UTC)" in call("skips", "--utc", "--db", paused).output


def test_a_range_of_time(call: Call, paused: Path):
    def found(*arguments: str) -> list[str]:
        return [one["first"][11:19] for one in json.loads(call("skips", "--db", paused, "--json", *arguments).output)]

    assert found() == ["11:01:30", "11:00:40"]
    assert found("--since", "12:02:00") == ["11:01:30"], "it reaches into that time"
    assert found("--until", "12:01:30") == ["11:00:40"]
    assert found("--since", "tomorrow") == found("--job", "nobody") == []
    assert call("skips", "--db", paused, "--since", "tomorrow").output.startswith("no skipped slots match")
    assert "showing 1 range, and there are more; -n sets how many" in call("skips", "--db", paused, "-n", "1").output


def test_what_is_wrong_is_told(call: Call, paused: Path):
    result = call("skips", "--db", paused, "--since", "lunch")
    assert result.exit_code == 2
    assert "--since: expected a point in time like 'yesterday'" in result.output
