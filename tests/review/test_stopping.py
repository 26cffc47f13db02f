"""Only replaced slots and cancelled runs are asked to stop, and they are not tried again."""

from __future__ import annotations

from onthedot.model.job import Overlap
from onthedot.model.run import Armed, Blocked, RunState
from onthedot_verify.contract.workbench import SUCCESS, Workbench, recover, retry
from tests.review.asking import REPLACE, WAIT, ask, overlap, reserved, with_answer


async def test_a_submitted_run_is_not_replaced(bench: Workbench):
    """Only slots are replaced. A run that a user submitted continues, and the slot waits."""
    record, node = await bench.define(slots=(10,), overlap=Overlap("replace")), await bench.node()
    await bench.submit(record, 5)
    bench.turn(10)
    mine, slot = await reserved(bench, node)
    assert isinstance((await ask(bench, (mine, [overlap(record)], WAIT)))[0], Armed)
    assert isinstance((await ask(bench, (slot, [overlap(record)], REPLACE)))[0], Blocked)
    assert (await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)).cancels == ()


async def test_a_waiting_submitted_run_is_not_replaced(bench: Workbench):
    """The gate has passed to it, and it is not armed yet. It must not be cancelled in that state."""
    record, node = await bench.define(slots=(10, 20), overlap=Overlap("replace")), await bench.node()
    bench.turn(10)
    mine = await bench.submit(record, 10)
    first, waiting = await reserved(bench, node)
    one, two = await ask(bench, (first, [overlap(record)], REPLACE), (waiting, [overlap(record)], WAIT))
    assert isinstance(two, Blocked)
    bench.turn(20)
    assert await bench.finish(with_answer(first, one))
    leases = {lease.run_id: lease for lease in await reserved(bench, node)}
    second = next(lease for run_id, lease in leases.items() if run_id != mine)
    assert isinstance((await ask(bench, (second, [overlap(record)], REPLACE)))[0], Blocked)
    assert await bench.state(mine) is RunState.RESERVED


async def test_a_cancelled_attempt_is_not_tried_again(bench: Workbench):
    """After the cancel the attempt fails by itself, or its node is lost. In both cases it is the last attempt."""
    for number, verdict in enumerate((retry(50), recover(50))):
        record, node = await bench.define(f"job{number}"), await bench.node()
        await bench.submit(record)
        [lease] = await bench.take(node)
        await bench.store.cancel([lease.run_id], why="by hand", now=bench.now)
        assert await bench.finish(lease, verdict)
        run = await bench.run(lease.run_id)
        assert (run.state, run.reason, run.attempts) == (RunState.CANCELLED, "by hand", 1)
        assert await bench.finish(lease, verdict)  # repeated: it was accepted before
        assert not await bench.finish(lease, SUCCESS)


async def test_a_replaced_attempt_that_fails_is_not_retried(bench: Workbench):
    """The new slot must not wait for the backoff and the retries of the one that it replaces."""
    record, node = await bench.define(slots=(10, 20), overlap=Overlap("replace")), await bench.node()
    bench.turn(20)
    first, second = await reserved(bench, node)
    [one] = await ask(bench, (first, [overlap(record)], REPLACE))
    assert isinstance((await ask(bench, (second, [overlap(record)], REPLACE)))[0], Blocked)
    assert await bench.finish(with_answer(first, one), retry(500))
    assert [lease.run_id for lease in await reserved(bench, node)] == [second.run_id]
