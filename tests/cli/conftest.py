"""Commands called in this process, at a given time in a given place, on a database with a known history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import onthedot as otd
from onthedot.cli.main import cli
from onthedot.clock import SystemClock, to_micros
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

Call = Callable[..., Result]
Stand = Callable[[str], None]

SATURDAY = "2026-03-28T12:00:00+01:00"
"""The day before the clocks go forward in Berlin."""


@pytest.fixture
def call() -> Call:
    """`onthedot ARGUMENTS`."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="onthedot")

    return run


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Let the wall clock stand at an instant."""

    def at(iso: str) -> None:
        now = to_micros(datetime.fromisoformat(iso))
        monkeypatch.setattr(SystemClock, "now", lambda _: now)

    return at


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is in Berlin."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def past_program() -> otd.Scheduler:
    """Jobs of every kind: one that works, one that never does, one by cron, one after the last, one that is long."""
    sched = otd.Scheduler("memory:")

    @sched.job(schedule="every 10s")
    async def tick() -> dict[str, int]:
        return {"ticks": 1}

    @sched.job(schedule=otd.at("2026-03-28T11:00:05Z"), retry=otd.Retry(2, delay="1s", jitter=False))
    async def broken() -> None:
        raise ValueError("line one\nline two")

    @sched.job(schedules=[otd.cron("30 2 * * *", tz="Europe/Berlin"), otd.every("1d", anchor="2026-01-01T09:00Z")])
    async def report() -> None: ...

    @sched.job(schedule=otd.gap("1h"))
    async def poll() -> None: ...

    @sched.job
    async def on_demand() -> None: ...

    long = otd.Sleep(duration=timedelta(hours=1))
    sched.add(otd.Job(name="long", task=long, schedules=(otd.at("2026-03-28T11:00:20Z"),)))
    return sched


@pytest.fixture
def database(tmp_path: Path, in_berlin: None, stand: Stand) -> Path:
    """A node ran `past_program` for 25 seconds from Saturday noon, and died; two seconds later we look."""
    path = tmp_path / "past.db"

    async def live() -> None:
        harness = Harness(
            datetime.fromisoformat(SATURDAY), store=lambda clock: SqliteStore.open(path, clock=clock, inline=True)
        )
        await harness.start(past_program())
        await harness.advance("25s")
        await harness.crash()
        await harness.store.close()

    run_virtual(live())
    stand("2026-03-28T12:00:27+01:00")
    return path
