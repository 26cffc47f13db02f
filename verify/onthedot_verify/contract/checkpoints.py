"""Checks of checkpoints, progress and logs: they need the lease, the newest stays, and the next attempt receives it."""

from __future__ import annotations

from dataclasses import replace

from onthedot.model.retention import Cut, Mark
from onthedot.model.run import TERMINAL, Checkpoint, Lease, NewRun, Progress, RunState
from onthedot.stores.values import LogRecord, Note
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import CANCELLED, DEAD, LOST, SUCCESS, Workbench, at, recover, retry


async def running(bench: Workbench) -> Lease:
    """The lease of a new run that is running on a node."""
    await bench.submit(await bench.define())
    [lease] = await bench.take(await bench.node(ttl=60))
    return lease


async def save(bench: Workbench, lease: Lease, revision: int, value: str) -> bool:
    [accepted] = await bench.store.checkpoint([(replace(lease), Checkpoint(revision, value))], now=bench.now)
    return accepted


async def note(bench: Workbench, lease: Lease, number: int, **told: object) -> bool:
    [accepted] = await bench.store.note([Note(replace(lease), number, **told)], now=bench.now)  # type: ignore[arg-type]
    return accepted


async def saved(bench: Workbench, lease: Lease) -> Checkpoint | None:
    return await bench.store.queries.get_checkpoint(lease.run_id)


@check
async def check_a_first_attempt_has_no_checkpoint(bench: Workbench) -> None:
    """The lease of a run's first attempt has no checkpoint, reserved or armed."""
    record = await bench.define()
    await bench.submit(record, due=5)
    incarnation = await bench.node()
    [held] = await bench.hold(incarnation)
    assert held.checkpoint is None
    await bench.release(held)
    bench.turn(5)
    [lease] = await bench.take(incarnation)
    assert (lease.checkpoint, await saved(bench, lease)) == (None, None)
    assert await bench.store.queries.get_checkpoint(4711) is None


@check
async def check_the_newest_checkpoint_stays(bench: Workbench) -> None:
    """Each checkpoint replaces the one before. An older one that arrives late does not."""
    lease = await running(bench)
    assert await save(bench, lease, 1, "10")
    assert await save(bench, lease, 2, '{"page":20}')
    assert await saved(bench, lease) == Checkpoint(2, '{"page":20}')
    assert await save(bench, lease, 1, "10") is True
    assert await saved(bench, lease) == Checkpoint(2, '{"page":20}')
    together = [(replace(lease), Checkpoint(4, "40")), (replace(lease), Checkpoint(3, "30"))]
    assert await bench.store.checkpoint(together, now=bench.now) == [True, True]
    assert await saved(bench, lease) == Checkpoint(4, "40")
    assert await bench.store.checkpoint([], now=bench.now) == []


@check
async def check_a_lease_saves_only_for_its_own_run(bench: Workbench) -> None:
    """A lease cannot save for another run, not even in one call with its own run."""
    mine, other = await running(bench), await running(bench)
    wrong = replace(other, lease_id=mine.lease_id)
    saves = [(replace(mine), Checkpoint(1, "10")), (wrong, Checkpoint(1, "20"))]
    assert await bench.store.checkpoint(saves, now=bench.now) == [True, False]
    assert await saved(bench, other) is None
    notes = [Note(replace(mine), 1, log="mine"), Note(wrong, 1, log="wrong")]
    assert await bench.store.note(notes, now=bench.now) == [True, False]
    assert await bench.store.queries.list_logs(other.run_id) == []


@check
async def check_a_repeated_checkpoint_is_accepted(bench: Workbench) -> None:
    """The same checkpoint is accepted again, and nothing is written."""
    lease = await running(bench)
    assert await save(bench, lease, 1, "10")
    async with bench.nothing_written():
        assert await save(bench, lease, 1, "10") is True
    assert await saved(bench, lease) == Checkpoint(1, "10")


@check
async def check_a_retry_receives_the_checkpoint(bench: Workbench) -> None:
    """The next attempt's lease has the newest checkpoint, whether reserved or armed at once. Its revisions continue."""
    lease = await running(bench)
    assert await save(bench, lease, 1, "10")
    assert await bench.finish(lease, retry(20))
    assert await saved(bench, lease) == Checkpoint(1, "10")
    [ahead] = await bench.hold(lease.incarnation)
    assert ahead.checkpoint == Checkpoint(1, "10")
    await bench.release(ahead)
    bench.turn(20)
    [second] = await bench.take(lease.incarnation)
    assert second.checkpoint == Checkpoint(1, "10")
    assert await save(bench, second, 2, "20")
    assert await bench.finish(second, retry(30))
    bench.turn(30)
    [third] = await bench.take(lease.incarnation)
    assert third.checkpoint == Checkpoint(2, "20")


@check
async def check_a_checkpoint_survives_its_node(bench: Workbench) -> None:
    """A run that the reaper takes from a dead node continues from its checkpoint elsewhere. The dead node can save no
    more."""
    lease = await running(bench)
    assert await save(bench, lease, 1, "10")
    bench.turn(100)
    assert await bench.reap(lease, recover(100))
    assert await save(bench, lease, 2, "20") is False
    [second] = await bench.take(await bench.node("other"))
    assert (second.checkpoint, second.recoveries) == (Checkpoint(1, "10"), 1)
    assert await save(bench, lease, 3, "30") is False
    assert await save(bench, second, 2, "21") is True
    assert await saved(bench, lease) == Checkpoint(2, "21")


@check
async def check_an_expired_node_may_save_until_its_run_is_taken(bench: Workbench) -> None:
    """As with `finish`, only a change of the run's holder ends the right to save."""
    lease = await running(bench)
    bench.turn(100)
    assert await save(bench, lease, 1, "10") is True
    assert await note(bench, lease, 1, log="still here") is True


@check
async def check_a_checkpoint_needs_the_running_lease(bench: Workbench) -> None:
    """A lease that is made up, not armed, or of an ended attempt changes nothing."""
    lease = await running(bench)
    await bench.submit((await bench.store.queries.list_jobs())[0], due=5)
    [held] = await bench.hold(lease.incarnation)
    await bench.finish(lease, retry(0))
    [second] = await bench.take(lease.incarnation)
    assert await save(bench, second, 1, "10")
    for wrong in (lease, held, replace(second, lease_id="made up"), replace(second, run_id=4711)):
        async with bench.nothing_written():
            assert await save(bench, wrong, 9, "90") is False
            assert await note(bench, wrong, 9, progress=Progress(9), log="wrong") is False
    assert await saved(bench, second) == Checkpoint(1, "10")
    assert await bench.store.queries.list_logs(second.run_id) == []


@check
async def check_each_checkpoint_has_its_own_answer(bench: Workbench) -> None:
    """In one call some checkpoints are accepted and some are not. The answers are in order."""
    lease = await running(bench)
    wrong = replace(lease, lease_id="made up")
    saves = [(wrong, Checkpoint(1, "1")), (replace(lease), Checkpoint(1, "2")), (wrong, Checkpoint(2, "3"))]
    assert await bench.store.checkpoint(saves, now=bench.now) == [False, True, False]
    notes = [Note(replace(lease), 1, log="a"), Note(wrong, 2, log="b")]
    assert await bench.store.note(notes, now=bench.now) == [True, False]


@check
async def check_a_checkpoint_survives_an_edit(bench: Workbench) -> None:
    """A running attempt may save after an edit. The next attempt, under the new definition, receives the checkpoint."""
    lease = await running(bench)
    edited = (await bench.put(bench.job(owner="somebody else"))).record
    assert edited.revision == lease.record.revision + 1
    assert await save(bench, lease, 1, "10")
    assert await bench.finish(lease, retry(0))
    [second] = await bench.take(lease.incarnation)
    assert (second.checkpoint, second.record.revision) == (Checkpoint(1, "10"), edited.revision)


@check
async def check_an_ended_run_keeps_its_last_checkpoint(bench: Workbench) -> None:
    """The last checkpoint of an ended run can be read, and no other replaces it."""
    for verdict in (SUCCESS, DEAD, LOST, CANCELLED):
        lease = await running(bench)
        assert await save(bench, lease, 1, "10")
        assert await note(bench, lease, 1, progress=Progress(1, 2), log="half")
        assert await bench.finish(lease, verdict)
        async with bench.nothing_written():
            assert await save(bench, lease, 2, "20") is False
            assert await note(bench, lease, 2, progress=Progress(2, 2)) is False
        run = await bench.run(lease.run_id)
        assert (run.state in TERMINAL, run.progress) == (True, Progress(1, 2))
        assert await saved(bench, lease) == Checkpoint(1, "10")
        assert await bench.store.queries.list_logs(lease.run_id) == [LogRecord(1, "half")]


@check
async def check_pruning_removes_checkpoints(bench: Workbench) -> None:
    """Checkpoint, progress and log are pruned with their run."""
    lease = await running(bench)
    assert await save(bench, lease, 1, "10")
    assert await note(bench, lease, 1, progress=Progress(1), log="done")
    assert await bench.finish(lease)
    cut = Cut(frozenset({RunState.SUCCEEDED}), Mark(at(10), 0))
    assert (await bench.store.prune_runs(cut, now=at(20))).runs == 1
    assert await saved(bench, lease) is None
    assert await bench.store.queries.list_logs(lease.run_id) == []


@check
async def check_recover_and_orphans_carry_the_checkpoint(bench: Workbench) -> None:
    """The leases of `recover` and `orphans` have the checkpoint, as the lost answer had."""
    lease = await running(bench)
    assert await save(bench, lease, 1, "10")
    assert await bench.finish(lease, retry(0))
    [second] = await bench.take(lease.incarnation)
    [held] = await bench.store.recover(second.incarnation)
    assert held == second
    bench.turn(100)
    [orphan] = await bench.store.orphans(limit=10, now=bench.now)
    assert orphan.checkpoint == Checkpoint(1, "10")


@check
async def check_progress_is_shown_with_the_run(bench: Workbench) -> None:
    """`get_run` and `list_runs` show the newest progress. A new attempt without progress keeps the old one."""
    lease = await running(bench)
    assert (await bench.run(lease.run_id)).progress is None
    assert await note(bench, lease, 1, progress=Progress(10))
    assert await note(bench, lease, 3, progress=Progress(0.5, 100))
    assert await note(bench, lease, 2, progress=Progress(20)) is True
    assert await note(bench, lease, 4, log="no progress") is True
    assert (await bench.run(lease.run_id)).progress == Progress(0.5, 100)
    assert [run.progress for run in await bench.runs()] == [Progress(0.5, 100)]
    await bench.finish(lease, retry(0))
    [second] = await bench.take(lease.incarnation)
    assert (await bench.run(lease.run_id)).progress == Progress(0.5, 100)
    assert await note(bench, second, 1, progress=Progress(1))
    assert (await bench.run(lease.run_id)).progress == Progress(1)


@check
async def check_logs_are_kept_by_attempt(bench: Workbench) -> None:
    """A log replaces an earlier log of the same attempt, and no log of another attempt."""
    lease = await running(bench)
    assert await note(bench, lease, 1, log="one")
    assert await note(bench, lease, 2, log="one\ntwo")
    assert await note(bench, lease, 3, progress=Progress(1)) is True
    await bench.finish(lease, retry(0))
    [second] = await bench.take(lease.incarnation)
    assert await note(bench, second, 1, log="again: ☃")
    logs = await bench.store.queries.list_logs(lease.run_id)
    assert logs == [LogRecord(1, "one\ntwo"), LogRecord(2, "again: ☃")]


@check
async def check_a_log_comes_back_as_it_was_sent(bench: Workbench) -> None:
    """A log may contain any text, also the control characters that mark live lines."""
    lease = await running(bench)
    marked = "\x1b_otd;1000000;err;build\x1b\\\x1b[31mred\x07\t\r\x7f\x85\ufffd \U0001f600 'quoted' \\n\n"
    assert await note(bench, lease, 1, log=marked)
    assert await bench.store.queries.list_logs(lease.run_id) == [LogRecord(1, marked)]
    largest = marked * (64 * 1024 // len(marked))
    assert await note(bench, lease, 2, log=largest)
    assert await bench.store.queries.list_logs(lease.run_id) == [LogRecord(1, largest)]


@check
async def check_every_end_sends_a_hint(bench: Workbench) -> None:
    """A finished, cancelled or expired run sends a hint for those that wait for its result. A retry sends none."""
    hints: list[str] = []
    bench.store.hints.listen(lambda hint: hints.append(hint.kind))
    lease = await running(bench)
    assert await bench.finish(lease, retry(0))
    assert "ends" not in hints
    [second] = await bench.take(lease.incarnation)
    assert await bench.finish(second)
    assert "ends" in hints
    hints.clear()
    waiting = await bench.submit(lease.record, due=50)
    await bench.store.cancel([waiting], why="enough", now=bench.now)
    assert "ends" in hints
    hints.clear()
    late = NewRun(lease.record.id, "submit:late", at(0), expires_at=at(1))
    await bench.store.submit([late], now=bench.now)
    bench.turn(2)
    assert len(await bench.expire()) == 1
    assert "ends" in hints


@check
async def check_get_runs_finds_live_and_ended_runs(bench: Workbench) -> None:
    """`get_runs` returns live and ended runs by id, each once, and leaves out unknown ids."""
    record = await bench.define()
    ids = [await bench.submit(record) for _ in range(3)]
    [lease] = await bench.take(await bench.node())
    await bench.finish(lease)
    runs = await bench.store.queries.get_runs([*reversed(ids), 4711, ids[0]])
    assert runs == [await bench.run(run_id) for run_id in ids]
    assert await bench.store.queries.get_runs([]) == []
