"""Checks of status queries: terms, what each incarnation holds, and why a run waits (`why_waiting`)."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.rate import RateGate
from onthedot.model.run import ArmAnswer, Blocked, Delayed, Gate, GateAsk, Lease, OnBusy, WaitReason
from onthedot.stores.values import Held, Node, Owned, Placement
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, retry


async def _why_waiting(bench: Workbench, run_id: int) -> WaitReason:
    found = await bench.store.queries.why_waiting(run_id)
    assert found is not None
    return found


async def _armed_at(bench: Workbench, ask: GateAsk) -> tuple[list[Lease], list[ArmAnswer]]:
    """Arm two due runs of one job in one call with this ask."""
    record = await bench.define()
    for _ in range(2):
        await bench.submit(record, due=1)
    leases = await bench.hold(await bench.node(), ahead=2)
    bench.turn(1)
    gates = {lease.lease_id: ask for lease in leases}
    return leases, await bench.store.arm(list(map(replace, leases)), gates=gates, now=bench.now)


@check
async def check_terms_are_listed(bench: Workbench) -> None:
    """The newest term of each shard is listed, even if it is over."""
    assert await bench.store.queries.list_terms() == []
    node = await bench.node()
    term = await bench.term(node, ttl=10)
    assert await bench.store.queries.list_terms() == [term]
    bench.turn(60)
    assert [(one.incarnation, one.until) for one in await bench.store.queries.list_terms()] == [(node, at(10))]


@check
async def check_terms_of_removed_shards_are_not_listed(bench: Workbench) -> None:
    """A layout with fewer shards lists only the terms of these."""
    node = await bench.node()
    await bench.store.set_shards(3, now=bench.now)
    for shard in range(3):
        assert await bench.store.campaign(node, ttl=SECOND, shard=shard, now=bench.now)
    await bench.store.set_shards(2, now=bench.now)
    assert [term.shard for term in await bench.store.queries.list_terms()] == [0, 1]


@check
async def check_a_node_shows_the_length_of_its_lease(bench: Workbench) -> None:
    """It is the `ttl` of the last renewal, so the instant of the last beat is known."""
    await bench.store.register(Node("a", "a1"), ttl=10 * SECOND, now=bench.now)
    bench.turn(3)
    await bench.store.beat("a1", ttl=20 * SECOND, now=bench.now)
    [node] = await bench.store.queries.list_nodes()
    assert (node.ttl, node.lease_until) == (20 * SECOND, at(23))


@check
async def check_held_runs_are_counted_by_incarnation(bench: Workbench) -> None:
    """Reserved and running are counted separately. An incarnation without runs is left out."""
    record = await bench.define()
    one, two = await bench.node("one"), await bench.node("two")
    await bench.node("idle")
    assert await bench.store.queries.count_held() == {}
    await bench.submit(record)
    await bench.submit(record, due=5)
    await bench.submit(record, due=6)
    [lease] = await bench.take(one)
    await bench.hold(two, ahead=2)
    assert await bench.store.queries.count_held() == {one: Held(0, 1), two: Held(2, 0)}
    assert await bench.finish(lease)
    assert await bench.store.queries.count_held() == {two: Held(2, 0)}


@check
async def check_an_owners_jobs_and_runs_are_counted(bench: Workbench) -> None:
    """Jobs that are not deleted, with their waiting and running runs, in one namespace or in all."""
    mail, post = await bench.define("mail", owner="ann"), await bench.define("post", owner="ann", namespace="qa")
    await bench.define("other", owner="bob")
    unowned = await bench.define("unowned")
    node = await bench.node()
    for record in (mail, mail, post, unowned):
        await bench.submit(record)
    await bench.submit(mail, due=50)
    assert await bench.store.queries.count_owned("ann") == Owned(2, 4)
    assert await bench.store.queries.count_owned("bob") == Owned(1, 0)
    assert await bench.store.queries.count_owned("") == Owned(1, 1)
    assert await bench.store.queries.count_owned("nobody") == Owned(0, 0)
    assert await bench.store.queries.count_owned("ann", namespace="qa") == Owned(1, 1)
    assert await bench.store.queries.count_owned("ann", namespace="default") == Owned(1, 3)
    assert await bench.store.queries.count_owned("bob", namespace="qa") == Owned(0, 0)
    leases = await bench.take(node, seats=4)
    assert await bench.store.queries.count_owned("ann") == Owned(2, 4)
    assert await bench.finish(next(lease for lease in leases if lease.record.id == mail.id))
    assert await bench.store.queries.count_owned("ann") == Owned(2, 3)
    await bench.store.delete_job(mail.id, now=bench.now)
    assert await bench.store.queries.count_owned("ann") == Owned(1, 1)
    assert await bench.store.queries.count_owned("ann", namespace="default") == Owned(0, 0)


@check
async def check_why_waiting_names_the_holder(bench: Workbench) -> None:
    """A reserved or running run has a node, and a scheduled or retried run has none. For an ended run the answer is
    None."""
    record = await bench.define()
    node = await bench.node("web-1")
    run_id = await bench.submit(record, due=1)
    assert await _why_waiting(bench, run_id) == WaitReason(run_id)
    [lease] = await bench.hold(node)
    reserved = WaitReason(run_id, node="web-1", incarnation=node, reserved_at=at(0))
    assert await _why_waiting(bench, run_id) == reserved
    bench.turn(1)
    lease = await bench.armed(lease)
    assert await _why_waiting(bench, run_id) == replace(reserved, fence=lease.fence)
    await bench.store.cancel([run_id], why="enough", now=bench.now)
    assert (await _why_waiting(bench, run_id)).cancel_wanted == "enough"
    assert await bench.finish(lease)
    assert await bench.store.queries.why_waiting(run_id) is None
    assert await bench.store.queries.why_waiting(run_id + 1) is None

    run_id = await bench.submit(record)
    [lease] = await bench.take(node)
    assert await bench.finish(lease, retry(9))
    assert await _why_waiting(bench, run_id) == WaitReason(run_id)


@check
async def check_why_waiting_has_the_expiry(bench: Workbench) -> None:
    """A run with `expires_at` shows it."""
    record = await bench.define(slots=[10], late=30)
    run = await bench.slot_run(record, 10)
    assert (await _why_waiting(bench, run.id)).expires_at == at(40)


@check
async def check_why_waiting_names_the_gate_and_its_holders(bench: Workbench) -> None:
    """When the gate has passed to the run, it waits no more."""
    (one, two), (_, answer) = await _armed_at(bench, GateAsk((Gate("g", 1),), OnBusy("wait")))
    assert isinstance(answer, Blocked)
    standing = await _why_waiting(bench, two.run_id)
    assert (standing.gate, standing.holders, standing.node) == ("g", (one.run_id,), "")
    assert await bench.finish(one)
    standing = await _why_waiting(bench, two.run_id)
    assert (standing.gate, standing.holders) == ("", ())


@check
async def check_why_waiting_has_the_granted_instant(bench: Workbench) -> None:
    """A run that its rate delays shows the instant of its grant."""
    rate = RateGate("r", 1, 10 * SECOND, 1)
    (_, two), (_, answer) = await _armed_at(bench, GateAsk((), OnBusy("wait"), rate))
    assert isinstance(answer, Delayed)
    assert (await _why_waiting(bench, two.run_id)).granted_at == answer.until == at(11)


@check
async def check_why_waiting_names_the_leaders_placement(bench: Workbench) -> None:
    """A run that the leader places shows that, and the chosen incarnation."""
    record = await bench.define(assignment="leader")
    node = await bench.node()
    run_id = await bench.submit(record)
    standing = await _why_waiting(bench, run_id)
    assert (standing.for_leader, standing.place) == (True, "")
    assert await bench.store.assign(await bench.term(node), [Placement(run_id, node)], now=bench.now) == [True]
    standing = await _why_waiting(bench, run_id)
    assert (standing.for_leader, standing.place) == (False, node)


@check
async def check_a_store_describes_itself(bench: Workbench) -> None:
    """The answer names its product, and tells which acknowledged writes survive a crash."""
    about = await bench.store.about()
    assert about.product
    assert about.promise
    assert about.connections >= 0
