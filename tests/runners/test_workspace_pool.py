"""Places that are as they were made wait for the next run; what a program has touched does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onthedot.runners.program.workspace import sweep
from onthedot.runners.program.workspace_pool import INSIDE, Spares, remove_empty


def made(spool: Path, name: str) -> Path:
    run = spool / name
    for folder in (run, *(run / inside for inside in INSIDE)):
        folder.mkdir(mode=0o700)
    return run


def test_a_place_goes_from_run_to_run(tmp_path: Path):
    spares = Spares(1)
    first = made(tmp_path, "1-a")
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
def test_what_was_changed_is_not_for_others(tmp_path: Path, change: Callable[[Path], object]):
    spares, run = Spares(9), made(tmp_path / "", "1-a")
    change(run / "work")
    before = sorted(path.relative_to(run) for path in run.rglob("*"))
    assert spares.give(run) is False
    assert sorted(path.relative_to(run) for path in run.rglob("*")) == before
    assert spares.take(tmp_path / "2-b") is False


def test_a_run_that_has_been_here_keeps_what_it_has(tmp_path: Path):
    spares = Spares(1)
    assert spares.give(made(tmp_path, "1-a"))
    (made(tmp_path, "2-b") / "work" / "mine").touch()
    assert spares.take(tmp_path / "2-b") is False
    assert (tmp_path / "2-b" / "work" / "mine").exists()
    assert spares.take(tmp_path / "3-c") is True


def test_no_more_wait_than_there_are_seats_and_none_at_the_end(tmp_path: Path):
    spares = Spares(2)
    for number in range(4):
        assert spares.give(made(tmp_path, f"{number + 1}-a"))
    assert len(list(tmp_path.iterdir())) == 2
    spares.clear()
    assert list(tmp_path.iterdir()) == []


def test_those_of_a_killed_worker_are_swept_away(tmp_path: Path):
    spares = Spares(2)
    assert spares.give(made(tmp_path, "41-4fe2"))
    assert sweep(tmp_path, now=2**62, keep=0, in_use=()) == 1
    assert list(tmp_path.iterdir()) == []
    assert spares.take(tmp_path / "2-b") is False


def test_only_what_is_empty_is_removed(tmp_path: Path):
    run = made(tmp_path, "1-a")
    (run / "work" / "made").touch()
    assert remove_empty(run) is False
    assert (run / "work" / "made").exists()
