"""Checks of pause, resume, delete and cancel: what stops, what continues, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from onthedot.model.errors import RevisionConflict, UnknownJob, WindowStale
from onthedot.model.job import JobRecord, JobState, Limit
from onthedot.model.run import Armed, Blocked, Gate, GateAsk, Gone, NewRun, OnBusy, RunState, submit_trigger
from onthedot.stores.values import CancelAnswer
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import SUCCESS, Workbench, at, every, fixed_delay, raises, retry, skip, window


async def pause(bench: Workbench, record: JobRecord, until: float | None = None) -> tuple[int, int, int]:
    paused = await bench.store.pause_job(
        record.id, reason="a test", until=None if until is None else at(until), now=bench.now
    )
    assert (paused.record.state, paused.record.pause_reason) == (JobState.PAUSED, "a test")
    return paused.withdrawn, paused.skipped, paused.held


@check
async def check_a_paused_job_is_neither_planned_nor_armed(bench: Workbench) -> None:
    """After the answer no run of the job is planned, reserved or armed."""
    record, node = await bench.define(slots=(10, 20, 30)), await bench.node()
    term = await bench.term(node)
    [lease] = await bench.hold(node)
    assert await pause(bench, record) == (3, 0, 0)
    assert await bench.slots(record) == []
    assert isinstance((await bench.arm(lease))[0], Gone)
    assert await bench.due(until=1000) == []
    assert await bench.plan(term, record, window(0, 30, [10], next_at=40)) == [False]
    stored = await bench.store.queries.get_job("job")
    assert stored is not None
    assert (stored.state, stored.pause_reason, stored.paused_until) == (JobState.PAUSED, "a test", None)


@check
async def check_a_pause_skips_due_slots_and_holds_other_runs(bench: Workbench) -> None:
    """Due slots become skipped(paused). Submitted and retrying runs wait. Running ones continue."""
    record, node = await bench.define(slots=(10, 20)), await bench.node()
    running = await bench.submit(record, 0)
    [lease] = await bench.take(node)
    retried = await bench.submit(record, 1)
    bench.turn(1)
    [trying] = await bench.take(node)
    assert await bench.finish(trying, retry(5))
    bench.turn(15)
    waiting = await bench.submit(record, 50)
    assert await pause(bench, record) == (1, 1, 2)
    assert (await bench.slot_run(record, 10)).reason == "paused"
    bench.turn(100)
    got = await bench.reserve(node, seats=9, ahead=9, horizon=100)
    assert (got.armed, got.held) == ([], [])
    assert await bench.expire() == []
    assert await bench.finish(lease)
    assert [await bench.state(run) for run in (running, retried, waiting)] == ["succeeded", "scheduled", "scheduled"]


@check
async def check_runs_that_come_during_a_pause_are_held(bench: Workbench) -> None:
    """A submit to a paused job is accepted and waits. So does a retry of a run that was running."""
    record, node = await bench.define(), await bench.node()
    await bench.submit(record)
    [lease] = await bench.take(node)
    await pause(bench, record)
    later = await bench.submit(record)
    assert await bench.finish(lease, retry(1))
    bench.turn(10)
    assert await bench.take(node, 9) == []
    resumed = await bench.store.resume_job(record.id, now=bench.now)
    assert resumed.released == 2
    assert sorted(one.run_id for one in await bench.take(node, 9)) == sorted([lease.run_id, later])


@check
async def check_held_runs_do_not_expire(bench: Workbench) -> None:
    """A slot between two attempts is held, not skipped. A second pause holds nothing more."""
    record, node = await bench.define(slots=(10,)), await bench.node()
    bench.turn(10)
    [lease] = await bench.take(node)
    assert await bench.finish(lease, retry(12))
    [asked] = await bench.store.submit(
        [NewRun(record.id, submit_trigger("a"), at(11), expires_at=at(15))], now=bench.now
    )
    assert await pause(bench, record) == (0, 0, 2)
    assert await pause(bench, record) == (0, 0, 0)
    bench.turn(100)
    assert await bench.expire() == []
    assert [await bench.state(run_id) for run_id in (lease.run_id, asked)] == ["scheduled", "scheduled"]


@check
async def check_a_paused_job_leaves_its_gates(bench: Workbench) -> None:
    """Its waiting runs leave their gates, so an open gate passes to another job's run."""
    limit, gate = Limit(1, name="shared"), Gate("limit:name:shared:", 1)
    node, leases = await bench.node(), []
    records = [await bench.define(name, concurrency=limit) for name in ("holds", "stops", "waits")]
    for due, record in enumerate(records):
        await bench.submit(record, due=due)
    bench.turn(10)
    leases = (await bench.reserve(node, seats=3, lapse=1000)).held
    asks = {lease.lease_id: GateAsk((gate,), OnBusy("wait")) for lease in leases}
    armed, *others = await bench.store.arm(list(map(replace, leases)), gates=asks, now=bench.now)
    assert isinstance(armed, Armed)
    assert all(isinstance(answer, Blocked) for answer in others)
    await pause(bench, records[1])
    assert await bench.finish(replace(leases[0], fence=armed.fence, armed_at=armed.armed_at))
    [free] = (await bench.reserve(node, seats=9, lapse=1000)).held
    assert free.record.id == records[2].id


@check
async def check_a_pause_keeps_slots_that_were_skipped_ahead(bench: Workbench) -> None:
    """A slot to come was skipped because no node could run it. The watermark stays at that slot, so a resume gives it
    no second fate. Slots planned before it become skipped(paused): a watermark cannot leave out one slot."""
    nobody = skip(20, 20, 1, "no_node")
    record = (await bench.put(bench.job(every()), window(0, 40, [10, 30, 40], next_at=50, skips=[nobody]))).record
    bench.turn(5)
    assert await pause(bench, record) == (2, 1, 0)
    assert (await bench.slot_run(record, 10)).reason == "paused"
    assert (await bench.schedule(record)).watermark == at(20)


@check
async def check_resume_plans_exactly_what_its_answer_says(bench: Workbench) -> None:
    """Missed slots get the fate that the windows give, then the next slots are planned. A dry run gives the same answer
    and writes nothing."""
    record, node = await bench.define(slots=(10, 20, 30)), await bench.node()
    bench.turn(15)
    await pause(bench, record)
    state = await bench.schedule(record)
    assert state.watermark == at(15)
    bench.turn(45)
    plan = window(15, 75, [40, 50, 60], next_at=80, skips=[skip(20, 30, 2, "paused")])
    async with bench.nothing_written():
        preview = await bench.store.resume_job(record.id, [plan], dry_run=True, now=bench.now)
    resumed = await bench.store.resume_job(record.id, [plan], now=bench.now)
    assert resumed == preview
    assert resumed.slots == (at(40), at(50), at(60))
    assert resumed.record.state is JobState.ACTIVE
    assert await bench.slots(record) == [10, 40, 50, 60]
    assert (await bench.schedule(record)).watermark == at(75)
    [entry] = await bench.store.queries.list_skips(job="job")
    assert (entry.count, entry.reason) == (2, "paused")
    assert [lease.slot_at for lease in await bench.take(node, 9)] == [at(40)]
    assert await bench.due(until=80) == ["job/s"]


@check
async def check_a_stale_window_resumes_nothing(bench: Workbench) -> None:
    """A window that does not continue from the watermark is refused, and the job stays paused."""
    record = await bench.define(slots=(10,))
    bench.turn(5)
    await pause(bench, record)
    async with bench.nothing_written():
        with raises(WindowStale):
            await bench.store.resume_job(record.id, [window(3, 30, [10])], now=bench.now)


@check
async def check_a_second_pause_or_resume_is_harmless(bench: Workbench) -> None:
    """The second pause changes reason and end. The second resume does nothing."""
    record = await bench.define(slots=(10,))
    await pause(bench, record)
    assert await pause(bench, record, until=50) == (0, 0, 0)
    assert await bench.store.queries.due_resumes(now=at(49)) == []
    assert [job.id for job in await bench.store.queries.due_resumes(now=at(50))] == [record.id]
    await bench.store.resume_job(record.id, [window(0, 30, [10], next_at=40)], now=bench.now)
    assert (await bench.store.resume_job(record.id, now=bench.now)).slots == ()
    assert await bench.store.queries.due_resumes(now=at(99)) == []
    assert await bench.slots(record) == [10]


@check
async def check_an_edit_of_a_paused_job_leaves_it_paused(bench: Workbench) -> None:
    """A new deployment of the program neither resumes the job nor plans its slots."""
    record = await bench.define(slots=(10, 20))
    await pause(bench, record)
    bench.turn(5)
    put = await bench.put(bench.job(*record.job.schedules, owner="ops"), window(5, 35, [10, 20, 30], next_at=40))
    assert (put.record.state, put.planned) == (JobState.PAUSED, 0)
    assert await bench.slots(record) == []
    assert (await bench.schedule(record)).watermark == at(0)


@check
async def check_every_view_of_a_job_shows_its_pause(bench: Workbench) -> None:
    """The job, its schedules and the answers of `put_job` have the reason and the end of the pause."""
    record = await bench.define(slots=(10, 20))
    await pause(bench, record, until=50)
    stored = await bench.store.queries.get_job("job")
    assert stored is not None
    same = await bench.put(record.job)
    told = [stored, (await bench.schedule(record)).record, same.record]
    edit = await bench.put(bench.job(*record.job.schedules, owner="ops"), window(0, 30, [10, 20, 30], next_at=40))
    told += [edit.record, (await bench.schedule(record)).record]
    assert (same.change, edit.change) == ("unchanged", "changed")
    for one in told:
        assert (one.state, one.pause_reason, one.paused_until) == (JobState.PAUSED, "a test", at(50))
    await bench.store.resume_job(record.id, [window(0, 30, [10], next_at=40)], now=bench.now)
    for one in ((await bench.schedule(record)).record, (await bench.put(edit.record.job)).record):
        assert (one.state, one.pause_reason, one.paused_until) == (JobState.ACTIVE, "", None)


@check
async def check_an_automatic_resume_waits_for_the_end_of_the_pause(bench: Workbench) -> None:
    """`overdue=True` resumes no pause without an end and none that ends later. A running run does not count as
    released."""
    record, node = await bench.define(slots=(10,)), await bench.node()
    await bench.submit(record)
    assert len(await bench.take(node)) == 1
    await pause(bench, record)
    for until in (None, 50):
        await pause(bench, record, until=until)
        bench.turn(49)
        async with bench.nothing_written():
            answer = await bench.store.resume_job(record.id, overdue=True, now=bench.now)
        assert answer.record.state is JobState.PAUSED
    bench.turn(50)
    resumed = await bench.store.resume_job(record.id, overdue=True, now=bench.now)
    assert (resumed.record.state, resumed.released) == (JobState.ACTIVE, 0)


@check
async def check_a_resume_needs_a_paused_job_and_its_revision(bench: Workbench) -> None:
    """An active job stays as it was, whatever windows come. Another revision is a conflict."""
    record = await bench.define(slots=(10,))
    async with bench.nothing_written():
        answer = await bench.store.resume_job(record.id, [window(60, 90, [70], next_at=80)], now=bench.now)
    assert (answer.record.state, answer.slots) == (JobState.ACTIVE, ())
    await pause(bench, record)
    async with bench.nothing_written():
        with raises(RevisionConflict):
            await bench.store.resume_job(record.id, expected=record.revision + 1, now=bench.now)


@check
async def check_a_deleted_job_has_no_schedules_and_no_resume(bench: Workbench) -> None:
    """Its pause had an end that comes later. Its reserved run is cancelled."""
    record, node = await bench.define(slots=(10,)), await bench.node()
    other = await bench.define("other", slots=(20,))
    [lease] = await bench.hold(node)
    assert await bench.store.delete_job(record.id, now=bench.now) == 1
    assert await bench.state(lease.run_id) is RunState.CANCELLED
    assert await bench.store.queries.schedules_of(record.id) == []
    await pause(bench, other, until=5)
    await bench.store.delete_job(other.id, now=bench.now)
    assert await bench.store.queries.due_resumes(now=at(50)) == []


@check
async def check_a_fixed_delay_continues_after_a_pause(bench: Workbench) -> None:
    """The pause withdraws its planned slot. After the resume the schedule is due for planning again."""
    job = bench.job(fixed_delay(10))
    record = (await bench.put(job, window(0, 5, [5], delay=10))).record
    await pause(bench, record)
    bench.turn(20)
    assert await bench.due(until=1000) == []
    await bench.store.resume_job(record.id, now=bench.now)
    assert await bench.due(until=1000) == ["job/s"]


@check
async def check_a_delete_cancels_waiting_runs_only(bench: Workbench) -> None:
    """Waiting runs become cancelled(deleted). A running one ends by its verdict, but is not retried."""
    record, node = await bench.define(slots=(10, 20)), await bench.node()
    first, second = await bench.submit(record, 0), await bench.submit(record, 0)
    one, two = await bench.take(node, 2)
    waiting = await bench.submit(record, 50)
    assert await bench.store.delete_job(record.id, now=bench.now) == 3
    run = await bench.run(waiting)
    assert (run.state, run.reason) == (RunState.CANCELLED, "deleted")
    assert await bench.finish(one, SUCCESS)
    assert await bench.finish(two, retry(5))
    assert [await bench.state(run_id) for run_id in (first, second)] == ["succeeded", "cancelled"]
    assert await bench.store.queries.get_job("job") is None
    assert await bench.due(until=1000) == []


@check
async def check_a_deleted_name_is_free_for_a_new_job(bench: Workbench) -> None:
    """The new job has its own id, and nothing of the deleted one."""
    record = await bench.define()
    await bench.store.delete_job(record.id, now=bench.now)
    with raises(UnknownJob):
        await bench.store.delete_job(record.id, now=bench.now)
    with raises(UnknownJob):
        await bench.store.pause_job(record.id, reason="", now=bench.now)
    with raises(UnknownJob):
        await bench.submit(record)
    again = await bench.define()
    assert again.id != record.id
    assert again.revision == 1


@check
async def check_a_delete_needs_the_revision_that_was_read(bench: Workbench) -> None:
    """If the caller names a revision, another revision is a conflict and nothing is deleted."""
    record = await bench.define()
    edited = (await bench.put(replace(record.job, timeout=timedelta(seconds=9)))).record
    waiting = await bench.submit(record, 50)
    with raises(RevisionConflict):
        await bench.store.delete_job(record.id, expected=record.revision, now=bench.now)
    assert await bench.state(waiting) == "scheduled"
    assert await bench.store.delete_job(record.id, expected=edited.revision, now=bench.now) == 1
    assert await bench.store.queries.get_job("job") is None


@check
async def check_a_cancel_ends_a_waiting_run_at_once(bench: Workbench) -> None:
    """This includes a reserved run: its later `arm` is `Gone`. For ended and unknown runs the answer says so."""
    record, node = await bench.define(), await bench.node()
    scheduled, reserved = await bench.submit(record, 50), await bench.submit(record, 5)
    [lease] = await bench.hold(node)
    assert lease.run_id == reserved
    answers = await bench.store.cancel([scheduled, reserved, 999], why="by hand", now=bench.now)
    done = CancelAnswer("cancelled", RunState.CANCELLED)
    assert answers == [done, done, CancelAnswer("unknown")]
    assert isinstance((await bench.arm(lease))[0], Gone)
    run = await bench.run(scheduled)
    assert (run.state, run.reason, run.attempts) == (RunState.CANCELLED, "by hand", 0)
    again = await bench.store.cancel([scheduled], why="again", now=bench.now)
    assert again == [CancelAnswer("ended", RunState.CANCELLED)]


@check
async def check_a_cancel_asks_a_running_attempt_to_stop(bench: Workbench) -> None:
    """Each beat repeats the request until the attempt has ended. Its verdict is final."""
    record, node = await bench.define(), await bench.node()
    await bench.submit(record)
    [lease] = await bench.take(node)
    [answer] = await bench.store.cancel([lease.run_id], why="by hand", now=bench.now)
    assert answer == CancelAnswer("asked", RunState.RUNNING)
    for _ in range(2):
        beat = await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)
        assert beat.cancels == ((lease.lease_id, "by hand"),)
    assert await bench.finish(lease)
    assert await bench.state(lease.run_id) is RunState.SUCCEEDED
    assert (await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)).cancels == ()


@check
async def check_a_run_is_cancelled_once_and_for_the_first_reason(bench: Workbench) -> None:
    """If a call names a run twice, the second answer says that it has ended. A running attempt keeps the first
    reason."""
    record, node = await bench.define(), await bench.node()
    running, waiting = await bench.submit(record), await bench.submit(record, due=50)
    [lease] = await bench.take(node)
    answers = await bench.store.cancel([waiting, waiting], why="by hand", now=bench.now)
    assert [answer.kind for answer in answers] == ["cancelled", "ended"]
    for why in ("first", "second"):
        await bench.store.cancel([running], why=why, now=bench.now)
    beat = await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)
    assert beat.cancels == ((lease.lease_id, "first"),)
