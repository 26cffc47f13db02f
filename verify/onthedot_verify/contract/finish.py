"""Checks of `finish`: a verdict is recorded under its lease, once, and each of a batch has its own answer."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.run import Lease, NewRun, RunState, submit_trigger
from onthedot.model.verdict import OutcomeKind, Verdict
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import DEAD, SUCCESS, Workbench, at, recover, retry


async def running(bench: Workbench, count: int = 1) -> list[Lease]:
    """Leases of runs of one job that are running on one node."""
    record = await bench.define()
    new = [NewRun(record.id, submit_trigger(bench.ids.token()), at(0)) for _ in range(count)]
    await bench.store.submit(new, now=bench.now)
    return await bench.take(await bench.node(), seats=count)


@check
async def check_a_success_ends_the_run(bench: Workbench) -> None:
    """The run moves to history with its result, its instants and one recorded attempt."""
    [lease] = await running(bench)
    bench.turn(7)
    done = bench.finished(lease, SUCCESS._replace(result='{"n":1}', reason="done"))
    bench.turn(8)
    assert await bench.store.finish([done._replace(started_at=at(2))], now=bench.now) == [True]
    run = await bench.run(lease.run_id)
    assert (run.state, run.reason, run.result, run.error) == (RunState.SUCCEEDED, "done", '{"n":1}', None)
    assert (run.armed_at, run.started_at, run.ended_at) == (at(0), at(2), at(7))
    assert (run.attempts, run.failures, run.recoveries) == (1, 0, 0)
    assert len(await bench.store.queries.list_attempts(lease.run_id)) == 1
    assert await bench.store.recover(lease.incarnation) == []


@check
async def check_a_failure_keeps_its_error(bench: Workbench) -> None:
    """A dead run has its error, and its failure is counted."""
    [lease] = await running(bench)
    assert await bench.finish(lease, DEAD)
    run = await bench.run(lease.run_id)
    assert (run.state, run.reason, run.error, run.failures) == (RunState.DEAD, "no tries left", "boom", 1)


@check
async def check_a_repeated_finish_records_once(bench: Workbench) -> None:
    """`finish` is repeated after a lost answer. It answers True, and nothing is recorded a second time."""
    [lease] = await running(bench)
    assert await bench.finish(lease, DEAD)
    bench.turn(5)
    async with bench.nothing_written():
        assert await bench.finish(lease, DEAD) is True


@check
async def check_a_repeated_retry_is_accepted(bench: Workbench) -> None:
    """This holds while the run waits for its next attempt, while that attempt runs, and after the run has ended."""
    [lease] = await running(bench)
    assert await bench.finish(lease, retry(20))
    async with bench.nothing_written():
        assert await bench.finish(lease, retry(20)) is True
    bench.turn(20)
    [second] = await bench.take(lease.incarnation)
    async with bench.nothing_written():
        assert await bench.finish(lease, retry(20)) is True
    assert await bench.finish(second)
    async with bench.nothing_written():
        assert await bench.finish(lease, retry(20)) is True


@check
async def check_another_outcome_on_the_same_lease_is_refused(bench: Workbench) -> None:
    """The recorded outcome stays. A second one under the same lease is too late."""
    for verdict, other in ((SUCCESS, DEAD), (DEAD, SUCCESS), (retry(20), SUCCESS)):
        [lease] = await running(bench)
        assert await bench.finish(lease, verdict)
        async with bench.nothing_written():
            assert await bench.finish(lease, other) is False


@check
async def check_a_stale_lease_changes_nothing(bench: Workbench) -> None:
    """A lease that is made up or of an earlier attempt is refused while another attempt runs."""
    [lease] = await running(bench)
    assert await bench.finish(lease, retry(0))
    [current] = await bench.take(lease.incarnation)
    for stale in (lease, replace(current, lease_id="made up")):
        async with bench.nothing_written():
            assert await bench.finish(stale, SUCCESS) is False
    assert await bench.finish(current, SUCCESS) is True


@check
async def check_only_a_running_attempt_can_finish(bench: Workbench) -> None:
    """A reservation that was never armed, or was released, cannot finish."""
    record = await bench.define()
    await bench.submit(record, due=5)
    [lease] = await bench.hold(await bench.node())
    async with bench.nothing_written():
        assert await bench.finish(lease) is False
    await bench.release(lease)
    async with bench.nothing_written():
        assert await bench.finish(lease) is False


@check
async def check_a_retry_schedules_the_run_again(bench: Workbench) -> None:
    """A retry verdict sets the run back to scheduled at its new instant, with its counts."""
    [lease] = await running(bench)
    bench.turn(3)
    assert await bench.finish(lease, retry(20))
    run = await bench.run(lease.run_id)
    assert (run.state, run.due_at, run.slot_at, run.reason) == (RunState.SCHEDULED, at(20), at(0), "retry")
    assert (run.attempts, run.failures, run.recoveries, run.ended_at) == (1, 1, 0, None)
    assert await bench.store.recover(lease.incarnation) == []


@check
async def check_a_verdict_decides_what_is_counted(bench: Workbench) -> None:
    """`failed` and `recovered` are counted separately. A released reservation counts as neither."""
    [lease] = await running(bench)
    released = Verdict(RunState.SCHEDULED, OutcomeKind.RELEASED, due_at=at(0))
    for verdict in (retry(0), recover(0), released, retry(0)):
        assert await bench.finish(lease, verdict)
        [lease] = await bench.take(lease.incarnation)
    assert (lease.attempt, lease.failures, lease.recoveries) == (5, 2, 1)
    assert await bench.finish(lease)
    run = await bench.run(lease.run_id)
    assert (run.attempts, run.failures, run.recoveries) == (5, 2, 1)


@check
async def check_each_verdict_has_its_own_answer(bench: Workbench) -> None:
    """In one call some verdicts are accepted and some are not. The answers are in order."""
    one, two, three, four = await running(bench, 4)
    await bench.finish(two, DEAD)
    batch = [
        bench.finished(one),
        bench.finished(two, SUCCESS),
        bench.finished(two, DEAD),
        bench.finished(replace(three, lease_id="made up")),
        bench.finished(four, retry(9)),
        bench.finished(four, retry(9)),
        bench.finished(four, SUCCESS),
    ]
    answers = await bench.store.finish(batch, now=bench.now)
    assert answers == [True, False, True, False, True, True, False]
    states = [await bench.state(lease.run_id) for lease in (one, two, three, four)]
    assert states == [RunState.SUCCEEDED, RunState.DEAD, RunState.RUNNING, RunState.SCHEDULED]
    assert [len(await bench.store.queries.list_attempts(lease.run_id)) for lease in (one, two, three, four)] == [
        1,
        1,
        0,
        1,
    ]
    assert await bench.store.finish([], now=bench.now) == []


@check
async def check_an_expired_node_may_still_finish(bench: Workbench) -> None:
    """A node may finish a run that the reaper has not taken, even after its lease has ended or it has left."""
    record = await bench.define()
    first, second = await bench.submit(record), await bench.submit(record)
    short, gone = await bench.node("short", ttl=5), await bench.node("gone")
    [one], [two] = await bench.take(short), await bench.take(gone)
    bench.turn(60)
    await bench.store.leave(gone, now=bench.now)
    assert (await bench.finish(one), await bench.finish(two)) == (True, True)
    assert [await bench.state(run_id) for run_id in (first, second)] == [RunState.SUCCEEDED] * 2


@check
async def check_code_that_never_began_has_no_start(bench: Workbench) -> None:
    """`started_at` 0 is recorded as None."""
    [lease] = await running(bench)
    done = bench.finished(lease, DEAD)._replace(started_at=0)
    assert await bench.store.finish([done], now=bench.now) == [True]
    assert (await bench.run(lease.run_id)).started_at is None
    [attempt] = await bench.store.queries.list_attempts(lease.run_id)
    assert attempt.started_at is None


@check
async def check_a_large_batch_is_finished_in_one_call(bench: Workbench) -> None:
    """The batch is as large as one that a worker sends, and all its runs have one instant. Each run ends once."""
    leases = await running(bench, 500)
    assert len(leases) == 500
    bench.now += SECOND
    batch = [bench.finished(lease) for lease in leases]
    assert all(await bench.store.finish(batch, now=bench.now))
    assert await bench.store.queries.count_runs() == {RunState.SUCCEEDED: 500}
