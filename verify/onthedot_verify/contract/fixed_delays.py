"""Checks of fixed delays: the next slot follows the end of the last run, after finishes, expiry and edits."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import Lease
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import DEAD, Workbench, at, every, fixed_delay, retry, window


async def delayed_job(bench: Workbench, *, late: float | None = None) -> tuple[Job, JobRecord]:
    """A job that runs 30 s after its last end, with its first slot planned at 10."""
    job = bench.job(fixed_delay(30))
    record = (await bench.put(job, window(0, 10, [10], late=late, delay=30))).record
    return job, record


async def running(bench: Workbench) -> Lease:
    """The lease of the first slot's run, running since its due instant."""
    bench.turn(10)
    [lease] = await bench.take(await bench.node())
    return lease


@check
async def check_an_open_run_leaves_no_next_slot(bench: Workbench) -> None:
    """The schedule has no next slot while its run waits, runs or is between two attempts."""
    _, record = await delayed_job(bench)
    assert (await bench.schedule(record)).next_at is None
    lease = await running(bench)
    assert await bench.finish(lease, retry(20))
    assert (await bench.schedule(record)).next_at is None
    assert await bench.due(until=10_000) == []


@check
async def check_the_end_of_a_run_sets_the_next_slot(bench: Workbench) -> None:
    """A final verdict records the end, and in the same write the next slot, `delay` later."""
    _, record = await delayed_job(bench)
    lease = await running(bench)
    bench.turn(17)
    assert await bench.finish(lease, DEAD)
    state = await bench.schedule(record)
    assert (state.last_end, state.next_at) == (at(17), at(47))
    assert await bench.due(until=47) == ["job/s"]


@check
async def check_the_next_slot_counts_from_the_attempts_end(bench: Workbench) -> None:
    """It does not count from when the store received the verdict."""
    _, record = await delayed_job(bench)
    lease = await running(bench)
    done = bench.finished(lease)._replace(ended_at=at(14))
    bench.turn(20)
    assert await bench.store.finish([done], now=bench.now) == [True]
    assert (await bench.schedule(record)).next_at == at(44)


@check
async def check_planning_continues_after_each_run(bench: Workbench) -> None:
    """Plan, run, end, plan again: each window continues from the watermark with the slot after the end."""
    _, record = await delayed_job(bench)
    term = await bench.term(await bench.node())
    lease = await running(bench)
    await bench.finish(lease)
    bench.turn(41)
    assert await bench.plan(term, record, window(10, 41, [40], delay=30)) == [True]
    assert await bench.slots(record) == [10, 40]
    assert (await bench.schedule(record)).next_at is None


@check
async def check_an_expired_run_sets_the_next_slot(bench: Workbench) -> None:
    """A missed run has ended as well, so the schedule continues from there."""
    _, record = await delayed_job(bench, late=5)
    bench.turn(20)
    assert len(await bench.expire()) == 1
    state = await bench.schedule(record)
    assert (state.last_end, state.next_at) == (at(20), at(50))


@check
async def check_a_reaped_run_sets_the_next_slot(bench: Workbench) -> None:
    """A run that was lost with its node has ended as well."""
    _, record = await delayed_job(bench)
    bench.turn(10)
    [lease] = await bench.take(await bench.node(ttl=5))
    bench.turn(20)
    assert await bench.reap(lease)
    assert (await bench.schedule(record)).next_at == at(50)


@check
async def check_submitted_runs_set_no_next_slot(bench: Workbench) -> None:
    """The end of a submitted run does not change the schedule, whatever its token is."""
    _, record = await delayed_job(bench)
    await bench.submit(record, key="s")
    [lease] = await bench.take(await bench.node())
    assert await bench.finish(lease)
    state = await bench.schedule(record)
    assert (state.last_end, state.next_at) == (None, None)


@check
async def check_an_edit_keeps_an_open_run(bench: Workbench) -> None:
    """The edited schedule has no next slot while its run is open. At its end the new delay counts."""
    job, record = await delayed_job(bench)
    lease = await running(bench)
    bench.turn(12)
    put = await bench.put(replace(job, schedules=(fixed_delay(5),)), window(12, 42, [13], delay=5))
    assert (put.withdrawn, put.planned, await bench.slots(record)) == (0, 0, [10])
    assert (await bench.schedule(record)).next_at is None
    assert await bench.finish(lease)
    assert (await bench.schedule(record)).next_at == at(17)


@check
async def check_an_edit_between_runs_moves_the_next_slot(bench: Workbench) -> None:
    """The next slot is the later of W and the last end plus the new delay."""
    job, record = await delayed_job(bench)
    lease = await running(bench)
    await bench.finish(lease)
    bench.turn(12)
    put = await bench.put(replace(job, schedules=(fixed_delay(60),)), window(12, 42, [13], delay=60))
    assert put.planned == 0
    state = await bench.schedule(record)
    assert (state.last_end, state.next_at) == (at(10), at(70))
    await bench.put(replace(job, schedules=(fixed_delay(1),)), window(12, 42, [13], delay=1))
    assert (await bench.schedule(record)).next_at == at(12)
    assert await bench.slots(record) == [10]


@check
async def check_an_edit_may_withdraw_the_planned_run(bench: Workbench) -> None:
    """The edit withdraws the open run. The planner sees the schedule as due again at once."""
    job, record = await delayed_job(bench)
    bench.turn(2)
    put = await bench.put(replace(job, owner="ops"), window(2, 32, delay=30))
    assert (put.withdrawn, await bench.slots(record)) == (1, [])
    state = await bench.schedule(record)
    assert state.next_at is not None
    assert state.watermark <= at(2)
    term = await bench.term(await bench.node())
    again = window((state.watermark - at(0)) / SECOND, 10, [10], delay=30)
    assert await bench.plan(term, put.record, again) == [True]
    assert await bench.slots(record) == [10]


@check
async def check_a_rule_that_stops_being_a_fixed_delay_ignores_ends(bench: Workbench) -> None:
    """The id gets another kind of rule. Then the end of a run does not change its next slot."""
    job, record = await delayed_job(bench)
    lease = await running(bench)
    await bench.put(replace(job, schedules=(every(),)), window(10, 60, [20], next_at=70))
    assert (await bench.schedule(record)).next_at == at(70)
    assert await bench.finish(lease)
    assert (await bench.schedule(record)).next_at == at(70)


@check
async def check_a_rule_that_becomes_a_fixed_delay_waits_for_its_open_run(bench: Workbench) -> None:
    """Another rule planned its open run. The next slot still counts from the end of that run."""
    record = await bench.define(slots=(10,))
    lease = await running(bench)
    await bench.put(replace(record.job, schedules=(fixed_delay(30),)), window(10, 60, delay=30))
    assert (await bench.schedule(record)).next_at is None
    bench.turn(12)
    assert await bench.finish(lease)
    assert (await bench.schedule(record)).next_at == at(42)
