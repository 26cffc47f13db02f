"""Output stores: a directory, memory and S3 keep, read and remove output in the same way."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from pathlib import Path

import pytest

from onthedot.model.errors import OutputUnavailable
from onthedot.output.locations import output_location
from onthedot.output.output_store import LOG, Kept, Name, OutputStore
from onthedot.output.records import Record
from tests.servers.s3 import S3Server

NAME = Name(41_007, 2, "c0ffee-1")


def test_a_log_is_read_back_as_it_was_recorded(outputs: OutputStore, log: Path):
    async def check() -> None:
        assert await outputs.index(NAME) is None
        assert await outputs.records(NAME) is None
        index = await outputs.keep(NAME, log)
        assert await outputs.index(NAME) == index
        assert await outputs.records(NAME) == [
            Record(1, "out", "build", "line 1\n"),
            Record(2, "out", "build", "line 2\n"),
        ]
        assert await outputs.index(NAME._replace(lease_id="c0ffee-2")) is None

    asyncio.run(check())


def test_artifacts_have_sizes_and_checksums_and_can_be_read_in_parts(outputs: OutputStore, log: Path, tmp_path: Path):
    content = os.urandom(6 << 20)  # more than one part of an upload
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "b").write_bytes(b"")

    async def check() -> None:
        index = await outputs.keep(NAME, log, [("dist/../é app.whl", tmp_path / "a"), ("empty", tmp_path / "b")])
        large, empty = index.artifacts
        assert large == Kept("dist/../é app.whl", "artifact-0", len(content), hashlib.sha256(content).hexdigest())
        assert (empty.size, await outputs.read(NAME, empty)) == (0, b"")
        assert await outputs.read(NAME, large) == content
        assert await outputs.read(NAME, large, start=100, length=50) == content[100:150]
        assert await outputs.read(NAME, large, start=len(content) - 5) == content[-5:]
        assert await outputs.read(NAME, large, start=len(content), length=5) == b""

    asyncio.run(check())


def test_kept_output_is_never_replaced(outputs: OutputStore, log: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.write_bytes(b"")

    async def check() -> None:
        first = await outputs.keep(NAME, log)
        assert await outputs.keep(NAME, other) == first
        assert await outputs.records(NAME) != []

    asyncio.run(check())


def test_concurrent_writers_of_one_output_agree(outputs: OutputStore, log: Path):
    async def check() -> None:
        indexes = await asyncio.gather(*(outputs.keep(NAME, log) for _ in range(4)))
        assert len(set(indexes)) == 1
        assert await outputs.records(NAME) != []

    asyncio.run(check())


def test_paths_are_built_from_ids_only(outputs: OutputStore, log: Path, tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x")

    async def check() -> None:
        await outputs.keep(NAME, log, [("../../etc/passwd", tmp_path / "a")])
        [group] = await outputs.groups()
        found = await outputs.of_group(group)
        assert {each.path.removeprefix("runs/0000000000041/41007/2/c0ffee-1/") for each in found} == {
            "artifact-0",
            "index.json",
            "log.gz",
        }
        assert {each.run_id for each in found} == {41_007}

    asyncio.run(check())
    for lease_id in ("../x", "", "a/b", "a\0"):
        with pytest.raises(ValueError, match="lease id"):
            _ = Name(1, 1, lease_id).folder


def test_groups_are_listed_oldest_first_and_forgotten_files_are_gone(outputs: OutputStore, log: Path):
    async def check() -> None:
        assert await outputs.groups() == []
        names = [Name(run_id, 1, "a") for run_id in (5_000, 7, 999, 123_456)]
        for name in names:
            await outputs.keep(name, log)
        groups = await outputs.groups()
        runs = [{each.run_id for each in await outputs.of_group(group)} for group in groups]
        assert runs == [{7, 999}, {5_000}, {123_456}]
        gone = [each.path for each in await outputs.of_group(groups[0]) if each.run_id == 7]
        await outputs.forget(gone)
        await outputs.forget(gone)
        assert await outputs.index(names[1]) is None
        assert await outputs.index(names[2]) is not None

    asyncio.run(check())


def test_a_damaged_log_is_refused(tmp_path: Path, log: Path):
    outputs = OutputStore(tmp_path / "output")
    asyncio.run(outputs.keep(NAME, log))
    path = tmp_path / "output" / NAME.folder / LOG
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(OutputUnavailable, match="changed"):
        asyncio.run(outputs.records(NAME))


# ── directories ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_owner_can_read_a_directory(tmp_path: Path, log: Path):
    root = tmp_path / "state" / "output"
    asyncio.run(OutputStore(root).keep(NAME, log))
    for path in (root, *root.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_links_in_a_directory_are_refused(tmp_path: Path, log: Path):
    root, elsewhere = tmp_path / "output", tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.mkdir()
    (root / "runs").symlink_to(elsewhere)
    outputs = OutputStore(root)
    with pytest.raises(OutputUnavailable, match="link"):
        asyncio.run(outputs.keep(NAME, log))
    assert list(elsewhere.iterdir()) == []


def test_an_unusable_location_is_reported(tmp_path: Path, log: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnavailable, match="file"):
        asyncio.run(OutputStore(tmp_path / "file" / "output").keep(NAME, log))


# ── S3 ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_key_is_refused_and_not_repeated_in_the_error(s3: S3Server, log: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-key-at-all")
    outputs = OutputStore(output_location(s3.url(s3.fresh_prefix()), None))
    with pytest.raises(OutputUnavailable, match="privileges") as told:
        asyncio.run(outputs.keep(NAME, log))
    assert "not-the-key" not in str(told.value)


def test_a_missing_bucket_and_a_missing_file_are_different_errors(log: Path, monkeypatch: pytest.MonkeyPatch):
    async def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError("NoSuchBucket")

    monkeypatch.setattr("obstore.put_async", refuse)
    with pytest.raises(OutputUnavailable, match="a place that exists; NoSuchBucket"):
        asyncio.run(OutputStore(None).keep(NAME, log))
    log.unlink()
    with pytest.raises(FileNotFoundError):
        asyncio.run(OutputStore(None).keep(NAME, log))


def test_keeping_a_log_leaves_no_temporary_files(outputs: OutputStore, log: Path):
    asyncio.run(outputs.keep(NAME, log))
    assert [path.name for path in log.parent.iterdir()] == ["log"]
