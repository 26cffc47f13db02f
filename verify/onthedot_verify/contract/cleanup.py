"""Checks of cleanup besides old runs: jobs with too many runs, old skips, ended nodes, and past terms."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.model.errors import NodeExpired
from onthedot.model.job import JobRecord
from onthedot.model.retention import DAY, DailyCount, Mark, Pruned, PrunedNodes
from onthedot.model.run import RunState
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.retention import TODAY, WEEK, cut, end, prune, remaining
from onthedot_verify.contract.workbench import START, Workbench, at, every, raises, skip, window


@check
async def check_jobs_with_too_many_runs_are_found(bench: Workbench) -> None:
    """Each comes with its newest run beyond the limit. All ended states count, and live runs do not."""
    one, two, three = [await bench.define(name) for name in ("one", "two", "three")]
    ones = await end(bench, one, RunState.SUCCEEDED, RunState.DEAD, RunState.SUCCEEDED, RunState.SUCCEEDED)
    await end(bench, two, RunState.SUCCEEDED, RunState.SUCCEEDED)
    await bench.submit(two, due=100)
    bench.turn(1)
    threes = await end(bench, three, RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.LOST)
    found = await bench.store.queries.find_crowded(2)
    assert found.marks == [(one.id, Mark(START, ones[1])), (three.id, Mark(at(1), threes[0]))]
    assert found.passed is None
    assert (await bench.store.queries.find_crowded(2, after=one.id)).marks == found.marks[1:]
    assert (await bench.store.queries.find_crowded(4)).marks == []


@check
async def check_the_search_for_too_many_runs_continues(bench: Workbench) -> None:
    """The next call continues where the last one stopped, so small steps find all jobs, too."""
    records = [await bench.define(str(number)) for number in range(4)]
    for record in records:
        await end(bench, record, RunState.SUCCEEDED, RunState.SUCCEEDED)
    found: list[int] = []
    after: int | None = 0
    for _ in range(10):
        if after is None:
            break
        crowded = await bench.store.queries.find_crowded(1, after=after, limit=1)
        found += [job_id for job_id, _ in crowded.marks]
        after = crowded.passed
    assert after is None
    assert found == [record.id for record in records]


@check
async def check_a_cut_may_name_one_job(bench: Workbench) -> None:
    """The runs of that job are pruned, within the limit of a call. Other jobs' runs stay."""
    one, two = await bench.define("one"), await bench.define("two")
    others = await end(bench, one, *[RunState.SUCCEEDED] * 3)
    mine = await end(bench, two, *[RunState.SUCCEEDED] * 3)
    first = await prune(bench, cut(0, job=two), limit=2)
    assert first == Pruned(2, Mark(START, mine[1]), more=True)
    assert (await prune(bench, cut(0, job=two), after=first.passed, limit=2)).runs == 1
    assert await remaining(bench) == set(others)


@check
async def check_daily_counts_are_listed_by_job_and_namespace(bench: Workbench) -> None:
    """`list_daily_counts` filters by job, namespace and limit."""
    for namespace, name in (("default", "one"), ("default", "two"), ("team", "one")):
        await end(bench, await bench.define(name, namespace=namespace), RunState.DEAD)
    await prune(bench, cut(0))
    store = bench.store
    assert [one.job for one in await store.queries.list_daily_counts()] == ["one", "two"]
    assert await store.queries.list_daily_counts(job="two") == [DailyCount("two", TODAY, RunState.DEAD, 1)]
    assert len(await store.queries.list_daily_counts(namespace="team")) == 1
    assert await store.queries.list_daily_counts(job="none") == []
    assert len(await store.queries.list_daily_counts(limit=1)) == 1


# ── skips, nodes and terms ───────────────────────────────────────────────────────────────────────────────────────


async def plan_skips(bench: Workbench, record: JobRecord, *ends: float) -> None:
    """Plan one range of six skips before each of these ends. A run between two ranges keeps them apart."""
    term = await bench.term(await bench.node(ttl=100 * WEEK), ttl=100 * WEEK)
    for last in ends:
        bench.turn(last)
        part = skip(last - 59, last - 1, 6)
        assert await bench.plan(term, record, window(last - 60, last, [last], skips=[part], next_at=last + 10)) == [
            True
        ]


@check
async def check_old_skips_are_pruned_and_counted(bench: Workbench) -> None:
    """They count as skipped slots of the day on which they were recorded. The oldest go first, at most `limit` in a
    call."""
    record = await bench.define(slots=[60])
    await plan_skips(bench, record, 120, 180, 240)
    assert await bench.store.prune_skips(at(119)) == 0
    assert await bench.store.prune_skips(at(180), limit=1) == 1
    assert await bench.store.prune_skips(at(180)) == 1
    assert await bench.store.prune_skips(at(180)) == 0
    [kept] = await bench.store.queries.list_skips()
    assert kept.recorded_at == at(240)
    assert await bench.store.queries.list_daily_counts() == [DailyCount("job", TODAY, RunState.SKIPPED, 12)]


@check
async def check_skips_after_the_watermark_are_kept(bench: Workbench) -> None:
    """An edit may have moved the watermark back."""
    bench.turn(60)
    await bench.put(bench.job(every()), window(0, 60, skips=[skip(50, 60, 2)], next_at=70))
    bench.turn(5)  # the clock is set back
    await bench.put(bench.job(every(5)), window(5, 8, next_at=10))
    assert await bench.store.prune_skips(at(WEEK)) == 0
    assert len(await bench.store.queries.list_skips()) == 1


@check
async def check_ended_nodes_without_runs_are_pruned(bench: Workbench) -> None:
    """Their leases have ended, or they have left. A living node stays, however old. A removed node must register
    again."""
    await bench.submit(await bench.define())
    holder = await bench.node("holder", ttl=5)
    await bench.take(holder)
    gone, silent = await bench.node("gone"), await bench.node("silent", ttl=5)
    alive, later = await bench.node("alive", ttl=20), await bench.node("later", ttl=15)
    await bench.store.leave(gone, now=bench.now)
    bench.turn(16)
    assert await bench.store.prune_nodes(at(10), limit=1) == PrunedNodes(1, 0)
    assert await bench.store.prune_nodes(at(10)) == PrunedNodes(1, 0)
    assert await bench.store.prune_nodes(at(10)) == PrunedNodes(0, 0)
    assert [node.incarnation for node in await bench.store.queries.list_nodes()] == [later, alive, holder]
    with raises(NodeExpired):
        await bench.store.beat(silent, ttl=SECOND, now=bench.now)
    assert [lease.incarnation for lease in await bench.store.orphans(limit=9, now=bench.now)] == [holder]


@check
async def check_term_numbers_grow_after_pruning(bench: Workbench) -> None:
    """The next term has a higher number, whatever was pruned of past terms."""
    node = await bench.node(ttl=100 * WEEK)
    for _ in range(3):
        assert await bench.store.resign(await bench.term(node), now=bench.now)
    bench.turn(WEEK)
    terms = (await bench.store.prune_nodes(at(WEEK) + DAY)).terms
    assert terms in (0, 2)  # not every store keeps past terms
    assert (await bench.term(node)).number == 4
