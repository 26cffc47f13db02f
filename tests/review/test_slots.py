"""A slot that was cancelled before its instant is never planned again."""

from __future__ import annotations

from onthedot.model.run import RunState
from onthedot_verify.contract.workbench import Workbench, every, window


async def cancelled_ahead(bench: Workbench):
    record = await bench.define(slots=(10, 20))
    run = await bench.slot_run(record, 10)
    await bench.store.cancel([run.id], why="not this one", now=bench.now)
    return record


async def test_an_edit_does_not_plan_a_cancelled_slot_again(bench: Workbench):
    record = await cancelled_ahead(bench)
    bench.turn(5)
    put = await bench.put(bench.job(every(), owner="ops"), window(5, 35, [10, 20, 30], next_at=40))
    assert put.planned == 2
    assert await bench.slots(record) == [10, 20, 30]
    assert (await bench.slot_run(record, 10)).state is RunState.CANCELLED
    bench.turn(10)
    assert await bench.take(await bench.node(), 9) == []


async def test_a_resume_does_not_plan_a_cancelled_slot_again(bench: Workbench):
    """The answer of the resume lists exactly the planned slots."""
    record = await cancelled_ahead(bench)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(5)
    plan = window(0, 35, [10, 20, 30], next_at=40)
    preview = await bench.store.resume_job(record.id, [plan], dry_run=True, now=bench.now)
    resumed = await bench.store.resume_job(record.id, [plan], now=bench.now)
    assert preview == resumed
    assert [(slot - bench.now) // 1_000_000 for slot in resumed.slots] == [15, 25]
    bench.turn(10)
    assert await bench.take(await bench.node(), 9) == []


async def test_a_planner_does_not_plan_a_cancelled_slot_again(bench: Workbench):
    """A pause moved the watermark back, and the resume planned less far ahead than before."""
    record, node = await cancelled_ahead(bench), await bench.node()
    term = await bench.term(node)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    await bench.store.resume_job(record.id, [window(0, 5, next_at=10)], now=bench.now)
    assert await bench.plan(term, record, window(5, 25, [10, 20], next_at=30)) == [True]
    bench.turn(10)
    assert await bench.take(node, 9) == []


async def test_a_schedule_removed_and_added_again_does_not_plan_a_cancelled_slot(bench: Workbench):
    """The run has the same key as before, so that it keeps its fate."""
    record = await cancelled_ahead(bench)
    bench.turn(4)
    await bench.put(bench.job(), window(0, 4))
    await bench.put(bench.job(every()), window(4, 34, [10, 20, 30], next_at=40))
    assert await bench.slots(record) == [10, 20, 30]
    assert (await bench.slot_run(record, 10)).state is RunState.CANCELLED
