"""The next starts of all jobs are listed in order of time, with moves, pauses and jitter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND, Micros, to_micros
from onthedot.model.job import Job, JobRecord, Schedule
from onthedot.model.run import NewRun, manual_trigger
from onthedot.model.task import Noop
from onthedot.model.window import Window
from onthedot.operations import next_slots
from onthedot.operations.next_slots import gather, look_ahead, shown
from onthedot.rules.next_slots import coming, upcoming
from onthedot.schedules import schedule_id
from onthedot.stores.memory import MemoryStore
from onthedot.stores.queries import JobFilter
from onthedot.stores.sql.store import SqlQueries
from onthedot.stores.values import NextSchedules

NOW = to_micros(datetime(2026, 11, 18, 12, 0, 0, 500_000, tzinfo=UTC))


class Counting(SqlQueries):
    """Queries that count the schedules that are read."""

    schedules_read = 0

    async def next_schedules(self, **asked: Any) -> NextSchedules:
        found: NextSchedules = await super().next_schedules(**asked)
        self.schedules_read += len(found.schedules)
        return found


async def test_the_work_does_not_grow_with_the_number_of_jobs(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    store.queries = counting = Counting(store.database)
    for number in range(1_000):
        namespace, owner = ("team", "bob") if number == 999 else ("default", "ann")
        schedules = (otd.every("1h", anchor="2026-01-01T00:00:07Z"),)
        job = Job(name=f"job-{number}", namespace=namespace, owner=owner, task=Noop(), schedules=schedules)
        window = Window(schedule_id(job.schedules[0]), NOW, NOW, NOW + (number + 1) * SECOND)
        await store.put_job(job, windows=[window], now=NOW)
    found = await gather(store, NOW, limit=20)
    assert counting.schedules_read <= 500
    assert len(upcoming(found, NOW, limit=20)) == 20
    assert found.read_until is None
    monkeypatch.setattr(next_slots, "MOST_SCHEDULES", 500)
    for wanted in (JobFilter(namespaces=("team",)), JobFilter(owner="bob")):
        counting.schedules_read = 0
        found = await gather(store, NOW, limit=20, wanted=wanted)
        assert [one.record.job.name for one in found.states] == ["job-999"]
        assert (counting.schedules_read, found.read_until) == (1, None)
    later = NOW + 2_000 * SECOND  # nothing was planned for a while, so the list is certain only up to `read_until`
    assert (await gather(store, later, limit=20)).read_until == NOW + 500 * SECOND


@pytest.mark.parametrize("namespace", ["default", "team"])
async def test_waiting_runs_are_listed_and_paused_jobs_are_counted(namespace: str):
    store = MemoryStore()
    ids = {}
    for name in ("report", "held"):
        job = Job(name=name, namespace=namespace, task=Noop())
        ids[name] = (await store.put_job(job, now=NOW)).record.id
        due = NOW + 60 * SECOND
        await store.submit([NewRun(ids[name], f"submit:{name}", due), NewRun(ids[name], f"submit:{name}2", NOW - 1)])
    await store.pause_job(ids["held"], reason="", now=NOW)
    found = await gather(store, NOW, limit=20)
    [start] = upcoming(found, NOW, limit=20)
    assert (start.job.job.name, start.due_at, start.run is not None) == ("report", NOW + 60 * SECOND, True)
    assert found.paused == 1
    other = await gather(store, NOW, limit=20, wanted=JobFilter(namespaces=("nobody",)))
    assert (upcoming(other, NOW, limit=20), other.paused) == ([], 0)


# ── of one job ───────────────────────────────────────────────────────────────────────────────────────────────


def at(hour: int, minute: int = 0) -> Micros:
    return to_micros(datetime(2026, 11, 18, hour, minute, tzinfo=UTC))


async def stored(store: MemoryStore, schedule: Schedule) -> JobRecord:
    job = Job(name="hourly", task=Noop(), schedules=(schedule,))
    window = Window(schedule_id(schedule), NOW, NOW, at(13))
    return (await store.put_job(job, windows=[window], now=NOW)).record


async def test_every_view_shows_a_skipped_or_moved_slot_the_same_way():
    store, schedule = MemoryStore(), otd.cron("0 * * * *")
    record = await stored(store, schedule)
    name, run = schedule_id(schedule), NewRun(record.id, manual_trigger("t"), at(13, 3))
    moved = await store.move_slot(record.id, name, at(13), reason="moved", run=run, now=NOW)
    await store.move_slot(record.id, name, at(14), reason="cancelled", now=NOW)
    found = coming(await look_ahead(store, record.id, NOW, limit=2), NOW, 2)
    assert [(one.due_at, one.slot_at, one.schedule_id, one.moved) for one in found] == [
        (at(13, 3), at(13), name, True),
        (at(15), at(15), name, False),
    ]
    assert found[0].run is not None
    assert found[0].run.id == moved.run_id
    assert [one.at for one in (await shown(store, record, NOW)).next] == [at(13, 3)]
    assert [one.at for one in (await shown(store, record, at(13, 3))).next] == [at(15)]
    [first, second] = upcoming(await gather(store, NOW, limit=20), NOW, limit=2)
    assert (first.due_at, first.moved_from, second.due_at) == (at(13, 3), at(13), at(15))


async def test_a_job_with_jitter_is_shown_at_its_due_instant():
    store, schedule = MemoryStore(), otd.cron("0 * * * *", jitter="30m")
    record = await stored(store, schedule)
    [start] = coming(await look_ahead(store, record.id, NOW), NOW, 1)
    assert start.slot_at == at(13) < start.due_at
    assert [one.at for one in (await shown(store, record, NOW)).next] == [start.due_at]
    [line, *_] = upcoming(await gather(store, NOW, limit=20), NOW, limit=1)
    assert line.due_at == start.due_at
