"""Whatever is wrong: one clear line on standard error, the right exit code, nothing half written."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from onthedot.cli.errors import Command
from onthedot.cli.options import with_debug
from onthedot.model.errors import (
    DefinitionError,
    NodeExpired,
    OnTheDotError,
    StoreUnavailable,
    StoreUnusable,
    UnknownHandler,
    UnknownJob,
)
from tests.cli.conftest import Call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["next"], "Missing argument 'EXPR'"),
        (["next", "0", "9", "*"], "expected one EXPR, got 3 words; put it in quotes"),
        (["next", "whenever"], "expected a schedule, got 'whenever'; accepted forms:"),
        (["next", "61 * * * *"], "minute: expected 0-59, got '61'"),
        (["next", "* * *"], "cron: expected 5 fields (minute hour day month weekday), or 6"),
        (["next", "0 0 31 2 *"], "which never comes; check day, month and weekday"),
        (["next", "@dayly"], "unknown alias '@dayly', did you mean '@daily'?"),
        (["next", "@daily", "--tz", "Berlin"], "tz: unknown time zone 'Berlin', did you mean 'Europe/Berlin'?"),
        (["next", "@daily", "--tz", "../etc/passwd"], "tz: expected the name of a time zone"),
        (["next", "every 0s"], "interval: expected a length of time above zero, got '0s'"),
        (["next", "every 1h", "--gap", "skip"], "gap: it belongs to cron, not to 'every'"),
        (["next", "@daily", "--from", "tomorrow"], "--from: expected a point in time like"),
        (["next", "@daily", "-n", "100000"], "100000 is not in the range 1<=x<=1000"),
        (
            ["jobs", "--db", "gone.db"],
            "expected a database at 'gone.db', found none; make one with 'onthedot store migrate --db gone.db'",
        ),
        (["jobs", "--store", "memory:"], "expected one that other processes can read, got 'memory:'"),
        (
            ["jobs", "--store", "mysql://x"],
            "store URL: expected 'memory:', 'sqlite:///file.db', 'postgresql://host/database' or 'redis://host/0', ",
        ),
        (["jobs", "--store", "sqlite://gone.db"], "store URL: expected 'sqlite:///file.db'"),
        (["jobs", "--store", "memory:", "--db", "x.db"], "expected --store or --db, got both"),
        (
            ["jobs", "--store", "redis://ann:secret@db/0", "--db", "x.db"],
            "expected --store or --db, got both ('redis://ann:***@db/0' and 'x.db'); leave one out",
        ),
        (["jobs", "--store", "redis://ann:secret@db:port/0"], "expected 'host' or 'host:port' with a port up to 65535"),
        (["jobs", "--store", "postgresql://db:port/shop"], "expected 'host' or 'host:port' with a port up to 65535"),
        (["jobs", "--store", "rediss://db/0?unknown=1"], "expected options that the library for Redis knows"),
        (["jobs", "--db", "empty.db"], "expected a database at 'empty.db', found none"),
        (["jobs", "--db", "text.db"], "the file is not an SQLite database"),
        (["runs", "--db", "folder"], "expected a file, got a folder"),
        (["up", "--db", "text.db"], "the file is not an SQLite database"),
        (["up", "--db", "nowhere/x.db"], "expected its folder to exist"),
        (["up", "--db", ""], "--db: expected the name of a file, got ''"),
        (
            ["jobs", "--db", "sqlite:///x.db"],
            "--db: expected the name of a file, got a URL, 'sqlite:///x.db'; give it as --store",
        ),
        (["up", "--grace", "-1s"], "expected a length of time like '90s', '1h30m' or '2 days', got '-1s'"),
        (["up", "--grace", "0s"], "expected a length of time above zero, got '0s'"),
        (["up", "--for", "5 parsecs"], "unknown unit 'parsecs'"),
        (["up", "--lease", "10ms"], "expected at least 1s"),
        (["up", "--seats", "0"], "0 is not in the range"),
        (["up", "--seats", "many"], "'many' is not a valid integer"),
        (
            ["up", "--node-id", "a\nb"],
            "expected letters, digits, '_', '-', '.' or ':', at most 100 of them, got 'a\\nb'",
        ),
        (["up", "--sets", "3"], "--seats"),
        (["up", "app.py", "extra"], "unexpected extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_exit_code_2(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("this is not a database " * 100)
    (tmp_path / "folder").mkdir()
    before = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == before, "something was written"


# ── one handler for all errors ───────────────────────────────────────────────────────────────────────────────────


def outcome(error: BaseException, *arguments: str) -> Result:
    @click.command(cls=Command)
    @with_debug
    def failing() -> None:
        raise error

    return CliRunner().invoke(failing, arguments)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DefinitionError("x"), 2),
        (UnknownJob("x"), 2),
        (UnknownHandler("x"), 2),
        (StoreUnusable("x"), 2),
        (StoreUnavailable("x"), 1),
        (NodeExpired("x"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_has_its_exit_code(error: OnTheDotError, code: int):
    result = outcome(error)
    assert (result.exit_code, result.stderr) == (code, "Error: x\n")


def test_several_problems_are_listed():
    assert outcome(DefinitionError(["one", "two"], subject="job 'a'")).stderr == "Error: job 'a': \n  - one\n  - two\n"


def test_a_bug_says_how_to_find_it():
    result = outcome(KeyError("lost"))
    assert result.exit_code == 1
    assert (
        result.stderr == "Error: KeyError: 'lost'; this is a bug in onthedot: run it again with --debug to see where\n"
    )


def test_debug_shows_where():
    error = KeyError("lost")
    assert outcome(error, "--debug").exception is error


def test_messages_cannot_control_the_terminal():
    assert outcome(UnknownJob("\x1b[2Jgone")).stderr == "Error: \\x1b[2Jgone\n"
