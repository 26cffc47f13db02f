"""Checks of slots with jitter and own arguments, and of runs that are requested for a past slot."""

from __future__ import annotations

from dataclasses import replace

from onthedot.model.run import NewRun, RunState, backfill_trigger, slot_trigger, submit_trigger
from onthedot.model.window import Slot, Window
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import SUCCESS, Workbench, at, every, window


def later(start: float, end: float, *slots: tuple[float, float], next_at: float | None = None) -> Window:
    """A window whose slots are due later: (slot, due). Their runs have arguments, and expire 30 s after they are
    due."""
    planned = [Slot(at(slot), at(due + 30), at(due), f'{{"slot":{slot:g}}}') for slot, due in slots]
    return replace(window(start, end, next_at=next_at), slots=planned)


@check
async def check_a_slots_run_is_due_at_its_due_instant(bench: Workbench) -> None:
    """The key has the slot's instant. The run is given out at `due_at`, with the slot's arguments."""
    record = (await bench.put(bench.job(every()), later(0, 60, (10, 13), (20, 20), next_at=70))).record
    run, node = await bench.slot_run(record, 10), await bench.node()
    assert (run.slot_at, run.due_at, run.state) == (at(10), at(13), RunState.SCHEDULED)
    bench.turn(12.9)
    assert await bench.take(node) == []
    assert (await bench.reserve(node, seats=1)).look_again_at == at(13)
    bench.turn(13)
    [lease] = await bench.take(node, 5)
    assert (lease.run_id, lease.slot_at, lease.due_at, lease.args) == (run.id, at(10), at(13), '{"slot":10}')
    assert await bench.finish(lease, SUCCESS)
    ended = await bench.run(run.id)
    assert (ended.slot_at, ended.due_at, ended.state) == (at(10), at(13), RunState.SUCCEEDED)


@check
async def check_slots_are_taken_by_due_instant(bench: Workbench) -> None:
    """Jitter may reverse the order of two slots."""
    record = (await bench.put(bench.job(every()), later(0, 60, (10, 25), (20, 21), next_at=70))).record
    node = await bench.node()
    bench.turn(30)
    leases = await bench.take(node, 5)
    assert [lease.slot_at for lease in leases] == [at(20), at(10)]
    assert await bench.slots(record) == [10, 20]


@check
async def check_plan_writes_the_same_slots_as_put_job(bench: Workbench) -> None:
    """The same window again gives the same runs."""
    record = (await bench.put(bench.job(every()), window(0, 5, next_at=10))).record
    term = await bench.term(await bench.node())
    assert await bench.plan(term, record, later(5, 30, (10, 12), (20, 27), next_at=40)) == [True]
    runs = [await bench.slot_run(record, slot) for slot in (10, 20)]
    assert [(run.slot_at, run.due_at) for run in runs] == [(at(10), at(12)), (at(20), at(27))]
    assert (await bench.schedule(record)).watermark == at(30)


@check
async def check_a_slot_that_is_due_later_expires_later(bench: Workbench) -> None:
    """It expires at its own `expires_at`, not by its slot's instant."""
    record = (await bench.put(bench.job(every()), later(0, 15, (10, 50), next_at=20))).record
    bench.turn(79)
    assert await bench.expire() == []
    bench.turn(80)
    run = await bench.slot_run(record, 10)
    assert await bench.expire() == [run.id]
    assert (await bench.run(run.id)).reason == "missed"


@check
async def check_an_edit_keeps_a_past_slot_that_is_due_later(bench: Workbench) -> None:
    """Catch-up, ledger and edits count by the slot's instant. A slot at or before the edit stays as planned."""
    record = (await bench.put(bench.job(every()), later(0, 30, (10, 40), (20, 22), (30, 31), next_at=40))).record
    bench.turn(15)
    edited = bench.job(every(), args={"n": 1})
    put = await bench.put(edited, later(15, 45, (20, 29), (30, 31), (40, 48), next_at=50), expected=1)
    assert (put.withdrawn, put.planned) == (2, 3)
    dues = {slot: (await bench.slot_run(record, slot)).due_at for slot in (10, 20, 30, 40)}
    assert dues == {10: at(40), 20: at(29), 30: at(31), 40: at(48)}


@check
async def check_a_submitted_run_may_have_an_earlier_slot(bench: Workbench) -> None:
    """`slot_at` is the instant in the key: the same slot is the same run, live or ended, whenever it is due."""
    record, node = await bench.define(), await bench.node()
    bench.turn(100)
    name = backfill_trigger("s")
    new = [NewRun(record.id, name, at(100), slot_at=at(slot)) for slot in (10, 20, 30)]
    ids = await bench.store.submit(new, now=bench.now)
    assert len(set(ids)) == 3
    leases = await bench.take(node, 2)
    assert [(lease.run_id, lease.slot_at, lease.due_at) for lease in leases] == [
        (ids[0], at(10), at(100)), (ids[1], at(20), at(100)),
    ]  # fmt: skip
    assert await bench.finish(leases[0])
    bench.turn(110)
    again = [NewRun(record.id, name, at(110), slot_at=at(slot)) for slot in (30, 20, 10, 40)]
    assert (await bench.store.submit(again, now=bench.now))[:3] == ids[::-1]
    assert (await bench.run(ids[2])).due_at == at(100)


@check
async def check_a_backfill_is_another_run_than_the_slots(bench: Workbench) -> None:
    """A backfill of a slot that has a run is another run. It moves no watermark, and an edit does not touch it."""
    record = await bench.define(slots=[10, 20])
    before = await bench.schedule(record)
    [run_id] = await bench.store.submit([NewRun(record.id, backfill_trigger("s"), at(5), slot_at=at(20))], now=at(5))
    assert run_id != (await bench.slot_run(record, 20)).id
    assert await bench.schedule(record) == before
    bench.turn(6)
    put = await bench.put(bench.job(every(), args={"n": 1}), window(6, 40, [20], next_at=50), expected=1)
    assert put.withdrawn == 2
    assert await bench.state(run_id) is RunState.SCHEDULED


@check
async def check_runs_are_found_by_trigger_and_instant(bench: Workbench) -> None:
    """Live and ended runs of one trigger and one job come in the order of their instants. Both ends are included."""
    record, other, node = await bench.define(slots=[10, 20, 30]), await bench.define("other", [20]), await bench.node()
    bench.turn(10)
    [lease] = await bench.take(node)
    assert await bench.finish(lease)
    await bench.store.submit([NewRun(record.id, submit_trigger("x"), at(20))], now=bench.now)
    found = await bench.store.queries.runs_of_slots(record.id, slot_trigger("s"), first=at(10), last=at(20))
    assert found == [(at(10), RunState.SUCCEEDED), (at(20), RunState.SCHEDULED)]
    assert await bench.store.queries.runs_of_slots(record.id, slot_trigger("s"), first=at(11), last=at(19)) == []
    assert len(await bench.store.queries.runs_of_slots(other.id, slot_trigger("s"), first=0, last=at(99))) == 1
