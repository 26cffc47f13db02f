"""The memory store finds due schedules without a look at the others, and finds the same as one that looks at all."""

import random
from typing import Any

import pytest

from onthedot.clock import SECOND
from onthedot.job import JobState
from onthedot.stores.base import Window
from onthedot.stores.memory import MemoryStore
from onthedot.testing.contract.workbench import Workbench, at, every, window


class Counting(dict[int, Any]):
    """Counts how often somebody looks something up, or at everything."""

    looks = 0

    def __getitem__(self, key):
        self.looks += 1
        return super().__getitem__(key)

    def __iter__(self):
        self.looks += len(self)
        return super().__iter__()


async def many(count: int) -> tuple[MemoryStore, Workbench]:
    """Jobs whose next slots are a second apart."""
    store = MemoryStore()
    bench = Workbench(store)
    for number in range(count):
        job = bench.job(every(), name=f"job{number:04}")
        await bench.put(job, window(0, 0, next_at=number))
    return store, bench


async def looks(store: MemoryStore, until: float, limit: int = 500) -> int:
    plain = store.schedules
    store.schedules = counting = Counting(plain)
    await store.due_schedules(until=at(until), limit=limit)
    store.schedules = plain
    return counting.looks


async def test_only_what_is_due_is_touched():
    store, _ = await many(2_000)
    assert await looks(store, -1) == 0
    assert await looks(store, 9) == 10
    assert await looks(store, 9) == 10, "and it is there the next time"
    assert await looks(store, 1_999, limit=20) == 21, "one more, to say that there are more"


async def test_what_is_paused_is_touched_once_and_comes_back():
    store, bench = await many(100)
    for record in (await store.list_jobs())[:50]:
        await store.pause(record.id, reason="", now=bench.now)
    await bench.due(99)
    assert await looks(store, 99) == 50
    [seventh] = [record for record in await store.list_jobs() if record.job.name == "job0007"]
    await store.resume(seventh.id, now=bench.now)
    assert (await bench.due(99))[0] == "job0007/s"


def by_looking_at_all(store: MemoryStore, until: int, shard: int) -> list[tuple[int, int, str]]:
    return sorted(
        (state.next_at, job_id, state.schedule_id)
        for job_id in store.jobs_of(shard)
        for state in store.schedules[job_id].values()
        if store.jobs[job_id].state is JobState.ACTIVE and state.next_at is not None and state.next_at <= until
    )


class Anything:
    """Does to a few jobs whatever can be done to them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = MemoryStore()
        self.bench = Workbench(self.store)
        self.names = [f"job{number}" for number in range(8)]

    async def one_step(self, second: int) -> None:
        self.bench.turn(second)
        chance, store, now = self.chance, self.store, self.bench.now
        known = await store.get_job(chance.choice(self.names))
        match chance.choice(("put", "put", "plan", "plan", "pause", "resume", "delete", "layout")):
            case "put":
                rules = [every(10 + chance.randrange(5), name=name) for name in "st"[: chance.randrange(3)]]
                ahead = [window(second, second, name=rule.id, next_at=second + chance.randrange(40)) for rule in rules]
                await self.bench.put(self.bench.job(*rules, name=chance.choice(self.names)), *ahead)
            case "layout":
                await store.set_shards(1 + chance.randrange(4), now=now)
            case "plan" if known is not None:
                await self.plan(known.id)
            case "pause" if known is not None:
                await store.pause(known.id, reason="", now=now)
            case "resume" if known is not None:
                await store.resume(known.id, now=now)
            case "delete" if known is not None:
                await store.delete_job(known.id, now=now)

    async def plan(self, job_id: int) -> None:
        store, now = self.store, self.bench.now
        [shard] = [shard for shard in range(store.current_layout.shards) if store.is_in_shard(job_id, shard)]
        term = await store.campaign(await self.bench.node(), ttl=SECOND // 2, shard=shard, now=now)
        assert term is not None
        for state in await store.schedules_of(job_id):
            coming = self.chance.choice((None, state.watermark + self.chance.randrange(60 * SECOND)))
            moved = Window(state.schedule_id, state.watermark, state.watermark, coming)
            await store.plan(term, [(state, moved)], now=now)

    async def compare(self, shard: int) -> int:
        """How many schedules are due, by both ways."""
        until, limit = self.bench.now + self.chance.randrange(60 * SECOND), 1 + self.chance.randrange(6)
        expected = by_looking_at_all(self.store, until, shard)
        due = await self.store.due_schedules(until=until, limit=limit, shard=shard)
        found = [(state.next_at, state.record.id, state.schedule_id) for state in due.schedules]
        assert found == expected[:limit]
        assert due.more == (len(expected) > limit)
        return len(expected)


@pytest.mark.parametrize("seed", range(20))
async def test_it_finds_what_one_finds_who_looks_at_all(seed):
    anything, found = Anything(seed), 0
    for second in range(120):
        await anything.one_step(second)
        for shard in range(anything.store.current_layout.shards):
            found += await anything.compare(shard)
    assert found > 50
