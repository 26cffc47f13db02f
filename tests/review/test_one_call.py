"""In one call of `arm` with several runs, each run sees the gates as the previous run left them."""

from __future__ import annotations

from onthedot.model.job import Overlap
from onthedot.model.run import Armed, Blocked, Gone, RunState
from onthedot_verify.contract.workbench import Workbench, retry
from tests.review.asking import REPLACE, ask, overlap, reserved, with_answer


async def test_of_two_slots_in_one_call_the_second_replaces_the_first(bench: Workbench):
    """The first one is armed, so the second finds it running. The first is asked to stop, and the second waits."""
    record, node = await bench.define(slots=(10, 11), overlap=Overlap("replace")), await bench.node()
    bench.turn(12)
    first, second = await reserved(bench, node)
    one, two = await ask(bench, (first, [overlap(record)], REPLACE), (second, [overlap(record)], REPLACE))
    assert isinstance(one, Armed)
    assert isinstance(two, Blocked)
    assert await bench.state(first.run_id) is RunState.RUNNING
    beat = await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)
    assert beat.cancels == ((first.lease_id, "replaced"),)
    assert await bench.finish(with_answer(first, one))


async def test_a_run_that_is_replaced_in_the_same_call_is_not_armed(bench: Workbench):
    """A reserved retry holds the gate. A slot replaces it, and the retry comes later in the same batch."""
    record, node = await bench.define(slots=(10, 20), overlap=Overlap("replace")), await bench.node()
    bench.turn(10)
    [first] = await reserved(bench, node)
    [answer] = await ask(bench, (first, [overlap(record)], REPLACE))
    assert await bench.finish(with_answer(first, answer), retry(21))
    bench.turn(21)
    second, again = await reserved(bench, node)
    assert again.run_id == first.run_id
    two, one = await ask(bench, (second, [overlap(record)], REPLACE), (again, [overlap(record)], REPLACE))
    assert isinstance(two, Armed)
    assert isinstance(one, Gone)
    assert await bench.state(first.run_id) is RunState.CANCELLED
