"""The spool, where output waits for its upload: each entry is complete or absent, and only its owner can read it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from onthedot.output.output_store import Name
from onthedot.output.spool import Spool

NAME = Name(41, 2, "c0ffee-1")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def test_finished_output_waits_until_it_is_forgotten(spool: Spool, tmp_path: Path):
    assert not spool.is_used
    assert spool.waiting(9) == []
    spool.log_of(NAME).write_text("said")
    (tmp_path / "app.whl").write_text("wheel")
    spool.hand_in(NAME, [("dist/app.whl", tmp_path / "app.whl")])
    [(name, log, artifacts)] = spool.waiting(9)
    assert (name, log.read_text()) == (NAME, "said")
    assert [(called, path.read_text()) for called, path in artifacts] == [("dist/app.whl", "wheel")]
    assert spool.left(9, before=2**62) == []
    spool.hand_in(NAME)
    assert len(spool.waiting(9)[0].artifacts) == 1
    spool.forget(NAME)
    spool.forget(NAME)
    assert spool.waiting(9) == []


def test_output_that_was_not_handed_in_is_listed_as_left(spool: Spool):
    log = spool.log_of(NAME)
    log.write_text("said")
    os.utime(log, ns=(5_000_000_000, 5_000_000_000))
    assert spool.left(9, before=5_000_001) == [(NAME, 5_000_000)]
    assert spool.left(9, before=5_000_000) == []
    assert spool.waiting(9) == []


def test_an_interrupted_hand_in_can_be_repeated(spool: Spool, tmp_path: Path):
    spool.log_of(NAME).write_text("said")
    (spool.root / "ended" / "41_2_c0ffee-1").mkdir(parents=True)
    (spool.root / "ended" / "41_2_c0ffee-1" / "0").write_text("half")
    assert spool.waiting(9) == []
    spool.hand_in(NAME)
    assert spool.waiting(9)[0].log.read_text() == "said"


@pytest.mark.parametrize("empty", [False, True])
def test_an_attempt_without_output_and_artifacts_stores_nothing(spool: Spool, empty: bool):
    if empty:
        spool.log_of(NAME).touch()
    assert spool.hand_in(NAME) is False
    assert spool.waiting(9) == []
    assert spool.left(9, before=2**62) == []


def test_artifacts_without_output_get_an_empty_log(spool: Spool, tmp_path: Path):
    (tmp_path / "a").write_text("x")
    assert spool.hand_in(NAME, [("a", tmp_path / "a")]) is True
    assert spool.waiting(9)[0].log.read_bytes() == b""


def test_artifacts_that_fail_to_copy_are_listed_as_left(spool: Spool, tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError("no room")

    (tmp_path / "a").write_text("x")
    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="no room"):
        spool.hand_in(NAME, [("a", tmp_path / "a")])
    assert spool.waiting(9) == []
    assert [name for name, _ in spool.left(9, before=2**62)] == [NAME]


def test_a_removed_folder_is_created_again(spool: Spool):
    spool.log_of(NAME).write_text("said")
    shutil.rmtree(spool.root)
    spool.log_of(NAME).write_text("said")
    assert spool.hand_in(NAME) is True


def test_links_pipes_and_missing_files_are_not_stored_as_artifacts(spool: Spool, tmp_path: Path):
    (tmp_path / "shadow").write_text("not yours")
    (tmp_path / "link").symlink_to(tmp_path / "shadow")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "real").write_text("mine")
    spool.hand_in(NAME, [(name, tmp_path / name) for name in ("link", "pipe", "missing", "real")])
    [ended] = spool.waiting(9)
    assert [(called, path.read_text()) for called, path in ended.artifacts] == [("real", "mine")]


def test_only_the_owner_can_read_the_spool(spool: Spool, tmp_path: Path):
    (tmp_path / "a").write_text("x")
    spool.hand_in(NAME, [("a", tmp_path / "a")])
    for path in (spool.root, *spool.root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_folders_with_other_names_are_ignored(spool: Spool):
    spool.log_of(NAME).write_text("said")
    spool.hand_in(NAME)
    for name in ("notes.txt", "x_1_a", "41_2_", "041_2_c0ffee-1", "packed-1_2_3"):
        (spool.root / "ended" / name).mkdir()
    assert [ended.name for ended in spool.waiting(9)] == [NAME]


def test_a_temporary_spool_is_removed_when_it_is_closed():
    spool = Spool(None)
    spool.log_of(NAME).write_text("said")
    spool.hand_in(NAME)
    root = spool.root
    assert spool.is_used
    spool.close()
    spool.close()
    assert not root.exists()
