"""The pytest plugin works in a user's tests, with and without other plugins. Each test starts its own pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each is a start of pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "testing"
ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")


def run_pytest(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest with our plugin and those of `arguments` only; with `no:asyncio`, with all installed ones but it."""
    others = {"PYTHONDONTWRITEBYTECODE": "1"}
    if "no:asyncio" not in arguments:
        others["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "onthedot_pytest", "-p", "no:cacheprovider", "-W", "error", "-q",
         *arguments],
        cwd=cwd, env={**os.environ, **others, "PYTHONPATH": path}, capture_output=True, text=True, timeout=50,
        check=False,
    )  # fmt: skip


def write(folder: Path, text: str) -> Path:
    (folder / "test_it.py").write_text("import onthedot as otd\nsched = otd.Scheduler('memory:')\n" + text)
    return folder


@pytest.mark.parametrize(
    "others",
    [
        [],
        ["-p", "no:asyncio", "-p", "no:xdist"],
        [*ASYNCIO, "-o", "asyncio_mode=strict"],
        [*ASYNCIO, "-o", "asyncio_mode=auto"],
    ],
    ids=["alone", "no asyncio", "asyncio strict", "asyncio auto"],
)
def test_the_tests_of_the_example_pass_with_any_plugins(others, tmp_path):
    for file in EXAMPLE.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    ended = run_pytest(*others, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "5 passed" in ended.stdout
    assert not list(tmp_path.glob("*.db"))


def test_a_failing_test_does_not_disturb_the_next_one(tmp_path):
    folder = write(
        tmp_path,
        """
import asyncio

@sched.job
async def slow() -> None:
    await asyncio.sleep(60)

async def test_first(otd_harness):
    h = await otd_harness(sched)
    await sched.submit(slow)
    await h.advance("10s")
    assert 1 == 2, "as it should"

class TestSecond:
    async def test_second(self, otd_harness):
        h = await otd_harness(sched)
        assert await h.runs() == []
""",
    )
    ended = run_pytest(cwd=folder)
    assert "1 failed, 1 passed" in ended.stdout
    assert "as it should" in ended.stdout
    assert ended.stderr == ""


def test_a_failing_test_shows_the_event_log_and_the_traceback(tmp_path):
    folder = write(
        tmp_path,
        """
@sched.job
async def count() -> None:
    orders = {}
    orders["all"] += 1

async def test_it_counts(otd_harness):
    h = await otd_harness(sched, at="2026-06-01T12:00Z")
    await sched.submit(count)
    [run] = await h.work_once()
    assert run.state == "succeeded"

async def test_without_a_harness_there_is_no_log(otd_harness):
    assert not otd_harness.report()
    assert 1 == 2

async def test_a_passing_test_shows_no_log(otd_harness):
    h = await otd_harness(sched, at="2026-07-01T12:00Z")
""",
    )
    ended = run_pytest(cwd=folder)
    assert "2 failed, 1 passed" in ended.stdout
    assert ended.stdout.count("- otd_harness -") == 1
    assert "2026-06-01 12:00:00.000  dead       count           run 1 " in ended.stdout
    assert 'orders["all"] += 1' in ended.stdout
    assert "2026-07-01" not in ended.stdout


def test_other_tests_are_left_to_other_plugins(tmp_path):
    folder = write(
        tmp_path,
        """
import asyncio
import pytest

async def test_in_real_time():
    assert type(asyncio.get_running_loop()).__name__ != "VirtualLoop"

@pytest.fixture
def started(otd_harness):
    return lambda: otd_harness(sched, at="2026-01-01T00:00Z")

async def test_a_fixture_of_the_user(started):
    h = await started()
    await h.advance("1h")
    assert f"{h.now:%H:%M}" == "01:00"
""",
    )
    ended = run_pytest(*ASYNCIO, "-o", "asyncio_mode=auto", cwd=folder)
    assert "2 passed" in ended.stdout, ended.stdout


FIXTURES = """
import asyncio
import pytest

seen = []

@sched.job(schedule=otd.every("1m"))
async def tick() -> None: ...

@pytest.fixture
async def h(otd_harness):
    return await otd_harness(sched, at="2026-06-01T12:00Z")

@pytest.fixture
async def later(h):
    await h.advance("1h")
    yield h
    await asyncio.sleep(3_600)
    seen.append(f"{h.now:%H:%M}")

async def test_a_coroutine(h):
    await h.advance("1m")
    assert [run.state for run in await h.runs(tick)] == ["succeeded"]

async def test_a_generator_that_needs_a_coroutine(later):
    assert len(await later.runs(tick)) == 60

def test_the_code_after_yield_was_run():
    assert seen == ["14:00"]

class TestMethods:
    @pytest.fixture
    async def mine(self, h):
        self.found = h
        return h

    async def test_the_fixture_has_the_same_self(self, mine):
        assert self.found is mine
"""


@pytest.mark.parametrize("others", [[], [*ASYNCIO, "-o", "asyncio_mode=auto"]], ids=["alone", "asyncio auto"])
def test_fixtures_that_use_the_harness_may_be_coroutines(others, tmp_path):
    ended = run_pytest(*others, cwd=write(tmp_path, FIXTURES))
    assert "4 passed" in ended.stdout, ended.stdout


def test_a_fixture_without_a_harness_is_left_to_other_plugins(tmp_path):
    folder = write(
        tmp_path,
        """
import asyncio
import pytest

@pytest.fixture
async def database():
    return type(asyncio.get_running_loop()).__name__

async def test_both(otd_harness, database):
    await otd_harness(sched)
    assert database != "VirtualLoop"
    assert type(asyncio.get_running_loop()).__name__ == "VirtualLoop"
""",
    )
    ended = run_pytest(*ASYNCIO, "-o", "asyncio_mode=auto", cwd=folder)
    assert "1 passed" in ended.stdout, ended.stdout


def test_a_failing_fixture_is_reported_and_cleaned_up(tmp_path):
    folder = write(
        tmp_path,
        """
import pytest

@pytest.fixture
async def h(otd_harness):
    await otd_harness(sched)
    raise LookupError("no such order")

async def test_it(h): ...
""",
    )
    ended = run_pytest(cwd=folder)
    assert "1 error" in ended.stdout
    assert "LookupError: no such order" in ended.stdout
    assert ended.stderr == ""


def test_a_test_that_is_no_coroutine_gets_a_hint(tmp_path):
    folder = write(tmp_path, "def test_plain(otd_harness):\n    otd_harness(sched)\n")
    ended = run_pytest(cwd=folder)
    assert "1 failed" in ended.stdout
    assert "write 'async def test_" in ended.stdout


def test_loading_the_plugin_loads_nothing_of_onthedot():
    program = "import sys, onthedot_pytest; print([name for name in sys.modules if name.split('.')[0] == 'onthedot'])"
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert ended.stdout == "[]\n"
