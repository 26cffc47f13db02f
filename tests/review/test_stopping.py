"""Who is asked to stop, who is not, and what becomes of those who were."""

from __future__ import annotations

from onthedot.model.job import Overlap
from onthedot.model.run import Armed, Blocked, RunState
from onthedot_verify.contract.workbench import SUCCESS, Workbench, recover, retry
from tests.review.asking import REPLACE, WAIT, ask, overlap, reserved, with_answer


async def test_a_submitted_run_is_not_replaced(bench: Workbench):
    """Only slots are: who asked for a run by hand gets it, and the slot waits."""
    record, node = await bench.define(slots=(10,), overlap=Overlap("replace")), await bench.node()
    await bench.submit(record, 5)
    bench.turn(10)
    mine, slot = await reserved(bench, node)
    assert isinstance((await ask(bench, (mine, [overlap(record)], WAIT)))[0], Armed)
    assert isinstance((await ask(bench, (slot, [overlap(record)], REPLACE)))[0], Blocked)
    assert (await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)).cancels == ()


async def test_a_submitted_run_in_line_is_not_replaced(bench: Workbench):
    """It has waited, the gate has passed to it, and it is not armed yet: it must not be cancelled unseen."""
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


async def test_who_is_asked_to_stop_is_not_tried_again(bench: Workbench):
    """Cancelled by hand, and the attempt fails by itself, or its node is lost: either way it is the last one."""
    for number, verdict in enumerate((retry(50), recover(50))):
        record, node = await bench.define(f"job{number}"), await bench.node()
        await bench.submit(record)
        [lease] = await bench.take(node)
        await bench.store.cancel([lease.run_id], why="by hand", now=bench.now)
        assert await bench.finish(lease, verdict)
        run = await bench.run(lease.run_id)
        assert (run.state, run.reason, run.attempts) == (RunState.CANCELLED, "by hand", 1)
        assert await bench.finish(lease, verdict)  # asked again: accepted before
        assert not await bench.finish(lease, SUCCESS)


async def test_who_was_replaced_and_fails_does_not_come_back(bench: Workbench):
    """The newest slot must not wait through the back-off and the retries of the one that it replaces."""
    record, node = await bench.define(slots=(10, 20), overlap=Overlap("replace")), await bench.node()
    bench.turn(20)
    first, second = await reserved(bench, node)
    [one] = await ask(bench, (first, [overlap(record)], REPLACE))
    assert isinstance((await ask(bench, (second, [overlap(record)], REPLACE)))[0], Blocked)
    assert await bench.finish(with_answer(first, one), retry(500))
    assert [lease.run_id for lease in await reserved(bench, node)] == [second.run_id]
