"""Fixed delays: the next slot follows the end of the last run, through finishes, expiry and edits."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import Lease
from onthedot_verify.contract.register import check
from onthedot_verify.contract.workbench import DEAD, Workbench, at, every, fixed_delay, retry, window


async def delayed_job(bench: Workbench, *, late: float | None = None) -> tuple[Job, JobRecord]:
    """A job that runs 30 s after its last end, its first slot planned at 10."""
    job = bench.job(fixed_delay(30))
    record = (await bench.put(job, window(0, 10, [10], late=late, delay=30))).record
    return job, record


async def running(bench: Workbench) -> Lease:
    """The first slot's run, under way at its due instant."""
    bench.turn(10)
    [lease] = await bench.take(await bench.node())
    return lease


@check
async def check_no_next_slot_while_the_run_is_open(bench: Workbench) -> None:
    """As long as the run is open, waiting or running or between tries, the schedule has no next slot."""
    _, record = await delayed_job(bench)
    assert (await bench.schedule(record)).next_at is None
    lease = await running(bench)
    assert await bench.finish(lease, retry(20))
    assert (await bench.schedule(record)).next_at is None
    assert await bench.due(until=10_000) == []


@check
async def check_the_end_opens_the_next_slot(bench: Workbench) -> None:
    """A terminal finish records the end and the next slot, `delay` after it, in the same write."""
    _, record = await delayed_job(bench)
    lease = await running(bench)
    bench.turn(17)
    assert await bench.finish(lease, DEAD)
    state = await bench.schedule(record)
    assert (state.last_end, state.next_at) == (at(17), at(47))
    assert await bench.due(until=47) == ["job/s"]


@check
async def check_the_attempts_own_end_counts(bench: Workbench) -> None:
    """The next slot counts from the end of the attempt, not from when the store heard of it."""
    _, record = await delayed_job(bench)
    lease = await running(bench)
    done = bench.finished(lease)._replace(ended_at=at(14))
    bench.turn(20)
    assert await bench.store.finish([done], now=bench.now) == [True]
    assert (await bench.schedule(record)).next_at == at(44)


@check
async def check_the_loop_goes_round(bench: Workbench) -> None:
    """Plan, run, end, plan again: the planner goes on from the watermark with the slot after the end."""
    _, record = await delayed_job(bench)
    term = await bench.term(await bench.node())
    lease = await running(bench)
    await bench.finish(lease)
    bench.turn(41)
    assert await bench.plan(term, record, window(10, 41, [40], delay=30)) == [True]
    assert await bench.slots(record) == [10, 40]
    assert (await bench.schedule(record)).next_at is None


@check
async def check_expiry_opens_the_next_slot(bench: Workbench) -> None:
    """A run that was missed has ended as well: the schedule goes on from there."""
    _, record = await delayed_job(bench, late=5)
    bench.turn(20)
    assert len(await bench.expire()) == 1
    state = await bench.schedule(record)
    assert (state.last_end, state.next_at) == (at(20), at(50))


@check
async def check_reaping_opens_the_next_slot(bench: Workbench) -> None:
    """So has one that was lost with its node."""
    _, record = await delayed_job(bench)
    bench.turn(10)
    [lease] = await bench.take(await bench.node(ttl=5))
    bench.turn(20)
    assert await bench.reap(lease)
    assert (await bench.schedule(record)).next_at == at(50)


@check
async def check_only_its_own_runs_count(bench: Workbench) -> None:
    """A submitted run of the job ends without a word to the schedule, whatever its token is."""
    _, record = await delayed_job(bench)
    await bench.submit(record, key="s")
    [lease] = await bench.take(await bench.node())
    assert await bench.finish(lease)
    state = await bench.schedule(record)
    assert (state.last_end, state.next_at) == (None, None)


@check
async def check_an_edit_with_an_open_run(bench: Workbench) -> None:
    """A surviving fixed delay takes no slots; its open run goes on, and its end counts with the new delay."""
    job, record = await delayed_job(bench)
    lease = await running(bench)
    bench.turn(12)
    put = await bench.put(replace(job, schedules=(fixed_delay(5),)), window(12, 42, [13], delay=5))
    assert (put.withdrawn, put.planned, await bench.slots(record)) == (0, 0, [10])
    assert (await bench.schedule(record)).next_at is None
    assert await bench.finish(lease)
    assert (await bench.schedule(record)).next_at == at(17)


@check
async def check_an_edit_between_two_runs(bench: Workbench) -> None:
    """After the last end the next slot is the later of W and that end plus the new delay."""
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
async def check_an_edit_that_withdraws_the_open_run(bench: Workbench) -> None:
    """When the open run is withdrawn the schedule is open again: the planner is shown it at once."""
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
async def check_a_rule_that_is_no_fixed_delay_any_more(bench: Workbench) -> None:
    """Under the same id the rule may become another one: then the end of a run says nothing about its slots."""
    job, record = await delayed_job(bench)
    lease = await running(bench)
    await bench.put(replace(job, schedules=(every(),)), window(10, 60, [20], next_at=70))
    assert (await bench.schedule(record)).next_at == at(70)
    assert await bench.finish(lease)
    assert (await bench.schedule(record)).next_at == at(70)


@check
async def check_a_rule_that_becomes_a_fixed_delay_waits_for_its_open_run(bench: Workbench) -> None:
    """Its run was planned by another rule. The next slot counts from the end of this run all the same."""
    record = await bench.define(slots=(10,))
    lease = await running(bench)
    await bench.put(replace(record.job, schedules=(fixed_delay(30),)), window(10, 60, delay=30))
    assert (await bench.schedule(record)).next_at is None
    bench.turn(12)
    assert await bench.finish(lease)
    assert (await bench.schedule(record)).next_at == at(42)
