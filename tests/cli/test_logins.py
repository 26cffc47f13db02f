"""`onthedot login` and `logout`: one session for each server, in a file that only its owner can read."""

from __future__ import annotations

import doctest
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onthedot.access import audit, keys
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.cli import logins
from onthedot.cli.connect import read_store, write_store
from onthedot.cli.errors import BadInput
from onthedot.cli.logins import Login, address_of, forget_login, keep_login, logins_file, read_logins
from onthedot.cli.main import cli
from onthedot.model.host_port import Listen
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from onthedot.stores.protocol import Store

PASSWORD = "a good long password"
SHOP = "https://jobs.example.org"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("ONTHEDOT_KEY", "ONTHEDOT_STORE", "ONTHEDOT_INSECURE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("onthedot.client.connection.FIRST_DELAY", 0.0)
    return tmp_path / "state"


def call(*arguments: object, typed: str = "") -> Result:
    result = CliRunner().invoke(cli, [*map(str, arguments)], input=typed, prog_name="onthedot")
    assert "Traceback" not in result.output
    return result


def entry(server: str = SHOP, key: str = "ots_1.secret", **more: Any) -> Login:
    return Login(**{"server": server, "key": key, "kind": "session", "name": "ann", "expires_at": None, **more})


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("HTTPS://Jobs.Example.org:443/", SHOP),
        ("https://jobs.example.org", SHOP),
        ("https://jobs.example.org:8443", f"{SHOP}:8443"),
        ("http://jobs.example.org:443", "http://jobs.example.org:443"),
        ("http://jobs.example.org:80", "http://jobs.example.org"),
        ("https://jobs.example.org/otd/", f"{SHOP}/otd"),
        ("http://[::1]:7411", "http://[::1]:7411"),
    ],
)
def test_spellings_of_one_address_are_equal(url: str, address: str):
    assert address_of(url) == address


def test_logins_are_stored_per_server_and_readable_by_the_owner_only():
    assert read_logins() == {}
    assert keep_login(entry()) is None
    assert keep_login(entry(f"{SHOP}:8443", "ots_2.other")) is None
    assert keep_login(entry(key="ots_3.new")) == entry()
    assert {address: one.key for address, one in read_logins().items()} == {
        SHOP: "ots_3.new",
        f"{SHOP}:8443": "ots_2.other",
    }
    forget_login(SHOP)
    forget_login(SHOP)
    assert list(read_logins()) == [f"{SHOP}:8443"]
    assert stat.S_IMODE(logins_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(logins_file().parent.stat().st_mode) == 0o700
    assert [one.name for one in logins_file().parent.iterdir()] == ["servers.json"], "no temporary file may stay"
    assert "secret" not in repr(entry())


@pytest.mark.parametrize(("what", "mode"), [("file", 0o640), ("file", 0o604), ("folder", 0o755), ("folder", 0o720)])
def test_a_file_that_others_can_read_or_change_is_refused(what: str, mode: int):
    keep_login(entry())
    (logins_file() if what == "file" else logins_file().parent).chmod(mode)
    with pytest.raises(BadInput, match=rf"expected mode 0[67]00, got {mode:04o}: others may have read its keys"):
        read_logins()
    refused = call("jobs", "--store", SHOP)
    assert (refused.exit_code, "chmod" in refused.stderr, "secret" in refused.output) == (2, True, False)


@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_nothing_is_written_to_a_folder_that_others_can_read(mode: int):
    folder = logins_file().parent
    folder.mkdir(parents=True)
    folder.chmod(mode)
    for change in (lambda: keep_login(entry()), lambda: forget_login(SHOP)):
        with pytest.raises(BadInput, match=rf"expected mode 0700, got {mode:04o}"):
            change()
    assert list(folder.iterdir()) == []
    refused = call("login", SHOP, "--user", "ann", typed=PASSWORD)
    assert (refused.exit_code, "expected mode 0700" in refused.stderr) == (2, True), "the password must not be sent"


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    logins_file().parent.parent.mkdir(parents=True)
    logins_file().parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="expected to write it, but Not a directory"):
        keep_login(entry())
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"servers": [1]}', '{"servers": {"a": {"key": 3}}}'])
def test_an_invalid_file_is_refused(text: str):
    keep_login(entry())
    logins_file().write_text(text)
    with pytest.raises(BadInput, match="expected what 'onthedot login' has written"):
        read_logins()


def test_a_file_that_is_a_link_is_not_followed(tmp_path: Path):
    keep_login(entry())
    logins_file().rename(tmp_path / "elsewhere")
    logins_file().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="expected a file of yours"):
        read_logins()


def test_a_failed_write_leaves_the_file_unchanged(monkeypatch: pytest.MonkeyPatch):
    keep_login(entry())

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onthedot.cli.logins.os.fsync", full)
    with pytest.raises(BadInput, match="No space left on device"):
        keep_login(entry(key="ots_2.new"))
    assert read_logins() == {SHOP: entry()}
    assert [one.name for one in logins_file().parent.iterdir()] == ["servers.json"]


def test_the_docstring_examples_are_true():
    assert doctest.testmod(logins).failed == 0


# ── before anything is sent ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://10.1.2.3:7411", "--user", "ann"], "expected https://"),
        (["ftp://x"], "url: expected one like"),
        (["https://ann:pw@jobs.example.org"], "expected no name and password in it"),
        (["http://127.0.0.1:9"], "--user: expected a name, because standard input is no terminal"),
        (["http://127.0.0.1:9", "--user", "ann", "--key"], "expected one of --user, --key and --id-token"),
        (["http://127.0.0.1:9", "--user", ""], "--user: expected a name, got ''"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(arguments: list[str], words: str):
    refused = call("login", *arguments, typed=PASSWORD)
    assert (refused.exit_code, words in refused.stderr) == (2, True), refused.output
    assert PASSWORD not in refused.output


def test_a_password_may_be_typed_twice(monkeypatch: pytest.MonkeyPatch):
    sent: list[Any] = []

    async def keeps(*_: Any, body: Any, **__: Any) -> Any:
        sent.append(body)
        return {"token": "ots_1.secret", "name": "ann", "expires_at": "2026-01-01T00:00:00Z"}

    monkeypatch.setattr("onthedot.client.connection.ServerConnection.ask", keeps)
    assert call("login", SHOP, "--user", "ann", typed=f"{PASSWORD}\r\n{PASSWORD}\r\n").exit_code == 0
    assert sent == [{"username": "ann", "password": PASSWORD}]
    refused = call("login", SHOP, "--user", "ann", typed="one\ntwo\n")
    assert (refused.exit_code, "or the same line twice, got different lines" in refused.stderr) == (2, True)
    long = call("login", SHOP, "--key", typed="x" * 70_000)
    assert (long.exit_code, "expected at most 65536 bytes on standard input, got more" in long.stderr) == (2, True)
    assert len(sent) == 1


def test_a_missing_password_is_refused():
    refused = call("login", "http://127.0.0.1:9", "--user", "ann")
    assert (refused.exit_code, "expected it on standard input, got nothing" in refused.stderr) == (2, True)


def test_logout_removes_the_session_although_the_server_is_unreachable():
    keep_login(entry("http://127.0.0.1:9", expires_at="2026-01-01T00:00:00Z"))
    done = call("logout", "http://127.0.0.1:9/")
    assert (done.exit_code, done.stdout) == (1, "signed out of http://127.0.0.1:9 (ann)\n")
    assert "the session was not ended there, it ends by itself at 2026-01-01T00:00:00Z" in done.stderr
    assert read_logins() == {}


def test_logout_with_several_servers_needs_an_address():
    assert call("logout").stdout == "you are signed in to no server\n"
    keep_login(entry(kind="key"))
    assert "the key itself stays good" in call("logout").stdout
    keep_login(entry(kind="key"))
    keep_login(entry(f"{SHOP}:8443", kind="key"))
    several = call("logout")
    assert (several.exit_code, f"expected one of {SHOP}, {SHOP}:8443" in several.stderr) == (2, True)
    assert [one["ended"] for one in json.loads(call("logout", "--all", "--json").stdout)] == [False, False]
    assert read_logins() == {}


OTHERS: list[Any] = [
    {"hello": "world"}, [], [1], "text", None, 3, {"token": 3, "name": "ann", "expires_at": "x"}, {"token": "ots_1.x"},
    {"kind": ["key"], "name": "ann"}, {"kind": "key", "name": None},
]  # fmt: skip


@pytest.mark.parametrize("told", OTHERS, ids=str)
@pytest.mark.parametrize("way", [["--user", "ann"], ["--key"], ["--id-token"]], ids=str)
def test_a_server_of_another_program_is_reported(told: Any, way: list[str], monkeypatch: pytest.MonkeyPatch):
    async def other(*_: Any, **__: Any) -> Any:
        return told

    monkeypatch.setattr("onthedot.client.connection.ServerConnection.ask", other)
    refused = call("login", SHOP, *way, typed="otd_1.secret")
    assert refused.exit_code == 1, refused.output
    assert f"expected an onthedot server at {SHOP}, got " in refused.stderr
    assert "check the address" in refused.stderr
    assert "bug" not in refused.stderr
    assert "secret" not in refused.output
    assert read_logins() == {}


# ── a server ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert call("store", "migrate", "--db", path).exit_code == 0
    assert call("users", "create", "ann", "--role", "operator", "--db", path, typed=PASSWORD).exit_code == 0
    return path


@pytest.fixture
def server(db: Path) -> Iterator[str]:
    one = HttpServer(f"sqlite:///{db}", Settings(), Listen(port=0), lambda node: Authenticator(node.store, node.clock))
    one.start()
    yield one.url
    one.stop()


def sessions_of(db: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call("sessions", "list", "--db", db, "--json").stdout)
    return found


@pytest.mark.slow
def test_a_signed_in_user_needs_no_key_until_logout(server: str, db: Path, monkeypatch: pytest.MonkeyPatch):
    before = call("jobs", "--store", server)
    assert f"sign in with 'onthedot login {server}'" in before.stderr
    told = call("login", f"{server}/", "--user", "ann", typed=f"{PASSWORD}\n")
    assert told.exit_code == 0, told.output
    key = read_logins()[server].key
    assert key not in told.output
    assert f"signed in to {server} as ann, until 20" in told.stdout
    assert call("jobs", "--store", server).exit_code == 0
    who = call("whoami", "--store", server)
    assert f"key    from onthedot login ({logins_file()})" in who.stdout
    assert key not in who.output
    elsewhere = server.replace("127.0.0.1", "localhost")
    assert call("jobs", "--store", elsewhere).exit_code == 1, "another address is another server"

    again = call("login", server, "--user", "ann", "--json", typed=PASSWORD)
    assert json.loads(again.stdout).keys() == {"server", "name", "kind", "expires_at"}
    [session] = sessions_of(db)  # the earlier session has ended
    assert read_logins()[server].key.startswith(f"ots_{session['id']}")

    monkeypatch.setenv("ONTHEDOT_KEY", "otd_0.nobody")  # the variable has priority over the login
    assert call("jobs", "--store", server).exit_code == 1
    monkeypatch.delenv("ONTHEDOT_KEY")
    assert call("logout").stdout == f"signed out of {server} (ann)\n"
    assert (sessions_of(db), read_logins()) == ([], {})
    recorded = read_store(f"sqlite:///{db}", lambda store: audit.read(store, limit=100))
    assert [one.verb for one in recorded if one.verb in ("login", "logout")] == ["login", "login", "logout", "logout"]


@pytest.mark.slow
def test_an_ended_session_suggests_a_new_login(server: str, db: Path):
    assert call("login", server, "--user", "ann", typed=PASSWORD).exit_code == 0
    [session] = sessions_of(db)
    call("sessions", "end", session["id"], "--db", db)
    ended = call("jobs", "--store", server)
    assert ended.exit_code == 1
    assert f"the session of ann has ended: run 'onthedot login {server}' again" in ended.stderr
    assert call("logout").exit_code == 0, "the session has ended already, which is no error"


@pytest.mark.slow
def test_a_key_is_stored_if_the_server_accepts_it(server: str, db: Path):
    async def issue(store: Store) -> str:
        return (await keys.issue(store, "ci", Grant(role=Role.VIEWER))).text

    key = write_store(f"sqlite:///{db}", issue)
    assert call("login", server, "--key", typed=f"{key[:-1]}x").exit_code == 1
    assert call("login", server, "--user", "ann", typed="wrong").exit_code == 1
    assert call("login", server, "--id-token", typed="a.b.c").exit_code == 2  # the server has no provider
    assert read_logins() == {}
    told = call("login", server, "--key", typed=f"{key}\n")
    assert (told.exit_code, key in told.output) == (0, False)
    assert json.loads(call("whoami", "--store", server, "--json").stdout)["name"] == "ci"
