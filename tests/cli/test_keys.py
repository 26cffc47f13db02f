"""`onthedot keys create | list | show | revoke`: a key is shown once, when it is created."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onthedot.access.audit import Recorded, read
from onthedot.access.authenticator import Authenticator
from onthedot.access.keys import note_use
from onthedot.access.permissions import Permission, Principal, Role
from onthedot.cli.connect import read_store, write_store
from onthedot.cli.main import cli
from onthedot.clock import SECOND, SystemClock
from onthedot.stores.protocol import Store

TEXT = re.compile(r"otd_[0-9a-f]{15}\.[0-9a-f]{64}")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert CliRunner().invoke(cli, ["store", "migrate", "--db", str(path)]).exit_code == 0
    return path


def keys(db: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["keys", *arguments, "--db", str(db)], prog_name="onthedot")
    assert "Traceback" not in result.output
    return result


def create_key(db: Path, *arguments: str) -> dict[str, Any]:
    result = keys(db, "create", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def principal_of(db: Path, text: str) -> Principal | None:
    async def check(store: Store) -> Principal | None:
        authenticator = Authenticator(store, SystemClock())
        principal = await authenticator.check(text)
        await authenticator.close()
        return principal

    return write_store(f"sqlite:///{db}", check)


def audited(db: Path) -> list[Recorded]:
    return read_store(f"sqlite:///{db}", read)


def test_a_new_key_is_shown_once_and_works(db: Path):
    result = keys(db, "create", "ci", "--role", "operator")
    assert result.exit_code == 0
    [text] = TEXT.findall(result.stdout)
    assert result.stdout == f"{text}\n"
    assert "(ci) is made: operator, in all namespaces; it expires " in result.stderr
    assert "keep it now, it is not shown again" in result.stderr
    principal = principal_of(db, text)
    assert principal is not None
    assert (principal.name, principal.role, principal.namespaces) == ("ci", Role.OPERATOR, ())
    secret = text.partition(".")[2]
    id = principal.id
    for arguments in (["list"], ["list", "--json"], ["show", id], ["show", id, "--json"], ["revoke", id]):
        assert secret not in keys(db, *arguments).output
    assert secret not in str(audited(db))
    assert not any(secret.encode() in path.read_bytes() for path in db.parent.iterdir())


@pytest.mark.parametrize(("said", "days"), [([], 90), (["--expires", "30d"], 30), (["--expires", "never"], None)])
def test_a_key_expires_after_ninety_days_by_default(db: Path, said: list[str], days: int | None):
    found = create_key(db, "ci", *said)
    made_at, ends = (
        None if at is None else datetime.fromisoformat(at) for at in (found["made_at"], found["expires_at"])
    )
    assert made_at is not None
    assert (None if ends is None else ends - made_at) == (None if days is None else timedelta(days=days))


def test_an_invalid_expiry_is_refused(db: Path):
    result = keys(db, "create", "ci", "--expires", "soon")
    assert (result.exit_code, "or 'never'" in result.output) == (2, True)


def test_a_key_has_the_rights_of_its_options(db: Path):
    found = create_key(
        db, "deploy", "--role", "editor", "--code", "--scope", "jobs:write", "--scope", "jobs:code",
        "--namespace", "shop", "--namespace", "qa", "--owner", "ann", "--only-own", "--expires", "90d",
    )  # fmt: skip
    assert TEXT.fullmatch(found["key"])
    shown = keys(db, "show", found["id"]).stdout
    assert "editor with jobs:code, only jobs:code and jobs:write, in shop and qa, only its own (ann)" in shown
    assert "last used never" in shown
    principal = principal_of(db, found["key"])
    assert principal is not None
    assert principal.permissions == {Permission.JOBS_WRITE, Permission.JOBS_CODE}
    assert (principal.namespaces, principal.owner, principal.only_own) == (("shop", "qa"), "ann", True)
    assert (found["state"], found["role"], found["expires_at"] > found["made_at"]) == ("active", "editor", True)
    assert "last used never" not in keys(db, "show", found["id"]).stdout


def test_the_list_shows_everything_but_the_secret(db: Path):
    assert keys(db, "list").output == f"there are no keys; make one with 'onthedot keys create NAME --db {db}'\n"
    assert json.loads(keys(db, "list", "--json").output) == []
    first, second = (
        create_key(db, "one", "--expires", "never"),
        create_key(db, "two", "--role", "admin", "--expires", "never"),
    )
    write_store(f"sqlite:///{db}", lambda store: note_use(store, second["id"], 1_800_000_000 * SECOND))
    head, *rows = [re.split(r" {2,}", line) for line in keys(db, "list").output.splitlines()]
    assert [*head[:4], head[4][:9], head[5]] == ["KEY", "NAME", "STATE", "MAY", "EXPIRES (", "LAST USED"]
    assert sorted(row[1:5] for row in rows) == [
        ["one", "active", "viewer, in all namespaces", "never"],
        ["two", "active", "admin, in all namespaces", "never"],
    ]
    listed = {one["id"]: one for one in json.loads(keys(db, "list", "--json").output)}
    assert set(listed) == {first["id"], second["id"]}
    assert listed[second["id"]]["used_at"] == "2027-01-15T08:00:00.000000Z"
    assert "key" not in listed[first["id"]]


def test_a_revoked_key_is_refused_and_stays_in_the_list(db: Path):
    found = create_key(db, "ci")
    result = keys(db, "revoke", found["id"])
    assert result.output == f"key {found['id']} (ci) is revoked; servers refuse it within 5 seconds\n"
    assert principal_of(db, found["key"]) is None
    assert json.loads(keys(db, "revoke", found["id"], "--json").output)["state"] == "revoked"
    assert json.loads(keys(db, "list", "--json").output)[0]["state"] == "revoked"
    assert "revoked" in keys(db, "show", found["id"]).output


def test_creation_and_revocation_are_audited(db: Path):
    found = create_key(db, "ci", "--role", "admin")
    keys(db, "revoke", found["id"])
    keys(db, "revoke", found["id"])
    entries = audited(db)
    assert [(entry.verb, entry.object) for entry in entries] == [
        ("keys.create", f"key/{found['id']}"),
        ("keys.revoke", f"key/{found['id']}"),
    ]
    assert (entries[0].who_kind, entries[0].after["role"]) == ("local", "admin")
    assert (entries[1].before["state"], entries[1].after["state"]) == ("active", "revoked")
    assert entries[0].source.startswith("command line on ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["create"], "Missing argument 'NAME'"),
        (["create", "a b"], "NAME: expected a name of letters"),
        (["create", "ci", "--role", "root"], "role: unknown role 'root'"),
        (["create", "ci", "--role", "opertor"], "did you mean 'operator'?"),
        (
            ["create", "ci", "--scope", "keys:manage"],
            "scope: expected a permission of the role viewer, got keys:m",
        ),
        (["create", "ci", "--code"], "jobs:code: expected the role editor to add it to, got viewer"),
        (["create", "ci", "--namespace", "a/b"], "namespace: expected letters, digits"),
        (["create", "ci", "--only-own"], "only its own: expected an owner"),
        (["create", "ci", "--expires", "soon"], "expected a length of time"),
        (["create", "ci", "--expires", "-1d"], "expected a length of time"),
        (["show", "nothing"], "key 'nothing': expected the id of one that is there"),
        (["revoke", "0" * 15], "expected the id of one that is there"),
        (["revok", "x"], "did you mean 'revoke'?"),
    ],
)
def test_bad_input_is_refused(db: Path, arguments: list[str], told: str):
    result = keys(db, *arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert result.stdout == ""
    assert keys(db, "list").output.startswith("there are no keys")
    assert audited(db) == []


def test_a_key_given_instead_of_its_id_is_not_repeated(db: Path):
    found = create_key(db, "ci")
    result = keys(db, "revoke", found["key"])
    assert result.exit_code == 2
    assert found["key"].partition(".")[2] not in result.output
    assert "it is what stands between 'otd_' and the dot" in result.output


def test_keys_work_on_postgresql(postgres_url: str):
    def call(*arguments: str) -> Any:
        result = CliRunner().invoke(cli, ["keys", *arguments, "--store", postgres_url, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert CliRunner().invoke(cli, ["store", "migrate", "--store", postgres_url]).exit_code == 0
    found = call("create", "ci")
    assert [one["id"] for one in call("list")] == [found["id"]]
    assert call("revoke", found["id"])["state"] == "revoked"
