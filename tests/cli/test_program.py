"""A program's scheduler is found in its file, and nothing more of the program happens."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onthedot.cli.errors import BadInput
from onthedot.cli.program import load_program
from onthedot.scheduler import Scheduler

HEAD = "import asyncio\nimport onthedot as otd\nsched = otd.Scheduler('memory:')\n@sched.job\ndef job(): ...\n"
ONE = "import onthedot as otd\nsched = otd.Scheduler('memory:')\n@sched.job\nasync def job(): ...\n"
MAIN = "async def main():\n    async with sched:\n        open('ran', 'w').close()\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(tmp_path):
    def at(text: str, name: str = "app.py") -> str:
        (tmp_path / name).write_text(text)
        return name

    return at


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "again = sched\n",
        "blocking = otd.BlockingScheduler(sched)\n",
        MAIN + "asyncio.run(main())\nraise ValueError('not here')\n",
        MAIN + "if __name__ == '__main__':\n    asyncio.run(main())\n",
        "with otd.BlockingScheduler(sched):\n    open('ran', 'w').close()\n",
        MAIN + "async def group():\n    async with asyncio.TaskGroup() as tasks:\n        tasks.create_task(main())\n"
        "asyncio.run(group())\n",
    ],
    ids=["plain", "two names", "blocking", "starts", "starts when run", "starts blocking", "starts in a group"],
)
def test_a_scheduler_is_found_and_not_started(write, tmp_path, rest):
    start = Scheduler.start
    scheduler = load_program(write(HEAD + rest))
    assert set(scheduler.jobs) == {"job"}
    assert Scheduler.start is start
    assert not (tmp_path / "ran").exists()


def test_a_scheduler_that_only_main_knows_is_found_when_it_is_started(write):
    text = "import asyncio\nimport onthedot as otd\nasync def main():\n    sched = otd.Scheduler('memory:')\n"
    text += "    sched.job(name='inner')(lambda: None)\n    await sched.start()\nasyncio.run(main())\n"
    assert set(load_program(write(text)).jobs) == {"inner"}


def test_one_of_several_is_chosen_by_name(write):
    app = write(HEAD + "other = otd.Scheduler('memory:')\nother.job(name='else')(print)\n")
    assert set(load_program(f"{app}:other").jobs) == {"else"}
    with pytest.raises(BadInput, match=r"found several; choose one of app\.py:sched, app\.py:other"):
        load_program(app)
    with pytest.raises(BadInput, match="got 'othr', did you mean 'other'"):
        load_program(f"{app}:othr")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = (\n", r"app\.py, line 1: '\(' was never closed"),
        (
            "import onthedot\n\nraise OSError('away')\n",
            r"app\.py, line 3: OSError: away; the program must be importable",
        ),
        ("import nowhere_at_all\n", r"app\.py: it imports 'nowhere_at_all', which is not installed here"),
        ("x = 1\n", "expected app.py to define a scheduler, found none"),
        (HEAD + "sched.job(schedule='99 * * * *')(print)\n", r"app\.py: .*99"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
    ],
)
def test_what_is_wrong_with_a_program_is_told(write, text, problem):
    with pytest.raises(BadInput, match=problem) as caught:
        load_program(write(text))
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there_has_a_neighbour_that_was_meant(write):
    write(HEAD)
    with pytest.raises(BadInput, match=r"found none at 'ap\.py', did you mean 'app\.py'"):
        load_program("ap.py")


def test_a_file_elsewhere_finds_its_neighbours_and_stays_importable(here: Path):
    (here / "sub").mkdir()
    (here / "sub" / "neighbour_b.py").write_text(ONE)
    (here / "sub" / "shop_b.py").write_text("from neighbour_b import sched\n")
    assert list(load_program("sub/shop_b.py").jobs) == ["job"]
    assert sys.modules["neighbour_b"].__file__ == str(here / "sub" / "neighbour_b.py")


def test_a_module_of_a_package(here: Path):
    (here / "shop_c").mkdir()
    (here / "shop_c" / "__init__.py").touch()
    (here / "shop_c" / "jobs.py").write_text(ONE)
    assert list(load_program("shop_c.jobs").jobs) == ["job"]


def test_a_module_that_is_not_there(here: Path):
    with pytest.raises(BadInput, match=r"found none named 'no_such_shop'; name a file"):
        load_program("no_such_shop.jobs")


def test_a_file_whose_name_is_taken(here: Path):
    (here / "json.py").write_text(ONE)
    with pytest.raises(BadInput, match="which has the same name; rename yours"):
        load_program("json.py")


def test_a_program_that_was_stopped_on_its_way_stays_importable(write):
    load_program(write(HEAD + MAIN + "asyncio.run(main())\n"))
    assert "job" in vars(sys.modules["app"])
