"""Every command that a message suggests can be copied: the real parser takes it, and on a store it works."""

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
from click.testing import CliRunner

from onthedot.cli import advice
from onthedot.cli.advice import on_this_store
from onthedot.cli.main import cli
from tests.cli.advice import FIELD, SOURCE, advice_in, advice_of_page, all_advice, problem_of
from tests.cli.conftest import Call
from tests.cli.started import started

ROOT = SOURCE.parents[1]
PASSWORD = "correct horse battery"


def test_suggestions_are_found():
    texts = {advice.text for advice in all_advice()}
    assert {"onthedot worker", "onthedot keys create NAME", f"onthedot store migrate --db {FIELD}"} <= texts
    assert len(all_advice()) > 200


def test_the_parser_takes_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert [(*one, problem) for one in all_advice() if (problem := problem_of(one))] == []


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_the_commands_of_a_page_are_there(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
def test_a_wrong_suggestion_is_noticed(text: str, problem: str):
    [advice] = advice_in(text, SOURCE / "x.py")
    assert problem in problem_of(advice)


# ── they do what they say ────────────────────────────────────────────────────────────────────────────────────

GOES_ON = {"up", "server", "worker"}
"""Run for half a second."""
OF_A_SERVER = {"login", "whoami"}
"""They need a server: `tests/cli/test_on_a_server.py` and `test_login.py`."""
MEANT = {  # what the reader, or the message (in the place of \0), puts there
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
    assert set(MEANT) <= texts
    unknown = {text for text in texts - set(MEANT) if FIELD in text or any(word.isupper() for word in text.split())}
    assert unknown == set(), "say in MEANT what a reader puts there"
    return sorted({MEANT.get(text, text) for text in texts})


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_suggestion_of_a_message_works(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch):
    """On a store with a job, a run and a user: as a reader would type it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setenv("OTD_SECRETS_KEY", base64.b64encode(bytes(32)).decode())
    (tmp_path / "jobs.yaml").write_text("jobs:\n  - name: nightly\n    schedule: 0 2 * * *\n    run: echo hello\n")
    for first in ("apply jobs.yaml", "trigger nightly", "up --no-api --plain --for 2s"):
        assert call(*shlex.split(first)).exit_code == 0, first
    assert CliRunner().invoke(cli, ["users", "create", "ann"], input=PASSWORD).exit_code == 0
    key = json.loads(call("keys", "create", "old", "--json").stdout)["id"]
    wrong = []
    for text in suggested():
        words = [key if word == "KEY" else word for word in shlex.split(text)[1:]]
        if words[0] in OF_A_SERVER:
            continue
        more = ["--for", "500ms"] if words[0] in GOES_ON else []
        done = CliRunner().invoke(cli, [*words, *more], input=PASSWORD, prog_name="onthedot")
        if done.exit_code not in ((0, 1) if words[:2] == ["store", "check"] else (0,)):
            wrong.append(f"{text}: {done.exit_code}: {done.output}")
    assert wrong == []


# ── on the store that was given ──────────────────────────────────────────────────────────────────────────────


def test_a_suggestion_names_the_store_that_the_command_was_given(call: Call, tmp_path: Path):
    db = tmp_path / "shop.db"
    missing = call("users", "list", "--db", db)
    assert f"make one with 'onthedot store migrate --db {db}'" in missing.output
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
def test_suggestions_on_a_store(given: dict[str, str], text: str, told: str):
    context = click.Context(click.Command("x"))
    context.params = {"db": None, "store": None, **given}
    with context:
        assert told in on_this_store(text)
        assert "secret" not in on_this_store(text)
    assert on_this_store(text) == text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my jobs.db", "it's.db", 'a"b.db', "a$HOME `id`.db", "a\\b.db", "\u00e4 b.db"])
def test_a_suggestion_with_a_hard_name_can_be_copied_to_a_shell(name: str):
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


def test_the_examples_of_advice_are_true():
    assert doctest.testmod(advice).failed == 0


@pytest.mark.slow
def test_what_a_node_prints_is_on_its_store(tmp_path: Path):
    """The link of its opening, word for word."""
    with started(tmp_path, "up", "--db", "shop.db", "--plain", "--listen", "127.0.0.1:0") as node:
        line = node.until("api ", "sessions link")
        advice = re.findall(r"'(onthedot [^']+)'", line)
        assert advice == [f"onthedot sessions link {re.findall('http://[^ ]+', line)[0]} --db shop.db"]
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(advice[0])], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "?token=" in done.stdout) == (0, True), done.stderr
