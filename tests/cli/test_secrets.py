"""`onthedot secret set | list | rm | rotate`: values are read from standard input and never printed."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onthedot.cli.connect import write_store
from onthedot.cli.main import cli
from onthedot.runners.secrets import KEY, Keys, StoredSecrets, key_id
from onthedot.stores.protocol import Store

VALUE = "correct horse battery"
OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def text(key: bytes) -> str:
    return base64.b64encode(key).decode()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, text(NEW))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert CliRunner().invoke(cli, ["store", "migrate", "--db", str(path)]).exit_code == 0
    return path


def secret(db: Path, *arguments: str, given: str | bytes = "") -> Result:
    result = CliRunner().invoke(cli, ["secret", *arguments, "--db", str(db)], input=given, prog_name="onthedot")
    assert VALUE not in result.output
    assert "Traceback" not in result.output
    return result


def stored(db: Path, namespace: str, name: str, *keys: bytes) -> str | None:
    async def get(store: Store) -> str | None:
        return await StoredSecrets(store.documents, Keys(list(keys) or [NEW])).get(namespace, name)

    return write_store(f"sqlite:///{db}", get)


def test_set_reads_standard_input(db: Path):
    result = secret(db, "set", "DB_PASSWORD", given=f"{VALUE}\n")
    assert (result.exit_code, result.output) == (0, "secret DB_PASSWORD is stored, for jobs of default\n")
    assert stored(db, "default", "DB_PASSWORD") == VALUE
    again = secret(db, "set", "DB_PASSWORD", "--json", given="another one")
    assert json.loads(again.output) == {"namespace": "default", "name": "DB_PASSWORD", "replaced": True}
    assert stored(db, "default", "DB_PASSWORD") == "another one"
    assert secret(db, "set", "DB_PASSWORD", "--namespace", "team", given="of the team").exit_code == 0
    assert stored(db, "team", "DB_PASSWORD") == "of the team"


@pytest.mark.slow
def test_set_prompts_on_a_terminal_without_echo(db: Path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "onthedot", "secret", "set", "DB", "--db", str(db)],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    for asked in (b"Value of DB: ", b"Repeat for confirmation: "):
        while asked not in shown:
            shown += os.read(ours, 1024)
        os.write(ours, f"{VALUE}\n".encode())
    while b"is stored" not in shown:
        shown += os.read(ours, 1024)
    assert process.wait(timeout=20) == 0
    os.close(ours)
    assert VALUE.encode() not in shown
    assert stored(db, "default", "DB") == VALUE


def test_list_prints_names_and_keys(db: Path):
    assert secret(db, "list").output == "the store has no secrets\n"
    secret(db, "set", "B", given=VALUE)
    secret(db, "set", "A", "--namespace", "team", given=VALUE)
    head, *rows = [re.split(r" {2,}", line) for line in secret(db, "list").output.splitlines()]
    assert [*head[:3], head[3][:5]] == ["NAMESPACE", "NAME", "KEY", "SET ("]
    assert [row[:3] for row in rows] == [["default", "B", key_id(NEW)], ["team", "A", key_id(NEW)]]
    [one] = json.loads(secret(db, "list", "--json", "--namespace", "team").output)
    assert (one["namespace"], one["name"], one["key"], set(one)) == (
        "team", "A", key_id(NEW), {"namespace", "name", "key", "set_at"},
    )  # fmt: skip


def test_a_secret_is_removed(db: Path, monkeypatch: pytest.MonkeyPatch):
    secret(db, "set", "DB", given=VALUE)
    monkeypatch.delenv(KEY)  # removing a secret needs no key
    result = secret(db, "rm", "DBB")
    assert result.exit_code == 2
    assert "there is none, did you mean 'DB'?" in result.output
    assert secret(db, "rm", "DB").output == "secret DB of default is removed\n"
    assert secret(db, "list").output == "the store has no secrets\n"


def test_rotate_encrypts_all_secrets_with_the_new_key(db: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(KEY, text(OLD))
    secret(db, "set", "A", given=VALUE)
    secret(db, "set", "B", given="another one")
    monkeypatch.setenv(KEY, f"{text(NEW)} {text(OLD)}")
    assert secret(db, "rotate").output == "2 secrets sealed anew\n"
    assert json.loads(secret(db, "rotate", "--json").output) == {"changed": 0}
    assert stored(db, "default", "A", NEW) == VALUE


@pytest.mark.parametrize(
    ("arguments", "given", "told"),
    [
        (["set", f"DB={VALUE}"], "", "expected a name alone, got more"),
        (["set", "DB", VALUE], "", "expected a name alone, got more"),
        (["set", "a b"], VALUE, "expected a name of letters, digits and '_'"),
        (["set", "DB", "--namespace", "a/b"], VALUE, "--namespace: expected letters"),
        (["set", "DB"], "abc", "secret DB: expected at least 4 characters, got fewer"),
        (["set", "DB"], "", "secret DB: expected at least 4 characters, got fewer"),
        (["set", "DB"], b"\xff\xfe\xfd\xfc", "value: expected UTF-8 text"),
        (["set", "DB"], "x" * 200_000, "secret DB: expected at most 32768 bytes"),
        (["get", "DB"], "", "unknown command 'get'"),
    ],
)
def test_bad_input_is_refused(db: Path, arguments: list[str], given: str | bytes, told: str):
    result = CliRunner().invoke(cli, ["secret", *arguments, "--db", str(db)], input=given)
    assert result.exit_code == 2
    assert told in result.output
    assert VALUE not in result.output
    assert secret(db, "list").output == "the store has no secrets\n"


def test_without_a_key_nothing_is_stored(db: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(KEY)
    result = secret(db, "set", "DB", given=VALUE)
    assert result.exit_code == 2
    assert "expected a key in OTD_SECRETS_KEY or OTD_SECRETS_KEY_FILE, got none; make one with" in result.output
    monkeypatch.setenv(KEY, "hush")
    result = secret(db, "set", "DB", given=VALUE)
    assert result.exit_code == 2
    assert "hush" not in result.output
    assert secret(db, "list").output == "the store has no secrets\n"
