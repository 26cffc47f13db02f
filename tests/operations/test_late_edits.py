"""An edit that is written late still divides the slots correctly.

The old definition keeps every slot up to the write, the new one gets every slot after it, and no instant runs twice.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta

import asyncpg
import pytest

import onthedot as otd
from onthedot.clock import MILLISECOND, SECOND, Micros, to_datetime
from onthedot.model.job import At, Call, Cron, Every, FixedDelay, In, Job, Schedule
from onthedot.model.run import RunRecord
from onthedot.operations.put_job import put_job
from onthedot.stores.memory import MemoryStore
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import PutJob

START: Micros = 1_767_225_600 * SECOND
SETTINGS = otd.Settings()


class HandClock:
    """A clock that changes only when the test sets it, and by `step` whenever it is read."""

    def __init__(self, now: Micros = START, step: Micros = 0) -> None:
        self.at = now
        self.step = step

    def now(self) -> Micros:
        self.at += self.step
        return self.at

    def steady(self) -> Micros:
        return self.at


def job(*schedules: Schedule) -> Job:
    return Job(name="job", task=Call(handler="work"), schedules=schedules)


def instant(seconds: float) -> datetime:
    return to_datetime(START + round(seconds * SECOND))


def steps(length: Micros, **options: object) -> Every:
    return Every(interval=timedelta(microseconds=length), **options)  # type: ignore[arg-type]


async def edit(store: Store, clock: HandClock, *schedules: Schedule) -> PutJob:
    return await put_job(store, job(*schedules), clock=clock, settings=SETTINGS)


def watch_put_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return an event that is set when the edit calls the store's `put_job`, after it has computed everything."""
    written, write = asyncio.Event(), store.put_job

    async def noted(*args, **options):
        written.set()
        return await write(*args, **options)

    monkeypatch.setattr(store, "put_job", noted)
    return written


async def slots_of(store: Store) -> list[tuple[Micros, str]]:
    runs: list[RunRecord] = await store.queries.list_runs(limit=10_000)
    return sorted((run.slot_at, run.trigger) for run in runs)


def multiples(length: Micros, after: Micros, until: Micros) -> list[Micros]:
    return list(range(after - after % length + length, until + 1, length))


async def check_divided(store: Store, put: PutJob, first: tuple[Micros, Micros], second: Micros) -> None:
    """Check that the old definition has each slot up to the edit once, and the new one each slot after it."""
    (old, begun), edited = first, put.record.updated_at
    found = [slot for slot, _ in await slots_of(store)]
    until = found[-1]
    assert until > edited + 10 * SECOND
    assert found == multiples(old, begun, edited) + multiples(second, edited, until)


async def test_an_edit_that_waits_for_the_lock_of_sqlite_divides_the_slots(tmp_path, monkeypatch):
    clock = HandClock()
    store = await SqliteStore.open(tmp_path / "otd.db", clock=clock)
    await edit(store, clock, steps(2 * SECOND))
    clock.at += 3 * SECOND
    other = sqlite3.connect(tmp_path / "otd.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    written = watch_put_job(store, monkeypatch)
    editing = asyncio.create_task(edit(store, clock, steps(3 * SECOND)))
    await written.wait()
    clock.at += 4 * SECOND
    other.execute("ROLLBACK")
    put = await editing
    assert put.record.updated_at == START + 7 * SECOND
    await check_divided(store, put, (2 * SECOND, START), 3 * SECOND)
    other.close()
    await store.close()


async def test_an_edit_that_waits_for_its_row_on_postgres_divides_the_slots(empty_url, monkeypatch):
    store = await PostgresStore.open(empty_url)
    begun = await store.tell_time()
    await edit(store, HandClock(begun), steps(200 * MILLISECOND))
    other = await asyncpg.connect(empty_url)
    holding = other.transaction()
    await holding.start()
    await other.execute("SELECT 1 FROM jobs FOR UPDATE")
    written = watch_put_job(store, monkeypatch)
    read = await store.tell_time()
    editing = asyncio.create_task(edit(store, HandClock(read), steps(300 * MILLISECOND)))
    await written.wait()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not await other.fetchval(waiting):
        pass
    [both] = multiples(600 * MILLISECOND, read, read + 600 * MILLISECOND)  # a slot of both definitions
    await other.execute("SELECT pg_sleep_until($1)", to_datetime(both + 1))
    await holding.rollback()
    put = await editing
    assert put.record.updated_at > both
    await check_divided(store, put, (200 * MILLISECOND, begun), 300 * MILLISECOND)
    await other.close()
    await store.close()


LATE: dict[str, tuple[Callable[[], Schedule], int]] = {
    # the schedule that an edit adds, always 30 ms late, and how many of its slots are planned
    "every": (lambda: steps(10 * MILLISECOND, id="new"), 1000),
    "cron": (lambda: Cron(expression="* * * * * *", id="new"), 30),
    "counted": (lambda: steps(10 * MILLISECOND, max_count=5, id="new"), 5),
    "counted from a start": (
        lambda: steps(10 * MILLISECOND, max_count=50, start=instant(0.2), id="new"),
        50,
    ),
    "once": (lambda: steps(10 * MILLISECOND, run_once=True, id="new"), 1),
    "in": (lambda: In(delay=timedelta(milliseconds=1), id="new"), 1),
    "delay": (lambda: FixedDelay(delay=timedelta(seconds=1), id="new"), 1),
    "delay with a start": (lambda: FixedDelay(delay=timedelta(seconds=1), start=instant(0.01), id="new"), 1),
}


@pytest.mark.parametrize("kind", LATE)
async def test_an_edit_that_is_always_late_still_finishes(kind):
    """It finishes although slots come faster than the store writes, and it plans all slots of the new schedule."""
    clock = HandClock()
    store = MemoryStore(clock)
    hourly = steps(3600 * SECOND, id="old")
    await edit(store, clock, hourly)
    clock.step = 30 * MILLISECOND
    make, count = LATE[kind]
    put = await asyncio.wait_for(edit(store, clock, hourly, make()), 30)
    new = [slot for slot, trigger in await slots_of(store) if trigger == "schedule:new"]
    assert len(new) >= count - 3 if count == 1000 else len(new) == count
    assert kind.startswith("delay") or new[0] > put.record.updated_at


async def test_an_instant_that_passes_while_the_edit_waits_is_recorded_as_missed(tmp_path):
    clock = HandClock()
    store = MemoryStore(clock)
    hourly = steps(3600 * SECOND, id="old")
    await edit(store, clock, hourly)
    clock.step = 2 * SECOND
    await edit(store, clock, hourly, At(instant=instant(3), more=(instant(60),), id="new"))
    assert [(skip.first, skip.reason) for skip in await store.queries.list_skips()] == [(START + 3 * SECOND, "missed")]


async def test_a_late_edit_replaces_an_unreadable_definition(tmp_path):
    clock = HandClock()
    store = await SqliteStore.open(tmp_path / "otd.db", clock=clock, inline=True)
    await edit(store, clock, steps(2 * SECOND))
    db = sqlite3.connect(tmp_path / "otd.db")
    db.execute('UPDATE job_revisions SET definition = \'{"name": "job", "unknown": 1}\'')
    db.commit()
    db.close()
    await store.close()
    store = await SqliteStore.open(tmp_path / "otd.db", clock=clock, inline=True)
    clock.step = 100 * MILLISECOND
    put = await edit(store, clock, At(instant=instant(0.15), id="new"))
    assert (put.change, put.record.job.schedules[0].id) == ("changed", "new")
    await store.close()


async def test_a_new_job_keeps_the_instants_that_pass_while_it_is_written():
    clock = HandClock(step=2 * SECOND)
    store = MemoryStore(clock)
    put = await edit(store, clock, At(instant=instant(3), id="once"))
    assert (put.change, put.planned) == ("created", 1)
