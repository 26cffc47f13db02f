"""What the review found and left: each is a decision more than a repair. Strict, so that mending one is noticed."""

from __future__ import annotations

import pytest

from onthedot.job import Call, Limit, Overlap
from onthedot.run import Armed, Blocked, Gate
from onthedot.testing.contract.workbench import Workbench
from tests.review.asking import WAIT, X, ask, reserved, with_answer


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


@pytest.mark.xfail(strict=True, reason="who waits at a later gate keeps its place at an earlier one")
async def test_one_tenant_does_not_use_up_max_running_by_waiting(bench: Workbench):
    """Overlap("allow", max_running=2) with Limit(1, key="tenant"): one runs, its neighbour waits, a third could run."""
    record = await bench.define(overlap=Overlap("allow", max_running=2), concurrency=Limit(1, key="tenant"))
    node, running = await bench.node(), Gate(f"running:{record.id}:", 2)
    big, small = Gate(f"limit:job:{record.id}:1", 1), Gate(f"limit:job:{record.id}:2", 1)
    for _ in range(3):
        await bench.submit(record)
    leases = await reserved(bench, node)
    wanted = [[running, big], [running, big], [running, small]]
    answers = await ask(bench, *((lease, gates, WAIT) for lease, gates in zip(leases, wanted, strict=True)))
    assert [type(answer) for answer in answers] == [Armed, Blocked, Armed]
