"""Pauses, cancels and registrations at awkward moments have the right effect on both stores."""

from __future__ import annotations

import pytest

from onthedot.model.errors import WindowStale
from onthedot.model.run import NewRun, submit_trigger
from onthedot_verify.contract.workbench import Workbench, at, every, window


async def test_a_resume_with_the_window_of_a_removed_schedule_is_stale(bench: Workbench):
    """Another user removed the schedule after the windows were computed. The caller must read again."""
    record = await bench.define(slots=(10,))
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    await bench.put(bench.job(every(7, name="t")), window(0, 0, name="t", next_at=7), window(0, 0))
    async with bench.nothing_written():
        with pytest.raises(WindowStale):
            await bench.store.resume_job(record.id, [window(0, 30, [10])], now=bench.now)


async def test_a_second_cancel_does_not_change_the_reason(bench: Workbench):
    record, node = await bench.define(), await bench.node()
    await bench.submit(record)
    [lease] = await bench.take(node)
    for why in ("by hand", "again"):
        await bench.store.cancel([lease.run_id], why=why, now=bench.now)
    beat = await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)
    assert beat.cancels == ((lease.lease_id, "by hand"),)


async def test_a_cancel_without_a_reason_still_cancels(bench: Workbench):
    record, node = await bench.define(), await bench.node()
    await bench.submit(record)
    [lease] = await bench.take(node)
    await bench.store.cancel([lease.run_id], why="", now=bench.now)
    beat = await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)
    assert [lease_id for lease_id, _ in beat.cancels] == [lease.lease_id]


async def test_runs_submitted_to_a_paused_job_do_not_expire(bench: Workbench):
    """All waiting runs of a paused job are held, whether they came before or after the pause."""
    record = await bench.define()
    for number in (0, 1):
        new = NewRun(record.id, submit_trigger(str(number)), at(0), expires_at=at(5))
        await bench.store.submit([new], now=bench.now)
        await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(10)
    assert await bench.expire() == []


async def test_a_held_run_does_not_make_a_worker_poll(bench: Workbench):
    """Only a resume can release it, and a resume sends a hint."""
    record, node = await bench.define(), await bench.node()
    await bench.submit(record)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    assert (await bench.reserve(node, seats=1, ahead=1, horizon=2)).look_again_at is None


async def test_a_reap_records_the_fence_even_if_the_caller_does_not_know_it(bench: Workbench):
    """The run's row has the fence and the instant of the arm, and the history shows them."""
    record, node = await bench.define(), await bench.node(ttl=10)
    await bench.submit(record, 5)
    [lease] = await bench.hold(node)
    armed = await bench.armed(lease)
    bench.turn(11)
    assert await bench.reap(lease)
    [attempt] = await bench.store.queries.list_attempts(lease.run_id)
    assert (attempt.fence, attempt.armed_at) == (armed.fence, armed.armed_at)


async def test_a_registration_after_the_clock_was_set_back_shortens_leases(bench: Workbench):
    bench.turn(100)
    await bench.node("early", ttl=10)
    bench.turn(0)
    await bench.node("late", ttl=10)
    assert {node.lease_until for node in await bench.store.queries.list_nodes()} == {at(10)}
