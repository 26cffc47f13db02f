"""Checks of upkeep: the reaper takes runs of dead nodes, and expired runs are skipped. No other run is touched."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.errors import NodeExpired
from onthedot.model.run import Gone, RunState
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import LOST, Workbench, at, raises, recover, retry


@check
async def check_orphans_are_running_under_an_ended_lease(bench: Workbench) -> None:
    """An orphan's lease has ended, and it is running, not reserved. They come as full leases, at most `limit`."""
    record = await bench.define()
    ids = [await bench.submit(record, due=due) for due in (0, 0, 50)]
    short, long = await bench.node("short", ttl=10), await bench.node("long")
    leases = await bench.take(short, seats=2)
    await bench.hold(short)
    await bench.submit(record)
    await bench.take(long)
    bench.turn(9)
    assert await bench.orphans() == []
    bench.turn(11)
    assert await bench.orphans() == ids[:2]
    assert len(await bench.orphans(limit=1)) == 1
    found = sorted(await bench.store.orphans(limit=9, now=bench.now), key=lambda lease: lease.run_id)
    assert found == sorted(leases, key=lambda lease: lease.run_id)


@check
async def check_a_reaped_run_follows_its_verdict(bench: Workbench) -> None:
    """The run gets the verdict's state, with its attempt recorded and the recovery counted."""
    record = await bench.define()
    run_id = await bench.submit(record)
    [lease] = await bench.take(await bench.node("short", ttl=10))
    bench.turn(20)
    assert await bench.reap(lease, recover(20))
    run = await bench.run(run_id)
    assert (run.state, run.due_at, run.attempts, run.recoveries) == (RunState.SCHEDULED, at(20), 1, 1)
    [attempt] = await bench.store.queries.list_attempts(run_id)
    assert (attempt.outcome, attempt.lease_id, attempt.fence) == ("lost", lease.lease_id, lease.fence)
    assert (attempt.started_at, attempt.ended_at, attempt.node) == (None, at(20), "short")
    [again] = await bench.take(await bench.node("other"))
    assert (again.run_id, again.attempt, again.recoveries) == (run_id, 2, 1)
    assert again.fence > lease.fence


@check
async def check_a_living_node_keeps_its_runs(bench: Workbench) -> None:
    """Before the lease's end, and after a renewal in the meantime, a reap is refused."""
    record = await bench.define()
    await bench.submit(record)
    node = await bench.node(ttl=10)
    [lease] = await bench.take(node)
    async with bench.nothing_written():
        assert await bench.reap(lease) is False
    bench.turn(20)
    [orphan] = await bench.store.orphans(limit=9, now=bench.now)
    await bench.store.beat(node, ttl=10 * SECOND, now=bench.now)
    async with bench.nothing_written():
        assert await bench.reap(orphan) is False
    beat = await bench.store.beat(node, ttl=10 * SECOND, now=bench.now)
    assert beat.lease_until > bench.now
    assert await bench.finish(lease)


@check
async def check_a_stale_reap_changes_nothing(bench: Workbench) -> None:
    """A second reaper, or an old lease, is refused, even if the next attempt runs on a dead node."""
    record = await bench.define()
    await bench.submit(record)
    [old] = await bench.take(await bench.node("one", ttl=10))
    bench.turn(20)
    assert await bench.reap(old, recover(20))
    async with bench.nothing_written():
        assert await bench.reap(old, recover(20)) is False
    [new] = await bench.take(await bench.node("two", ttl=10))
    bench.turn(40)
    async with bench.nothing_written():
        assert await bench.reap(old) is False
        assert await bench.reap(replace(new, lease_id="made up")) is False
    assert await bench.reap(new) is True


@check
async def check_a_reap_ends_the_incarnation(bench: Workbench) -> None:
    """The first reap ends the incarnation for good, in the same write. Its other runs may be reaped or finished, but it
    neither beats, arms nor reserves."""
    record = await bench.define()
    for due in (0, 0, 0, 50):
        await bench.submit(record, due=due)
    node = await bench.node(ttl=10)
    first, second, third = await bench.take(node, seats=3)
    [held] = await bench.hold(node)
    bench.turn(20)
    assert await bench.reap(first)
    for forbidden in (
        bench.store.beat(node, ttl=SECOND, now=bench.now),
        bench.store.arm([held], now=bench.now),
        bench.store.campaign(node, ttl=SECOND, now=bench.now),
    ):
        with raises(NodeExpired):
            await forbidden
    assert await bench.orphans() == [second.run_id, third.run_id]
    assert await bench.finish(second) is True
    assert await bench.reap(third) is True


@check
async def check_a_finish_after_a_reap_is_refused(bench: Workbench) -> None:
    """This holds while the run waits, runs elsewhere, or has ended."""
    record = await bench.define()
    run_id = await bench.submit(record)
    [old] = await bench.take(await bench.node("one", ttl=10))
    bench.turn(20)
    assert await bench.reap(old, recover(20))
    async with bench.nothing_written():
        assert await bench.finish(old) is False
    [new] = await bench.take(await bench.node("two"))
    async with bench.nothing_written():
        assert await bench.finish(old) is False
    assert await bench.finish(new)
    async with bench.nothing_written():
        assert await bench.finish(old, retry(30)) is False
    assert await bench.state(run_id) is RunState.SUCCEEDED


@check
async def check_each_reap_has_its_own_answer(bench: Workbench) -> None:
    """In one call runs of dead nodes are taken and those of living nodes are not. The answers are in order."""
    record = await bench.define()
    for _ in range(3):
        await bench.submit(record)
    dead, alive = await bench.node("dead", ttl=10), await bench.node("alive")
    [one], [two], [three] = await bench.take(dead), await bench.take(alive), await bench.take(dead)
    bench.turn(20)
    batch = [(one, LOST), (two, LOST), (three, recover(30)), (one, LOST)]
    assert await bench.store.reap(batch, now=bench.now) == [True, False, True, False]
    states = [await bench.state(lease.run_id) for lease in (one, two, three)]
    assert states == [RunState.LOST, RunState.RUNNING, RunState.SCHEDULED]
    assert await bench.store.reap([], now=bench.now) == []


@check
async def check_expired_slots_are_skipped(bench: Workbench) -> None:
    """Slots that were never armed and whose expiry has passed become skipped(missed). The others stay."""
    record = await bench.define(slots=[10, 20, 30], late=5)
    ten, twenty = await bench.slot_run(record, 10), await bench.slot_run(record, 20)
    bench.turn(14)
    assert await bench.expire() == []
    bench.turn(27)
    assert await bench.expire() == [ten.id, twenty.id]
    run = await bench.run(ten.id)
    assert (run.state, run.reason, run.ended_at) == (RunState.SKIPPED, "missed", at(27))
    assert (run.attempts, run.armed_at, run.started_at) == (0, None, None)
    assert await bench.store.queries.list_attempts(ten.id) == []
    assert await bench.state((await bench.slot_run(record, 30)).id) is RunState.SCHEDULED
    assert await bench.expire() == []


@check
async def check_expire_returns_the_skipped_runs(bench: Workbench) -> None:
    """It returns at most `limit` runs. The next call continues."""
    record = await bench.define(slots=[10, 20, 30], late=5)
    bench.turn(60)
    first = await bench.store.expire(limit=2, now=bench.now)
    second = await bench.store.expire(limit=2, now=bench.now)
    assert (len(first), len(second)) == (2, 1)
    assert sorted(run.slot_at for run in first + second) == [at(10), at(20), at(30)]
    assert {run.job for run in first} == {record.job.name}


@check
async def check_runs_without_an_expiry_are_not_skipped(bench: Workbench) -> None:
    """Slots without an expiry, and submitted runs, do not expire."""
    record = await bench.define(slots=[10])
    await bench.submit(record)
    bench.turn(1_000_000)
    assert await bench.expire() == []
    assert len(await bench.take(await bench.node(), seats=9)) == 2


@check
async def check_a_reserved_run_does_not_expire_before_it_lapses(bench: Workbench) -> None:
    """After the lapse it expires, and the lease is refused."""
    await bench.define(slots=[10], late=5)
    [lease] = await bench.hold(await bench.node(), lapse=20)
    bench.turn(29)
    assert await bench.expire() == []
    bench.turn(31)
    assert await bench.expire() == [lease.run_id]
    async with bench.nothing_written():
        assert isinstance((await bench.arm(lease))[0], Gone)
        assert await bench.release(lease) == [False]
        assert await bench.finish(lease) is False


@check
async def check_a_released_run_can_expire(bench: Workbench) -> None:
    """It was never armed, so its expiry counts as before."""
    await bench.define(slots=[10], late=5)
    [lease] = await bench.hold(await bench.node(), lapse=100)
    await bench.release(lease)
    bench.turn(16)
    assert await bench.expire() == [lease.run_id]


@check
async def check_an_armed_run_never_expires(bench: Workbench) -> None:
    """Not while it runs, not between two attempts, and not when a later reservation lapses."""
    record = await bench.define(slots=[10], late=5)
    run_id = (await bench.slot_run(record, 10)).id
    node = await bench.node()
    bench.turn(10)
    [lease] = await bench.take(node)
    bench.turn(60)
    assert await bench.expire() == []
    await bench.finish(lease, retry(100))
    assert await bench.expire() == []
    assert [one.run_id for one in await bench.hold(node, lapse=1)] == [run_id]
    bench.turn(200)
    assert await bench.expire() == []
    [again] = await bench.take(node)
    assert (again.run_id, again.attempt) == (run_id, 2)
