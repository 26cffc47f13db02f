"""`onthedot sessions`: it lists and ends all sessions of a store or one's own on a server, and makes sign-in links."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onthedot.access import audit, sessions, users
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.cli.connect import read_store, write_store
from onthedot.cli.main import cli
from onthedot.model.host_port import Listen
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert CliRunner().invoke(cli, ["store", "migrate", "--db", str(path)]).exit_code == 0
    return path


@pytest.fixture
def server(db: Path) -> Iterator[HttpServer]:
    serving = HttpServer(
        f"sqlite:///{db}", Settings(), Listen(port=0), lambda node: Authenticator(node.store, node.clock)
    )
    serving.start()
    yield serving
    serving.stop()


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["sessions", *map(str, arguments)], prog_name="onthedot")
    assert "Traceback" not in result.output
    return result


def signed_in(db: Path, *names: str) -> list[str]:
    """Create the users and open one session for each name. Return the texts of the sessions."""

    async def work(store: Store) -> list[str]:
        for name in set(names):
            await users.create(store, name, None, Grant(role=Role.VIEWER))
        found = {name: await users.get_user(store, name) for name in names}
        opened = [
            await sessions.open_session(store, n, user=n, epoch=found[n].epoch, source="192.0.2.7") for n in names
        ]
        return [session.text for session in opened]

    return write_store(f"sqlite:///{db}", work)


def test_all_sessions_of_a_store_are_listed_and_ended(db: Path):
    assert call("list", "--db", db).output == "there are no sessions\n"
    texts = signed_in(db, "ann@example.org", "bob@example.org")
    listed = call("list", "--db", db)
    assert all(
        word in listed.output for word in ("ann@example.org", "bob@example.org", "viewer", "192.0.2.7", "program")
    )
    assert not any(text in listed.output for text in texts)
    found = json.loads(call("list", "--db", db, "--json").output)
    [ann] = [one["id"] for one in found if one["name"].startswith("ann")]
    ended = call("end", ann, "--db", db)
    assert ended.output == f"session {ann} (ann@example.org) has ended; servers refuse it within 5 seconds\n"
    again = call("end", ann, "--db", db)
    assert (again.exit_code, "expected the id of one that is open" in again.output) == (2, True)
    assert [one["name"] for one in json.loads(call("list", "--db", db, "--json").output)] == ["bob@example.org"]
    [entry] = read_store(f"sqlite:///{db}", audit.read)
    assert (entry.verb, entry.object, entry.who_kind) == ("sessions.end", f"session/{ann}", "local")


def test_a_user_lists_and_ends_its_own_sessions_on_a_server(
    db: Path, server: HttpServer, monkeypatch: pytest.MonkeyPatch
):
    ann, _, bob = signed_in(db, "ann@example.org", "ann@example.org", "bob@example.org")
    monkeypatch.setenv("ONTHEDOT_KEY", ann)
    on = ("--store", server.url)
    assert "(this one)" in call("list", *on).output
    mine = json.loads(call("list", *on, "--json").output)
    assert [one["name"] for one in mine] == ["ann@example.org"] * 2
    refused = call("end", sessions_id(bob), *on)
    assert (refused.exit_code, "session" in refused.output) == (2, True)
    [other] = [one["id"] for one in mine if not one["current"]]
    assert json.loads(call("end", other, *on, "--json").output)["id"] == other
    assert len(json.loads(call("list", *on, "--json").output)) == 1
    entry = read_store(f"sqlite:///{db}", audit.read)[-1]
    assert (entry.verb, entry.object, entry.who_name) == ("sessions.end", f"session/{other}", "ann@example.org")


def sessions_id(text: str) -> str:
    return text.removeprefix("ots_").partition(".")[0]


def test_a_link_signs_in_with_its_role(db: Path):
    made = call("link", "https://jobs.example.org/", "--role", "operator", "--db", db)
    page, _, token = made.output.strip().partition("/?token=")
    assert page == "https://jobs.example.org"

    async def work(store: Store) -> None:
        session = await users.exchange(store, token)
        [found] = await users.list_sessions(store)
        assert (found.id, found.grant) == (session.id, Grant(role=Role.OPERATOR))

    write_store(f"sqlite:///{db}", work)
    [entry] = read_store(f"sqlite:///{db}", audit.read)
    assert (entry.verb, entry.object, entry.after) == (
        "sessions.link",
        sessions.token_named(token),
        {"role": "operator"},
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["link", "jobs.example.org"], "expected one like http://127.0.0.1:7411"),
        (["link", "--role", "king"], "unknown role 'king'"),
        (["end", "x"], "expected the id of one that is open"),
    ],
)
def test_bad_input_is_refused(db: Path, arguments: list[str], told: str):
    result = call(*arguments, "--db", db)
    assert (result.exit_code, told in result.output) == (2, True), result.output
