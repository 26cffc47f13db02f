"""Checks of terms, the leader election of a shard: campaign, renew and resign. Numbers only grow."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.model.errors import NodeExpired
from onthedot.stores.values import Node, Term
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, raises

TTL = 10 * SECOND


async def campaign(bench: Workbench, node: str, shard: int = 0) -> Term | None:
    return await bench.store.campaign(node, ttl=TTL, shard=shard, now=bench.now)


@check
async def check_the_first_node_to_campaign_leads(bench: Workbench) -> None:
    """If there is no term, it gets one for `ttl`. Other nodes get None."""
    one, two = await bench.node("one"), await bench.node("two")
    term = await campaign(bench, one)
    assert term is not None
    assert (term.shard, term.incarnation, term.until) == (0, one, at(10))
    assert await campaign(bench, two) is None
    bench.turn(9)
    assert await campaign(bench, two) is None


@check
async def check_a_campaign_of_the_holder_renews_its_term(bench: Workbench) -> None:
    """The term keeps its number."""
    node = await bench.node()
    first = await bench.term(node, ttl=10)
    bench.turn(6)
    again = await campaign(bench, node)
    assert again is not None
    assert (again.number, again.incarnation, again.until) == (first.number, node, at(16))


@check
async def check_term_numbers_only_grow(bench: Workbench) -> None:
    """Each new term has a higher number than all before it, also for the node that had the last one."""
    one, two = await bench.node("one"), await bench.node("two")
    numbers = []
    for step, node in enumerate((one, one, two, one)):
        bench.turn(20 * step)
        term = await campaign(bench, node)
        assert term is not None
        numbers.append(term.number)
    assert numbers == sorted(set(numbers))


@check
async def check_a_term_can_be_renewed(bench: Workbench) -> None:
    """Each renewal extends the current term to `ttl` from now. It stays the same term."""
    node = await bench.node()
    term = await bench.term(node, ttl=10)
    for instant in (5, 14, 23):
        bench.turn(instant)
        renewed = await bench.store.renew(term, ttl=TTL, now=bench.now)
        assert renewed is not None
        assert (renewed.number, renewed.incarnation, renewed.until) == (term.number, node, at(instant + 10))
    assert await campaign(bench, await bench.node("two")) is None


@check
async def check_an_ended_term_cannot_be_renewed(bench: Workbench) -> None:
    """After its end a term is over, even if no other node has campaigned."""
    one, two = await bench.node("one"), await bench.node("two")
    term = await bench.term(one, ttl=10)
    bench.turn(11)
    assert await bench.store.renew(term, ttl=TTL, now=bench.now) is None
    assert await campaign(bench, two) is not None
    assert await bench.store.renew(term, ttl=TTL, now=bench.now) is None


@check
async def check_another_node_leads_after_a_resign(bench: Workbench) -> None:
    """It leads at once, under a higher number. The old term is refused."""
    one, two = await bench.node("one"), await bench.node("two")
    old = await bench.term(one)
    bench.turn(2)
    assert await bench.store.resign(old, now=bench.now) is True
    assert await bench.store.renew(old, ttl=TTL, now=bench.now) is None
    new = await bench.term(two)
    assert new.number > old.number
    assert await bench.store.resign(old, now=bench.now) is False
    assert await bench.store.renew(new, ttl=TTL, now=bench.now) is not None


@check
async def check_a_campaign_needs_a_living_node(bench: Workbench) -> None:
    """`NodeExpired` without a lease, after its end, and after leaving. The term stays free."""
    short, gone = await bench.node("short", ttl=5), await bench.node("gone")
    bench.turn(6)
    await bench.store.leave(gone, now=bench.now)
    for incarnation in (short, gone, "never registered"):
        with raises(NodeExpired):
            await campaign(bench, incarnation)
    assert await campaign(bench, await bench.node("alive")) is not None


@check
async def check_each_shard_has_its_own_term(bench: Workbench) -> None:
    """A term of one shard does not affect another shard."""
    one, two = await bench.node("one"), await bench.node("two")
    await bench.store.set_shards(2, now=bench.now)
    first, second = await campaign(bench, one, 0), await campaign(bench, two, 1)
    assert first is not None
    assert second is not None
    assert (first.shard, second.shard) == (0, 1)
    assert await bench.store.resign(first, now=bench.now)
    assert await bench.store.renew(second, ttl=TTL, now=bench.now) is not None


PATIENCE = 3 * SECOND


async def campaign_patiently(bench: Workbench, node: str) -> Term | None:
    return await bench.store.campaign(node, ttl=TTL, patience=PATIENCE, now=bench.now)


@check
async def check_the_earliest_registered_planner_is_preferred(bench: Workbench) -> None:
    """A term that has just ended goes to the earliest registered living planner, even if another node asks first. After
    `patience` any node may have it."""
    one, two, three = [await bench.node(name) for name in ("one", "two", "three")]
    await bench.term(one, ttl=10)
    bench.turn(10)
    assert await campaign_patiently(bench, three) is None
    assert await campaign_patiently(bench, two) is not None
    bench.turn(23)
    assert await campaign_patiently(bench, three) is not None, "the patience is over"


@check
async def check_a_node_that_resigned_has_no_precedence(bench: Workbench) -> None:
    """The last holder is registered earliest and lives. Another node still leads at once."""
    one, two = await bench.node("one"), await bench.node("two")
    term = await bench.term(one)
    await bench.store.resign(term, now=bench.now)
    assert await campaign_patiently(bench, two) is not None


@check
async def check_only_living_planners_have_precedence(bench: Workbench) -> None:
    """Dead nodes, and nodes that do not plan, have none."""
    leader = await bench.node("leader")
    await bench.node("short", ttl=5)
    worker = Node(id="worker", incarnation=bench.ids.token(), roles=("worker",))
    await bench.store.register(worker, ttl=30 * SECOND, now=bench.now)
    late = await bench.node("late")
    await bench.term(leader, ttl=10)
    bench.turn(11)
    assert await campaign_patiently(bench, late) is not None


@check
async def check_a_term_ends_in_time_after_the_clock_is_set_back(bench: Workbench) -> None:
    """A dead leader's term ends far in the future. It blocks others for no longer than one term."""
    one, two = await bench.node("one"), await bench.node("two")
    bench.turn(3600)
    for node in (one, two):
        await bench.store.beat(node, ttl=30 * SECOND, now=bench.now)
    await bench.term(one, ttl=10)
    bench.turn(0)
    assert await campaign(bench, two) is None
    bench.turn(9)
    assert await campaign(bench, two) is None
    bench.turn(10)
    assert await campaign(bench, two) is not None
