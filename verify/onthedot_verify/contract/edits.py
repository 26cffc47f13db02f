"""Checks of edits by `put_job`: which slots one edit withdraws, which it plans, and where it puts the watermark.

W is the instant from which the new definition counts. It is the latest of the store's clock, the newest slot of the
schedule that was ever armed, and the newest that was skipped ahead because no node could run it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from onthedot.model.errors import WindowStale
from onthedot.model.job import Call, Every, In, Job, JobRecord, Limit, Overlap, Schedule
from onthedot.model.run import Armed, Blocked, Gate, GateAsk, Gone, OnBusy
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import (
    SUCCESS,
    Workbench,
    at,
    every,
    fixed_delay,
    once_at,
    raises,
    retry,
    skip,
    window,
)

SLOTS = [10, 20, 30, 40, 50, 60]


async def planned_job(bench: Workbench, name: str = "job") -> tuple[Job, JobRecord]:
    """A job with six slots planned in (0, 60]."""
    job = bench.job(every(), name=name)
    record = (await bench.put(job, window(0, 60, SLOTS, next_at=70))).record
    return job, record


async def arm_slot(bench: Workbench, node: str, record: JobRecord, slot: float) -> None:
    """Arm one slot ahead of its time and leave it running. The other reservations are released."""
    leases = await bench.hold(node, ahead=100)
    [wanted] = [one for one in leases if (one.record.id, one.slot_at) == (record.id, at(slot))]
    await bench.release(*(one for one in leases if one is not wanted))
    await bench.armed(wanted)


@check
async def check_an_edit_replans_future_slots(bench: Workbench) -> None:
    """Slots after W are withdrawn, and those of the window after W are planned. The watermark moves to the window's
    end."""
    job, record = await planned_job(bench)
    bench.turn(25)
    put = await bench.put(replace(job, owner="ops"), window(25, 85, [40, 80], next_at=90))
    assert (put.change, put.withdrawn, put.planned) == ("changed", 4, 2)
    assert await bench.slots(record) == [10, 20, 40, 80]
    state = await bench.schedule(record)
    assert (state.origin, state.watermark, state.next_at) == (at(0), at(85), at(90))
    assert state.record == put.record


@check
async def check_an_edit_plans_no_slot_up_to_now(bench: Workbench) -> None:
    """If a window starts before W, only its slots after W are inserted. The others have their fate."""
    job, record = await planned_job(bench)
    bench.turn(25)
    put = await bench.put(replace(job, owner="ops"), window(0, 85, [5, 15, 24, 26], next_at=90))
    assert put.planned == 1
    assert await bench.slots(record) == [10, 20, 26]


@check
async def check_an_armed_slot_sets_w(bench: Workbench) -> None:
    """W is the newest slot ever armed if that is later than now. Slots before it stay as planned."""
    job, record = await planned_job(bench)
    await arm_slot(bench, await bench.node(), record, 30)
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), window(5, 65, [15, 25, 35], next_at=75))
    assert (put.withdrawn, put.planned) == (3, 1)
    assert await bench.slots(record) == [10, 20, 30, 35]
    assert (await bench.schedule(record)).watermark == at(65)


@check
async def check_a_finished_slot_sets_w(bench: Workbench) -> None:
    """The newest slot ever armed counts after its run has ended, too, so it does not run again."""
    job, record = await planned_job(bench)
    node = await bench.node()
    await arm_slot(bench, node, record, 30)
    [lease] = await bench.store.recover(node)
    assert await bench.finish(lease, SUCCESS)
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), window(5, 65, [15, 30, 35], next_at=75))
    assert (put.withdrawn, put.planned) == (3, 1)
    assert await bench.slots(record) == [10, 20, 30, 35]


@check
async def check_a_slot_that_was_skipped_ahead_is_not_planned_again(bench: Workbench) -> None:
    """A run skipped at a gate keeps its key, so the same slot gets no second run. Its slot does not set W."""
    job, record = await planned_job(bench)
    first, second, *others = await bench.hold(await bench.node(), ahead=6)
    await bench.release(*others)
    ask = GateAsk((Gate("g", 1, until_end=True),), OnBusy("skip"))
    asks = {lease.lease_id: ask for lease in (first, second)}
    await bench.store.arm([first, second], gates=asks, now=bench.now)
    assert await bench.state(second.run_id) == "skipped"
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), window(5, 65, [15, 20, 25], next_at=75))
    assert (put.withdrawn, put.planned) == (4, 2)
    assert await bench.slots(record) == [10, 15, 20, 25]
    assert (await bench.slot_run(record, 20)).state == "skipped"


@check
async def check_a_slot_that_ended_before_the_clock_was_set_back_is_not_planned_again(bench: Workbench) -> None:
    """The slot is in the future again, but its run still has the key."""
    job = bench.job(every())
    record = (await bench.put(job, window(0, 30, [10, 20, 30], next_at=40, late=2))).record
    bench.turn(12)
    assert len(await bench.expire()) == 1
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), window(5, 35, [10, 20], next_at=40))
    assert (put.withdrawn, put.planned) == (2, 1)
    assert await bench.slots(record) == [10, 20]


@check
async def check_a_schedule_that_comes_back_does_not_run_a_slot_again(bench: Workbench) -> None:
    """A slot was armed ahead and has ended. Its schedule is dropped and added again before that slot's instant."""
    job, record = await planned_job(bench)
    node = await bench.node()
    await arm_slot(bench, node, record, 30)
    [lease] = await bench.store.recover(node)
    assert await bench.finish(lease, SUCCESS)
    bench.turn(5)
    await bench.put(replace(job, schedules=()))
    put = await bench.put(job, window(5, 65, [20, 30, 40], next_at=75))
    assert put.planned == 2
    assert await bench.slots(record) == [20, 30, 40]


@check
async def check_a_target_whose_run_was_cancelled_gets_no_new_run(bench: Workbench) -> None:
    """An edit and a pause plan the slot again, but only for the other nodes."""
    job = bench.job(every(), on="all")
    targets = ("one", "two")
    record = (await bench.put(job, replace(window(0, 30, [20], next_at=40), targets=targets))).record
    [share] = [run for run in await bench.runs() if run.target == "one"]
    await bench.store.cancel([share.id], why="by hand", now=bench.now)
    put = await bench.put(replace(job, owner="ops"), replace(window(0, 30, [20], next_at=40), targets=targets))
    assert (put.withdrawn, put.planned) == (1, 1)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    again = replace(window(0, 30, [20], next_at=40), targets=targets)
    assert (await bench.store.resume_job(record.id, [again], now=bench.now)).slots == (at(20),)
    assert sorted((run.target, run.state) for run in await bench.runs()) == [("one", "cancelled"), ("two", "scheduled")]


@check
async def check_a_slot_without_a_node_sets_w(bench: Workbench) -> None:
    """A slot to come was skipped because no node could run it. An edit gives it no second fate."""
    job = bench.job(every())
    nobody = [skip(slot, slot, 1, "no_node") for slot in (20, 30)]
    record = (await bench.put(job, window(0, 30, [10], next_at=40, skips=nobody))).record
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), window(5, 45, [20, 30, 40], next_at=50))
    assert (put.withdrawn, put.planned) == (0, 1)
    assert await bench.slots(record) == [10, 40]
    assert (await bench.schedule(record)).watermark == at(45)


@check
async def check_each_schedule_has_its_own_w(bench: Workbench) -> None:
    """Slots of other jobs and schedules do not move W, even under the same schedule id."""
    job, record = await planned_job(bench)
    _, other = await planned_job(bench, "other")
    node = await bench.node()
    await arm_slot(bench, node, other, 50)
    [lease] = await bench.store.recover(node)
    await arm_slot(bench, node, other, 40)
    await bench.finish(lease)
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), window(5, 65, [35], next_at=75))
    assert (put.withdrawn, put.planned) == (6, 1)
    assert await bench.slots(record) == [35]
    assert await bench.slots(other) == SLOTS


@check
async def check_a_retrying_slot_is_not_withdrawn(bench: Workbench) -> None:
    """A slot's run that was armed once stays, although it is scheduled again and in the future."""
    job, record = await planned_job(bench)
    node = await bench.node()
    await arm_slot(bench, node, record, 30)
    [lease] = await bench.store.recover(node)
    assert await bench.finish(lease, retry(45))
    put = await bench.put(replace(job, owner="ops"), window(0, 60, [35], next_at=70))
    assert put.withdrawn == 3
    assert await bench.slots(record) == [10, 20, 30, 35]
    assert (await bench.run(lease.run_id)).due_at == at(45)


@check
async def check_a_reserved_slot_is_withdrawn(bench: Workbench) -> None:
    """A reservation does not protect a future slot. The edit wins until `arm` commits."""
    job, record = await planned_job(bench)
    node = await bench.node()
    leases = await bench.hold(node, ahead=6)
    put = await bench.put(replace(job, owner="ops"), window(0, 60, [15], next_at=70))
    assert (put.withdrawn, await bench.slots(record)) == (6, [15])
    assert all(isinstance(answer, Gone) for answer in await bench.arm(*leases))
    assert await bench.release(*leases) == [False] * 6
    assert not any([await bench.finish(lease) for lease in leases])
    assert await bench.store.recover(node) == []


@check
async def check_a_withdrawn_slot_may_be_planned_again(bench: Workbench) -> None:
    """If the new window has a withdrawn slot too, it becomes a run again, under the new revision."""
    job, record = await planned_job(bench)
    put = await bench.put(replace(job, owner="ops"), window(0, 60, [10, 20], next_at=70))
    assert (put.withdrawn, put.planned) == (6, 2)
    bench.turn(10)
    [lease] = await bench.take(await bench.node())
    assert (lease.slot_at, lease.record.revision, lease.attempt) == (at(10), 2, 1)
    assert await bench.slots(record) == [10, 20]


@check
async def check_an_edit_keeps_the_watermark_of_a_late_planner(bench: Workbench) -> None:
    """While slots before W have no fate, the watermark stays, and the planner continues from it."""
    job = bench.job(every())
    record = (await bench.put(job, window(0, 20, [10, 20], next_at=30))).record
    bench.turn(45)
    put = await bench.put(replace(job, owner="ops"), window(45, 105, [50, 60], next_at=110))
    assert (put.withdrawn, put.planned) == (0, 0)
    assert await bench.slots(record) == [10, 20]
    assert (await bench.schedule(record)).watermark == at(20)
    assert await bench.due(until=45) == ["job/s"]
    term = await bench.term(await bench.node())
    late = window(20, 60, [50, 60], next_at=70, skips=[skip(30, 40, 2)])
    assert await bench.plan(term, put.record, late) == [True]
    assert await bench.slots(record) == [10, 20, 50, 60]


@check
async def check_a_schedule_without_slots_before_w_is_planned_again(bench: Workbench) -> None:
    """The watermark is before W because there was nothing to plan. The new rule may have earlier slots than the old
    one. Those after the edit are planned, and those before it were never slots."""
    job = bench.job(every(1000))
    record = (await bench.put(job, window(0, 30, next_at=1000))).record
    bench.turn(100)
    await bench.put(replace(job, schedules=(every(10),)), window(100, 130, [110, 120, 130], next_at=140))
    assert await bench.slots(record) == [110, 120, 130]
    state = await bench.schedule(record)
    assert (state.watermark, state.next_at) == (at(130), at(140))


@check
async def check_an_edit_may_revive_an_ended_schedule(bench: Workbench) -> None:
    """A schedule without further slots may have one again after an edit."""
    job = bench.job(once_at(10))
    record = (await bench.put(job, window(0, 30, [10]))).record
    assert await bench.due(until=10_000) == []
    bench.turn(100)
    await bench.put(replace(job, schedules=(once_at(200),)), window(100, 130, next_at=200))
    assert await bench.due(until=200) == ["job/s"]
    assert await bench.slots(record) == [10]


@check
async def check_an_edit_records_no_skip_twice(bench: Workbench) -> None:
    """Skips at or before W in the window of a schedule that stays are recorded already."""
    job, _ = await planned_job(bench)
    bench.turn(25)
    late = window(0, 85, [80], next_at=90, skips=[skip(10, 20, 2)])
    await bench.put(replace(job, owner="ops"), late)
    assert await bench.store.queries.list_skips() == []


@check
async def check_the_watermark_never_goes_below_w(bench: Workbench) -> None:
    """The window of an edit that was delayed for long ends before W. The watermark is still not below W."""
    job, record = await planned_job(bench)
    bench.turn(45)
    with suppress(WindowStale):
        await bench.put(replace(job, owner="ops"), window(5, 35, [30], next_at=40))
    assert (await bench.schedule(record)).watermark >= at(45)
    assert len(await bench.slots(record)) == len(set(await bench.slots(record)))


@check
async def check_a_new_schedule_begins_with_the_edit(bench: Workbench) -> None:
    """An edit adds a schedule, and is written long after it was computed. Slots up to W = now are left out, because the
    old definition had that time. The other schedules continue."""
    job, record = await planned_job(bench)
    bench.turn(25)
    put = await bench.put(
        replace(job, schedules=(every(), every(name="new"))),
        window(25, 85, [30], next_at=90),
        window(5, 65, [15, 25, 55], name="new", next_at=75),
    )
    assert (put.withdrawn, put.planned) == (4, 2)
    state = await bench.schedule(record, "new")
    assert (state.origin, state.watermark, state.next_at) == (at(25), at(65), at(75))
    assert await bench.slots(record, "new") == [55]
    assert await bench.slots(record) == [10, 20, 30]
    assert (await bench.schedule(record)).origin == at(0)


@check
async def check_a_new_job_plans_its_whole_window(bench: Workbench) -> None:
    """A new job has no older definition. Slots that passed while the write waited are planned, late."""
    bench.turn(25)
    job = bench.job(every(), once_at(20, name="once"))
    put = await bench.put(job, window(5, 65, [15, 55], next_at=75), window(5, 35, [20], name="once"))
    assert (put.change, put.planned) == ("created", 3)
    assert await bench.slots(put.record) == [15, 55]
    assert await bench.slots(put.record, "once") == [20]
    assert (await bench.schedule(put.record)).origin == at(5)


@check
async def check_a_delayed_edit_plans_no_instant_twice(bench: Workbench) -> None:
    """Every 2 s becomes every 3 s. The edit is computed at 3 and written at 7. Only the old schedule has a run at 6."""
    job = bench.job(every(2, name="two"))
    record = (await bench.put(job, window(0, 10, [2, 4, 6, 8, 10], name="two", next_at=12))).record
    bench.turn(7)
    edited = window(3, 15, [6, 9, 12, 15], name="three", next_at=18)
    put = await bench.put(replace(job, schedules=(every(3, name="three"),)), edited, expected=1)
    assert (put.withdrawn, put.planned) == (2, 3)
    assert await bench.slots(record, "two") == [2, 4, 6]
    assert await bench.slots(record, "three") == [9, 12, 15]


@check
async def check_an_armed_instant_is_not_planned_by_a_new_schedule(bench: Workbench) -> None:
    """A run of a dropped schedule was armed ahead. An added schedule has the same instant: it is skipped(edited). An
    instant shared with a schedule that stays is planned."""
    job = bench.job(every(2, name="two"))
    record = (await bench.put(job, window(0, 8, [2, 4, 6, 8], name="two", next_at=10))).record
    await arm_slot(bench, await bench.node(), record, 6)
    bench.turn(5.9)
    beside = replace(job, schedules=(every(2, name="two"), every(6, name="six")))
    await bench.put(beside, window(5.9, 8, [6, 8], name="two", next_at=10), window(5.9, 8, [6], name="six", next_at=12))
    assert await bench.slots(record, "six") == [6]
    instead = replace(job, schedules=(every(6, name="six"), every(3, name="three"), once_at(6, name="once")))
    put = await bench.put(
        instead,
        window(5.9, 8, [6], name="six", next_at=12),
        window(5.9, 12, [6, 9, 12], name="three", next_at=15),
        window(5.9, 12, [6], name="once"),
    )
    assert put.planned == 3
    assert await bench.slots(record, "two") == [2, 4, 6]
    assert await bench.slots(record, "three") == [9, 12]
    assert await bench.slots(record, "once") == []
    skips = [(one.schedule_id, one.first, one.count, one.reason) for one in await bench.store.queries.list_skips()]
    assert sorted(skips) == [("once", at(6), 1, "edited"), ("three", at(6), 1, "edited")]


@check
async def check_a_new_window_may_end_before_now(bench: Workbench) -> None:
    """The edit was delayed for longer than its window. The planner continues from the edit, not from the window's
    end."""
    job, record = await planned_job(bench)
    bench.turn(45)
    added = replace(job, schedules=(every(), every(name="new")))
    await bench.put(added, window(45, 60, [50, 60], next_at=70), window(5, 35, [15, 35], name="new", next_at=40))
    assert await bench.slots(record, "new") == []
    state = await bench.schedule(record, "new")
    assert (state.origin, state.watermark) == (at(45), at(45))
    assert await bench.due(until=45) == ["job/new"]


@check
async def check_a_new_schedule_of_a_paused_job_begins_with_the_edit(bench: Workbench) -> None:
    """Instants before the edit are no slots of the new schedule, whenever the job is resumed."""
    job, record = await planned_job(bench)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(25)
    added = replace(job, schedules=(every(), every(name="new")))
    await bench.put(added, window(25, 85, [30], next_at=90), window(5, 65, [15, 55], name="new", next_at=75))
    state = await bench.schedule(record, "new")
    assert (state.watermark, state.next_at) == (at(25), at(55))
    assert await bench.slots(record, "new") == []


@check
async def check_a_new_window_cannot_start_ahead(bench: Workbench) -> None:
    """The caller's clock is ahead. Slots between the store's clock and the window's start would have no fate."""
    job, _ = await planned_job(bench)
    bench.turn(25)
    added = replace(job, schedules=(every(), every(name="new")))
    async with bench.nothing_written():
        with raises(WindowStale) as stale:
            await bench.put(added, window(25, 85, [30], next_at=90), window(35, 65, [45], name="new", next_at=75))
    assert stale[0].now == at(25)


@check
async def check_a_late_edit_with_counted_slots_is_stale(bench: Workbench) -> None:
    """The new schedule has a limited number of slots, or given instants. If some have passed, the edit is `WindowStale`
    and must be computed again. Slots that the window records as missed are accepted."""
    job, record = await planned_job(bench)
    bench.turn(25)
    tens = timedelta(seconds=10)
    counted: list[Schedule] = [
        Every(interval=tens, max_count=2, id="new"),
        Every(interval=tens, run_once=True, id="new"),
        In(delay=tens, id="new"),
        once_at(15, name="new"),
    ]
    for schedule in counted:
        added = replace(job, schedules=(every(), schedule))
        for late in (window(5, 35, [15], name="new"), window(5, 10, name="new", next_at=15)):
            async with bench.nothing_written():
                with raises(WindowStale) as stale:
                    await bench.put(added, window(25, 85, [30], next_at=90), late)
            assert stale[0].now == at(25)
    passed = window(25, 55, name="new", skips=[skip(15, 15, 1)])
    added = replace(job, schedules=(every(), once_at(15, name="new")))
    await bench.put(added, window(25, 85, [30], next_at=90), passed)
    assert await bench.slots(record, "new") == []
    assert [(one.schedule_id, one.first, one.reason) for one in await bench.store.queries.list_skips()] == [
        ("new", at(15), "missed")
    ]


@check
async def check_a_new_fixed_delay_may_begin_late(bench: Workbench) -> None:
    """Its first slot may have passed if it was to begin at once. With a start of its own the edit is `WindowStale`."""
    job, record = await planned_job(bench)
    bench.turn(25)
    added = replace(job, schedules=(every(), fixed_delay(60, name="new")))
    with_start = window(5, 15, [15], name="new", delay=60)
    async with bench.nothing_written():
        with raises(WindowStale):
            await bench.put(added, window(25, 85, [30], next_at=90), with_start)
    first = 5.000001
    at_once = window(5, first, [first], name="new", delay=60)
    await bench.put(added, window(25, 85, [30], next_at=90), at_once)
    assert await bench.slots(record, "new") == [first]


@check
async def check_a_dropped_schedule_ends(bench: Workbench) -> None:
    """Its future slots are withdrawn, the skips of its window are recorded, and it is gone. Due and armed slots
    stay."""
    job = bench.job(every(), every(name="old"))
    plans = window(0, 60, [30], next_at=70), window(0, 20, [10, 20], name="old", next_at=30)
    record = (await bench.put(job, *plans)).record
    bench.turn(45)
    closing = window(20, 45, name="old", skips=[skip(30, 40, 2, "edited")])
    put = await bench.put(replace(job, schedules=(every(),)), window(45, 60, [50], next_at=70), closing)
    assert [state.schedule_id for state in await bench.store.queries.schedules_of(record.id)] == ["s"]
    assert await bench.due(until=10_000) == ["job/s"]
    assert await bench.slots(record, "old") == [10, 20]
    assert put.planned == 1
    [shown] = await bench.store.queries.list_skips()
    assert (shown.schedule_id, shown.first, shown.last, shown.count) == ("old", at(30), at(40), 2)


@check
async def check_skips_of_a_dropped_schedule_need_its_watermark(bench: Workbench) -> None:
    """A closing window that does not start at the watermark records no skips."""
    job = bench.job(every())
    record = (await bench.put(job, window(0, 20, [10, 20], next_at=30))).record
    bench.turn(45)
    await bench.put(replace(job, schedules=()), window(10, 45, skips=[skip(20, 40, 3)]))
    assert await bench.store.queries.list_skips() == []
    assert await bench.store.queries.schedules_of(record.id) == []


@check
async def check_a_schedule_planned_ahead_can_be_dropped(bench: Workbench) -> None:
    """Its watermark is in the future, and its closing window starts there. Only schedules that stay have stale windows.
    All its future slots are withdrawn, also those before an armed one."""
    job, record = await planned_job(bench)
    await arm_slot(bench, await bench.node(), record, 30)
    bench.turn(15)
    put = await bench.put(replace(job, schedules=()), window(60, 60))
    assert put.withdrawn == 4
    assert await bench.slots(record) == [10, 30]


@check
async def check_waiting_runs_get_the_new_revision(bench: Workbench) -> None:
    """A submitted run stays. A reservation from before the edit is `Gone` and can be released. The next one has the new
    definition."""
    job = bench.job()
    record = (await bench.put(job)).record
    node = await bench.node()
    run_id = await bench.submit(record, due=5)
    [lease] = await bench.hold(node)
    await bench.put(replace(job, owner="ops"))
    assert isinstance((await bench.arm(lease))[0], Gone)
    assert await bench.release(lease) == [True]
    bench.turn(5)
    [lease] = await bench.take(node)
    assert (lease.run_id, lease.record.revision, lease.record.job.owner) == (run_id, 2, "ops")


@check
async def check_a_running_attempt_keeps_its_revision(bench: Workbench) -> None:
    """An edit does not touch a running attempt. It may finish, and its record has the revision that it ran."""
    job = bench.job()
    record = (await bench.put(job)).record
    run_id = await bench.submit(record)
    [lease] = await bench.take(await bench.node())
    await bench.put(replace(job, owner="ops"))
    [again] = await bench.arm(lease)
    assert not isinstance(again, Gone)
    assert await bench.finish(lease)
    assert [attempt.revision for attempt in await bench.store.queries.list_attempts(run_id)] == [1]


@check
async def check_a_drop_needs_a_fate_for_each_slot(bench: Workbench) -> None:
    """The edit was computed before a slot and arrives after it. It is stale, and the error has the store's clock."""
    job = bench.job(every(), every(name="old"))
    await bench.put(job, window(0, 30, [10, 20, 30], next_at=40), window(0, 30, [], name="old", next_at=45))
    bench.turn(50)
    edited = replace(job, schedules=(every(),))
    early = window(30, 44, [], name="old", next_at=45)
    for windows in ([early], []):
        async with bench.nothing_written():
            with raises(WindowStale) as stale:
                await bench.put(edited, *windows, expected=1)
        assert stale[0].now == at(50)
    in_time = window(30, 50, [], name="old", next_at=55, skips=[skip(45, 45, 1, "edited")])
    assert (await bench.put(edited, in_time, expected=1)).change == "changed"


@check
async def check_a_drop_from_before_a_pause_is_stale(bench: Workbench) -> None:
    """A pause withdraws planned slots. An edit that was computed before the pause gives them no fate."""
    job = bench.job(every(), every(name="old"))
    planned = window(0, 40, [10, 20, 30, 40], name="old", next_at=50)
    record = (await bench.put(job, window(0, 40, next_at=50), planned)).record
    bench.turn(15)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    bench.turn(25)
    edited = replace(job, schedules=(every(),))
    for early in (window(40, 40, [], name="old", next_at=50), window(5, 15, [], name="old", next_at=20)):
        async with bench.nothing_written():
            with raises(WindowStale) as stale:
                await bench.put(edited, window(15, 45, [], next_at=50), early, expected=1)
        assert stale[0].now == at(25)


@check
async def check_future_slots_cannot_be_skipped_as_missed(bench: Workbench) -> None:
    """Slots after the store's clock cannot be missed. The clock of such a caller is wrong."""
    job = bench.job(every())
    ahead = window(0, 60, [], next_at=70, skips=[skip(10, 60, 6)])
    bench.turn(5)
    with raises(WindowStale) as stale:
        await bench.put(job, ahead)
    assert stale[0].now == at(5)
    record = (await bench.put(job, window(5, 30, [10, 20, 30], next_at=40))).record
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    paused_over = window(5, 60, [], next_at=70, skips=[skip(10, 60, 6, "paused")])
    async with bench.nothing_written():
        with raises(WindowStale):
            await bench.store.resume_job(record.id, [paused_over], now=bench.now)


@check
async def check_waiting_runs_get_the_new_task_and_gates(bench: Workbench) -> None:
    """Only workers with the new task reserve them, and they pass the new gates."""
    job, node = bench.job(), await bench.node()
    record = (await bench.put(job)).record
    run_id = await bench.submit(record)
    await bench.put(replace(job, task=Call(handler="other")))
    assert await bench.take(node) == []
    await bench.put(replace(job, overlap=Overlap("wait")))
    got = await bench.reserve(node, seats=1)
    assert ([lease.run_id for lease in got.held], got.armed) == ([run_id], [])


@check
async def check_an_edit_frees_runs_that_wait_at_a_gate(bench: Workbench) -> None:
    """The new definition may have no such gate. Then the run is ready at once."""
    job, gate = bench.job(concurrency=Limit(1)), Gate("limit:job", 1)
    record, node = (await bench.put(job)).record, await bench.node()
    ids = [await bench.submit(record) for _ in range(2)]
    leases = (await bench.reserve(node, seats=2, lapse=1000)).held
    asks = {lease.lease_id: GateAsk((gate,), OnBusy("wait")) for lease in leases}
    armed, blocked = await bench.store.arm(list(map(replace, leases)), gates=asks, now=bench.now)
    assert isinstance(armed, Armed)
    assert isinstance(blocked, Blocked)
    assert await bench.take(node) == []
    await bench.put(replace(job, concurrency=None))
    assert [lease.run_id for lease in await bench.take(node)] == ids[1:]


@check
async def check_a_slot_that_is_due_just_now_is_not_withdrawn(bench: Workbench) -> None:
    """A slot at W stays, and those after it are withdrawn."""
    record = await bench.define(slots=(10, 20))
    bench.turn(10)
    put = await bench.put(replace(record.job, owner="ops"), window(10, 60, [30], next_at=70))
    assert (put.withdrawn, await bench.slots(record)) == (1, [10, 30])


@check
async def check_a_slot_that_ran_sets_w_after_the_clock_is_set_back(bench: Workbench) -> None:
    """A run has ended at an instant that is in the future again. Its slot sets W."""
    record, node = await bench.define(slots=(20,)), await bench.node()
    bench.turn(25)
    [lease] = await bench.take(node)
    assert await bench.finish(lease)
    bench.turn(15)
    await bench.put(replace(record.job, owner="ops"), window(15, 60, [18, 20, 30], next_at=70))
    assert await bench.slots(record) == [20, 30]
