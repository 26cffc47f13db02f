"""`onthedot audit`: what was done, and whether that was changed."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onthedot.access.audit import KIND, Entry, record
from onthedot.access.audit_seals import SEALS, START, append_seal, check, head_of, read_seal
from onthedot.access.permissions import LOCAL
from onthedot.cli.main import cli
from onthedot.cli.open_store import write_store
from onthedot.clock import SystemClock
from onthedot.stores.protocol import Store
from tests.observe.sample_events import NOON


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert CliRunner().invoke(cli, ["store", "migrate", "--db", str(path)]).exit_code == 0
    return path


def audit(db: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["audit", *arguments, "--db", str(db)], prog_name="onthedot")
    assert "Traceback" not in result.output
    return result


def fill(db: Path, *verbs: str, sealed: bool = True) -> None:
    async def work(store: Store) -> None:
        for verb in verbs:
            await record(store, Entry(who=LOCAL, verb=verb, object="job/default/\x1b[2J", source="10.0.0.7"))
        if sealed:
            seals = await store.documents.list_appended(SEALS, limit=1_000)
            last = read_seal(seals[-1]) if seals else None
            entries = await store.documents.list_appended(KIND, after=last.last if last else 0, limit=500)
            await append_seal(store, head_of(seals[-1]) if seals else START, entries)

    write_store(f"sqlite:///{db}", work)


def behind(db: Path, statement: str) -> None:
    with sqlite3.connect(db) as file:
        assert file.execute(statement).rowcount
    file.close()


def test_a_range_of_time(db: Path, monkeypatch: pytest.MonkeyPatch):
    """Found by halving: entries have gaps between their numbers, and a clock was set back for a moment."""

    async def work(store: Store) -> None:
        for hour in range(48):
            at = NOON + hour * 3_600_000_000 - (1_800_000_000 if hour == 20 else 0)
            await record(store, Entry(who=LOCAL, verb=f"jobs.h{hour}", object="job/default/a"), now=at)

    write_store(f"sqlite:///{db}", work)
    behind(db, "DELETE FROM entries WHERE kind = 'audit' AND number % 5 = 3")
    monkeypatch.setattr(SystemClock, "now", lambda _: NOON + 48 * 3_600_000_000)

    def hours(*arguments: str) -> list[int]:
        return [int(one["verb"][6:]) for one in json.loads(audit(db, "--utc", "--json", *arguments).stdout)]

    kept = [hour for hour in range(48) if (hour + 1) % 5 != 3]
    assert hours("--since", "-8h") == [hour for hour in kept if hour >= 40]
    assert hours("--since", "2026-01-02 12:00", "--until", "2026-01-02T16:00Z") == [
        hour for hour in kept if 24 <= hour < 28
    ]
    assert hours("--until", "2026-01-01 14:00") == [0, 1]
    assert hours("--since", "2026-01-01", "-n", "3") == kept[-3:]
    assert hours("--since", "2026-01-02 07:15") == [hour for hour in kept if hour >= 20]
    assert hours("--since", "tomorrow") == []
    assert "--since, --until: expected no --follow" in audit(db, "--since", "-1h", "--check").output
    assert "showing 2 changes, and there are more" in audit(db, "--since", "2026-01-01", "-n", "2").output


def test_the_newest_are_shown(db: Path):
    assert audit(db).output == "the audit has no such changes\n"
    fill(db, "jobs.put", "jobs.pause", "jobs.resume")
    head, *rows, more = [re.split(r" {2,}", line) for line in audit(db, "-n", "2").output.splitlines()]
    assert more == ["showing 2 changes, and there are more; --all shows every one"]
    assert [head[0], head[1][:4], *head[2:]] == ["NUMBER", "AT (", "WHO", "VERB", "OBJECT", "FROM"]
    assert [(row[0], *row[2:]) for row in rows] == [
        ("2", "local (local)", "jobs.pause", "job/default/\\x1b[2J", "10.0.0.7"),
        ("3", "local (local)", "jobs.resume", "job/default/\\x1b[2J", "10.0.0.7"),
    ]
    [one] = json.loads(audit(db, "--after", "2", "--json").output)
    assert (one["number"], one["verb"], one["who_kind"], one["request_id"]) == (3, "jobs.resume", "local", "")
    assert [each["number"] for each in json.loads(audit(db, "--after", "0", "-n", "1", "--json").stdout)] == [1]


def test_a_hundred_are_shown_or_all(db: Path):
    fill(db, *(f"v{number}" for number in range(1, 131)), sealed=False)

    def numbers(*arguments: str) -> list[int]:
        return [entry["number"] for entry in json.loads(audit(db, "--json", *arguments).stdout)]

    assert numbers() == list(range(31, 131))
    assert audit(db, "--json").stderr == "showing 100 changes, and there are more; --all shows every one\n"
    assert numbers("--all") == list(range(1, 131))
    assert numbers("--all", "--after", "120") == list(range(121, 131))
    assert numbers("--after", "0") == list(range(1, 101))
    assert numbers("-n", "500") == list(range(1, 131))
    refused = audit(db, "--all", "-n", "5")
    assert (refused.exit_code, "--all: expected no --limit" in refused.output) == (2, True)


def test_what_is_as_it_was_is_good(db: Path):
    assert "0 changes as sealed; 0 not sealed yet" in audit(db, "--check").output
    fill(db, "one", "two")
    fill(db, "three", sealed=False)
    result = audit(db, "--check")
    head = write_store(f"sqlite:///{db}", check).head
    assert (result.exit_code, result.output) == (0, f"2 changes as sealed; 1 not sealed yet\nhead {head}\n")
    found = json.loads(audit(db, "--check", "--json", "--head", str(head)).output)
    assert found == {"sealed": 2, "unsealed": 1, "head": str(head), "fault": None}


def test_what_was_changed_is_named(db: Path):
    fill(db, "one", "two", "three")
    head = json.loads(audit(db, "--check", "--json").output)["head"]
    behind(db, "UPDATE entries SET body = replace(body, 'two', 'owt') WHERE kind = 'audit'")
    result = audit(db, "--check")
    assert (result.exit_code, result.output) == (1, "entry 2 was changed; 1 change before it as sealed\n")
    result = audit(db, "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["fault"] == {"of": "entry", "number": 2, "what": "was changed"}
    behind(db, "DELETE FROM entries")
    assert audit(db, "--check").exit_code == 0  # nothing is left that could tell, but for a head that was noted
    result = audit(db, "--check", "--head", head)
    assert result.exit_code == 1
    assert result.output.startswith("seal 1 was noted, and is gone: the newest entries were cut off")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--head", "7:" + "0" * 64], "--head: expected --check with it"),
        (["--check", "--head", "seven"], "head: expected a seal's number and hash, like '7:0af3…', got 'seven'"),
        (["-n", "0"], "0 is not in the range"),
        (["--after", "-1"], "-1 is not in the range"),
    ],
)
def test_what_is_refused(db: Path, arguments: list[str], told: str):
    result = audit(db, *arguments)
    assert result.exit_code == 2
    assert told in result.output
