"""Checks of `move_slot`: slots moved or cancelled ahead stay so through windows, edits and pauses."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.errors import RevisionConflict, SlotSettled, UnknownJob, UnknownSlot, WindowStale
from onthedot.model.job import JobRecord
from onthedot.model.run import Armed, Blocked, Gate, GateAsk, Gone, NewRun, OnBusy, RunState, manual_trigger
from onthedot.stores.values import MovedSlot
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import START, Workbench, at, every, fixed_delay, raises, retry, skip, window


async def move(
    bench: Workbench, record: JobRecord, slot: float, to: float, *, name: str = "t", expected: int | None = None
) -> MovedSlot:
    run = NewRun(record.id, manual_trigger(name), at(to))
    return await bench.store.move_slot(
        record.id, "s", at(slot), reason="moved", run=run, expected=expected, now=bench.now
    )


async def cancel(bench: Workbench, record: JobRecord, slot: float) -> MovedSlot:
    return await bench.store.move_slot(record.id, "s", at(slot), reason="cancelled", now=bench.now)


async def skips(bench: Workbench) -> list[tuple[float, float, int, str]]:
    """Every recorded range, by its first slot."""
    found = await bench.store.queries.list_skips(job="job", limit=1000)
    rows = [((one.first - START) / SECOND, (one.last - START) / SECOND, one.count, one.reason) for one in found]
    return sorted(rows)


async def exceptions(bench: Workbench, record: JobRecord) -> list[float]:
    return [(one.slot_at - START) / SECOND for one in (await bench.schedule(record)).exceptions]


async def waiting(bench: Workbench) -> list[float]:
    """The due instants of waiting runs, in order."""
    runs = await bench.store.queries.list_runs(job="job", states=[RunState.SCHEDULED], limit=1000)
    return sorted((run.due_at - START) / SECOND for run in runs)


# ── slots that are planned, and slots that are not ───────────────────────────────────────────────────────────


@check
async def check_a_moved_slot_is_skipped_and_runs_later(bench: Workbench) -> None:
    """In one write the slot's run is skipped(moved), and a manual run waits at the new instant."""
    record, node = await bench.define(slots=(10, 20, 30)), await bench.node()
    moved = await move(bench, record, 20, to=25)
    skipped = await bench.slot_run(record, 20)
    assert (skipped.state, skipped.reason, skipped.attempts) == (RunState.SKIPPED, "moved", 0)
    assert moved.run_id is not None
    assert moved == MovedSlot("s", at(20), "moved", moved.run_id)
    run = await bench.run(moved.run_id)
    assert (run.trigger, run.due_at, run.state) == ("manual:t", at(25), RunState.SCHEDULED)
    bench.turn(100)
    assert [lease.due_at for lease in await bench.take(node, 9)] == [at(10), at(25), at(30)]


@check
async def check_a_cancelled_slot_gets_no_other_run(bench: Workbench) -> None:
    """The slot's run is skipped(cancelled), and no other run takes its place."""
    record = await bench.define(slots=(10, 20, 30))
    assert await cancel(bench, record, 10) == MovedSlot("s", at(10), "cancelled", None)
    run = await bench.slot_run(record, 10)
    assert (run.state, run.reason) == (RunState.SKIPPED, "cancelled")
    assert await waiting(bench) == [20, 30]


@check
async def check_an_older_window_cannot_undo_a_move(bench: Workbench) -> None:
    """The window was computed before the slot was moved. The store records the skip instead of the run."""
    record, node = await bench.define(slots=(10,)), await bench.node()
    term, seen = await bench.term(node), await bench.schedule(record)
    await move(bench, record, 70, to=95)
    assert await exceptions(bench, record) == [70]
    late = window(60, 90, [70, 80, 90], next_at=100)
    assert await bench.store.plan(term, [(seen, late)], now=bench.now) == [True]
    assert await bench.slots(record) == [10, 80, 90]
    assert await skips(bench) == [(70, 70, 1, "moved")]
    assert await waiting(bench) == [10, 80, 90, 95]
    assert (await bench.schedule(record)).watermark == at(90)


@check
async def check_a_window_with_the_skip_records_it_once(bench: Workbench) -> None:
    """The caller's window has the skip already. The ledger gets one entry, not two."""
    record, node = await bench.define(slots=(10,)), await bench.node()
    term = await bench.term(node)
    await cancel(bench, record, 70)
    plan = window(60, 80, [80], next_at=90, skips=[skip(70, 70, 1, "cancelled")])
    assert await bench.plan(term, record, plan) == [True]
    assert await bench.slots(record) == [10, 80]
    assert await skips(bench) == [(70, 70, 1, "cancelled")]


@check
async def check_a_range_of_skips_over_an_exception_is_refused(bench: Workbench) -> None:
    """The range would give the slot two fates. The caller must compute the window again."""
    record, node = await bench.define(slots=(10,)), await bench.node()
    term = await bench.term(node)
    await cancel(bench, record, 80)
    bench.turn(200)
    over = window(60, 100, next_at=110, skips=[skip(70, 100, 4)])
    async with bench.nothing_written():
        assert await bench.plan(term, record, over) == [False]
        with raises(WindowStale):
            await bench.put(bench.job(), window(60, 200, skips=[skip(70, 100, 4, "edited")]))
    around = window(60, 100, next_at=110, skips=[skip(70, 70, 1), skip(80, 80, 1, "cancelled"), skip(90, 100, 2)])
    assert await bench.plan(term, record, around) == [True]
    assert await skips(bench) == [(70, 70, 1, "missed"), (80, 80, 1, "cancelled"), (90, 100, 2, "missed")]


@check
async def check_ranges_around_an_exception_stay_apart(bench: Workbench) -> None:
    """The slot between them has a skipped run as its entry, so no range grows over it."""
    record, node = await bench.define(slots=(10, 20, 30)), await bench.node()
    term = await bench.term(node)
    await cancel(bench, record, 20)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(200)
    await bench.store.resume_job(record.id, [window(0, 10, next_at=30, skips=[skip(10, 10, 1)])], now=bench.now)
    assert await bench.plan(term, record, window(10, 40, next_at=50, skips=[skip(30, 40, 2)])) == [True]
    assert await skips(bench) == [(10, 10, 1, "missed"), (30, 40, 2, "missed")]


# ── edits, pauses, deletes ───────────────────────────────────────────────────────────────────────────────────


@check
async def check_an_edit_does_not_revive_an_exception(bench: Workbench) -> None:
    """Planned and unplanned slots keep their fate through several edits."""
    record = await bench.define(slots=(10, 20, 30))
    await move(bench, record, 20, to=45)
    await cancel(bench, record, 70)
    for owner in ("one", "two"):
        again = bench.job(*record.job.schedules, owner=owner)
        await bench.put(again, window(0, 80, [10, 20, 30, 40, 50, 60, 70, 80], next_at=90))
        assert await bench.slots(record) == [10, 20, 30, 40, 50, 60, 80]
        assert (await bench.slot_run(record, 20)).reason == "moved"
        assert await skips(bench) == [(70, 70, 1, "cancelled")]
        assert await waiting(bench) == [10, 30, 40, 45, 50, 60, 80]


@check
async def check_an_edit_may_drop_the_slot_of_an_exception(bench: Workbench) -> None:
    """The new rule has no such slot, so nothing is skipped. The moved run stays."""
    record = await bench.define(slots=(10,))
    await move(bench, record, 70, to=95)
    put = await bench.put(bench.job(every(15)), window(0, 90, [15, 30, 45, 60, 75, 90], next_at=105))
    assert put.planned == 6
    assert await skips(bench) == []
    assert await waiting(bench) == [15, 30, 45, 60, 75, 90, 95]


@check
async def check_a_resume_does_not_revive_an_exception(bench: Workbench) -> None:
    """This holds even when all missed slots are planned. The answer has the planned slots, and the dry run gives the
    same."""
    record = await bench.define(slots=(10, 20, 30))
    await move(bench, record, 20, to=75)
    await cancel(bench, record, 70)
    bench.turn(5)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(50)
    plan = window(5, 80, [10, 20, 30, 40, 50, 60, 70, 80], next_at=90)
    async with bench.nothing_written():
        preview = await bench.store.resume_job(record.id, [plan], dry_run=True, now=bench.now)
    resumed = await bench.store.resume_job(record.id, [plan], now=bench.now)
    assert resumed == preview
    assert resumed.slots == tuple(at(slot) for slot in (10, 30, 40, 50, 60, 80))
    assert resumed.skips == (skip(70, 70, 1, "cancelled"),)
    assert await bench.slots(record) == [10, 20, 30, 40, 50, 60, 80]
    assert (await bench.slot_run(record, 20)).reason == "moved"
    assert await waiting(bench) == [10, 30, 40, 50, 60, 75, 80]


@check
async def check_a_resume_with_a_range_over_an_exception_is_refused(bench: Workbench) -> None:
    """The resume raises `WindowStale`, and nothing is written."""
    record = await bench.define(slots=(10, 20, 30))
    await cancel(bench, record, 20)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(50)
    async with bench.nothing_written():
        with raises(WindowStale):
            over = window(0, 50, next_at=60, skips=[skip(10, 50, 5, "paused")])
            await bench.store.resume_job(record.id, [over], now=bench.now)


@check
async def check_a_moved_run_of_a_paused_job_is_held(bench: Workbench) -> None:
    """The moved run waits until the job is resumed."""
    record, node = await bench.define(slots=(10, 20)), await bench.node()
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    moved = await move(bench, record, 20, to=25)
    bench.turn(30)
    assert await bench.take(node, 9) == []
    resumed = await bench.store.resume_job(record.id, [window(0, 30, [10, 20, 30], next_at=40)], now=bench.now)
    assert (resumed.slots, resumed.released) == ((at(10), at(30)), 1)
    assert sorted(lease.due_at for lease in await bench.take(node, 9)) == [at(10), at(25), at(30)]
    assert moved.run_id is not None


@check
async def check_dropping_a_schedule_drops_its_exceptions(bench: Workbench) -> None:
    """A schedule that is dropped and added again is new. A deleted job has no exceptions."""
    record = await bench.define(slots=(10,))
    await cancel(bench, record, 70)
    await bench.put(bench.job(), window(0, 0))
    await bench.put(record.job, window(0, 80, [10, 70, 80], next_at=90))
    assert await bench.slots(record) == [10, 70, 80]
    await bench.store.delete_job(record.id, now=bench.now)
    async with bench.nothing_written():
        with raises(UnknownJob):
            await cancel(bench, record, 70)


@check
async def check_a_dropped_schedule_records_each_skip_once(bench: Workbench) -> None:
    """Its closing window has both exceptions. The planned one already has an entry, its skipped run."""
    record = await bench.define(slots=(10, 20, 30))
    await cancel(bench, record, 20)
    await move(bench, record, 70, to=200)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(75)
    owed = [
        skip(10, 10, 1, "edited"),
        skip(20, 20, 1, "cancelled"),
        skip(30, 60, 4, "edited"),
        skip(70, 70, 1, "edited"),
    ]
    await bench.put(bench.job(), window(0, 75, skips=owed))
    assert await skips(bench) == [(10, 10, 1, "edited"), (30, 60, 4, "edited"), (70, 70, 1, "moved")]
    assert (await bench.slot_run(record, 20)).reason == "cancelled"


@check
async def check_exceptions_are_removed_after_an_hour(bench: Workbench) -> None:
    """A later window removes them, but not while the watermark or the clock could come back to them."""
    record, node = await bench.define(slots=(10, 20)), await bench.node()
    term = await bench.term(node, ttl=100_000)
    await cancel(bench, record, 20)
    await cancel(bench, record, 90)
    await bench.plan(term, record, window(60, 8000, [90], next_at=9000))
    assert await exceptions(bench, record) == [20, 90]
    bench.turn(3625)
    await bench.plan(term, record, window(8000, 8010, next_at=9000))
    assert await exceptions(bench, record) == [90]
    bench.turn(9000)
    await bench.plan(term, record, window(8010, 9010, [9000], next_at=9100))
    assert await exceptions(bench, record) == []
    assert await skips(bench) == [(90, 90, 1, "cancelled")]


# ── repeated and late calls ──────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_repeated_move_gives_the_same_answer(bench: Workbench) -> None:
    """It is repeated after a lost answer: at once, after an edit, and after the moved run has ended."""
    record, node = await bench.define(slots=(10, 20)), await bench.node()
    moved, unplanned = await move(bench, record, 20, to=25, expected=1), await move(bench, record, 70, to=75, name="u")
    skipped = await cancel(bench, record, 80)
    async with bench.nothing_written():
        assert await move(bench, record, 20, to=25, expected=1) == moved
        assert await move(bench, record, 70, to=75, name="u") == unplanned
        assert await cancel(bench, record, 80) == skipped
    await bench.put(bench.job(*record.job.schedules, owner="ops"), window(0, 60, [10, 20], next_at=70))
    bench.turn(30)
    leases = await bench.take(node, 9)
    for lease in leases:
        assert await bench.finish(lease)
    async with bench.nothing_written():
        assert await move(bench, record, 20, to=25, expected=1) == moved


@check
async def check_a_slot_gets_only_one_exception(bench: Workbench) -> None:
    """A moved slot cannot be moved elsewhere or cancelled. The moved run can be cancelled."""
    record = await bench.define(slots=(10, 20))
    await move(bench, record, 20, to=25)
    await cancel(bench, record, 70)
    async with bench.nothing_written():
        with raises(SlotSettled):
            await move(bench, record, 20, to=28, name="other")
        with raises(SlotSettled):
            await cancel(bench, record, 20)
        with raises(SlotSettled):
            await move(bench, record, 70, to=75)


@check
async def check_a_started_slot_cannot_be_moved(bench: Workbench) -> None:
    """Armed, running, between two attempts, or ended: too late. So is a past slot that was never planned."""
    record, node = await bench.define(slots=(10, 20)), await bench.node()
    bench.turn(10)
    [lease] = await bench.take(node)
    async with bench.nothing_written():
        with raises(SlotSettled):
            await move(bench, record, 10, to=30)
    assert await bench.finish(lease, retry(15))
    async with bench.nothing_written():
        with raises(SlotSettled):
            await cancel(bench, record, 10)
    bench.turn(15)
    [lease] = await bench.take(node)
    assert await bench.finish(lease)
    bench.turn(70)
    async with bench.nothing_written():
        with raises(SlotSettled):
            await cancel(bench, record, 10)
        with raises(SlotSettled):
            await move(bench, record, 70, to=90)


@check
async def check_a_waiting_slot_can_be_moved_when_it_is_due(bench: Workbench) -> None:
    """If it is reserved, its lease becomes void. If it waits at a gate, it leaves the line."""
    record, node = await bench.define(slots=(10, 20, 30)), await bench.node()
    first, second, third = await bench.hold(node, 3, lapse=100)
    bench.turn(12)
    await move(bench, record, 10, to=50)
    assert isinstance((await bench.arm(first))[0], Gone)
    bench.turn(30)
    ask = GateAsk((Gate("overlap:1:", 1, until_end=True),), OnBusy("wait"))
    gates = {lease.lease_id: ask for lease in (second, third)}
    answers = await bench.store.arm([replace(second), replace(third)], gates=gates, now=bench.now)
    assert [type(answer) for answer in answers] == [Armed, Blocked]
    await cancel(bench, record, 30)
    assert (await bench.slot_run(record, 30)).reason == "cancelled"
    assert await waiting(bench) == [50]


@check
async def check_a_move_needs_the_revision_that_was_read(bench: Workbench) -> None:
    """Another revision may have another rule. The errors name an unknown schedule and an unknown job."""
    record = await bench.define(slots=(10, 20))
    await bench.put(bench.job(*record.job.schedules, owner="ops"), window(0, 60, [10, 20], next_at=70))
    async with bench.nothing_written():
        with raises(RevisionConflict):
            await move(bench, record, 20, to=25, expected=1)
        with raises(UnknownSlot):
            await bench.store.move_slot(record.id, "other", at(20), reason="cancelled", now=bench.now)
        with raises(UnknownJob):
            await bench.store.move_slot(99, "s", at(20), reason="cancelled", now=bench.now)


@check
async def check_cancelling_a_future_slots_run_is_an_exception(bench: Workbench) -> None:
    """`cancel` of a slot's run before its time works like `move_slot`. No edit or resume plans the slot again."""
    record = await bench.define(slots=(10, 20, 30))
    run = await bench.slot_run(record, 20)
    await bench.store.cancel([run.id], why="by hand", now=bench.now)
    await bench.put(bench.job(*record.job.schedules, owner="ops"), window(0, 60, [10, 20, 30], next_at=70))
    assert await waiting(bench) == [10, 30]
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    await bench.store.resume_job(record.id, [window(0, 60, [10, 20, 30], next_at=70)], now=bench.now)
    assert await waiting(bench) == [10, 30]
    assert await bench.slots(record) == [10, 20, 30]
    assert (await bench.slot_run(record, 20)).state is RunState.CANCELLED


@check
async def check_a_recorded_exception_survives_a_dropped_schedule(bench: Workbench) -> None:
    """The slot's entry is in the ledger, so the exception is there when the schedule is added again."""
    record = await bench.define(slots=(10, 20, 30))
    await bench.store.cancel([(await bench.slot_run(record, 20)).id], why="by hand", now=bench.now)
    await bench.put(bench.job(), window(0, 0))
    await bench.put(record.job, window(0, 60, [10, 20, 30], next_at=70))
    assert await waiting(bench) == [10, 30]
    assert await exceptions(bench, record) == [20]


@check
async def check_a_dropped_schedule_has_no_slots_to_move(bench: Workbench) -> None:
    """Not even a slot with an exception can be moved."""
    record = await bench.define(slots=(10, 20, 30))
    await bench.store.cancel([(await bench.slot_run(record, 20)).id], why="by hand", now=bench.now)
    await bench.put(bench.job(), window(0, 0))
    with raises(UnknownSlot):
        await bench.store.move_slot(record.id, "s", at(20), reason="cancelled", now=bench.now)


@check
async def check_cancelling_a_due_slots_run_is_no_exception(bench: Workbench) -> None:
    """The slot has passed, so it will not be planned again."""
    record = await bench.define(slots=(10, 20))
    bench.turn(10)
    await bench.store.cancel([(await bench.slot_run(record, 10)).id], why="by hand", now=bench.now)
    assert await exceptions(bench, record) == []


# ── fixed delays ─────────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_fixed_delay_counts_from_the_moved_run(bench: Workbench) -> None:
    """Its planned run is skipped. The next slot is `delay` after the new instant, and planning continues."""
    record = (await bench.put(bench.job(fixed_delay(30)), window(0, 10, [10], delay=30))).record
    term = await bench.term(await bench.node())
    await move(bench, record, 10, to=100)
    state = await bench.schedule(record)
    assert (state.watermark, state.last_end, state.next_at) == (at(10), at(100), at(130))
    assert await bench.plan(term, record, window(10, 130, [130], delay=30)) == [True]
    assert await waiting(bench) == [100, 130]


@check
async def check_a_fixed_delay_counts_from_a_cancelled_slot(bench: Workbench) -> None:
    """It counts as if the run had ended at its own instant, but never from before now."""
    record = (await bench.put(bench.job(fixed_delay(30)), window(0, 10, [10], delay=30))).record
    await cancel(bench, record, 10)
    assert (await bench.schedule(record)).next_at == at(40)
    term = await bench.term(await bench.node())
    await bench.plan(term, record, window(10, 40, [40], delay=30))
    bench.turn(55)
    await cancel(bench, record, 40)
    assert (await bench.schedule(record)).next_at == at(85)


@check
async def check_an_unplanned_slot_of_a_fixed_delay_can_be_moved(bench: Workbench) -> None:
    """The slot gets its entry at once, and the schedule continues after it. An older window of the planner is
    refused."""
    record = (await bench.put(bench.job(fixed_delay(30)), window(0, 0, next_at=50, delay=30))).record
    term, seen = await bench.term(await bench.node()), await bench.schedule(record)
    moved = await move(bench, record, 50, to=60)
    assert await bench.store.plan(term, [(seen, window(0, 50, [50], delay=30))], now=bench.now) == [False]
    state = await bench.schedule(record)
    assert (state.watermark, state.last_end, state.next_at) == (at(50), at(60), at(90))
    assert await skips(bench) == [(50, 50, 1, "moved")]
    async with bench.nothing_written():
        assert await move(bench, record, 50, to=60) == moved
    bench.turn(20)
    await bench.put(bench.job(fixed_delay(5)), window(20, 50, delay=5))
    assert (await bench.schedule(record)).next_at == at(65)
    assert await waiting(bench) == [60]


@check
async def check_an_open_fixed_delay_has_no_slot_to_move(bench: Workbench) -> None:
    """The schedule has no next slot while its run is open, so the call raises `SlotSettled`."""
    record = (await bench.put(bench.job(fixed_delay(30)), window(0, 10, [10], delay=30))).record
    async with bench.nothing_written():
        with raises(SlotSettled):
            await cancel(bench, record, 40)
