"""Checks of `arm` and `release`: when a reservation may start, what the answer says, and giving reservations back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from onthedot.model.errors import NodeExpired
from onthedot.model.run import EDITED, Armed, Gone, Lease, RunState
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, raises, retry


async def held_runs(bench: Workbench, node: str, count: int = 1, *, lapse: float = 0.5) -> list[Lease]:
    """The leases of new runs that `node` has reserved. They are due one second apart, from 5 on."""
    record = await bench.define(f"job of {node}")
    for number in range(count):
        await bench.submit(record, due=5 + number)
    leases = await bench.hold(node, ahead=count, lapse=lapse)
    assert len(leases) == count
    return leases


@check
async def check_an_armed_run_is_running(bench: Workbench) -> None:
    """`Armed` has a fence, the attempt's number and the instant. From then on the run is running."""
    [lease] = await held_runs(bench, await bench.node())
    bench.turn(4)
    [answer] = await bench.arm(lease)
    assert isinstance(answer, Armed)
    assert (answer.attempt, answer.armed_at) == (1, at(4))
    assert answer.fence > 0
    run = await bench.run(lease.run_id)
    assert (run.state, run.attempts, run.armed_at) == (RunState.RUNNING, 1, at(4))
    [held] = await bench.store.recover(lease.incarnation)
    assert held == replace(lease, fence=answer.fence, armed_at=at(4))


@check
async def check_a_repeated_arm_gives_the_same_answer(bench: Workbench) -> None:
    """`arm` is repeated after a lost answer. It gives the same fence, attempt and instant, and starts no second
    attempt."""
    [lease] = await held_runs(bench, await bench.node())
    first = await bench.arm(lease)
    bench.turn(3)
    async with bench.nothing_written():
        assert await bench.arm(lease) == first
        assert await bench.arm(lease, lease) == first * 2


@check
async def check_a_lease_armed_by_reserve_may_be_armed_again(bench: Workbench) -> None:
    """`reserve` armed this lease at once. `arm` repeats its fence."""
    record = await bench.define()
    await bench.submit(record)
    [lease] = await bench.take(await bench.node())
    bench.turn(2)
    assert await bench.arm(lease) == [Armed(lease.fence, 1, at(0))]


@check
async def check_fences_only_grow(bench: Workbench) -> None:
    """Each arm draws a higher fence than all before it in this store, across runs, attempts and jobs."""
    node = await bench.node()
    fences = [(await bench.armed(lease)).fence for lease in await held_runs(bench, node, 3)]
    bench.turn(10)
    for lease in await bench.store.recover(node):
        await bench.finish(lease, retry(10))
    fences += [lease.fence for lease in await bench.take(node, seats=3)]
    bench.turn(0)
    [lease] = await held_runs(bench, await bench.node("two"))
    fences.append((await bench.armed(lease)).fence)
    assert len(fences) == 7
    assert fences == sorted(set(fences))


@check
async def check_a_lapsed_reservation_may_still_be_armed(bench: Workbench) -> None:
    """A lapsed reservation still belongs to its holder until another worker takes the run."""
    [lease] = await held_runs(bench, await bench.node(), lapse=0.5)
    bench.turn(60)
    assert isinstance((await bench.arm(lease))[0], Armed)


@check
async def check_a_lost_reservation_cannot_be_armed(bench: Workbench) -> None:
    """If another worker has the run, or if it has ended, the answer is `Gone` and nothing changes."""
    one, two = await bench.node("one"), await bench.node("two")
    [old] = await held_runs(bench, one)
    bench.turn(10)
    [new] = await bench.take(two)
    async with bench.nothing_written():
        assert isinstance((await bench.arm(old))[0], Gone)
    await bench.finish(new)
    async with bench.nothing_written():
        assert all(isinstance(answer, Gone) for answer in await bench.arm(old, new))


@check
async def check_an_ended_attempt_cannot_be_armed_again(bench: Workbench) -> None:
    """After a retry verdict or a release the old lease is `Gone`, although the run waits again."""
    node = await bench.node()
    first, second = await held_runs(bench, node, 2)
    await bench.finish(await bench.armed(first), retry(50))
    await bench.release(second)
    async with bench.nothing_written():
        assert all(isinstance(answer, Gone) for answer in await bench.arm(first, second))


@check
async def check_an_edit_voids_earlier_reservations(bench: Workbench) -> None:
    """A lease from before an edit is `Gone(EDITED)`. After its release, any worker can take the run with the new
    definition."""
    one, two = await bench.node("one"), await bench.node("two")
    [old] = await held_runs(bench, one)
    await bench.store.put_job(replace(old.record.job, timeout=timedelta(seconds=9)), now=bench.now)
    async with bench.nothing_written():
        assert await bench.arm(old) == [Gone(EDITED)]
    assert await bench.release(old) == [True]
    [new] = await bench.hold(two)
    assert (new.run_id, new.record.revision) == (old.run_id, old.record.revision + 1)
    assert isinstance((await bench.arm(new))[0], Armed)


@check
async def check_each_lease_has_its_own_answer(bench: Workbench) -> None:
    """In one call some leases are armed and some are gone. Answers and fences are in the order of the leases."""
    node = await bench.node()
    leases = await held_runs(bench, node, 4)
    await bench.release(leases[1])
    made_up = replace(leases[2], lease_id="made up")
    answers = await bench.arm(leases[0], leases[1], made_up, leases[3])
    assert [type(answer) for answer in answers] == [Armed, Gone, Gone, Armed]
    assert await bench.state(leases[2].run_id) is RunState.RESERVED
    assert await bench.store.arm([], now=bench.now) == []


@check
async def check_a_node_without_a_lease_cannot_arm(bench: Workbench) -> None:
    """`arm` raises `NodeExpired` for the whole call if the incarnation's lease has ended. Nothing is armed."""
    short, long = await bench.node("short", ttl=3), await bench.node("long")
    [dead] = await held_runs(bench, short, lapse=60)
    [alive] = await held_runs(bench, long, lapse=60)
    bench.turn(4)
    for leases in ([dead], [alive, dead]):
        async with bench.nothing_written():
            with raises(NodeExpired):
                await bench.arm(*leases)
    assert isinstance((await bench.arm(alive))[0], Armed)


@check
async def check_a_renewed_node_may_arm_again(bench: Workbench) -> None:
    """An incarnation whose lease ended may arm after it renews the lease, if the reaper has not acted in between."""
    node = await bench.node(ttl=3)
    [lease] = await held_runs(bench, node, lapse=60)
    bench.turn(4)
    await bench.store.beat(node, ttl=10_000_000, now=bench.now)
    assert isinstance((await bench.arm(lease))[0], Armed)


@check
async def check_a_released_run_is_free_at_once(bench: Workbench) -> None:
    """A released run is scheduled again at its old instant. Any worker can take it, and no attempt is counted."""
    one, two = await bench.node("one"), await bench.node("two")
    [lease] = await held_runs(bench, one)
    assert await bench.release(lease) == [True]
    run = await bench.run(lease.run_id)
    assert (run.state, run.due_at, run.attempts) == (RunState.SCHEDULED, at(5), 0)
    assert await bench.store.recover(one) == []
    [again] = await bench.hold(two)
    assert (again.run_id, again.attempt, again.due_at) == (lease.run_id, 1, at(5))


@check
async def check_release_needs_the_current_reservation(bench: Workbench) -> None:
    """Running, taken and already released runs each answer False, and nothing is written."""
    node = await bench.node()
    running, released, held = await held_runs(bench, node, 3)
    running = await bench.armed(running)
    await bench.release(released)
    async with bench.nothing_written():
        assert await bench.release(running, released, replace(held, lease_id="made up")) == [False] * 3
    assert await bench.release(released, held) == [False, True]
