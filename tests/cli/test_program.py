"""Loading of programs: a Python file, module or YAML file gives its scheduler, which is not started."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.cli.errors import BadInput
from onthedot.cli.program import load_program
from onthedot.cli.up import NodeOptions
from onthedot.clock import Micros, SystemClock, to_micros
from onthedot.model.run import RunRecord
from onthedot.scheduler import Scheduler
from tests.define.test_job_reader import EXAMPLE_FILE
from tests.runners.program.plain_guard import guard

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


def test_a_scheduler_inside_of_main_is_found_when_main_starts_it(write):
    text = "import asyncio\nimport onthedot as otd\nasync def main():\n    sched = otd.Scheduler('memory:')\n"
    text += "    sched.job(name='inner')(lambda: None)\n    await sched.start()\nasyncio.run(main())\n"
    assert set(load_program(write(text)).jobs) == {"inner"}


def test_one_of_several_schedulers_is_chosen_by_name(write):
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
def test_an_error_in_a_program_is_reported_with_its_line(write, text, problem):
    with pytest.raises(BadInput, match=problem) as caught:
        load_program(write(text))
    assert caught.value.exit_code == 2


def test_a_missing_file_gets_a_suggestion(write):
    write(HEAD)
    with pytest.raises(BadInput, match=r"found none at 'ap\.py', did you mean 'app\.py'"):
        load_program("ap.py")


def test_a_file_in_another_folder_can_import_its_neighbours(here: Path):
    (here / "sub").mkdir()
    (here / "sub" / "neighbour_b.py").write_text(ONE)
    (here / "sub" / "shop_b.py").write_text("from neighbour_b import sched\n")
    assert list(load_program("sub/shop_b.py").jobs) == ["job"]
    assert sys.modules["neighbour_b"].__file__ == str(here / "sub" / "neighbour_b.py")


def test_a_module_of_a_package_is_loaded(here: Path):
    (here / "shop_c").mkdir()
    (here / "shop_c" / "__init__.py").touch()
    (here / "shop_c" / "jobs.py").write_text(ONE)
    assert list(load_program("shop_c.jobs").jobs) == ["job"]


def test_a_missing_module_is_refused(here: Path):
    with pytest.raises(BadInput, match=r"found none named 'no_such_shop'; name a file"):
        load_program("no_such_shop.jobs")


def test_a_file_named_like_a_loaded_module_is_refused(here: Path):
    (here / "json.py").write_text(ONE)
    with pytest.raises(BadInput, match="which has the same name; rename yours"):
        load_program("json.py")


def test_a_program_stopped_at_its_start_stays_importable(write):
    load_program(write(HEAD + MAIN + "asyncio.run(main())\n"))
    assert "job" in vars(sys.modules["app"])


__all__ = ["guard"]  # a fixture


class ShiftedClock(SystemClock):
    """The system clock, moved to another time."""

    def __init__(self, begin: str) -> None:
        self._ahead = to_micros(datetime.fromisoformat(begin)) - super().now()

    def now(self) -> Micros:
        return super().now() + self._ahead


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the jobs, their script, and a `go` on the path. Both programs record their calls."""
    (tmp_path / "jobs.yaml").write_text(textwrap.dedent(EXAMPLE_FILE))
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for path, name in ((bin_folder / "go", "go"), (tmp_path / "cleanup_script.sh", "cleanup")):
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/journal\necho "{name} says $*"\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    return tmp_path


async def up(folder: Path, begin: str, *, until: str | None) -> tuple[list[RunRecord], list[str]]:
    """Run one node for the file, with a clock that begins at `begin`, until a run of the job `until` has ended; with
    None, only start it. Return all runs and their logs."""
    sched = load_program(str(folder / "jobs.yaml"))
    sched.store, sched._clock = f"sqlite:///{folder / 'it.db'}", ShiftedClock(begin)
    sched.settings = replace(sched.settings, spool=str(folder / "spool"))
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def notice_end(event: Any) -> None:
        if type(event).__name__ == "AttemptEnded" and event.finish.lease.record.job.name == until:
            loop.call_soon_threadsafe(ended.set)

    sched.subscribe(notice_end)
    async with sched:
        if until is not None:
            await asyncio.wait_for(ended.wait(), 30)
        runs = await sched.list_runs()
        stored = await sched.get_job("NightlyCleanup")
        assert stored is not None
        assert (stored.state == "exhausted") is (begin > "2026-03-02T00")
        return runs, [log.text for run in runs for log in await sched.logs(run.id)]


@pytest.mark.slow
async def test_the_example_jobs_of_the_document_run_as_written(folder, guard):
    """The steps run in order at midnight. The clean-up runs once, at two."""
    build = ["go mod", "go build -v ./...", "go test -v ./..."]
    journal = folder / "journal"
    await up(folder, "2026-03-01T12:00:00+00:00", until=None)  # stores the jobs before midnight, also on a slow machine
    await up(folder, "2026-03-01T23:59:59+00:00", until="BuildAndTest")
    assert journal.read_text().splitlines() == build
    _, logs = await up(folder, "2026-03-02T01:59:59+00:00", until="NightlyCleanup")
    assert journal.read_text().splitlines() == [*build, "cleanup "]
    said = "".join(logs)
    assert "onthedot: step 2 of 3: Build" in said
    assert said.index("go says mod") < said.index("go says build") < said.index("go says test")
    # Two days later, the missed midnight is caught up. The clean-up has no slot that could be missed.
    runs, _ = await up(folder, "2026-03-04T02:00:05+00:00", until="BuildAndTest")
    assert journal.read_text().splitlines() == [*build, "cleanup ", *build]
    assert sorted((run.job, str(run.state)) for run in runs if run.state in ("succeeded", "dead")) == [
        ("BuildAndTest", "succeeded"), ("BuildAndTest", "succeeded"), ("NightlyCleanup", "succeeded"),
    ]  # fmt: skip


def test_a_missing_yaml_file_gets_a_suggestion(tmp_path):
    (tmp_path / "jobs.yaml").write_text("jobs: []")
    with pytest.raises(BadInput, match=r"expected a YAML file, found none at '.*jbs.yaml', did you mean 'jobs.yaml'\?"):
        load_program(str(tmp_path / "jbs.yaml"))


def test_an_error_in_a_yaml_file_is_reported_with_its_position(tmp_path):
    (tmp_path / "jobs.yml").write_text("jobs:\n  - name: a\n    rnu: x\n")
    with pytest.raises(BadInput, match=r"jobs\.yml:3:5: unknown key 'rnu', did you mean 'run'\?"):
        load_program(str(tmp_path / "jobs.yml"))


def test_a_node_of_the_command_line_runs_commands_unless_its_program_forbids_it():
    given = NodeOptions(store=None, db=None, node_id=None, lease=None, grace=None, duration=None, as_json=False)
    assert given.settings(otd.Settings()).programs is True
    assert given.settings(otd.Settings(programs=False)).programs is False


def test_commands_of_a_yaml_file_run_in_its_folder(tmp_path):
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, run: x}]")
    assert load_program(str(tmp_path / "jobs.yaml")).settings.programs_in == str(tmp_path)
