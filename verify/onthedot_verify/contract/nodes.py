"""Checks of nodes: register, beat and leave, and what the end of a node does to its runs and reservations."""

from __future__ import annotations

from contextlib import suppress

from onthedot.clock import SECOND
from onthedot.model.errors import NodeExpired
from onthedot.model.run import Gone, RunState
from onthedot.stores.values import Beat, Node
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, raises


@check
async def check_a_registered_node_has_a_lease(bench: Workbench) -> None:
    """A new incarnation has a lease of `ttl` from now. It is listed with everything it registered."""
    bench.turn(3)
    node = Node(id="n", incarnation="n-1", host="h", pid=7, roles=("worker",))
    beat = await bench.store.register(node, ttl=15 * SECOND, now=bench.now)
    assert beat == Beat(now=at(3), lease_until=at(18))
    [shown] = await bench.store.queries.list_nodes()
    assert (shown.id, shown.incarnation, shown.host, shown.pid, shown.roles) == ("n", "n-1", "h", 7, ("worker",))
    assert (shown.registered_at, shown.lease_until, shown.left_at) == (at(3), at(18), None)


@check
async def check_nodes_are_listed_newest_first(bench: Workbench) -> None:
    """Incarnations come newest first, at most `limit`. Dead ones are included."""
    for instant in (1, 2, 3):
        bench.turn(instant)
        await bench.node(f"node{instant}", ttl=1)
    bench.turn(60)
    assert [node.id for node in await bench.store.queries.list_nodes()] == ["node3", "node2", "node1"]
    assert [node.id for node in await bench.store.queries.list_nodes(limit=1)] == ["node3"]


@check
async def check_living_nodes_can_be_listed_alone(bench: Workbench) -> None:
    """With `living`, nodes that have left, were ended or whose lease has ended are left out. Order and limit stay."""
    names = ("first", "gone", "left", "ended", "last")
    nodes = {name: await bench.node(name, ttl=5 if name in ("gone", "ended") else 30) for name in names}
    bench.turn(4)
    assert [node.id for node in await bench.store.queries.list_nodes(living=True, now=bench.now)] == list(
        reversed(names)
    )
    await bench.store.leave(nodes["left"], now=bench.now)
    bench.turn(5)
    living = await bench.store.queries.list_nodes(living=True, now=bench.now)
    assert [(node.id, node.incarnation) for node in living] == [(name, nodes[name]) for name in ("last", "first")]
    assert [node.id for node in await bench.store.queries.list_nodes(living=True, limit=1, now=bench.now)] == ["last"]
    assert len(await bench.store.queries.list_nodes()) == 5


@check
async def check_a_beat_renews_the_lease(bench: Workbench) -> None:
    """Each beat moves the lease's end to `ttl` from now."""
    node = await bench.node(ttl=15)
    bench.turn(4)
    beat = await bench.store.beat(node, ttl=15 * SECOND, now=bench.now)
    assert beat == Beat(now=at(4), lease_until=at(19))
    [shown] = await bench.store.queries.list_nodes()
    assert shown.lease_until == at(19)


@check
async def check_a_late_beat_renews_until_the_reaper_acts(bench: Workbench) -> None:
    """An ended lease is renewed while its runs are still its own. It keeps them."""
    record = await bench.define()
    run_id = await bench.submit(record)
    node = await bench.node(ttl=15)
    [lease] = await bench.take(node)
    bench.turn(100)
    assert await bench.orphans() == [run_id]
    assert (await bench.store.beat(node, ttl=15 * SECOND, now=bench.now)).lease_until == at(115)
    assert await bench.orphans() == []
    assert await bench.finish(lease)


@check
async def check_the_reaper_ends_an_incarnation(bench: Workbench) -> None:
    """After the first run is taken from it, no beat, arm, reserve or second registration revives it."""
    record = await bench.define()
    await bench.submit(record)
    node = await bench.node(ttl=15)
    [lease] = await bench.take(node)
    bench.turn(20)
    assert await bench.reap(lease)
    with suppress(NodeExpired):
        await bench.store.register(Node(id="node", incarnation=node), ttl=15 * SECOND, now=bench.now)
    with raises(NodeExpired):
        await bench.store.beat(node, ttl=15 * SECOND, now=bench.now)
    with raises(NodeExpired):
        await bench.reserve(node, seats=1)


@check
async def check_a_beat_needs_a_registration(bench: Workbench) -> None:
    """An incarnation that is not registered has no lease to renew."""
    with raises(NodeExpired):
        await bench.store.beat("never registered", ttl=SECOND, now=bench.now)


@check
async def check_a_repeated_registration_is_harmless(bench: Workbench) -> None:
    """It is repeated after a lost answer. There is one node, with a living lease and its runs."""
    record = await bench.define()
    await bench.submit(record)
    node = await bench.node(ttl=15)
    [lease] = await bench.take(node)
    bench.turn(2)
    again = await bench.store.register(Node(id="node", incarnation=node), ttl=15 * SECOND, now=bench.now)
    assert again.lease_until == at(17)
    assert len(await bench.store.queries.list_nodes()) == 1
    assert await bench.finish(lease)


@check
async def check_a_new_incarnation_inherits_nothing(bench: Workbench) -> None:
    """It holds nothing of an earlier incarnation of the same node."""
    record = await bench.define()
    await bench.submit(record)
    old = await bench.node("same", ttl=15)
    await bench.take(old)
    new = await bench.node("same", ttl=15)
    assert len(await bench.store.recover(old)) == 1
    assert await bench.store.recover(new) == []
    assert [node.id for node in await bench.store.queries.list_nodes()] == ["same", "same"]


@check
async def check_a_leaving_node_releases_its_reservations(bench: Workbench) -> None:
    """Its reservations are free at once. Its running runs stay for the reaper."""
    record = await bench.define()
    for due in (0, 5):
        await bench.submit(record, due=due)
    one, two = await bench.node("one"), await bench.node("two")
    [running], [held] = await bench.take(one), await bench.hold(one, lapse=100)
    bench.turn(1)
    await bench.store.leave(one, now=bench.now)
    assert await bench.state(held.run_id) is RunState.SCHEDULED
    assert await bench.state(running.run_id) is RunState.RUNNING
    assert await bench.orphans() == [running.run_id]
    [taken] = await bench.hold(two)
    assert (taken.run_id, taken.attempt, taken.due_at) == (held.run_id, 1, at(5))
    assert await bench.release(held) == [False]


@check
async def check_a_node_that_left_cannot_beat(bench: Workbench) -> None:
    """It is shown as left. Leaving twice, or as an unknown node, is no error."""
    node = await bench.node(ttl=100)
    bench.turn(7)
    await bench.store.leave(node, now=bench.now)
    [shown] = await bench.store.queries.list_nodes()
    assert shown.left_at == at(7)
    assert shown.lease_until <= at(7)
    with raises(NodeExpired):
        await bench.store.beat(node, ttl=SECOND, now=bench.now)
    bench.turn(9)
    async with bench.nothing_written():
        await bench.store.leave(node, now=bench.now)
        await bench.store.leave("never registered", now=bench.now)


@check
async def check_a_leaving_node_ends_its_terms(bench: Workbench) -> None:
    """Another node can lead at once."""
    one, two = await bench.node("one"), await bench.node("two")
    term = await bench.term(one)
    assert await bench.store.campaign(two, ttl=SECOND, now=bench.now) is None
    await bench.store.leave(one, now=bench.now)
    assert await bench.store.renew(term, ttl=SECOND, now=bench.now) is None
    assert (await bench.term(two)).number > term.number


@check
async def check_a_lease_ends_at_one_instant(bench: Workbench) -> None:
    """At that instant either the node may arm or its runs are orphans: never both, never neither."""
    record = await bench.define()
    for due in (0, 5):
        await bench.submit(record, due=due)
    node = await bench.node(ttl=3)
    await bench.take(node)
    [held] = await bench.hold(node, lapse=100)
    bench.turn(3)
    try:
        alive = not isinstance((await bench.arm(held))[0], Gone)
    except NodeExpired:
        alive = False
    assert alive != bool(await bench.orphans())


@check
async def check_a_beat_shortens_leases_after_the_clock_is_set_back(bench: Workbench) -> None:
    """A dead node's lease ends far in the future. Any beat cuts it to a full lease from now. A living node's own beat
    renews its lease."""
    bench.turn(3600)
    dead, alive = await bench.node("dead", ttl=20), await bench.node("alive", ttl=15)
    record = await bench.define()
    run_id = await bench.submit(record, 3600)
    await bench.take(dead)
    bench.turn(0)
    beat = await bench.store.beat(alive, ttl=15 * SECOND, now=bench.now)
    assert beat.lease_until == at(15)
    assert {node.id: node.lease_until for node in await bench.store.queries.list_nodes()} == {
        "dead": at(20),
        "alive": at(15),
    }
    bench.turn(19)
    assert await bench.orphans() == []
    bench.turn(20)
    assert await bench.orphans() == [run_id]


@check
async def check_the_store_tells_its_time(bench: Workbench) -> None:
    """The time is on the same clock as the instants in its answers. A node can ask for it before it has any answer."""
    before = await bench.store.register(Node(id="n", incarnation="n-1"), ttl=15 * SECOND)
    told = await bench.store.tell_time()
    after = await bench.store.beat("n-1", ttl=15 * SECOND)
    assert before.now <= told <= after.now
