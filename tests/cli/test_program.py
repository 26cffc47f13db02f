"""A program's scheduler is found in its file, and nothing more of the program happens."""

from __future__ import annotations

import sys

import pytest

from onthedot.cli.errors import BadInput
from onthedot.cli.program import load_program
from onthedot.scheduler import Scheduler

HEAD = "import asyncio\nimport onthedot as otd\nsched = otd.Scheduler('memory:')\n@sched.job\ndef job(): ...\n"
MAIN = "async def main():\n    async with sched:\n        open('ran', 'w').close()\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

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


def test_neighbours_can_be_imported_and_nothing_stays_behind(write):
    write("NAME = 'from next door'\n", "neighbour_of_app.py")
    before = list(sys.path)
    scheduler = load_program(
        write(HEAD + "import neighbour_of_app\nsched.job(name=neighbour_of_app.NAME[5:9])(print)\n")
    )
    assert "next" in scheduler.jobs
    assert sys.path == before


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
        ("import nowhere_at_all\n", r"line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1\n", "expected app.py to define a scheduler, found none"),
        ("import onthedot as otd\nsched = otd.Scheduler('memory:')\n", "expected app.py to define jobs, found none"),
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
