"""Dead letters are grouped by their error, replayed once each, at a rate if wanted, or discarded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import Clock, SystemClock
from onthedot.model.events import Events, RunsReplayed
from onthedot.model.run import NewRun, RunRecord, RunState
from onthedot.operations import dead_letters
from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual
from onthedot_verify.contract import Workbench
from onthedot_verify.contract.workbench import DEAD
from tests.behind import behind

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
OpenStore = Callable[[Clock], Any]


@pytest.fixture(params=["memory", "sqlite"])
def opened(request, tmp_path) -> OpenStore:
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "letters.db", clock=clock, inline=True)


class Orders:
    """A program whose job fails until `broken` is reset, and the calls of the job."""

    def __init__(self) -> None:
        self.broken = True
        self.seen: list[tuple[int, datetime]] = []
        self.sched = otd.Scheduler("memory:")

        @self.sched.job
        async def charge(ctx: otd.Context, order: int) -> int:
            self.seen.append((order, ctx.scheduled_at))
            if self.broken:
                raise ConnectionError(f"no answer for order {order}") if order < 100 else KeyError(str(order))
            return order

        @self.sched.job
        async def other() -> None:
            raise ValueError("never")


def play(opened: OpenStore, scenario: Callable[[Harness, Orders], Awaitable[None]]) -> None:
    async def main() -> None:
        harness, orders = Harness(START, store=opened), Orders()
        await harness.start(orders.sched)
        await scenario(harness, orders)
        await harness.stop()
        await harness.store.close()

    run_virtual(main())


async def die(harness: Harness, orders: Orders, *numbers: int) -> list[int]:
    """Make a dead run for each of these orders, a second apart, and return their ids."""
    ids = []
    for number in numbers:
        ids.append((await orders.sched.submit("charge", {"order": number})).id)
        await harness.advance("1s")
    assert {(await run_of(orders, run_id)).state for run_id in ids} <= {RunState.DEAD}
    return ids


async def run_of(orders: Orders, run_id: int) -> RunRecord:
    run = await orders.sched.get_run(run_id)
    assert run is not None
    return run


def test_letters_are_grouped_by_their_error(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        ids = await die(harness, orders, 1, 2, 100, 3)
        await orders.sched.submit("other")
        await harness.advance("1s")
        other, no_answer, key = await orders.sched.dead_letters()
        assert (other.job, other.count, other.error_type) == ("other", 1, "ValueError")
        assert (no_answer.count, no_answer.error) == (3, "ConnectionError: no answer for order <n>")
        assert (no_answer.first, no_answer.last) == (START, START + timedelta(seconds=3))
        assert (no_answer.example.id, no_answer.example.args) == (ids[3], '{"order":3}')
        assert key.error_type == "KeyError"
        runs = await orders.sched.dead_runs(fingerprint=no_answer.fingerprint)
        assert [run.id for run in runs] == [ids[3], ids[1], ids[0]]
        assert [group.fingerprint for group in await orders.sched.dead_letters("other")] == [other.fingerprint]
        later = await orders.sched.dead_runs("charge", since=START + timedelta(seconds=1), until="2026-06-01T12:00:03Z")
        assert [run.id for run in later] == [ids[2], ids[1]]

    play(opened, scenario)


def test_a_letter_is_replayed_once_for_its_instant_with_its_arguments(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        sched = orders.sched
        [dead] = await die(harness, orders, 7)
        orders.broken = False
        new = await sched.replay(dead)
        assert (new.created, (await sched.replay(dead)).created) == (True, False)
        assert await sched.replay(dead) == new
        await harness.advance("1s")
        assert orders.seen == [(7, START), (7, START)]
        run = await run_of(orders, new.id)
        assert (run.state, run.trigger, run.args) == (RunState.SUCCEEDED, f"rerun:{dead}", '{"order":7}')
        assert (run.origin, (await run_of(orders, dead)).origin) == (dead, None)
        assert (await run_of(orders, dead)).settled == f"replayed:{new.id}"
        assert await sched.dead_runs() == []
        assert await sched.replay(dead) == new  # the same answer after the new run has ended

    play(opened, scenario)


def test_a_replay_that_dies_again_is_a_new_letter(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        [dead] = await die(harness, orders, 7)
        new = await orders.sched.replay(dead)
        await harness.advance("1s")
        [group] = await orders.sched.dead_letters()
        assert (group.count, group.example.id) == (1, new.id)
        assert (await orders.sched.replay(new)).id not in (dead, new.id)

    play(opened, scenario)


def test_the_next_replay_completes_one_whose_second_write_was_lost(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        [dead] = await die(harness, orders, 7)
        letter = await run_of(orders, dead)
        record = await orders.sched.get_job("charge")
        assert record is not None
        [run_id] = await harness.store.submit(  # the first write of a process that was then killed
            [NewRun(record.id, f"rerun:{dead}", harness.clock.now(), letter.args, slot_at=letter.slot_at)]
        )
        assert [run.id for run in await orders.sched.dead_runs()] == [dead]
        answer = await orders.sched.replay_many("charge")
        assert answer.run_ids == (run_id,)
        assert await orders.sched.dead_runs() == []

    play(opened, scenario)


def test_letters_are_replayed_at_a_rate_oldest_first(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        sched = orders.sched
        ids = await die(harness, orders, *range(5), 100)
        [group] = [group for group in await sched.dead_letters() if group.count == 5]
        orders.broken = False
        orders.seen.clear()
        preview = await sched.replay_many(fingerprint=group.fingerprint, rate=otd.Rate(1, "10s"), dry_run=True)
        assert str(preview) == (
            "5 dead letters: 5 new runs would be made, due from 2026-06-01T12:00:06Z to 2026-06-01T12:00:46Z"
        )
        assert len(await sched.dead_runs()) == 6
        done = await sched.replay_many(fingerprint=group.fingerprint, rate=otd.Rate(1, "10s"))
        assert (done.runs, len(done.run_ids), done.last_due) == (5, 5, preview.last_due)
        due = [(await run_of(orders, run_id)).due for run_id in done.run_ids]
        assert due == [START + timedelta(seconds=6 + 10 * number) for number in range(5)]
        await harness.advance("15s")
        assert [order for order, _ in orders.seen] == [0, 1]
        await harness.advance("40s")
        assert [order for order, _ in orders.seen] == [0, 1, 2, 3, 4]
        assert [run.id for run in await sched.dead_runs()] == [ids[5]]
        again = await sched.replay_many(fingerprint=group.fingerprint)
        assert str(again) == "no dead letters match"

    play(opened, scenario)


def test_more_letters_than_the_limit_are_refused_and_nothing_is_written(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        await die(harness, orders, 1, 2, 3)
        with pytest.raises(otd.DefinitionError, match="limit: expected at most 2 dead letters, got more"):
            await orders.sched.replay_many("charge", limit=2)
        assert len(await orders.sched.dead_runs()) == 3
        assert (await orders.sched.replay_many("charge", limit=3)).runs == 3

    play(opened, scenario)


def test_a_long_replay_reports_its_progress(monkeypatch: pytest.MonkeyPatch, opened: OpenStore):
    monkeypatch.setattr(dead_letters, "BATCH", 2)

    async def scenario(harness: Harness, orders: Orders) -> None:
        await die(harness, orders, 1, 2, 3, 4, 5)
        told: list[Any] = []
        events = Events([told.append])
        box = dead_letters.Box("charge")
        await dead_letters.replay_letters(
            harness.store, box, rate=None, dry_run=False, clock=harness.clock, events=events
        )
        assert told == [RunsReplayed(2, 5), RunsReplayed(4, 5), RunsReplayed(5, 5)]

    play(opened, scenario)


def test_letters_of_a_deleted_job_stay_and_are_counted(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        [dead] = await die(harness, orders, 1)
        await orders.sched.remove("charge")
        answer = await orders.sched.replay_many()
        assert str(answer) == "1 dead letter: 0 new runs, 1 is of a job that is gone"
        assert [run.id for run in await orders.sched.dead_runs()] == [dead]
        with pytest.raises(otd.UnknownJob, match=f"run {dead}: its job 'charge' was deleted"):
            await orders.sched.replay(dead)
        await orders.sched.put(orders.sched.jobs["charge"])  # another job with that name
        with pytest.raises(otd.UnknownJob, match=f"run {dead}: its job 'charge' was deleted; another job has that"):
            await orders.sched.replay(dead)

    play(opened, scenario)


def test_discarded_letters_leave_the_list_and_stay_in_history(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        sched = orders.sched
        one, two = await die(harness, orders, 1, 2)
        assert await sched.discard([one, one, 999], why="known") == 1
        assert await sched.discard(one) == 0
        assert [run.id for run in await sched.dead_runs()] == [two]
        run = await run_of(orders, one)
        assert (run.state, run.settled) == (RunState.DEAD, "discarded:known")
        assert {run.id for run in await sched.list_runs(states=[RunState.DEAD])} == {one, two}
        with pytest.raises(otd.StateError, match=r"run 1 was settled before \(discarded:known\)"):
            await sched.replay(one)
        with pytest.raises(otd.DefinitionError, match="why: expected at most 200 characters, got 201"):
            await sched.discard(two, why="x" * 201)

    play(opened, scenario)


def test_only_dead_runs_can_be_replayed(opened: OpenStore):
    async def scenario(harness: Harness, orders: Orders) -> None:
        orders.broken = False
        run = await orders.sched.submit("charge", {"order": 1})
        with pytest.raises(otd.StateError, match="run 1: expected one that is dead, got scheduled"):
            await orders.sched.replay(run)
        with pytest.raises(otd.UnknownRun, match="there is no run 99"):
            await orders.sched.replay(99)
        await harness.advance("1s")
        with pytest.raises(otd.StateError, match="expected one that is dead, got succeeded"):
            await orders.sched.replay(run)

    play(opened, scenario)


def test_a_replay_gets_the_slot_of_the_dead_run(opened: OpenStore):
    """`ctx.scheduled_at` is the slot of the dead run, so that the handler does the same work again."""

    async def main() -> None:
        harness, sched, seen = Harness(START, store=opened), otd.Scheduler("memory:"), []

        @sched.job(schedule=otd.at("2026-06-01T12:00:10Z"), args={"n": 1})
        async def once(ctx: otd.Context, n: int) -> None:
            seen.append((ctx.scheduled_at, n))
            raise ValueError("no")

        await harness.start(sched)
        await harness.advance("20s")
        [dead] = await sched.dead_runs()
        assert dead.args is None  # none of its own: it uses those of the job
        await sched.replay(dead.id)
        await harness.advance("1s")
        assert seen == [(START + timedelta(seconds=10), 1)] * 2
        await harness.stop()
        await harness.store.close()

    run_virtual(main())


@pytest.mark.parametrize("bad", ["yesterday", "2026-06-01T12:00"])
def test_bad_instants_and_limits_are_refused(opened: OpenStore, bad: str):
    async def scenario(harness: Harness, orders: Orders) -> None:
        with pytest.raises(otd.ScheduleError, match="since: expected"):
            await orders.sched.dead_letters(since=bad)
        with pytest.raises(otd.DefinitionError, match="limit: expected a whole number above zero, got 0"):
            await orders.sched.dead_runs(limit=0)

    play(opened, scenario)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
async def test_concurrent_replays_of_a_letter_make_one_run(kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    urls = {"postgres": "postgres_url", "redis": "valkey_url"}
    url = request.getfixturevalue(urls[kind]) if kind in urls else f"sqlite:///{tmp_path}/otd.db"
    store = await open_store(url)
    try:
        bench = Workbench(store)
        record, node = await bench.define(), await bench.node()
        dead = await bench.submit(record)
        [lease] = await bench.take(node)
        assert await bench.finish(lease, DEAD)
        answers = await asyncio.gather(
            *(dead_letters.replay_letter(store, dead, clock=SystemClock()) for _ in range(8))
        )
        assert len({run_id for _, run_id, _ in answers}) == 1
        assert [made for _, _, made in answers].count(True) == 1
    finally:
        await store.close()


async def test_grouping_many_letters_does_not_block_the_event_loop():
    """Letters are read a few at a time, and other tasks of the event loop run in between."""
    store = MemoryStore()
    bench = Workbench(store)
    record, node = await bench.define(), await bench.node()
    run_id = await bench.submit(record)
    [lease] = await bench.take(node)
    assert await bench.finish(lease, DEAD)
    copies = [(number,) for number in range(run_id + 1, run_id + 1_000)]
    behind(store, "CREATE TEMP TABLE copy AS SELECT * FROM history")
    for values in copies:
        behind(store, "UPDATE copy SET id = ?", *values)
        behind(store, "INSERT INTO history SELECT * FROM copy")
    turns = 0

    async def wait() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(wait())
    [group] = await dead_letters.group_letters(store, dead_letters.Box())
    waiting.cancel()
    assert group.count == 1_000
    assert turns >= 1_000 // dead_letters.TURN
