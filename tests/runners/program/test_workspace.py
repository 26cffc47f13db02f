"""Workspaces: how they are made, read, removed, and passed to the next run while empty."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onthedot.clock import SECOND, SystemClock
from onthedot.ids import SeededIds
from onthedot.loop import Loop
from onthedot.output.records import Record, append
from onthedot.runners.program import workspace
from onthedot.runners.program.runner import SpoolSweep
from onthedot.runners.program.workspace import INSIDE, OTD, RunFolder, SpareFolders, remove_empty, spool_of, sweep
from onthedot.settings import Settings


def place_of(spool: Path, isolation: str = "none", attempt: int = 1, *, complete: bool = True) -> RunFolder:
    record = SimpleNamespace(job=SimpleNamespace(isolation=isolation))
    lease: Any = SimpleNamespace(run_id=7, created_at=255, attempt=attempt, record=record)
    place = RunFolder(spool, lease)
    place.open(complete=complete)
    return place


def lease_of_another_run() -> Any:
    record = SimpleNamespace(job=SimpleNamespace(isolation="none"))
    return SimpleNamespace(run_id=8, created_at=255, attempt=1, record=record)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_other_users_cannot_open_a_workspace(tmp_path):
    place = place_of(tmp_path / "spool")
    assert place.run.name == "7-ff"
    assert {mode(path) for path in (tmp_path / "spool", place.run, place.workspace, place.workspace / OTD)} == {0o700}
    assert not place.log.exists()  # created with the first record
    append(place.log, Record(1, "otd", "", "hello\n"))
    assert mode(place.log) == 0o600


@pytest.mark.parametrize("before", [None, 0o711])
@pytest.mark.parametrize(("uid", "modes"), [(0, [0o711, 0o710, 0o700]), (1000, [0o700, 0o700, 0o700])])
def test_only_its_own_user_can_reach_a_workspace(tmp_path, monkeypatch, uid, modes, before):
    if before is not None:  # as an earlier version made it
        place_of(tmp_path / "spool", "user").run.chmod(before)
    monkeypatch.setattr("os.geteuid", lambda: uid)
    if uid != 0 and before is not None:
        (tmp_path / "spool").chmod(0o700)
    place = place_of(tmp_path / "spool", "user")
    assert [mode(path) for path in (tmp_path / "spool", place.run, place.workspace)] == modes


def test_a_workspace_is_reused_only_if_it_was_complete(tmp_path):
    place = place_of(tmp_path, complete=False)
    assert place.open(complete=False) is False
    place.ready()
    assert place.open(complete=False) is True
    (place.workspace / "made").touch()
    place.discard()
    assert not place.workspace.exists()
    assert place.open() is False
    assert place.open() is True  # without a source there is nothing to complete


def test_a_workspace_without_a_source_is_complete_after_an_unfinished_checkout(tmp_path):
    place = place_of(tmp_path, complete=False)
    assert place.open() is False
    assert place.open() is True


def test_another_run_adopts_a_complete_workspace(tmp_path):
    place = place_of(tmp_path, complete=False)
    heir = RunFolder(tmp_path, lease_of_another_run())
    assert heir.adopt(place.run.name) is False
    place.ready()
    (place.workspace / "made").touch()
    assert heir.adopt(place.run.name) is True
    assert heir.open(complete=False) is True
    assert (heir.workspace / "made").exists()
    assert heir.adopt("9-9") is False


@pytest.mark.parametrize("left", ["a file", "handed on", "saved", "temporary", "link"])
def test_a_workspace_vanishes_only_if_it_is_empty(tmp_path, left):
    place = place_of(tmp_path)
    path = {
        "a file": place.workspace / "made",
        "handed on": place.output_file,
        "saved": place.checkpoint_file,
        "temporary": place.workspace / OTD / "tmp" / "x",
        "link": place.workspace / "link",
    }[left]
    if left == "link":
        path.symlink_to("/nowhere")
    else:
        path.write_text("a=b")
    assert place.vanish() is False
    assert path.is_symlink() or path.read_text() == "a=b"
    path.unlink()
    place.open()
    assert place.vanish() is True
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trick", ["link to a folder", "link to nothing", "file"])
def test_our_folder_is_restored_if_a_program_replaced_it(tmp_path, trick):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = place_of(tmp_path / "spool")
    (place.workspace / OTD / "tmp").rmdir()
    (place.workspace / OTD).rmdir()
    if trick == "file":
        (place.workspace / OTD).touch()
    else:
        (place.workspace / OTD).symlink_to(elsewhere if trick == "link to a folder" else "/nowhere")
    place.clear_outputs()
    place.write_checkpoint("seven")
    assert place.read_checkpoint(100) == "seven"
    assert list(elsewhere.iterdir()) == []


def test_a_checkpoint_that_is_not_a_plain_file_is_not_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    place = place_of(tmp_path / "spool")
    for make in (
        lambda path: path.symlink_to(secret),
        lambda path: path.hardlink_to(secret),
        lambda path: os.mkfifo(path),
        lambda path: path.mkdir(),
    ):
        make(place.checkpoint_file)
        assert place.read_checkpoint(100) is None
        place.write_checkpoint("")
        assert not place.checkpoint_file.exists()
    assert secret.read_text() == "hunter2"


def test_a_checkpoint_that_is_too_long_is_ignored(tmp_path):
    place = place_of(tmp_path)
    place.checkpoint_file.write_text("x" * 101)
    assert place.read_checkpoint(100) is None


@pytest.mark.parametrize("where", ["link", "dangling", "inner/link", "file", "nowhere"])
def test_an_isolated_job_cannot_probe_the_files_of_its_worker(tmp_path, where):
    (tmp_path / "secret").mkdir()
    place = place_of(tmp_path / "spool", "user")
    (place.workspace / "inner" / "deep").mkdir(parents=True)
    (place.workspace / "link").symlink_to(tmp_path / "secret")
    (place.workspace / "inner" / "link").symlink_to(tmp_path / "secret")
    (place.workspace / "dangling").symlink_to("/nowhere")
    (place.workspace / "file").touch()
    with pytest.raises(NotADirectoryError, match=f"expected one that is there, got '{where}'"):
        place.directory(where)
    assert place.directory("./inner//deep/") == place.workspace / "inner" / "deep"


def test_a_path_that_is_too_long_does_not_lose_other_artifacts(tmp_path):
    place = place_of(tmp_path)
    at = os.open(place.workspace, os.O_RDONLY)
    for _ in range((4_000 - len(str(place.workspace))) // 201):
        os.mkdir("n" * 200, dir_fd=at)
        inner = os.open("n" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("z" * 250 + ".txt", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    (place.workspace / "x.txt").touch()
    kept, [remark] = place.artifacts(["**/*.txt"])
    assert list(kept) == ["x.txt"]
    assert "File name too long" in remark
    assert len(remark) < 300


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["a.txt"]),
        ("**/*.txt", ["a.txt", "out/b.txt", "out/deep/c.txt"]),
        ("out/*", ["out/b.txt"]),
        ("out/**", ["out/b.txt", "out/deep/c.txt"]),
        ("out", []),
        ("**/tmp/*", []),
    ],
)
def test_artifacts_are_found_by_pattern(tmp_path, pattern, found):
    place = place_of(tmp_path)
    (place.workspace / "out" / "deep").mkdir(parents=True)
    for name in ("a.txt", "out/b.txt", "out/deep/c.txt", f"{OTD}/tmp/x.txt"):
        (place.workspace / name).touch()
    assert sorted(place.artifacts([pattern])[0]) == found


def test_artifacts_are_limited_in_number_and_size(tmp_path, monkeypatch):
    place = place_of(tmp_path)
    for number in range(5):
        (place.workspace / f"{number}.txt").write_text("12345")
    monkeypatch.setattr(workspace, "MOST_ARTIFACTS", 3)
    kept, left_out = place.artifacts(["*.txt"])
    assert (list(kept), len(left_out)) == (["0.txt", "1.txt", "2.txt"], 1)
    monkeypatch.setattr(workspace, "MOST_ARTIFACT_BYTES", 9)
    assert list(place.artifacts(["*.txt"])[0]) == ["0.txt"]


def test_an_isolated_job_cannot_keep_a_hard_link_as_an_artifact(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    place = place_of(tmp_path / "spool", "user")
    (place.workspace / "mine.txt").hardlink_to(secret)
    kept, left_out = place.artifacts(["*.txt"])
    assert (kept, len(left_out)) == ({}, 1)


def test_the_spool_folder_comes_from_settings_or_environment(tmp_path, monkeypatch):
    assert spool_of(Settings(spool=str(tmp_path))) == tmp_path
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert spool_of(Settings()) == Path("/var/state/onthedot/spool")


DEEP = 2_100  # deeper than Python's recursion, a path or most limits on descriptors allow


def make_deep(top: Path, depth: int = DEEP) -> None:
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("deepest", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def test_a_deep_tree_is_removed(tmp_path):
    place = place_of(tmp_path)
    make_deep(place.workspace)
    (place.workspace / "d" / "link").symlink_to(tmp_path)
    (tmp_path / "stays").touch()
    descriptors = len(os.listdir("/proc/self/fd"))
    place.discard()
    assert not place.run.exists()
    assert (tmp_path / "stays").exists()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_sweep_removes_a_deep_tree(tmp_path):
    place = place_of(tmp_path)
    make_deep(place.workspace)
    assert workspace.sweep(tmp_path, now=2**62, keep=0, in_use=()) == 1
    assert not place.run.exists()


def test_artifacts_of_a_deep_tree_are_found_up_to_the_longest_path(tmp_path):
    place = place_of(tmp_path)
    make_deep(place.workspace)
    (place.workspace / "a.txt").touch()
    (place.workspace / "/".join("d" * 1_500) / "b.txt").touch()
    kept, left_out = place.artifacts(["**/*.txt"])
    assert sorted(kept) == ["a.txt", "d/" * 1_500 + "b.txt"]
    [remark] = left_out
    assert remark.endswith("cannot be looked into, and was left out")
    assert len(remark) < 300
    place.discard()  # pytest's own clean-up would recurse too deep


def test_one_bad_folder_does_not_stop_a_sweep(tmp_path, monkeypatch, caplog):
    for name in ("1-ff", "2-ff", "3-ff"):
        (tmp_path / name / "work").mkdir(parents=True)

    def reclaim(path: str, *, kill: bool = False) -> bool:
        if "2-ff" in path:
            raise RecursionError("too deep")
        return kill

    monkeypatch.setattr(workspace, "reclaim", reclaim)
    assert workspace.sweep(tmp_path, now=2**62, keep=0, in_use=()) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["2-ff"]
    assert "2-ff" in caplog.text
    assert "too deep" in caplog.text


async def test_the_service_removes_unused_workspaces(tmp_path):
    class FileClock:
        def now(self) -> int:
            return place.run.stat().st_mtime_ns // 1_000 + 3 * SECOND

        steady = now

    place = place_of(tmp_path)
    service = SpoolSweep(Settings(keep_workspaces=2 * SECOND), FileClock())
    assert await service.tick(0) is None  # this node runs no programs yet
    used: Any = SimpleNamespace(spool=tmp_path, places=lambda: {place.run.name})
    service.open(used)
    assert await service.tick(0) == 600 * SECOND
    assert place.run.exists()
    used.places = set
    await service.tick(0)
    assert not place.run.exists()


async def test_a_node_sweeps_as_soon_as_it_runs_programs(tmp_path):
    class NotedSweep(SpoolSweep):
        swept = asyncio.Event()

        async def tick(self, now: int) -> int | None:
            again_in = await super().tick(now)
            self.swept.set()
            return again_in

    place = place_of(tmp_path)
    os.utime(place.run, (0, 0))
    service = NotedSweep(Settings(), SystemClock())
    loop = Loop(SystemClock(), SeededIds(1), lambda *_: None)
    loop.add(service)
    loop.start()
    await service.swept.wait()
    assert place.run.exists()  # this node runs no programs yet
    service.swept.clear()
    unused: Any = SimpleNamespace(spool=tmp_path, places=set)
    service.open(unused)
    await asyncio.wait_for(service.swept.wait(), 20)
    assert not place.run.exists()
    await loop.stop()


def make_run_folder(spool: Path, name: str) -> Path:
    run = spool / name
    for folder in (run, *(run / inside for inside in INSIDE)):
        folder.mkdir(mode=0o700)
    return run


def test_a_spare_folder_passes_from_run_to_run(tmp_path: Path):
    spares = SpareFolders(1)
    first = make_run_folder(tmp_path, "1-a")
    number = (first / "work").stat().st_ino
    assert spares.take(tmp_path / "2-b") is False
    assert spares.give(first) is True
    assert not first.exists()
    assert spares.take(tmp_path / "2-b") is True
    assert (tmp_path / "2-b" / "work").stat().st_ino == number
    assert [path.name for path in tmp_path.iterdir()] == ["2-b"]


def _link(work: Path) -> None:
    elsewhere = work.parents[1] / "elsewhere"
    (elsewhere / "tmp").mkdir(parents=True, mode=0o700)
    elsewhere.chmod(0o700)
    (work / ".otd" / "tmp").rmdir()
    (work / ".otd").rmdir()
    (work / ".otd").symlink_to(elsewhere)


@pytest.mark.parametrize(
    "change",
    [
        lambda work: (work / "made").touch(),
        lambda work: (work / ".hidden").mkdir(),
        lambda work: (work / ".otd" / "output").write_text("a=b"),
        lambda work: (work / ".otd" / "tmp" / "x").touch(),
        lambda work: (work.parent / "1.log").touch(),
        lambda work: work.chmod(0o777),
        lambda work: (work / ".otd").chmod(0o1700),
        lambda work: (work / ".otd" / "tmp").rmdir(),
        _link,
    ],
)
def test_a_changed_folder_does_not_become_a_spare(tmp_path: Path, change: Callable[[Path], object]):
    spares, run = SpareFolders(9), make_run_folder(tmp_path / "", "1-a")
    change(run / "work")
    before = sorted(path.relative_to(run) for path in run.rglob("*"))
    assert spares.give(run) is False
    assert sorted(path.relative_to(run) for path in run.rglob("*")) == before
    assert spares.take(tmp_path / "2-b") is False


def test_a_run_that_has_a_folder_gets_no_spare(tmp_path: Path):
    spares = SpareFolders(1)
    assert spares.give(make_run_folder(tmp_path, "1-a"))
    (make_run_folder(tmp_path, "2-b") / "work" / "mine").touch()
    assert spares.take(tmp_path / "2-b") is False
    assert (tmp_path / "2-b" / "work" / "mine").exists()
    assert spares.take(tmp_path / "3-c") is True


def test_at_most_one_spare_per_seat_is_kept_and_all_are_removed_at_the_end(tmp_path: Path):
    spares = SpareFolders(2)
    for number in range(4):
        assert spares.give(make_run_folder(tmp_path, f"{number + 1}-a"))
    assert len(list(tmp_path.iterdir())) == 2
    spares.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_removes_the_spares_of_a_killed_worker(tmp_path: Path):
    spares = SpareFolders(2)
    assert spares.give(make_run_folder(tmp_path, "41-4fe2"))
    assert sweep(tmp_path, now=2**62, keep=0, in_use=()) == 1
    assert list(tmp_path.iterdir()) == []
    assert spares.take(tmp_path / "2-b") is False


def test_only_an_empty_folder_is_removed(tmp_path: Path):
    run = make_run_folder(tmp_path, "1-a")
    (run / "work" / "made").touch()
    assert remove_empty(run) is False
    assert (run / "work" / "made").exists()
