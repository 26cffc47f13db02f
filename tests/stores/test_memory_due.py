"""Due schedules are found without reading the others, and are those that a full search finds."""

import random

import pytest

from onthedot.clock import SECOND
from onthedot.model.job import JobState
from onthedot.model.window import Window
from onthedot.rules.shards import bucket_of, buckets_of
from onthedot.stores.memory import MemoryStore
from onthedot_verify.contract.workbench import Workbench, at, every, window
from tests.behind import Instructions


async def store_with_jobs(count: int) -> tuple[MemoryStore, Workbench]:
    """A store with jobs whose next slots are a second apart."""
    store = MemoryStore()
    bench = Workbench(store)
    for number in range(count):
        job = bench.job(every(), name=f"job{number:04}")
        await bench.put(job, window(0, 0, next_at=number))
    return store, bench


async def cost(store: MemoryStore, until: float, limit: int = 500) -> int:
    """Returns how many instructions SQLite executes to find the due schedules."""
    with Instructions(store) as instructions:
        await store.due_schedules(until=at(until), limit=limit)
    return instructions.count


@pytest.mark.parametrize(("until", "limit"), [(-1, 500), (9, 500), (19, 500), (19, 10)])
async def test_only_due_schedules_are_read(until, limit):
    (few, _), (many_more, _) = await store_with_jobs(20), await store_with_jobs(2_000)
    assert await cost(many_more, until, limit) < 1.05 * await cost(few, until, limit)


async def test_paused_schedules_are_left_out_until_they_are_resumed():
    store, bench = await store_with_jobs(100)
    for record in (await store.queries.list_jobs())[:50]:
        await store.pause_job(record.id, reason="", now=bench.now)
    assert (await bench.due(99))[0] == "job0050/s"
    [seventh] = [record for record in await store.queries.list_jobs() if record.job.name == "job0007"]
    await store.resume_job(seventh.id, now=bench.now)
    assert (await bench.due(99))[0] == "job0007/s"


async def find_by_full_search(store: MemoryStore, until: int, shard: int) -> list[tuple[int, int, str]]:
    buckets = buckets_of(shard, (await store.queries.get_layout()).shards)
    found = [
        (state.next_at, record.id, state.schedule_id)
        for record in await store.queries.list_jobs()
        if bucket_of(record.id) in buckets and record.state is not JobState.PAUSED
        for state in await store.queries.schedules_of(record.id)
        if state.next_at is not None and state.next_at <= until
    ]
    return sorted(found)


class RandomChanges:
    """Makes random changes to a few jobs."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = MemoryStore()
        self.bench = Workbench(self.store)
        self.names = [f"job{number}" for number in range(8)]

    async def one_step(self, second: int) -> None:
        self.bench.turn(second)
        chance, store, now = self.chance, self.store, self.bench.now
        known = await store.queries.get_job(chance.choice(self.names))
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
                await store.pause_job(known.id, reason="", now=now)
            case "resume" if known is not None:
                await store.resume_job(known.id, now=now)
            case "delete" if known is not None:
                await store.delete_job(known.id, now=now)

    async def plan(self, job_id: int) -> None:
        store, now = self.store, self.bench.now
        shards = (await store.queries.get_layout()).shards
        [shard] = [shard for shard in range(shards) if bucket_of(job_id) in buckets_of(shard, shards)]
        term = await store.campaign(await self.bench.node(), ttl=SECOND // 2, shard=shard, now=now)
        assert term is not None
        for state in await store.queries.schedules_of(job_id):
            coming = self.chance.choice((None, state.watermark + self.chance.randrange(60 * SECOND)))
            moved = Window(state.schedule_id, state.watermark, state.watermark, coming)
            await store.plan(term, [(state, moved)], now=now)

    async def compare(self, shard: int) -> int:
        """Compare both ways. Returns how many schedules are due."""
        until, limit = self.bench.now + self.chance.randrange(60 * SECOND), 1 + self.chance.randrange(6)
        expected = await find_by_full_search(self.store, until, shard)
        due = await self.store.due_schedules(until=until, limit=limit, shard=shard)
        found = [(state.next_at, state.record.id, state.schedule_id) for state in due.schedules]
        assert found == expected[:limit]
        assert due.more == (len(expected) > limit)
        return len(expected)


@pytest.mark.parametrize("seed", range(20))
async def test_the_search_finds_the_same_as_a_full_search(seed):
    changes, found = RandomChanges(seed), 0
    for second in range(120):
        await changes.one_step(second)
        for shard in range((await changes.store.queries.get_layout()).shards):
            found += await changes.compare(shard)
    assert found > 50
