"""The leader deletes history that its retention policy does not keep; deleted runs stay in the daily counts."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.errors import StoreUnavailable
from onthedot.model.events import Events, HistoryPruned
from onthedot.model.retention import DAY, HOUR, PrunedNodes
from onthedot.model.run import TERMINAL, NewRun, RunState, submit_trigger
from onthedot.node.leadership import Leadership
from onthedot.node.pruner import BREATH, Pruner
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node, Term
from onthedot.testing import Harness, run_virtual
from onthedot_verify.contract import Workbench
from onthedot_verify.contract.retention import end
from onthedot_verify.contract.workbench import START, at, every, skip, window

S, F, LOST = RunState.SUCCEEDED, RunState.DEAD, RunState.LOST


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
async def store(request, tmp_path):
    if request.param == "memory":
        yield MemoryStore()
        return
    store = await SqliteStore.open(tmp_path / "otd.db", inline=True)
    yield store
    await store.close()


class Led(Leadership):
    """Leadership whose term was renewed at `seconds` on the store's clock; None: it holds no term."""

    def __init__(self, settings: otd.Settings, seconds: float | None) -> None:
        self.terms = {} if seconds is None else {0: Term(0, 1, "node", at(seconds) + settings.term_ttl)}


def pruner(store: Store, seconds: float | None, *, batch: int = 500, **retention) -> tuple[Pruner, list]:
    settings = otd.Settings(batch=batch, retention=otd.Retention(**retention))
    told: list = []
    return Pruner(store, Led(settings, seconds), settings, Events([told.append])), told


async def one_round(service: Pruner) -> int:
    """Tick until nothing is left to prune, and return the number of ticks."""
    for ticks in range(1, 1000):
        delay = await service.tick(0)
        if delay != BREATH:
            assert delay == 60 * SECOND
            return ticks
    raise AssertionError("expected the round to end within 999 ticks")


async def fill(bench: Workbench, days: dict[int, list[RunState]]) -> dict[int, list[int]]:
    """Make runs of one job that end at noon on these days, and return their ids by day."""
    record = await bench.define()
    ids = {}
    for day, states in days.items():
        bench.turn(day * 86_400 + 43_200)
        ids[day] = await end(bench, record, *states)
    return ids


DAYS = {0: [S, F, S], 1: [S, LOST], 50: [F, S], 96: [S, F], 99: [S]}
TABLE: dict[str, tuple[dict[str, Any], dict[int, list[RunState]]]] = {
    # retention policy: the part of DAYS that is still stored on day 100
    "by default": ({}, {50: [F], 96: [S, F], 99: [S]}),
    "for ever": (
        {"age": None, "count": None, "failures_age": None, "failures_count": None},
        DAYS,
    ),
    "two days": ({"age": 2 * DAY}, {50: [F], 96: [F], 99: [S]}),
    "two days, failures ten": ({"age": 2 * DAY, "failures_age": 10 * DAY}, {96: [F], 99: [S]}),
    "failures for ever": ({"failures_age": None}, {0: [F], 1: [LOST], 50: [F], 96: [S, F], 99: [S]}),
    "only failures go": ({"age": None}, {0: [S, S], 1: [S], 50: [F, S], 96: [S, F], 99: [S]}),
    "the newest one": ({"count": 1}, {50: [F], 96: [F], 99: [S]}),
    "the newest three, of all states": ({"age": None, "count": 3}, {50: [F], 96: [S, F], 99: [S]}),
    "few of either": ({"count": 1, "failures_count": 2}, {96: [F], 99: [S]}),
}


@pytest.mark.parametrize("batch", [1, 3, 500])
@pytest.mark.parametrize("case", TABLE)
async def test_each_policy_keeps_and_deletes_the_right_runs(store, case, batch):
    policy, kept = TABLE[case]
    bench = Workbench(store)
    ids = await fill(bench, DAYS)
    everything = Counter(run.state for run in await bench.runs())
    bench.turn(100 * 86_400)
    service, told = pruner(store, 100 * 86_400, batch=batch, **policy)
    await one_round(service)
    states = {run.id: run.state for run in await bench.runs()}
    found = {day: [states[one] for one in ended if one in states] for day, ended in ids.items()}
    assert {day: states for day, states in found.items() if states} == kept
    rolled_up: Counter[RunState] = Counter()
    for day in await store.queries.list_daily_counts():
        rolled_up[day.state] += day.count
    assert Counter(states.values()) + rolled_up == everything
    gone = sum(rolled_up.values())
    assert sum(event.runs for event in told) == gone
    before = await bench.everything()
    await one_round(service)
    assert await bench.everything() == before


async def test_runs_that_ended_within_the_last_hour_are_kept(store):
    bench = Workbench(store)
    record = await bench.define()
    old = await end(bench, record, S, S, S)
    bench.turn(3600)
    new = await end(bench, record, S, S, S)
    await one_round(pruner(store, 3600, count=1)[0])
    assert {run.id for run in await bench.runs()} == set(new)
    assert not {run.id for run in await bench.runs()} & set(old)


async def test_skips_and_nodes_are_deleted_after_ninety_days(store):
    bench = Workbench(store)
    bench.turn(55)
    await bench.put(bench.job(every()), window(0, 60, [60], skips=[skip(10, 50, 5)], next_at=70))
    await store.register(Node("old", "old"), ttl=SECOND, now=START)
    bench.turn(91 * 86_400)
    await store.register(Node("new", "new"), ttl=SECOND, now=bench.now)
    service, told = pruner(store, 91 * 86_400)
    await one_round(service)
    assert [node.id for node in await store.queries.list_nodes()] == ["new"]
    assert await store.queries.list_skips() == []
    assert told == [HistoryPruned(runs=0, skips=1, nodes=1)]
    assert [run.state for run in await bench.runs()] == [RunState.SCHEDULED]


async def test_a_round_deletes_one_batch_per_tick(store):
    """Each tick deletes at most one batch. While there is more, the next tick comes soon; then after a minute."""
    bench = Workbench(store)
    await fill(bench, {0: [S] * 7})
    bench.turn(10 * 86_400)
    service, told = pruner(store, 10 * 86_400, batch=3)
    delays = []
    for left in (4, 1, 0):
        delays.append(await service.tick(0))
        assert len(await bench.runs()) == left
    assert delays == [BREATH] * 3
    assert told == []
    await one_round(service)
    assert told == [HistoryPruned(7, 0, 0)]
    assert await one_round(service) == 6  # two ages, two quotas, skips, nodes


async def test_a_pruner_without_a_term_deletes_nothing(store):
    bench = Workbench(store)
    await fill(bench, {0: [S]})
    service, told = pruner(store, None)
    assert await service.tick(0) == 3 * SECOND
    assert len(await bench.runs()) == 1
    assert told == []


async def test_a_failed_step_is_repeated():
    class Moody(MemoryStore):
        moody = True

        async def prune_nodes(self, until, *, limit=500) -> PrunedNodes:
            if self.moody:
                raise StoreUnavailable("not now")
            return await super().prune_nodes(until, limit=limit)

    store = Moody()
    bench = Workbench(store)
    await fill(bench, {0: [S]})
    bench.turn(100 * 86_400)
    service, told = pruner(store, 100 * 86_400)
    with pytest.raises(StoreUnavailable):
        await one_round(service)
    store.moody = False
    assert await one_round(service) == 1
    assert told == [HistoryPruned(1, 0, 1)]


async def test_failures_that_are_kept_are_not_read_in_every_round():
    looked_at = []

    class Counting(MemoryStore):
        async def prune_runs(self, cut, *, after=None, limit=500, now=None):
            pruned = await super().prune_runs(cut, after=after, limit=limit, now=now)
            looked_at.append(pruned.passed != after)
            return pruned

    store = Counting()
    await fill(Workbench(store), {0: [F] * 4, 20: [S]})
    service, _ = pruner(store, 10 * 86_400, batch=2)
    await one_round(service)
    assert looked_at.count(True) == 2
    looked_at.clear()
    await one_round(service)
    assert looked_at.count(True) == 0


# ── a whole node ─────────────────────────────────────────────────────────────────────────────────────────────────

# Rare polls make a virtual day fast: most of its events are idle polls and heartbeats.
QUIET: dict[str, Any] = {f"{name}_every": 600 * SECOND for name in ("poll", "expire", "reap", "plan")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_a_node_prunes_its_history(kind, tmp_path):
    """A job runs every ten minutes for two days, and one run in six fails. Every slot is stored or counted."""

    def open_store(clock):
        return MemoryStore(clock) if kind == "memory" else SqliteStore.open(tmp_path / "a.db", clock=clock, inline=True)

    async def main() -> None:
        harness = Harness(datetime(2026, 1, 1, 0, 5, tzinfo=UTC), store=open_store)
        retention = otd.Retention(age=6 * HOUR, failures_age=24 * HOUR)
        settings = otd.Settings(retention=retention, prune_every=600 * SECOND, **QUIET).with_leases(HOUR)
        sched = otd.Scheduler("memory:", settings=settings)

        @sched.job(schedule=otd.cron("*/10 * * * *"))
        async def job(ctx: otd.Context) -> None:
            if ctx.scheduled_at.minute == 0:
                raise ValueError("on the hour")

        await harness.start(sched)
        await harness.advance("2d1m")
        await harness.stop()
        runs = await harness.runs("job")
        ended = Counter(run.state for run in runs if run.state in TERMINAL)
        rolled_up: Counter[RunState] = Counter()
        for one in await harness.store.queries.list_daily_counts(job="job"):
            rolled_up[one.state] += one.count
        assert ended + rolled_up == {S: 240, F: 48}
        assert 24 <= ended[F] <= 25
        assert 30 <= ended[S] <= 31
        pruned = [event for event in harness.events if isinstance(event, HistoryPruned)]
        assert sum(event.runs for event in pruned) == sum(rolled_up.values())
        await harness.store.close()

    run_virtual(main())


def test_only_the_leader_prunes():
    async def main() -> None:
        harness = Harness(datetime(2026, 1, 1, tzinfo=UTC))
        settings = otd.Settings(retention=otd.Retention(age=HOUR), **QUIET).with_leases(HOUR)
        sched = otd.Scheduler("memory:", settings=settings)

        @sched.job
        async def job() -> None: ...

        await harness.start(sched)
        store = harness.store
        await store.resign(await store.campaign(harness.engine._membership.incarnation, ttl=1))  # type: ignore[arg-type]
        await store.register(Node("other", "other", tzdata=harness.engine._membership.tzdata), ttl=10 * DAY)
        await store.campaign("other", ttl=DAY)
        record = await store.queries.get_job("job")
        assert record is not None
        [run_id] = await store.submit([NewRun(record.id, submit_trigger("x"), harness.clock.now())])
        await harness.advance("20h")
        assert await store.queries.get_run(run_id) is not None
        await harness.advance("8h")  # the other's term has ended
        assert await store.queries.get_run(run_id) is None
        await harness.stop()

    run_virtual(main())
