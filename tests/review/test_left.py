"""What the review found and left: each is a decision more than a repair. Strict, so that mending one is noticed."""

from __future__ import annotations

import pytest

from onthedot.job import Overlap
from onthedot.run import RunState
from onthedot.testing.contract.workbench import Workbench
from tests.review.asking import REPLACE, WAIT, ask, overlap, reserved


@pytest.mark.xfail(strict=True, reason="the store cannot tell a caught-up slot from one on time")
async def test_a_slot_that_is_caught_up_is_not_replaced_while_it_waits(bench: Workbench):
    """Slots that are caught up wait, however many there are (`Overlap`)."""
    record, node = await bench.define(slots=(10, 20, 60), overlap=Overlap("replace")), await bench.node()
    bench.turn(60)
    first, late, on_time = await reserved(bench, node)
    await ask(bench, (first, [overlap(record)], WAIT), (late, [overlap(record)], WAIT))
    await ask(bench, (on_time, [overlap(record)], REPLACE))
    assert await bench.state(late.run_id) is RunState.SCHEDULED
