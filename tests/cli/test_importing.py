"""From what a user types to the scheduler of their program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onthedot.cli.errors import BadInput
from onthedot.cli.importing import import_program

ONE = "import onthedot as otd\nsched = otd.Scheduler('memory:')\n@sched.job\nasync def job(): ...\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_file(here: Path):
    (here / "shop_a.py").write_text(ONE)
    assert list(import_program("shop_a.py").jobs) == ["job"]


def test_a_file_elsewhere_finds_its_neighbours_and_stays_importable(here: Path):
    (here / "sub").mkdir()
    (here / "sub" / "neighbour_b.py").write_text(ONE)
    (here / "sub" / "shop_b.py").write_text("from neighbour_b import sched\n")
    assert list(import_program("sub/shop_b.py").jobs) == ["job"]
    assert sys.modules["neighbour_b"].__file__ == str(here / "sub" / "neighbour_b.py")


def test_a_module_of_a_package(here: Path):
    (here / "shop_c").mkdir()
    (here / "shop_c" / "__init__.py").touch()
    (here / "shop_c" / "jobs.py").write_text(ONE)
    assert list(import_program("shop_c.jobs").jobs) == ["job"]


def test_of_several_one_is_named(here: Path):
    (here / "shop_d.py").write_text(ONE + "other = otd.Scheduler('memory:')\nsame = sched\n")
    assert import_program("shop_d.py:other").jobs == {}
    with pytest.raises(BadInput, match=r"found several; choose one of shop_d\.py:sched, shop_d\.py:other"):
        import_program("shop_d.py")
    with pytest.raises(BadInput, match="got 'othre', did you mean 'other'"):
        import_program("shop_d.py:othre")


def test_a_blocking_scheduler_counts(here: Path):
    (here / "shop_e.py").write_text(ONE + "sched = otd.BlockingScheduler(sched)\n")
    assert list(import_program("shop_e.py").jobs) == ["job"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", "expected shop_f.py to define a scheduler, found none"),
        ("import nowhere_at_all\n", "it imports 'nowhere_at_all', which is not installed here"),
        ("1 / 0\n", "ZeroDivisionError: division by zero; it must be importable"),
        ("def\n", "SyntaxError"),
        (ONE + "sched.job(name='j', timeout='soon')(job)\n", "timeout"),
    ],
)
def test_what_is_wrong_with_it_is_said(here: Path, text: str, expected: str):
    (here / "shop_f.py").write_text(text)
    with pytest.raises(BadInput, match=expected):
        import_program("shop_f.py")


def test_a_module_that_is_not_there(here: Path):
    with pytest.raises(BadInput, match=r"found none named 'no_such_shop'; name a file"):
        import_program("no_such_shop.jobs")


def test_a_file_whose_name_is_taken(here: Path):
    (here / "json.py").write_text(ONE)
    with pytest.raises(BadInput, match="which has the same name; rename yours"):
        import_program("json.py")
