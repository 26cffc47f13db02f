"""Checks of layouts, shards and zone data: which node plans what, and that calls of an earlier layout are refused."""

from __future__ import annotations

from itertools import pairwise

from onthedot.clock import SECOND
from onthedot.model.errors import DefinitionError, LayoutConflict, TermLost
from onthedot.model.job import Cron, JobRecord
from onthedot.rules.shards import BUCKETS, MOST_SHARDS, bucket_of, buckets_of, shard_of
from onthedot.stores.values import Layout, Node, Placement, Replanned, Term
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, every, raises, window

TTL = 10 * SECOND


async def campaign(bench: Workbench, node: str, shard: int, layout: int | None = None) -> Term | None:
    return await bench.store.campaign(node, ttl=TTL, shard=shard, layout=layout, now=bench.now)


async def won(bench: Workbench, node: str, shard: int = 0) -> Term:
    term = await campaign(bench, node, shard)
    assert term is not None
    return term


async def set_shards(bench: Workbench, shards: int, expected: int | None = None) -> Layout:
    return await bench.store.set_shards(shards, expected=expected, now=bench.now)


async def node_with(bench: Workbench, name: str, tzdata: str, **fields: object) -> str:
    """Register a node with this version of the zone data. Returns its incarnation."""
    node = Node(id=name, incarnation=f"{name}-{bench.ids.token()}", tzdata=tzdata, **fields)  # type: ignore[arg-type]
    await bench.store.register(node, ttl=1000 * SECOND, now=bench.now)
    return node.incarnation


async def zoned_job(bench: Workbench, name: str, next_at: float = 100) -> JobRecord:
    """A job with a time zone, with its next slot there and nothing planned."""
    job = bench.job(Cron(expression="0 3 * * *", tz="Europe/Berlin", id="s"), name=name)
    return (await bench.put(job, window(0, 5, next_at=next_at))).record


# ── layouts ──────────────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_shards_divide_the_buckets(bench: Workbench) -> None:
    """For any number of shards, each bucket is in one of them, and sizes differ by at most one."""
    for shards in range(1, MOST_SHARDS + 1):
        assert (await set_shards(bench, shards)).shards == shards
        ranges = [buckets_of(shard, shards) for shard in range(shards)]
        assert (ranges[0].start, ranges[-1].stop) == (0, BUCKETS)
        assert all(one.stop == other.start for one, other in pairwise(ranges))
        assert max(map(len, ranges)) - min(map(len, ranges)) <= 1
        assert all(bucket in ranges[shard_of(bucket, shards)] for bucket in range(BUCKETS))


@check
async def check_the_first_layout_has_one_shard(bench: Workbench) -> None:
    """It is version 1. Each change makes the next version."""
    assert await bench.store.queries.get_layout() == Layout(1, 1)
    assert await set_shards(bench, 4) == Layout(2, 4)
    assert await bench.store.queries.get_layout() == Layout(2, 4)
    assert await set_shards(bench, 2, expected=2) == Layout(3, 2)


@check
async def check_a_layout_change_needs_the_version_that_was_read(bench: Workbench) -> None:
    """Another version changes nothing. The same change again gives the same answer, whatever was expected."""
    await set_shards(bench, 4, expected=1)
    async with bench.nothing_written():
        with raises(LayoutConflict):
            await set_shards(bench, 8, expected=1)
        assert await set_shards(bench, 4, expected=1) == Layout(2, 4)
        for nonsense in (0, -1, MOST_SHARDS + 1):
            with raises(DefinitionError):
                await set_shards(bench, nonsense)


@check
async def check_a_new_layout_ends_all_terms(bench: Workbench) -> None:
    """In the same write no term can be renewed or resigned any more, all shards are free, and numbers continue."""
    one, two = await bench.node("one"), await bench.node("two")
    await set_shards(bench, 2)
    old = [await won(bench, one, 0), await won(bench, one, 1)]
    bench.turn(1)
    await set_shards(bench, 3)
    assert [(term.shard, term.incarnation, term.until) for term in await bench.store.queries.list_terms()] == [
        (shard, "", at(1)) for shard in range(3)
    ]
    for term in old:
        assert await bench.store.renew(term, ttl=TTL, now=bench.now) is None
        assert not await bench.store.resign(term, now=bench.now)
    new = [await won(bench, two, shard) for shard in range(3)]
    assert [term.layout for term in new] == [3, 3, 3]
    assert all(later.number > earlier.number for earlier, later in zip(old, new, strict=False))
    assert await bench.store.queries.list_terms() == new


@check
async def check_an_earlier_layout_is_refused_everywhere(bench: Workbench) -> None:
    """This holds also when the clock is set back to before its terms ended, and when the shard has the same number."""
    record = (await bench.put(bench.job(every()), window(0, 0, next_at=10))).record
    node = await bench.node()
    bench.turn(5)
    term = await won(bench, node)
    await set_shards(bench, 2)
    bench.turn(1)
    async with bench.nothing_written():
        with raises(TermLost):
            await bench.plan(term, record, window(0, 35, [20, 30], next_at=40))
        with raises(TermLost):
            await bench.store.assign(term, [Placement(1, node)], now=bench.now)
        with raises(TermLost):
            await bench.store.replan(term, [], done=True, now=bench.now)
        with raises(TermLost):
            await bench.store.queries.zoned_schedules(term, limit=5)
        with raises(TermLost):
            await bench.store.due_schedules(until=at(60), limit=5, shard=0, layout=1)
        with raises(TermLost):
            await campaign(bench, node, 0, layout=1)
        assert await bench.store.renew(term, ttl=TTL, now=bench.now) is None
    assert await campaign(bench, node, 0, layout=2) is not None


@check
async def check_an_unknown_shard_is_refused(bench: Workbench) -> None:
    """A layout with two shards has no third one."""
    node = await bench.node()
    await set_shards(bench, 2)
    for shard in (2, -1):
        with raises(TermLost):
            await campaign(bench, node, shard)
        with raises(TermLost):
            await bench.store.due_schedules(until=at(60), limit=5, shard=shard)


@check
async def check_term_numbers_grow_across_layouts(bench: Workbench) -> None:
    """A shard that is removed and comes back continues its numbers, so no old plan fits."""
    node = await bench.node()
    numbers = []
    for shards in (2, 1, 2, 1, 2):
        await set_shards(bench, shards)
        if shards == 2:
            numbers.append((await won(bench, node, 1)).number)
    assert numbers == sorted(set(numbers))


@check
async def check_due_schedules_belong_to_one_shard(bench: Workbench) -> None:
    """Each due schedule comes with the shard of its job's bucket, earliest first. `more` counts that shard only."""
    records = [
        (await bench.put(bench.job(every(), name=f"job{n:02}"), window(0, 5, next_at=20 + n % 7))).record
        for n in range(40)
    ]
    for shards in (1, 3, 20, 64):
        version = (await set_shards(bench, shards)).version
        seen = []
        for shard in range(shards):
            due = await bench.store.due_schedules(until=at(60), limit=100, shard=shard, layout=version)
            ids = [state.record.id for state in due.schedules]
            assert ids == sorted(ids, key=lambda number: (20 + (number - records[0].id) % 7, number))
            assert {shard_of(bucket_of(number), shards) for number in ids} <= {shard}
            if ids:
                part = await bench.store.due_schedules(until=at(60), limit=len(ids), shard=shard)
                assert ([state.record.id for state in part.schedules], part.more) == (ids, False)
            seen += ids
        assert sorted(seen) == sorted(record.id for record in records)


# ── zone data ────────────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_term_goes_to_the_newest_zone_data(bench: Workbench) -> None:
    """No node starts a term while a living planner, that does not drain, has newer zone data."""
    old, new = await node_with(bench, "old", "2024b"), await node_with(bench, "new", "2025a")
    await node_with(bench, "worker", "2026a", roles=("worker",))
    unknown = await node_with(bench, "unknown", "unknown")
    assert await campaign(bench, old, 0) is None
    assert await campaign(bench, unknown, 0) is None
    term = await won(bench, new)
    assert (term.tzdata, term.zones) == ("2025a", "2025a")
    await bench.store.resign(term, now=bench.now)
    assert await campaign(bench, old, 0) is None
    await bench.store.drain("new", now=bench.now)
    assert await campaign(bench, unknown, 0) is None
    assert (await won(bench, old)).tzdata == "2024b"


@check
async def check_a_leader_continues_when_newer_zone_data_comes(bench: Workbench) -> None:
    """The rule is for nodes that campaign. A term is renewed until its holder resigns."""
    old = await node_with(bench, "old", "2024b")
    term = await won(bench, old)
    new = await node_with(bench, "new", "2025a")
    assert await bench.store.renew(term, ttl=TTL, now=bench.now) is not None
    assert await campaign(bench, new, 0) is None
    assert (await won(bench, old)).number == term.number


@check
async def check_nodes_with_older_zone_data_have_no_precedence(bench: Workbench) -> None:
    """The earliest registered planner is preferred only among those with the newest zone data."""
    leader = await node_with(bench, "leader", "2025a")
    await node_with(bench, "old", "2024b")
    new = await node_with(bench, "new", "2025a")
    await bench.store.resign(await won(bench, leader), now=bench.now)
    assert await bench.store.campaign(new, ttl=TTL, patience=3 * SECOND, now=bench.now) is not None


@check
async def check_a_term_has_the_zone_data_of_its_shard(bench: Workbench) -> None:
    """`zones` stays until the holder reports that all is computed again. It survives a change of the layout."""
    old = await node_with(bench, "old", "2024b")
    await bench.store.resign(await won(bench, old), now=bench.now)
    await zoned_job(bench, "job")
    new = await node_with(bench, "new", "2025a")
    for _ in range(2):
        term = await won(bench, new)
        assert (term.tzdata, term.zones) == ("2025a", "2024b")
        assert await bench.store.replan(term, [], now=bench.now) == []
        await bench.store.resign(term, now=bench.now)
    term = await won(bench, new)
    await bench.store.replan(term, [], done=True, now=bench.now)
    await set_shards(bench, 2)
    first, second = await won(bench, new, 0), await won(bench, new, 1)
    assert (first.zones, second.zones) == ("2025a", "2025a")


@check
async def check_shards_with_different_zone_data_make_an_unknown_layout(bench: Workbench) -> None:
    """The shards of the old layout were computed with several versions. Those of the new one start with none."""
    old = await node_with(bench, "old", "2024b")
    await set_shards(bench, 2)
    for shard in range(2):
        term = await won(bench, old, shard)
        await bench.store.replan(term, [], done=True, now=bench.now)
    new = await node_with(bench, "new", "2025a")
    await bench.store.leave(old, now=bench.now)
    await bench.store.replan(await won(bench, new, 0), [], done=True, now=bench.now)
    assert [term.zones for term in await bench.store.queries.list_terms()] == ["2025a", "2024b"]
    await set_shards(bench, 3)
    assert [(await won(bench, new, shard)).zones for shard in range(3)] == ["", "", ""]


@check
async def check_the_first_term_of_a_store_with_jobs_has_no_zones(bench: Workbench) -> None:
    """The jobs were stored before the first term, with unknown zone data. Without such jobs, `zones` is the holder's
    version."""
    node = await node_with(bench, "node", "2025a")
    await bench.put(bench.job(Cron(expression="0 3 * * *", id="s"), name="utc"), window(0, 5, next_at=100))
    await zoned_job(bench, "job")
    assert (await won(bench, node)).zones == ""


@check
async def check_zoned_schedules_come_in_batches(bench: Workbench) -> None:
    """The batches have the shard's schedules with a time zone and a next slot, after the last one seen. Paused jobs are
    included."""
    await bench.put(bench.job(every(), name="interval"), window(0, 5, next_at=20))
    records = [await zoned_job(bench, f"job{number}") for number in range(5)]
    await bench.put(
        bench.job(Cron(expression="0 3 * * *", tz="Europe/Berlin", id="s"), name="over"), window(0, 5, next_at=None)
    )
    await bench.store.pause_job(records[1].id, reason="", now=bench.now)
    await bench.store.delete_job(records[2].id, now=bench.now)
    node = await bench.node()
    term = await won(bench, node)
    seen: list[int] = []
    while batch := await bench.store.queries.zoned_schedules(term, after=(seen[-1], "s") if seen else (0, ""), limit=2):
        assert len(batch) <= 2
        seen += [state.record.id for state in batch]
    assert seen == [records[number].id for number in (0, 1, 3, 4)]
    await set_shards(bench, 2)
    parts = [await bench.store.queries.zoned_schedules(await won(bench, node, shard), limit=9) for shard in range(2)]
    assert [{shard_of(bucket_of(state.record.id), 2) for state in part} <= {shard} for shard, part in enumerate(parts)]
    assert sorted(state.record.id for part in parts for state in part) == seen


@check
async def check_an_edit_changes_whether_a_schedule_has_a_zone(bench: Workbench) -> None:
    """Under the same id it may have another rule."""
    record = await zoned_job(bench, "job")
    term = await won(bench, await bench.node())
    assert await bench.store.queries.zoned_schedules(term, limit=9)
    await bench.put(bench.job(every(), name="job"), window(0, 5, next_at=20))
    assert await bench.store.queries.zoned_schedules(term, limit=9) == []
    await zoned_job(bench, "job")
    assert [state.record.id for state in await bench.store.queries.zoned_schedules(term, limit=9)] == [record.id]


@check
async def check_replan_moves_only_next_slots(bench: Workbench) -> None:
    """Each row needs the revision and the watermark that were read. Otherwise the row stays. Runs stay."""
    job = bench.job(Cron(expression="0 3 * * *", tz="Europe/Berlin", id="s"), name="job")
    record = (await bench.put(job, window(0, 60, [10, 50], next_at=100))).record
    other = await zoned_job(bench, "other")
    term = await won(bench, await bench.node())
    rows = [
        Replanned(record.id, "s", 1, at(60), at(90)),
        Replanned(other.id, "s", 1, at(4), at(90)),
        Replanned(other.id, "s", 2, at(5), at(90)),
        Replanned(other.id, "gone", 1, at(5), at(90)),
        Replanned(record.id + 100, "s", 1, at(5), at(90)),
    ]
    assert await bench.store.replan(term, rows, now=bench.now) == [True, False, False, False, False]
    state = await bench.schedule(record)
    assert (state.watermark, state.next_at) == (at(60), at(90))
    assert (await bench.schedule(other)).next_at == at(100)
    assert await bench.slots(record) == [10, 50]
    assert await bench.due(until=95) == ["job/s"]


@check
async def check_replan_leaves_ended_schedules_and_other_shards_alone(bench: Workbench) -> None:
    """A schedule without a next slot gets none. `zones` of another shard does not change."""
    job = bench.job(Cron(expression="0 3 * * *", tz="Europe/Berlin", id="s"), name="job")
    record = (await bench.put(job, window(0, 60, [10]))).record
    old = await node_with(bench, "old", "2024b")
    await set_shards(bench, 2)
    for shard in range(2):
        await bench.store.resign(await won(bench, old, shard), now=bench.now)
    new = await node_with(bench, "new", "2025a")
    first, second = await won(bench, new, 0), await won(bench, new, 1)
    row = Replanned(record.id, "s", 1, at(60), at(90))
    assert await bench.store.replan(first, [row], done=True, now=bench.now) == [False]
    assert (await bench.schedule(record)).next_at is None
    zones = {term.shard: term.zones for term in await bench.store.queries.list_terms()}
    assert zones == {0: "2025a", 1: second.zones}
    assert second.zones != "2025a"


@check
async def check_replan_needs_the_term(bench: Workbench) -> None:
    """If the term is over or another node's, `TermLost` is raised and nothing is written."""
    record = await zoned_job(bench, "job")
    old = await bench.term(await bench.node("one"), ttl=5)
    bench.turn(6)
    row = Replanned(record.id, "s", 1, at(5), at(90))
    async with bench.nothing_written():
        with raises(TermLost):
            await bench.store.replan(old, [row], done=True, now=bench.now)
    await bench.term(await bench.node("two"))
    async with bench.nothing_written():
        with raises(TermLost):
            await bench.store.replan(old, [row], done=True, now=bench.now)
