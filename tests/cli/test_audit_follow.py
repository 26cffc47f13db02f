"""Following the audit: JSON lines, syslog receivers and signed webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from onthedot.access.audit import Recorded
from onthedot.access.audit_sender import SendFailed
from onthedot.cli.audit import KEY, as_line, read_destination
from onthedot.cli.errors import BadInput
from onthedot.cli.main import cli
from tests.cli.started import started
from tests.runners.pages import Handler, Site, serving

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
    """As a receiver checks it."""
    timestamp = asked.headers["Onthedot-Timestamp"]
    wanted = hmac.new(SECRET.encode(), f"{timestamp}.".encode() + asked.body, hashlib.sha256).hexdigest()
    is_fresh = abs(time.time() - int(timestamp)) < 300
    return is_fresh and hmac.compare_digest(asked.headers["Onthedot-Signature"], f"v1={wanted}")


async def test_a_webhook_is_signed():
    with serving({"/hook": lambda asked: asked.answer(204)}) as site:
        await read_destination(site.url("/hook?a=1"), ["127.0.0.1"])(ENTRIES)
    [asked] = site.asked
    assert (asked.command, asked.path, asked.headers["Content-Type"]) == ("POST", "/hook?a=1", "application/x-ndjson")
    assert is_signed(asked)
    assert [entry["number"] for entry in objects(asked.body.decode())] == [7, 8]
    assert objects(asked.body.decode())[0]["at"] == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("status", [302, 400, 404, 500])
async def test_a_webhook_that_does_not_take_it_is_a_failure(status: int):
    def refuse(asked: Handler) -> None:
        asked.answer(status, Location="/elsewhere")

    with serving({"/": refuse}) as site:
        with pytest.raises(SendFailed, match=f"expected status 200 to 299, got {status}"):
            await read_destination(site.url(), ["127.0.0.1"])(ENTRIES)
        assert len(site.asked) == 1


async def test_a_webhook_is_bound_by_the_address_rules():
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
def test_what_is_no_destination_is_refused(to: str, said: str):
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
def test_what_does_not_fit_together_is_refused(arguments: list[str], said: str, tmp_path: Path):
    result = CliRunner().invoke(cli, ["audit", *arguments, "--db", str(tmp_path / "none.db")])
    assert (result.exit_code, said in result.output) == (2, True), result.output


# ── syslog ───────────────────────────────────────────────────────────────────────────────────────────────────

MESSAGE = re.compile(rf"<109>1 2026-01-01T00:00:00\.000000Z {re.escape(socket.gethostname())} onthedot - audit - (.*)")


def received(messages: list[bytes]) -> list[str]:
    return [MESSAGE.fullmatch(message.decode("ascii"))[1] for message in messages]  # type: ignore[index]


async def test_a_local_syslog_gets_a_datagram_for_each(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(str(tmp_path / "log"))
        await read_destination(f"syslog:{tmp_path / 'log'}", [])(ENTRIES)
        assert received([there.recv(65536), there.recv(65536)]) == [as_line(entry) for entry in ENTRIES]


async def test_a_syslog_elsewhere_gets_a_datagram_for_each():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        await read_destination(f"syslog://127.0.0.1:{there.getsockname()[1]}", [])(ENTRIES)
        assert received([there.recv(65536), there.recv(65536)]) == [as_line(entry) for entry in ENTRIES]


async def test_a_syslog_by_tcp_gets_lengths():
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


async def test_a_syslog_that_is_not_there_is_a_failure(tmp_path: Path):
    for to in (f"syslog:{tmp_path / 'none'}", "syslog+tcp://127.0.0.1:1"):
        with pytest.raises(SendFailed, match="syslog at"):
            await read_destination(to, [])(ENTRIES)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    assert CliRunner().invoke(cli, ["create", "first", "--run", "true", "--db", str(path)]).exit_code == 0
    return path


def change(db: Path, *arguments: str) -> None:
    assert CliRunner().invoke(cli, [*arguments, "--db", str(db)]).exit_code == 0


@pytest.mark.slow
def test_changes_are_printed_as_they_are_made(db: Path):
    with started(db.parent, "audit", "--follow", "--after", "0", "--db", str(db)) as process:
        assert json.loads(process.until("first"))["verb"] == "jobs.create"
        change(db, "pause", "first")
        told = json.loads(process.until("jobs.pause"))
        assert (told["object"], told["who_kind"], "command line on" in told["source"]) == (
            "job/default/first", "local", True,
        )  # fmt: skip
        process.signal(signal.SIGTERM)
        assert process.end() == 0


@contextmanager
def sending(db: Path, site: Site) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["audit", "-f", "--to", site.url("/hook"), "--allow", "127.0.0.1", "--db", str(db)]
    process = subprocess.Popen([sys.executable, "-m", "onthedot", *arguments])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_no_change_is_left_out_when_the_receiver_or_the_sender_is_down(db: Path):
    """The receiver refuses the first request; the sender is stopped; changes are made meanwhile."""
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
        with sending(db, site) as process:
            assert answers.get(timeout=60) == 503
            change(db, "pause", "first")
            is_down.clear()
            end(process)
        change(db, "resume", "first")
        with sending(db, site) as process:
            end(process)
    assert taken == ["jobs.create", "jobs.pause", "jobs.resume"]
