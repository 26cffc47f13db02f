"""`onthedot audit`: it shows, checks, follows and sends the audit of changes."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onthedot.access.audit import KIND, Entry, Recorded, record
from onthedot.access.audit_seals import SEALS, START, append_seal, check, head_of, read_seal
from onthedot.access.audit_sender import SendFailed
from onthedot.access.permissions import LOCAL
from onthedot.cli.audit import KEY, as_line, read_destination
from onthedot.cli.connect import write_store
from onthedot.cli.errors import BadInput
from onthedot.cli.main import cli
from onthedot.clock import SystemClock
from onthedot.stores.protocol import Store
from tests.cli.started import started
from tests.observe.sample_events import NOON
from tests.runners.pages import Handler, Site, serving


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


def execute(db: Path, statement: str) -> None:
    """Change the database without onthedot."""
    with sqlite3.connect(db) as file:
        assert file.execute(statement).rowcount
    file.close()


def test_entries_can_be_limited_to_a_range_of_time(db: Path, monkeypatch: pytest.MonkeyPatch):
    """The search is binary. It works although numbers have gaps and a clock was set back once."""

    async def work(store: Store) -> None:
        for hour in range(48):
            at = NOON + hour * 3_600_000_000 - (1_800_000_000 if hour == 20 else 0)
            await record(store, Entry(who=LOCAL, verb=f"jobs.h{hour}", object="job/default/a"), now=at)

    write_store(f"sqlite:///{db}", work)
    execute(db, "DELETE FROM entries WHERE kind = 'audit' AND number % 5 = 3")
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


def test_the_newest_entries_are_shown(db: Path):
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


def test_a_hundred_entries_are_shown_by_default(db: Path):
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


def test_an_unchanged_audit_passes_the_check(db: Path):
    assert "0 changes as sealed; 0 not sealed yet" in audit(db, "--check").output
    fill(db, "one", "two")
    fill(db, "three", sealed=False)
    result = audit(db, "--check")
    head = write_store(f"sqlite:///{db}", check).head
    assert (result.exit_code, result.output) == (0, f"2 changes as sealed; 1 not sealed yet\nhead {head}\n")
    found = json.loads(audit(db, "--check", "--json", "--head", str(head)).output)
    assert found == {"sealed": 2, "unsealed": 1, "head": str(head), "fault": None}


def test_the_check_names_a_changed_entry(db: Path):
    fill(db, "one", "two", "three")
    head = json.loads(audit(db, "--check", "--json").output)["head"]
    execute(db, "UPDATE entries SET body = replace(body, 'two', 'owt') WHERE kind = 'audit'")
    result = audit(db, "--check")
    assert (result.exit_code, result.output) == (1, "entry 2 was changed; 1 change before it as sealed\n")
    result = audit(db, "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["fault"] == {"of": "entry", "number": 2, "what": "was changed"}
    execute(db, "DELETE FROM entries")
    assert audit(db, "--check").exit_code == 0  # only a noted head can detect this
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
def test_invalid_options_are_refused(db: Path, arguments: list[str], told: str):
    result = audit(db, *arguments)
    assert result.exit_code == 2
    assert told in result.output


SECRET = "a key that both sides know"
ENTRIES = [
    Recorded(
        number, 1_767_225_600_000_000, "key", "k1", "cí\n", "10.0.0.7", "jobs.pause", "job/default/a", "default", "",
        None, {"n": number}, "r1",
    )
    for number in (7, 8)
]  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)


def objects(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


# ── webhook ──────────────────────────────────────────────────────────────────────────────────────────────────


def is_signed(asked: Handler) -> bool:
    """Check the signature as a receiver does."""
    timestamp = asked.headers["Onthedot-Timestamp"]
    wanted = hmac.new(SECRET.encode(), f"{timestamp}.".encode() + asked.body, hashlib.sha256).hexdigest()
    is_fresh = abs(time.time() - int(timestamp)) < 300
    return is_fresh and hmac.compare_digest(asked.headers["Onthedot-Signature"], f"v1={wanted}")


async def test_a_webhook_gets_signed_entries():
    with serving({"/hook": lambda asked: asked.answer(204)}) as site:
        await read_destination(site.url("/hook?a=1"), ["127.0.0.1"])(ENTRIES)
    [asked] = site.asked
    assert (asked.command, asked.path, asked.headers["Content-Type"]) == ("POST", "/hook?a=1", "application/x-ndjson")
    assert is_signed(asked)
    assert [entry["number"] for entry in objects(asked.body.decode())] == [7, 8]
    assert objects(asked.body.decode())[0]["at"] == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("status", [302, 400, 404, 500])
async def test_a_webhook_that_refuses_entries_is_a_failure(status: int):
    def refuse(asked: Handler) -> None:
        asked.answer(status, Location="/elsewhere")

    with serving({"/": refuse}) as site:
        with pytest.raises(SendFailed, match=f"expected status 200 to 299, got {status}"):
            await read_destination(site.url(), ["127.0.0.1"])(ENTRIES)
        assert len(site.asked) == 1


async def test_a_webhook_follows_the_address_rules():
    with pytest.raises(SendFailed, match=r"127\.0\.0\.1 is loopback.*--allow HOST or NETWORK"):
        await read_destination("https://127.0.0.1:9/", [])(ENTRIES)


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("http://127.0.0.1/", "expected https://…, got http://127.0.0.1; --allow 127.0.0.1 if the way is safe"),
        ("https://user:secret@example.com/", "expected"),
        ("ftp://example.com", "expected https://…, syslog:/dev/log"),
        ("syslog://", "expected syslog:/dev/log, syslog://HOST:PORT"),
        ("syslog://host:port", "expected syslog:/dev/log, syslog://HOST:PORT"),
        ("syslog+tls://host", "expected syslog:/dev/log, syslog://HOST:PORT"),
    ],
)
def test_an_invalid_destination_is_refused(to: str, said: str):
    with pytest.raises(BadInput, match=re.escape(said)):
        read_destination(to, [])


def test_a_webhook_needs_a_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(KEY, "short")
    with pytest.raises(BadInput, match=f"a key to sign with in {KEY}, of at least 16 characters, got 5"):
        read_destination("https://example.com/", [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "syslog:"], "--to: expected --follow with it"),
        (["--follow", "--check"], "--follow: expected no --check"),
        (["--follow", "--all"], "--follow: expected no --check"),
        (["-f", "-n", "3"], "--follow: expected no --check"),
        (["-f"], "expected a database at"),
    ],
)
def test_conflicting_options_are_refused(arguments: list[str], said: str, tmp_path: Path):
    result = CliRunner().invoke(cli, ["audit", *arguments, "--db", str(tmp_path / "none.db")])
    assert (result.exit_code, said in result.output) == (2, True), result.output


# ── syslog ───────────────────────────────────────────────────────────────────────────────────────────────────

MESSAGE = re.compile(rf"<109>1 2026-01-01T00:00:00\.000000Z {re.escape(socket.gethostname())} onthedot - audit - (.*)")


def received(messages: list[bytes]) -> list[str]:
    return [MESSAGE.fullmatch(message.decode("ascii"))[1] for message in messages]  # type: ignore[index]


async def test_a_local_syslog_gets_a_datagram_for_each_entry(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(str(tmp_path / "log"))
        await read_destination(f"syslog:{tmp_path / 'log'}", [])(ENTRIES)
        assert received([there.recv(65536), there.recv(65536)]) == [as_line(entry) for entry in ENTRIES]


async def test_a_remote_syslog_gets_a_datagram_for_each_entry():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        await read_destination(f"syslog://127.0.0.1:{there.getsockname()[1]}", [])(ENTRIES)
        assert received([there.recv(65536), there.recv(65536)]) == [as_line(entry) for entry in ENTRIES]


async def test_a_syslog_over_tcp_gets_messages_with_lengths():
    taken = bytearray()

    def take(server: socket.socket) -> None:
        link, _ = server.accept()
        with link:
            while piece := link.recv(65536):
                taken.extend(piece)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=take, args=(server,))
        thread.start()
        await read_destination(f"syslog+tcp://127.0.0.1:{server.getsockname()[1]}", [])(ENTRIES)
        thread.join()
    messages = []
    while taken:
        length, _, rest = bytes(taken).partition(b" ")
        messages.append(rest[: int(length)])
        taken = bytearray(rest[int(length) :])
    assert received(messages) == [as_line(entry) for entry in ENTRIES]


async def test_an_unreachable_syslog_is_a_failure(tmp_path: Path):
    for to in (f"syslog:{tmp_path / 'none'}", "syslog+tcp://127.0.0.1:1"):
        with pytest.raises(SendFailed, match="syslog at"):
            await read_destination(to, [])(ENTRIES)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert CliRunner().invoke(cli, ["create", "first", "--run", "true", "--db", str(path)]).exit_code == 0
    return path


def change(store: Path, *arguments: str) -> None:
    assert CliRunner().invoke(cli, [*arguments, "--db", str(store)]).exit_code == 0


@pytest.mark.slow
def test_follow_prints_changes_as_they_happen(store: Path):
    with started(store.parent, "audit", "--follow", "--after", "0", "--db", str(store)) as process:
        assert json.loads(process.until("first"))["verb"] == "jobs.create"
        change(store, "pause", "first")
        told = json.loads(process.until("jobs.pause"))
        assert (told["object"], told["who_kind"], "command line on" in told["source"]) == (
            "job/default/first", "local", True,
        )  # fmt: skip
        process.signal(signal.SIGTERM)
        assert process.end() == 0


@contextmanager
def sending(store: Path, site: Site) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["audit", "-f", "--to", site.url("/hook"), "--allow", "127.0.0.1", "--db", str(store)]
    process = subprocess.Popen([sys.executable, "-m", "onthedot", *arguments])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_no_change_is_lost_while_the_receiver_or_the_sender_is_down(store: Path):
    """The receiver refuses the first request, and the sender is stopped. Changes happen in both pauses."""
    taken: list[str] = []
    answers: queue.Queue[int] = queue.Queue()
    is_down = threading.Event()
    is_down.set()

    def take(asked: Handler) -> None:
        status = 503 if is_down.is_set() or not is_signed(asked) else 200
        if status == 200:
            taken.extend(entry["verb"] for entry in objects(asked.body.decode()))
        asked.answer(status)
        answers.put(status)

    def end(process: subprocess.Popen[bytes]) -> None:
        while answers.get(timeout=60) != 200:
            pass
        process.terminate()
        assert process.wait(20) == 0

    with serving({"/hook": take}) as site:
        with sending(store, site) as process:
            assert answers.get(timeout=60) == 503
            change(store, "pause", "first")
            is_down.clear()
            end(process)
        change(store, "resume", "first")
        with sending(store, site) as process:
            end(process)
    assert taken == ["jobs.create", "jobs.pause", "jobs.resume"]
