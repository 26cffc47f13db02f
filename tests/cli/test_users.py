"""`onthedot users`: it creates and changes users; passwords are read from standard input and never printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onthedot.access.audit import read
from onthedot.access.users import Logins, login
from onthedot.cli.connect import read_store, write_store
from onthedot.cli.main import cli
from onthedot.clock import SystemClock
from onthedot.model.errors import LoginRefused
from onthedot.stores.protocol import Store

PASSWORD, OTHER = "correct horse battery", "another staple"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert CliRunner().invoke(cli, ["store", "migrate", "--db", str(path)]).exit_code == 0
    return path


def users(db: Path, *arguments: str, given: str | bytes = "") -> Result:
    result = CliRunner().invoke(cli, ["users", *arguments, "--db", str(db)], input=given, prog_name="onthedot")
    assert PASSWORD not in result.output
    assert "argon2" not in result.output
    assert "Traceback" not in result.output
    return result


def can_sign_in(db: Path, password: str) -> bool:
    async def work(store: Store) -> bool:
        try:
            await login(store, "ann", password, logins=Logins(SystemClock()))
        except LoginRefused:
            return False
        return True

    return write_store(f"sqlite:///{db}", work)


def verbs(db: Path) -> list[str]:
    return [entry.verb for entry in read_store(f"sqlite:///{db}", read)]


@pytest.mark.slow
def test_a_user_is_created_disabled_changed_and_removed(db: Path):
    assert users(db, "list").output == f"there are no users; make one with 'onthedot users create NAME --db {db}'\n"
    result = users(db, "create", "ann", "--role", "editor", "--namespace", "shop", given=f"{PASSWORD}\n")
    assert (result.exit_code, result.output) == (0, "user ann is made: editor, in shop, owner (ann)\n")
    assert can_sign_in(db, PASSWORD)
    assert users(db, "disable", "ann").output == "user ann is disabled; its sessions have ended\n"
    assert not can_sign_in(db, PASSWORD)
    [listed] = json.loads(users(db, "list", "--json").output)
    assert set(listed) == {
        *("name", "disabled", "sign_on", "role", "scopes", "may_code", "namespaces", "owner", "only_own", "made_at"),
    }  # fmt: skip
    assert (listed["name"], listed["disabled"], listed["namespaces"]) == ("ann", True, ["shop"])
    assert users(db, "enable", "ann").output == "user ann is let in again\n"
    assert (
        users(db, "password", "ann", given=OTHER).output == "user ann has another password; its sessions have ended\n"
    )
    assert (can_sign_in(db, PASSWORD), can_sign_in(db, OTHER)) == (False, True)
    head, row = [re.split(r" {2,}", line) for line in users(db, "list").output.splitlines()]
    assert (head[:3], head[3][:6], row[:3]) == (
        ["USER", "STATE", "MAY"],
        "MADE (",
        ["ann", "active", "editor, in shop, owner (ann)"],
    )
    assert json.loads(users(db, "rm", "ann", "--json").output)["name"] == "ann"
    assert not can_sign_in(db, OTHER)
    assert verbs(db) == [
        *("users.create", "users.disable", "users.enable", "users.password", "users.delete"),
    ]  # fmt: skip
    assert not any(PASSWORD.encode() in path.read_bytes() for path in db.parent.iterdir())


@pytest.mark.parametrize(
    ("arguments", "given", "told"),
    [
        (["create", "ann", PASSWORD], "", "NAME: expected a name alone, got more"),
        (["create", "a b"], PASSWORD, "NAME: expected a name of letters"),
        (["create", "ann"], "short", "password: expected at least 8 characters"),
        (["create", "ann"], "", "password: expected at least 8 characters"),
        (["create", "ann"], "x" * 2_000, "password: expected at most 1024 bytes"),
        (["create", "ann"], b"\xff" * 20, "password: expected UTF-8 text"),
        (["create", "ann"], f"{PASSWORD}\n{OTHER}\n", "expected one line on standard input, or the same line twice"),
        (["create", "ann"], f"{PASSWORD}\n" * 3, "or the same line twice, got 3 lines"),
        (["edit", "ann", "--role", "viewer"], "", "user 'ann': expected one that is there, found none"),
        (["edit", "ann"], "", "expected something to change, such as --role operator"),
        (["edit", "ann", "--scope", "runs:read", "--all-scopes"], "", "expected --scope or --all-scopes, got both"),
        (["create", "ann", "--role", "root"], PASSWORD, "role: unknown role 'root'"),
        (["password", "ann"], PASSWORD, "user 'ann': expected one that is there, found none"),
        (["disable", "ann"], "", "user 'ann': expected one that is there, found none"),
        (["rm", "\x1b[2J"], "", "expected one that is there, found none"),
        (["disbale", "ann"], "", "did you mean 'disable'?"),
    ],
)
def test_bad_input_is_refused(db: Path, arguments: list[str], given: str | bytes, told: str):
    result = users(db, *arguments, given=given)
    assert result.exit_code == 2
    assert told in result.output
    assert "\x1b" not in result.output
    assert users(db, "list").output.startswith("there are no users")
    assert verbs(db) == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_password_may_be_typed_twice(db: Path, end: str):
    """Scripts written for a terminal answer both prompts."""
    assert users(db, "create", "ann", given=f"{PASSWORD}{end}{PASSWORD}{end}".encode()).exit_code == 0
    assert can_sign_in(db, PASSWORD)


def test_edit_changes_the_role_and_limits_of_a_user(db: Path):
    made = ("create", "ann", "--role", "editor", "--code", "--namespace", "shop")
    assert users(db, *made, given=PASSWORD).exit_code == 0
    told = users(db, "edit", "ann", "--role", "operator")
    assert (told.exit_code, told.output) == (0, "user ann is changed: operator, in shop, owner (ann)\n")
    narrowed = users(db, "edit", "ann", "--scope", "runs:read", "--only-own", "--all-namespaces")
    assert narrowed.output == "user ann is changed: operator, only runs:read, in all namespaces, only its own (ann)\n"
    refused = users(db, "edit", "ann", "--role", "worker")
    assert (refused.exit_code, "scope: expected a permission of the role worker" in refused.output) == (2, True)
    wide = ("--role", "editor", "--code", "--all-scopes", "--not-only-own", "--owner", "bob", "--json")
    shown = json.loads(users(db, "edit", "ann", *wide).output)
    assert (shown["role"], shown["may_code"], shown["scopes"], shown["owner"]) == ("editor", True, None, "bob")
    assert can_sign_in(db, PASSWORD)
    assert verbs(db) == ["users.create", "users.change", "users.change", "users.change"]
    entries = read_store(f"sqlite:///{db}", read)
    assert (entries[1].before["role"], entries[1].after["role"]) == ("editor", "operator")


def test_a_used_name_is_refused(db: Path):
    assert users(db, "create", "ann", given=PASSWORD).exit_code == 0
    result = users(db, "create", "ann", given=OTHER)
    assert result.exit_code == 2
    assert (
        f"user 'ann' is there already; 'onthedot users password ann --db {db}' sets another password" in result.output
    )
    assert users(db, "disable", "anm").output.endswith("did you mean 'ann'?\n")
    assert can_sign_in(db, PASSWORD)


def test_a_user_who_signs_on_is_created_without_a_password(db: Path):
    made = users(db, "create", "Ann@Example.org", "--role", "editor", "--sign-on")
    assert (made.exit_code, made.output) == (
        0,
        "user ann@example.org is made: editor, in all namespaces, owner (ann@example.org)\n",
    )
    [shown] = json.loads(users(db, "list", "--json").output)
    assert (shown["name"], shown["sign_on"], shown["disabled"]) == ("ann@example.org", True, False)
    assert re.search(r"^ann@example.org +signs on +editor", users(db, "list").output, re.MULTILINE)
    refused = users(db, "password", "ann@example.org", given=f"{OTHER}\n")
    assert (refused.exit_code, "signs on with an identity provider" in refused.output) == (2, True)
    assert verbs(db) == ["users.create"]


def test_a_user_who_signs_on_needs_an_address_as_name(db: Path):
    refused = users(db, "create", "ann", "--sign-on")
    assert refused.exit_code == 2
    assert "expected the e-mail address that it signs on with, got 'ann'" in refused.output
