"""Errors of commands: each is one line with an exit code, and every command that a message suggests works."""

from __future__ import annotations

import base64
import doctest
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from onthedot.cli import errors
from onthedot.cli.errors import Command, on_this_store
from onthedot.cli.main import cli
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
from tests.cli.advice import FIELD, SOURCE, advice_in, advice_of_page, all_advice, problem_of
from tests.cli.conftest import Call
from tests.cli.started import started


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["next"], "Missing argument 'EXPR'"),
        (["replay"], "unknown command 'replay', did you mean 'dead replay'?"),
        (["drain", "web-1"], "unknown command 'drain', did you mean 'node drain'?"),
        (["rm-all"], "unknown command 'rm-all'"),
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
            "expected a database at 'gone.db', found none; go to the folder that has it, or name it with --db; "
            "'onthedot store migrate --db gone.db' makes a new one",
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
def test_bad_input_has_exit_code_2(
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
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == before, "no file may change"


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


def test_an_unexpected_error_suggests_debug():
    result = outcome(KeyError("lost"))
    assert result.exit_code == 1
    assert (
        result.stderr == "Error: KeyError: 'lost'; this is a bug in onthedot: run it again with --debug to see where\n"
    )


def test_debug_shows_the_traceback():
    error = KeyError("lost")
    assert outcome(error, "--debug").exception is error


def test_messages_cannot_control_the_terminal():
    assert outcome(UnknownJob("\x1b[2Jgone")).stderr == "Error: \\x1b[2Jgone\n"


ROOT = SOURCE.parents[1]
PASSWORD = "correct horse battery"


def test_suggestions_in_the_source_are_found():
    texts = {advice.text for advice in all_advice()}
    assert {"onthedot worker", "onthedot keys create NAME", f"onthedot store migrate --db {FIELD}"} <= texts
    assert len(all_advice()) > 200


def test_the_parser_accepts_every_suggestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert [(*one, problem) for one in all_advice() if (problem := problem_of(one))] == []


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_the_commands_on_a_page_exist(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert [(one.text, problem) for one in advice_of_page(page) if (problem := problem_of(one))] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise X(\"do 'onthedot frobnicate'\")", "there is no command 'frobnicate'"),
        ("raise X(f\"make one with 'onthedot keys create'\")", "Missing argument 'NAME'"),
        ("print(\"see 'onthedot jobs --jsno'\")", "No such option"),
        ("print('<code>onthedot users</code>')", "no command of this group"),
        ("def f():\n    '''As 'onthedot frobnicate' does.'''", "there is no command 'frobnicate'"),
    ],
)
def test_a_wrong_suggestion_is_found(text: str, problem: str):
    [advice] = advice_in(text, SOURCE / "x.py")
    assert problem in problem_of(advice)


# ── suggestions work ─────────────────────────────────────────────────────────────────────────────────────────

LONG_RUNNING = {"up", "server", "worker"}
"""The test runs these for half a second."""
NEEDS_A_SERVER = {"login", "whoami"}
"""Tested in `tests/cli/test_on_a_server.py` and `test_logins.py`."""
FILLED_IN = {  # suggestions with capitals or fields (\0): what the test calls instead
    "onthedot apply FILE": "onthedot apply jobs.yaml",
    "onthedot apply FILE --take-over": "onthedot apply jobs.yaml --take-over",
    "onthedot check FILE": "onthedot check jobs.yaml",
    "onthedot check jobs.yaml": "onthedot check jobs.yaml",
    f"onthedot edit {FIELD}": "onthedot edit nightly",
    "onthedot keys create NAME": "onthedot keys create ci",
    f"onthedot keys create {FIELD}": "onthedot keys create ci",
    f"onthedot login {FIELD}": "onthedot login http://127.0.0.1:7411",
    f"onthedot logs {FIELD} -f": "onthedot logs 1 -f",
    "onthedot next EXPR": "onthedot next '0 9 * * *'",
    "onthedot keys revoke KEY": "onthedot keys revoke KEY",
    f"onthedot plan {FIELD}": "onthedot plan app.py",
    f"onthedot resume {FIELD}": "onthedot resume nightly",
    "onthedot secret set NAME": "onthedot secret set TOKEN",
    f"onthedot runs --job {FIELD}": "onthedot runs --job nightly",
    f"onthedot secret set {FIELD}": "onthedot secret set TOKEN",
    "onthedot sessions link URL": "onthedot sessions link http://127.0.0.1:7411",
    f"onthedot show {FIELD}": "onthedot show 1",
    f"onthedot store migrate --db {FIELD}": "onthedot store migrate --db onthedot.db",
    "onthedot users create NAME": "onthedot users create bob",
    f"onthedot worker --labels user={FIELD}": "onthedot worker --labels user=bob",
    "onthedot users create NAME --sign-on": "onthedot users create eve@example.org --sign-on",
    f"onthedot users password {FIELD}": "onthedot users password ann",
}


def suggested() -> list[str]:
    texts = {advice.text for advice in all_advice() if advice.kind == "suggested" and advice.words}
    assert set(FILLED_IN) <= texts
    unknown = {text for text in texts - set(FILLED_IN) if FIELD in text or any(word.isupper() for word in text.split())}
    assert unknown == set(), "add to FILLED_IN what the test calls instead"
    return sorted({FILLED_IN.get(text, text) for text in texts})


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_suggestion_of_a_message_works(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch):
    """Each is called on a store with a job, a run and a user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setenv("OTD_SECRETS_KEY", base64.b64encode(bytes(32)).decode())
    (tmp_path / "jobs.yaml").write_text("jobs:\n  - name: nightly\n    schedule: 0 2 * * *\n    run: echo hello\n")
    (tmp_path / "app.py").write_text("import onthedot as otd\n\nsched = otd.Scheduler('sqlite:///onthedot.db')\n")
    for first in ("apply jobs.yaml", "trigger nightly", "up --no-api --plain --for 2s"):
        assert call(*shlex.split(first)).exit_code == 0, first
    assert CliRunner().invoke(cli, ["users", "create", "ann"], input=PASSWORD).exit_code == 0
    key = json.loads(call("keys", "create", "old", "--json").stdout)["id"]
    wrong = []
    for text in suggested():
        words = [key if word == "KEY" else word for word in shlex.split(text)[1:]]
        if words[0] in NEEDS_A_SERVER:
            continue
        more = ["--for", "500ms"] if words[0] in LONG_RUNNING else []
        done = CliRunner().invoke(cli, [*words, *more], input=PASSWORD, prog_name="onthedot")
        if done.exit_code not in ((0, 1) if words[:2] == ["store", "check"] else (0,)):
            wrong.append(f"{text}: {done.exit_code}: {done.output}")
    assert wrong == []


# ── suggestions name the store ───────────────────────────────────────────────────────────────────────────────


def test_a_suggestion_names_the_store_of_the_command(call: Call, tmp_path: Path):
    db = tmp_path / "shop.db"
    missing = call("users", "list", "--db", db)
    assert f"'onthedot store migrate --db {db}' makes a new one" in missing.output
    assert call("store", "migrate", "--db", db).exit_code == 0
    assert f"make one with 'onthedot users create NAME --db {db}'" in call("users", "list", "--db", db).output
    assert f"'onthedot runs --db {db}' lists them" in call("show", "7", "--db", db).output


@pytest.mark.parametrize(
    ("given", "text", "told"),
    [
        ({"db": "x.db"}, "'onthedot runs', 'onthedot keys list'", "runs --db x.db', 'onthedot keys list --db x.db'"),
        ({"store": "sqlite:///x.db"}, "'onthedot worker' works", "'onthedot worker --store sqlite:///x.db' works"),
        ({"db": "x.db"}, "'onthedot up --db y.db'", "'onthedot up --db y.db'"),
        ({"db": "x.db"}, "'onthedot next EXPR'", "'onthedot next EXPR'"),
        ({"store": "http://127.0.0.1:7411"}, "'onthedot runs'", "'onthedot runs --store http://127.0.0.1:7411'"),
        ({"store": "http://127.0.0.1:7411"}, "'onthedot keys list'", "'onthedot keys list'"),
        ({"store": "postgresql://u:secret@db/x"}, "'onthedot runs'", "'onthedot runs --store "),
        ({}, "'onthedot runs'", "'onthedot runs'"),
    ],
)  # fmt: skip
def test_the_store_is_added_to_commands_that_need_it(given: dict[str, str], text: str, told: str):
    context = click.Context(click.Command("x"))
    context.params = {"db": None, "store": None, **given}
    with context:
        assert told in on_this_store(text)
        assert "secret" not in on_this_store(text)
    assert on_this_store(text) == text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my jobs.db", "it's.db", 'a"b.db', "a$HOME `id`.db", "a\\b.db", "\u00e4 b.db"])
def test_a_suggestion_with_special_characters_can_be_copied_to_a_shell(name: str):
    context = click.Context(click.Command("x"))
    context.params = {"db": name, "store": None}
    with context:
        told = on_this_store("see 'onthedot runs' for more")
    assert told.startswith("see '")
    assert told.endswith("' for more")
    copied = told.removeprefix("see '").removesuffix("' for more")
    script = f"onthedot() {{ printf '%s\\n' \"$@\"; }}; {copied}"
    shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert shell.stdout.splitlines() == ["runs", "--db", name]
    assert copied.count("'") == name.count("'")


def test_the_docstring_examples_of_errors_are_true():
    assert doctest.testmod(errors).failed == 0


@pytest.mark.slow
def test_the_link_command_in_the_banner_works_as_printed(tmp_path: Path):
    with started(tmp_path, "up", "--db", "shop.db", "--plain", "--listen", "127.0.0.1:0") as node:
        line = node.until("api ", "sessions link")
        advice = re.findall(r"'(onthedot [^']+)'", line)
        assert advice == [f"onthedot sessions link {re.findall('http://[^ ]+', line)[0]} --db shop.db"]
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(advice[0])], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "?token=" in done.stdout) == (0, True), done.stderr
