"""Fixtures: commands called in this process, a fixed wall clock and time zone, and databases with a known history."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

import onthedot as otd
from onthedot.cli.main import cli
from onthedot.clock import SECOND, SystemClock, to_micros
from onthedot.ids import LeaseIds
from onthedot.model.job import Call as CallTask
from onthedot.model.job import Job
from onthedot.model.run import Gate, GateAsk, NewRun, OnBusy, Progress
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node, Note, ReserveRequest
from onthedot.testing import Harness, run_virtual

Call = Callable[..., Result]
SetClock = Callable[[str], None]
T = TypeVar("T")
AskStore = Callable[[Callable[[Store], Awaitable[Any]]], Any]

SATURDAY = "2026-03-28T12:00:00+01:00"
"""The day before the clocks go forward in Berlin."""


@pytest.fixture(autouse=True)
def forget_programs(tmp_path: Path) -> Iterator[None]:
    """A command imports a program under its own name. The next test may have another program of that name."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def call() -> Call:
    """Calls `onthedot ARGUMENTS`."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="onthedot")

    return run


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Stops the wall clock at an instant."""

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
    """Jobs of every kind: one that succeeds, one that always fails, one by cron, one with a fixed delay, a long one."""
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
def database(tmp_path: Path, in_berlin: None, set_clock: SetClock) -> Path:
    """A database two seconds after its node died. The node ran `past_program` for 25 seconds from Saturday noon."""
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
    set_clock("2026-03-28T12:00:27+01:00")
    return path


NOON = to_micros(datetime.fromisoformat(SATURDAY))
CAN = ("call:mail", "call:scan")


def seconds(number: float) -> int:
    """The instant this many seconds after noon."""
    return NOON + round(number * SECOND)


async def busy_hour(store: Store) -> None:
    """Three nodes: one leads and executes, one is late, one has left. Runs that wait for all kinds of reasons."""
    for name, at, labels in (("old", -4_000, ()), ("web-1", -100, ("gpu", "region=eu")), ("web-2", -90, ())):
        node = Node(name, f"{name}-i", queues=("default", "mail"), labels=labels, tasks=CAN, seats=8)
        await store.register(node, ttl=15 * SECOND, now=seconds(at))
    await store.leave("old-i", now=seconds(-3_600))
    await store.beat("web-2-i", ttl=15 * SECOND, now=seconds(-9))
    await store.beat("web-1-i", ttl=15 * SECOND, now=seconds(-1))
    await store.campaign("web-1-i", ttl=10 * SECOND, now=seconds(-1))
    ids = {}
    for name, options in (
        ("mail", {"queue": "mail", "concurrency": otd.Limit(1), "priority": "high"}),
        ("scan", {"queue": "default", "labels": frozenset({"tape"})}),
        ("placed", {"task": CallTask(handler="mail"), "assignment": "leader"}),
        ("own", {"task": CallTask(handler="mail"), "namespace": "team"}),
    ):
        job = Job(**{"name": name, "task": CallTask(handler=name)} | options)  # type: ignore[arg-type]
        ids[name] = (await store.put_job(job, now=seconds(-80))).record.id
    due = {"mail": (-5, -4, 3), "scan": (-3,), "placed": (-2,), "own": (50,)}
    for name, instants in due.items():
        for number, at in enumerate(instants):
            run = NewRun(ids[name], f"submit:{name}{number}", seconds(at), '{"to":"ann"}' if number else None)
            await store.submit([run], now=seconds(-70))
    ask = ReserveRequest("web-1-i", LeaseIds("l", 4), 4, queues=("mail",), tasks=frozenset(CAN), number=1)
    held = (await store.reserve(ask, now=seconds(-1))).held
    gates = {lease.lease_id: GateAsk((Gate("limit:mail", 1),), OnBusy("wait")) for lease in held}
    await store.arm(held, gates=gates, now=seconds(-1))
    await store.note([Note(lease, 1, Progress(30, 120)) for lease in held], now=seconds(0))


@pytest.fixture
def cluster(tmp_path: Path, in_berlin: None, set_clock: SetClock) -> Path:
    """The database of a cluster in the middle of its work, at Saturday noon."""
    path = tmp_path / "cluster.db"

    async def live() -> None:
        store = await SqliteStore.open(path)
        await busy_hour(store)
        await store.close()

    asyncio.run(live())
    set_clock(SATURDAY)
    return path


@pytest.fixture
def ask_store(cluster: Path) -> AskStore:
    """Asks the store of `cluster` directly, to see what a command did."""

    def at(question: Callable[[Store], Awaitable[T]]) -> T:
        async def ask() -> T:
            store = await SqliteStore.open(cluster, read_only=True)
            try:
                return await question(store)
            finally:
                await store.close()

        return asyncio.run(ask())

    return at
