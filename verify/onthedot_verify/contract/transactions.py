"""Checks of transactions, for stores that have them: effects, fence check and completion are one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from onthedot.model.after import After
from onthedot.model.errors import LeaseLost, StateError
from onthedot.model.job import Guarantee, Limit
from onthedot.model.run import ArmAnswer, Armed, Blocked, Checkpoint, Gate, GateAsk, Lease, OnBusy, RunState
from onthedot.stores.transactions import Transaction, Transactions
from onthedot_verify.contract.capabilities import Effects
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import (
    DEAD,
    SUCCESS,
    Workbench,
    at,
    fixed_delay,
    raises,
    recover,
    retry,
    window,
)  # fmt: skip


class Kit(NamedTuple):
    """What a store with transactions provides to these checks."""

    transactions: Transactions
    effects: Effects


def kit(bench: Workbench) -> Kit | None:
    """The kit, or None for a store without transactions. Then there is nothing to check."""
    transactions, effects = bench.store.transactions, bench.capabilities.effects
    if transactions is None or effects is None:
        assert transactions is None, "expected Capabilities(effects=…) for a store that has transactions"
        assert effects is None, "expected a store with transactions, since effects are declared"
        return None
    return Kit(transactions, effects)


async def running(bench: Workbench, *, ttl: float = 10_000) -> Lease:
    """The lease of a running run under exactly_once."""
    record = await bench.define(guarantee=Guarantee.EXACTLY_ONCE)
    await bench.submit(record)
    [lease] = await bench.take(await bench.node(ttl=ttl))
    return lease


async def begun(bench: Workbench, on: Kit, lease: Lease, *texts: str) -> Transaction:
    """A transaction in which these texts are written."""
    transaction = await on.transactions.begin(replace(lease), now=bench.now)
    for text in texts:
        await on.effects.write(transaction.connection, text)
    return transaction


@check
async def check_effects_and_completion_are_one_commit(bench: Workbench) -> None:
    """Before the commit no other connection sees anything. After it the effects are there and the run has succeeded."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    async with bench.nothing_written():
        transaction = await begun(bench, on, lease, "one", "two")
        assert await on.effects.read() == []
    bench.turn(7)
    done = bench.finished(lease, SUCCESS._replace(result='{"n":1}', reason="done"))
    assert await transaction.commit(done._replace(started_at=at(2)), now=bench.now) is True
    assert await on.effects.read() == ["one", "two"]
    run = await bench.run(lease.run_id)
    assert (run.state, run.reason, run.result, run.error) == (RunState.SUCCEEDED, "done", '{"n":1}', None)
    assert (run.armed_at, run.started_at, run.ended_at) == (at(0), at(2), at(7))
    [attempt] = await bench.store.queries.list_attempts(lease.run_id)
    assert (attempt.lease_id, attempt.fence, attempt.outcome) == (lease.lease_id, lease.fence, "succeeded")
    assert await bench.store.recover(lease.incarnation) == []


@check
async def check_an_empty_transaction_completes_its_run(bench: Workbench) -> None:
    """A transaction without effects completes the run as well."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    transaction = await begun(bench, on, lease)
    assert await transaction.commit(bench.finished(lease)) is True
    assert (await bench.state(lease.run_id), await on.effects.read()) == (RunState.SUCCEEDED, [])


@check
async def check_a_rollback_leaves_no_effects(bench: Workbench) -> None:
    """The run still runs, and may begin another transaction."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    async with bench.nothing_written():
        transaction = await begun(bench, on, lease, "given up")
        await transaction.rollback()
        await transaction.rollback()
    assert await on.effects.read() == []
    second = await begun(bench, on, lease, "kept")
    assert await second.commit(bench.finished(lease)) is True
    assert await on.effects.read() == ["kept"]


@check
async def check_a_commit_without_the_lease_rolls_back(bench: Workbench) -> None:
    """Another node has the run now: the answer is False, and no effect is left. The other node's commit counts."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    stale = await begun(bench, on, lease, "stale")
    assert await bench.finish(lease, retry(0))
    [current] = await bench.take(lease.incarnation)
    async with bench.nothing_written():
        assert await stale.commit(bench.finished(lease), now=bench.now) is False
    assert await on.effects.read() == []
    transaction = await begun(bench, on, current, "current")
    assert await transaction.commit(bench.finished(current), now=bench.now) is True
    assert await on.effects.read() == ["current"]


@check
async def check_a_transaction_needs_the_running_lease(bench: Workbench) -> None:
    """`LeaseLost` for a lease that is made up, of an earlier attempt, or of an ended run."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    assert await bench.finish(lease, retry(0))
    [current] = await bench.take(lease.incarnation)
    async with bench.nothing_written():
        for stale in (lease, replace(current, lease_id="made up")):
            with raises(LeaseLost):
                await on.transactions.begin(stale, now=bench.now)
    assert await bench.finish(current, DEAD)
    with raises(LeaseLost):
        await on.transactions.begin(current, now=bench.now)


@check
async def check_a_reaped_run_cannot_commit(bench: Workbench) -> None:
    """A node that was taken for dead cannot commit, however long its transaction was open."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench, ttl=5)
    transaction = await begun(bench, on, lease, "from the dead")
    bench.turn(60)
    assert await bench.reap(lease, recover(60))
    async with bench.nothing_written():
        assert await transaction.commit(bench.finished(lease), now=bench.now) is False
    [second] = await bench.take(await bench.node("second"))
    again = await begun(bench, on, second, "recovered")
    assert await again.commit(bench.finished(second), now=bench.now) is True
    assert await on.effects.read() == ["recovered"]


@check
async def check_an_expired_node_may_commit_until_its_run_is_taken(bench: Workbench) -> None:
    """As with `finish`: the node's lease has ended, but the run is still its own."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench, ttl=5)
    transaction = await begun(bench, on, lease, "late")
    bench.turn(60)
    assert await transaction.commit(bench.finished(lease), now=bench.now) is True
    async with bench.nothing_written():
        assert await bench.reap(lease, recover(60)) is False
    assert await on.effects.read() == ["late"]


@check
async def check_a_finish_after_the_commit_is_accepted(bench: Workbench) -> None:
    """The commit's answer was lost. `finish` with the same verdict answers True, and another outcome is refused."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    transaction = await begun(bench, on, lease, "once")
    done = bench.finished(lease)
    assert await transaction.commit(done, now=bench.now) is True
    async with bench.nothing_written():
        assert await bench.store.finish([done], now=bench.now) == [True]
        assert await bench.finish(lease, recover(0)) is False
        assert await bench.finish(lease, DEAD) is False
    assert await on.effects.read() == ["once"]


@check
async def check_an_earlier_verdict_refuses_the_commit(bench: Workbench) -> None:
    """After the attempt is recorded as lost, its commit finds nothing to complete."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    transaction = await begun(bench, on, lease, "too late")
    assert await bench.finish(lease, recover(0))
    async with bench.nothing_written():
        assert await transaction.commit(bench.finished(lease), now=bench.now) is False
    assert await on.effects.read() == []


@check
async def check_a_repeated_commit_gives_the_same_answer(bench: Workbench) -> None:
    """Committed or refused, nothing is written the second time. A later rollback changes neither."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    accepted, refused = await begun(bench, on, lease, "first"), await begun(bench, on, lease, "second")
    assert await accepted.commit(bench.finished(lease), now=bench.now) is True
    async with bench.nothing_written():
        assert await refused.commit(bench.finished(lease), now=bench.now) is False
        await accepted.rollback()
        await refused.rollback()
        assert await accepted.commit(bench.finished(lease), now=bench.now) is True
        assert await refused.commit(bench.finished(lease), now=bench.now) is False
    assert await on.effects.read() == ["first"]


@check
async def check_a_commit_needs_a_success(bench: Workbench) -> None:
    """Another verdict, or a transaction that was rolled back, raises `StateError`, and nothing is written."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    async with bench.nothing_written():
        for verdict in (DEAD, retry(5)):
            transaction = await begun(bench, on, lease, "failed")
            with raises(StateError):
                await transaction.commit(bench.finished(lease, verdict), now=bench.now)
        transaction = await begun(bench, on, lease, "given up")
        await transaction.rollback()
        with raises(StateError):
            await transaction.commit(bench.finished(lease), now=bench.now)
    assert await on.effects.read() == []


@check
async def check_a_commit_before_the_cancels_verdict_counts(bench: Workbench) -> None:
    """A run that is asked to stop has succeeded if it commits first. After the verdict of the cancel the commit is
    refused."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    transaction = await begun(bench, on, lease, "first")
    [answer] = await bench.store.cancel([lease.run_id], why="asked", now=bench.now)
    assert answer.kind == "asked"
    assert await transaction.commit(bench.finished(lease), now=bench.now) is True
    assert (await bench.state(lease.run_id), await on.effects.read()) == (RunState.SUCCEEDED, ["first"])
    await bench.submit((await bench.store.queries.list_jobs())[0])
    [other] = await bench.take(lease.incarnation)
    transaction = await begun(bench, on, other, "second")
    await bench.store.cancel([other.run_id], why="asked", now=bench.now)
    assert await bench.finish(other, retry(5))  # the store turns it into cancelled
    assert await transaction.commit(bench.finished(other), now=bench.now) is False
    assert (await bench.state(other.run_id), await on.effects.read()) == (RunState.CANCELLED, ["first"])


@check
async def check_an_open_transaction_blocks_no_other_call(bench: Workbench) -> None:
    """While it is open the run may save a checkpoint and be asked to stop, and its job may be edited. Then it
    commits."""
    if (on := kit(bench)) is None:
        return
    lease = await running(bench)
    transaction = await begun(bench, on, lease, "mine")
    assert await bench.store.checkpoint([(replace(lease), Checkpoint(1, "7"))], now=bench.now) == [True]
    await bench.store.beat(lease.incarnation, ttl=at(60) - at(0), now=bench.now)
    await bench.store.cancel([lease.run_id], why="asked", now=bench.now)
    put = await bench.put(bench.job(guarantee=Guarantee.EXACTLY_ONCE, owner="another"))
    assert put.change == "changed"
    assert await transaction.commit(bench.finished(lease), now=bench.now) is True
    assert await on.effects.read() == ["mine"]


@check
async def check_transactions_of_two_runs_are_independent(bench: Workbench) -> None:
    """Their effects are in the order of their commits."""
    if (on := kit(bench)) is None:
        return
    record = await bench.define(guarantee=Guarantee.EXACTLY_ONCE)
    for _ in range(2):
        await bench.submit(record)
    one, two = await bench.take(await bench.node(), seats=2)
    first, second = await begun(bench, on, one, "one"), await begun(bench, on, two, "two")
    assert await second.commit(bench.finished(two), now=bench.now) is True
    assert await on.effects.read() == ["two"]
    assert await first.commit(bench.finished(one), now=bench.now) is True
    assert await on.effects.read() == ["two", "one"]


@check
async def check_a_commit_does_all_that_a_finish_does(bench: Workbench) -> None:
    """In the same commit a gate opens for the next run, a child's run is inserted, and a fixed delay continues."""
    if (on := kit(bench)) is None:
        return
    own: dict[str, Any] = {"concurrency": Limit(1), "guarantee": Guarantee.EXACTLY_ONCE}
    record = (await bench.put(bench.job(fixed_delay(10), name="parent", **own), window(0, 5, [5], delay=10))).record
    await bench.put(bench.job(name="child", after=After("parent")))
    node, gate = await bench.node(), Gate("limit:x", 1)
    bench.turn(5)
    waiting = await bench.submit(record, due=5)
    leases = {one.run_id: one for one in (await bench.reserve(node, seats=2)).held}
    [slot] = [one for run_id, one in leases.items() if run_id != waiting]
    assert isinstance(await ask(bench, slot, gate), Armed)
    assert isinstance(await ask(bench, leases[waiting], gate), Blocked)
    transaction = await begun(bench, on, slot, "parent")
    bench.turn(8)
    assert await transaction.commit(bench.finished(slot), now=bench.now) is True
    assert [run.state for run in await bench.runs("child")] == [RunState.SCHEDULED]
    assert (await bench.schedule(record)).next_at == at(18)
    assert waiting in [one.run_id for one in (await bench.reserve(node, seats=2)).held]


async def ask(bench: Workbench, lease: Lease, gate: Gate) -> ArmAnswer:
    wanted = {lease.lease_id: GateAsk((gate,), OnBusy("wait"))}
    [answer] = await bench.store.arm([replace(lease)], gates=wanted, now=bench.now)
    return answer
