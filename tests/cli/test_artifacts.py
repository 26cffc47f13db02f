"""`onthedot artifacts`: it lists and fetches the files of a run, and writes only into the chosen folder."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import json
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onthedot.cli.artifacts import File, _copy, _new_file, _target
from onthedot.cli.errors import Failure
from onthedot.model.host_port import Listen
from onthedot.output.locations import output_location
from onthedot.output.output_store import Name, OutputStore
from onthedot.output.run_output import PIECE
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from onthedot.stores.sqlite import SqliteStore
from tests.cli.conftest import Call
from tests.servers.s3 import S3Server

LARGE = bytes(range(256)) * (PIECE // 256 * 2 + 3)
FIRST = [("report.csv", b"old")]
SECOND = [("report.csv", b"a,b\n1,2\n"), ("dist/app.tar", LARGE), ("../../passwd", b"mine"), ("empty", b"")]
GOOD = ["dist/app.tar", "empty", "report.csv"]


def keep(database: Path, tmp_path: Path, place: str) -> None:
    """Store artifacts for both attempts of run 4, which is dead."""

    async def work() -> None:
        store = await SqliteStore.open(database, read_only=True)
        attempts = await store.queries.list_attempts(4)
        await store.close()
        (tmp_path / "log").touch()
        for attempt, files in zip(attempts, (FIRST, SECOND), strict=True):
            held = []
            for number, (name, data) in enumerate(files):
                (tmp_path / f"held-{number}").write_bytes(data)
                held.append((name, tmp_path / f"held-{number}"))
            outputs = OutputStore(output_location(place, None))
            await outputs.keep(Name(4, attempt.attempt, attempt.lease_id), tmp_path / "log", held)

    asyncio.run(work())


@pytest.fixture
def place(database: Path, tmp_path: Path) -> str:
    folder = str(tmp_path / "output")
    keep(database, tmp_path, folder)
    return folder


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def test_artifacts_are_listed(call: Call, database: Path, place: str):
    told = call("artifacts", "list", "4", "--db", database, "--output", place)
    assert told.stdout.splitlines()[:3] == [
        "TRY  NAME          SIZE       LEFT AT",
        "1    report.csv    3 B        2026-03-28 12:00:05 +01:00",
        "2    report.csv    8 B        2026-03-28 12:00:06 +01:00",
    ]
    told = call("artifacts", "list", "4", "--db", database, "--output", place, "--json")
    assert [one["name"] for one in json.loads(told.stdout)] == [name for name, _ in FIRST + SECOND]
    assert json.loads(told.stdout)[2] == {
        "attempt": 2, "name": "dist/app.tar", "size": len(LARGE), "sha256": hashlib.sha256(LARGE).hexdigest(),
        "at": "2026-03-28T11:00:06.000000Z",
    }  # fmt: skip


def test_all_artifacts_with_safe_names_are_fetched(call: Call, database: Path, place: str, tmp_path: Path):
    to = tmp_path / "a" / "b"
    done = call("artifacts", "fetch", "4", "--db", database, "--output", place, "--to", to)
    assert done.exit_code == 1
    assert "left out '../../passwd': its name leads out of the folder" in done.stderr
    wanted = dict(SECOND)
    assert files_in(tmp_path / "a") == {f"b/{name}": wanted[name] for name in GOOD}
    assert stat.S_IMODE((to / "empty").stat().st_mode) & 0o111 == 0


def test_a_named_artifact_of_one_attempt_is_fetched(call: Call, database: Path, place: str, tmp_path: Path):
    done = call(
        "artifacts", "fetch", "4", "report.csv", "--attempt", "1", "--db", database, "--output", place,
        "--to", tmp_path / "out", "--json",
    )  # fmt: skip
    path = tmp_path / "out" / "report.csv"
    assert json.loads(done.stdout) == [{"attempt": 1, "name": "report.csv", "size": 3, "path": str(path)}]
    assert path.read_bytes() == b"old"


def test_one_artifact_is_written_to_standard_output(call: Call, database: Path, place: str):
    fetched = call("artifacts", "fetch", "4", "dist/app.tar", "--to", "-", "--db", database, "--output", place)
    assert (fetched.exit_code, fetched.stdout_bytes) == (0, LARGE)
    fetched = call("artifacts", "fetch", "4", "../../passwd", "--to", "-", "--db", database, "--output", place)
    assert fetched.stdout_bytes == b"mine"
    refused = call("artifacts", "fetch", "4", "--to", "-", "--db", database, "--output", place)
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_existing_files_are_not_replaced_without_force(call: Call, database: Path, place: str, tmp_path: Path):
    to = tmp_path / "out"
    to.mkdir()
    (to / "empty").write_text("precious")
    fetch = ["artifacts", "fetch", "4", *GOOD, "--db", database, "--output", place, "--to", to]
    refused = call(*fetch)
    assert refused.exit_code == 2
    assert "expected no such file; move it, or replace it with --force" in refused.stderr
    assert files_in(to) == {"empty": b"precious"}, "no file may be written"
    assert call(*fetch, "--force").exit_code == 0
    assert files_in(to) == {name: data for name, data in sorted(SECOND) if name in GOOD}


def test_a_damaged_artifact_is_not_written(call: Call, database: Path, place: str, tmp_path: Path):
    [kept] = [one for one in Path(place).rglob("artifact-1") if one.stat().st_size == len(LARGE)]
    kept.write_bytes(LARGE[::-1])
    to = tmp_path / "out"
    broken = call("artifacts", "fetch", "4", "dist/app.tar", "--db", database, "--output", place, "--to", to)
    assert broken.exit_code == 1
    assert "was changed since it was kept" in broken.stderr
    assert files_in(to) == {}


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_artifacts_are_written_on_file_systems_without_hard_links(
    call: Call, database: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("onthedot.cli.artifacts.os.link", refuse)
    to = tmp_path / "out"
    fetch = ["artifacts", "fetch", "4", *GOOD, "--db", database, "--output", place, "--to", to]
    done = call(*fetch)
    assert done.exit_code == 0, done.output
    assert files_in(to) == {name: data for name, data in sorted(SECOND) if name in GOOD}
    assert call(*fetch).exit_code == 2


@pytest.mark.parametrize("links", [True, False])
def test_a_file_created_during_the_fetch_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr("onthedot.cli.artifacts.os.link", refuse)
    path = tmp_path / "out" / "a"

    def fetch() -> None:
        with _new_file(tmp_path / "out", path, force=False) as target:
            target.write(b"new")
            path.write_bytes(b"precious")

    with pytest.raises(Failure, match="File exists"):
        fetch()
    assert files_in(tmp_path / "out") == {"a": b"precious"}


def test_a_failed_copy_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("onthedot.cli.artifacts.os.link", refuse)
    monkeypatch.setattr("onthedot.cli.artifacts.shutil.copyfileobj", full)
    with (
        pytest.raises(Failure, match="No space left on device"),
        _new_file(tmp_path / "out", tmp_path / "out" / "a", force=False) as target,
    ):
        target.write(b"new")
    assert files_in(tmp_path / "out") == {}


async def test_a_download_stops_at_the_declared_size():
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 1_000:
            sent += 1
            yield b"x" * 10

    target = io.BytesIO()
    with pytest.raises(Failure, match="expected 25 bytes as they were kept, got more"):
        await _copy(File(1, "a", 25, "", 0, endless), target)
    assert (sent, len(target.getvalue())) == (3, 20)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("a", True), ("a/b", True), ("a/./b", True), ("..a", True), ("a..", True), ("", False), ("..", False),
        ("a/../../b", False), ("a/../b", False), ("/etc/passwd", False), ("a/", False), ("link/b", False), (".", False),
        ("a\0b", False), ("a/\0", False), ("a\ud800", False), ("x" * 300, True),
    ],
)  # fmt: skip
def test_a_name_outside_of_the_folder_has_no_path(tmp_path: Path, name: str, inside: bool):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    assert (_target(folder, name) is not None) == inside


def test_a_name_with_nul_is_refused(call: Call, database: Path, place: str):
    refused = call("artifacts", "fetch", "4", "a\0b", "--db", database, "--output", place)
    assert (refused.exit_code, "NAME: expected an artifact of run 4, got 'a\\x00b'" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["list", "99"], "RUN: expected a stored run, got 99; 'onthedot runs --db "),
        (["fetch", "99"], "RUN: expected a stored run, got 99"),
        (
            ["fetch", "4", "repot.csv"],
            "NAME: expected an artifact of run 4, got 'repot.csv', did you mean 'report.csv'?",
        ),
        (["fetch", "4", "empty", "--attempt", "1"], "NAME: expected an artifact of run 4, got 'empty'"),
        (["list", "4", "--output", "ftp://x"], "expected a directory or s3://bucket/prefix"),
    ],
)
def test_unknown_runs_and_artifacts_are_refused_with_advice(
    call: Call, database: Path, place: str, command: list[str], words: str
):
    more = [] if "--output" in command else ["--output", place]
    refused = call("artifacts", *command, "--db", database, *more)
    assert (refused.exit_code, words in refused.stderr) == (2, True), refused.output


def test_a_run_without_artifacts_is_reported(call: Call, database: Path, place: str):
    for what in ("list", "fetch"):
        told = call("artifacts", what, "1", "--db", database, "--output", place)
        assert (told.exit_code, told.stdout) == (0, "run 1 has left no artifacts that are kept\n")


def test_artifacts_are_fetched_from_s3(
    call: Call, database: Path, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = s3.url(s3.fresh_prefix())
    keep(database, tmp_path, bucket)
    to = tmp_path / "out"
    assert call("artifacts", "fetch", "4", *GOOD, "--db", database, "--output", bucket, "--to", to).exit_code == 0
    assert files_in(to) == {name: data for name, data in sorted(SECOND) if name in GOOD}


@pytest.fixture
def server(database: Path, tmp_path: Path) -> Iterator[str]:
    settings = Settings(output=str(tmp_path / "kept"), api_rate=10_000, api_burst=10_000)
    one = HttpServer(f"sqlite:///{database}", settings, Listen(port=0), knows=None)
    one.start()
    [folder] = (tmp_path / "kept").iterdir() if (tmp_path / "kept").exists() else [None]
    keep(database, tmp_path, str(folder or tmp_path / "kept"))
    yield one.url
    one.stop()


@pytest.mark.slow
def test_artifacts_are_listed_and_fetched_through_a_server(call: Call, database: Path, server: str, tmp_path: Path):
    listed = call("artifacts", "list", "4", "--store", server, "--json")
    assert [one["name"] for one in json.loads(listed.stdout)] == [name for name, _ in FIRST + SECOND], listed.output
    to = tmp_path / "out"
    assert call("artifacts", "fetch", "4", "--store", server, "--to", to).exit_code == 1
    assert files_in(to) == {name: data for name, data in sorted(SECOND) if name in GOOD}
    fetched = call("artifacts", "fetch", "4", "../../passwd", "--to", "-", "--store", server)
    assert (fetched.exit_code, fetched.stdout_bytes) == (0, b"mine")
    assert call("artifacts", "list", "99", "--store", server).exit_code == 2
    assert call("artifacts", "list", "4", "--store", server, "--output", "x").exit_code == 2
