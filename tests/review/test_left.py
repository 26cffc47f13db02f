"""What the review found and left: each is a decision more than a repair. Strict, so that mending one is noticed."""

from __future__ import annotations

import pytest

from onthedot.job import Call, Limit, Overlap
from onthedot.run import Armed, Blocked, RunState
from onthedot.testing.contract.workbench import Workbench
from tests.review.asking import REPLACE, WAIT, X, ask, overlap, reserved, with_answer


@pytest.mark.xfail(strict=True, reason="a gate passes to a run whether or not any worker can start it")
async def test_a_place_does_not_go_to_a_run_that_nobody_can_start(bench: Workbench):
    """The workers of one job are gone. Its next in line gets the shared place, and keeps it until they come back."""
    orphaned = await bench.define("orphaned", concurrency=Limit(1, name="x"), task=Call(handler="elsewhere"))
    others = await bench.define("others", concurrency=Limit(1, name="x"))
    node = await bench.node()
    await bench.submit(others, 0)
    await bench.submit(orphaned, 1)
    bench.turn(2)
    both = frozenset({"call:work", "call:elsewhere"})
    leases = (await bench.reserve(node, seats=2, lapse=1000, tasks=both)).held
    one, two = await ask(bench, *((lease, [X], WAIT) for lease in leases))
    assert isinstance(two, Blocked)
    assert await bench.finish(with_answer(leases[0], one))
    await bench.submit(others, 2)
    [lease] = await reserved(bench, node)  # of a worker that knows `work` only
    assert isinstance((await ask(bench, (lease, [X], WAIT)))[0], Armed)


@pytest.mark.xfail(strict=True, reason="the store cannot tell a caught-up slot from one on time")
async def test_a_slot_that_is_caught_up_is_not_replaced_while_it_waits(bench: Workbench):
    """Slots that are caught up wait, however many there are (`Overlap`)."""
    record, node = await bench.define(slots=(10, 20, 60), overlap=Overlap("replace")), await bench.node()
    bench.turn(60)
    first, late, on_time = await reserved(bench, node)
    await ask(bench, (first, [overlap(record)], WAIT), (late, [overlap(record)], WAIT))
    await ask(bench, (on_time, [overlap(record)], REPLACE))
    assert await bench.state(late.run_id) is RunState.SCHEDULED
