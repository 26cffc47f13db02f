"""Checks of `submit`: ids come in order, the same key is the same run, and an unknown job writes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onthedot.model.errors import KeyConflict, RevisionConflict, UnknownJob
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun, RunState, submit_trigger
from onthedot.stores.hints import Hint
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, raises


@check
async def check_submit_returns_ids_in_order(bench: Workbench) -> None:
    """There is one id per run, in the order of the runs. Each run is scheduled at its due instant with its
    arguments."""
    record = await bench.define()
    bench.turn(3)
    new = [NewRun(record.id, submit_trigger(token), at(due)) for token, due in (("b", 9), ("a", 5), ("c", 0))]
    ids = await bench.store.submit(new, now=bench.now)
    assert len(set(ids)) == 3
    for run_id, one in zip(ids, new, strict=True):
        run = await bench.run(run_id)
        assert (run.job, run.trigger, run.due_at, run.slot_at) == ("job", one.trigger, one.due_at, one.due_at)
        assert (run.state, run.attempts, run.created_at) == (RunState.SCHEDULED, 0, at(3))
    assert await bench.store.submit([], now=bench.now) == []


@check
async def check_a_lease_has_the_runs_arguments(bench: Workbench) -> None:
    """They are unchanged. None is not the same as empty."""
    record = await bench.define()
    for key, args in (("a", '{"order":"ä"}'), ("b", None), ("c", "{}")):
        await bench.submit(record, key=key, args=args)
    leases = await bench.take(await bench.node(), seats=3)
    assert {lease.trigger: lease.args for lease in leases} == {
        "submit:a": '{"order":"ä"}',
        "submit:b": None,
        "submit:c": "{}",
    }


@check
async def check_the_same_trigger_is_the_same_run(bench: Workbench) -> None:
    """It gives the existing id, within one call and between calls. The first arguments stay."""
    record = await bench.define()
    first = NewRun(record.id, submit_trigger("a"), at(5), '{"n":1}')
    again = NewRun(record.id, submit_trigger("a"), at(5), '{"n":2}')
    ids = await bench.store.submit([first, again], now=bench.now)
    bench.turn(1)
    ids += await bench.store.submit([again, first], now=bench.now)
    assert len(set(ids)) == 1
    [lease] = await bench.hold(await bench.node())
    assert lease.args == '{"n":1}'
    assert (await bench.run(ids[0])).created_at == at(0)


@check
async def check_a_repeated_submit_gives_no_second_run(bench: Workbench) -> None:
    """It is repeated after a lost answer, when the run has started and when it has ended. It is still the same run."""
    record = await bench.define()
    node = await bench.node()
    run_id = await bench.submit(record, key="once")
    [lease] = await bench.take(node)
    assert await bench.submit(record, key="once") == run_id
    assert await bench.finish(lease)
    assert await bench.submit(record, key="once") == run_id
    assert await bench.take(node) == []
    assert await bench.state(run_id) is RunState.SUCCEEDED


@check
async def check_triggers_belong_to_their_job(bench: Workbench) -> None:
    """The same trigger and instant in another job is another run."""
    one, two = await bench.define("one"), await bench.define("two")
    assert await bench.submit(one, key="a") != await bench.submit(two, key="a")


@check
async def check_an_unknown_job_refuses_the_batch(bench: Workbench) -> None:
    """If one job is unknown, nothing of the batch is written."""
    record = await bench.define()
    known = NewRun(record.id, submit_trigger("a"), at(0))
    unknown = NewRun(record.id + 99, submit_trigger("b"), at(0))
    async with bench.nothing_written():
        with raises(UnknownJob):
            await bench.store.submit([known, unknown], now=bench.now)


@check
async def check_a_large_batch_is_refused_as_a_whole(bench: Workbench) -> None:
    """A store may need several writes for it. If its end is refused, nothing of its beginning stays."""
    record = await bench.define()
    used = NewRun(record.id, submit_trigger("used"), at(0), "1", "used")
    [used_id] = await bench.store.submit([used], now=bench.now)
    many = [NewRun(record.id, submit_trigger(f"many-{number}"), at(0)) for number in range(250)]
    unknown = NewRun(record.id + 99, submit_trigger("b"), at(0))
    conflict = NewRun(record.id, submit_trigger("c"), at(0), "2", "used")
    async with bench.nothing_written():
        with raises(UnknownJob):
            await bench.store.submit([*many, unknown], now=bench.now)
        with raises(KeyConflict):
            await bench.store.submit([*many, conflict], now=bench.now)
    ids = await bench.store.submit([*many, used, many[0]], now=bench.now)
    assert len(set(ids)) == 251
    assert ids[-2:] == [used_id, ids[0]]
    assert await bench.store.submit([*many, used], now=bench.now) == ids[:-1]


@check
async def check_a_key_gives_one_run(bench: Workbench) -> None:
    """The same key and arguments give the same run, live or ended. Other arguments are refused. Each job has its own
    keys."""
    record, other, node = await bench.define(), await bench.define("other"), await bench.node()

    async def ask(job: JobRecord, key: str, args: str | None, due: float = 0) -> int:
        new = NewRun(job.id, submit_trigger(bench.ids.token()), at(due), args, key)
        [run_id] = await bench.store.submit([new], now=bench.now)
        return run_id

    first = await ask(record, "receipt:1", '{"order":1}')
    assert await ask(record, "receipt:1", '{"order":1}', due=99) == first
    assert await ask(record, "receipt:2", '{"order":1}') != first
    assert await ask(other, "receipt:1", '{"order":2}') != first
    leases = {lease.run_id: lease for lease in await bench.take(node, 9)}
    assert await bench.finish(leases[first])
    assert await ask(record, "receipt:1", '{"order":1}') == first
    async with bench.nothing_written():
        with raises(KeyConflict):
            await ask(record, "receipt:1", '{"order":2}')
        with raises(KeyConflict):
            await ask(record, "receipt:1", None)
        twice = [NewRun(record.id, submit_trigger(name), at(0), args, "x") for name, args in (("a", "1"), ("b", "2"))]
        with raises(KeyConflict):
            await bench.store.submit(twice, now=bench.now)


@check
async def check_a_submitted_run_may_expire(bench: Workbench) -> None:
    """If it has not started by `expires_at`, it is skipped(expired). An armed run does not expire."""
    record, node = await bench.define(), await bench.node()
    new = [NewRun(record.id, submit_trigger(name), at(due), None, "", at(20)) for name, due in (("a", 0), ("b", 10))]
    early, late = await bench.store.submit(new, now=bench.now)
    [lease] = await bench.take(node)
    bench.turn(20)
    assert await bench.take(node) == []
    assert await bench.expire() == [late]
    run = await bench.run(late)
    assert (run.state, run.reason) == (RunState.SKIPPED, "expired")
    assert lease.run_id == early
    assert await bench.finish(lease)


@check
async def check_a_submit_may_name_the_revision_that_was_read(bench: Workbench) -> None:
    """If the job has another revision now, the caller gets an error, and nothing is written."""
    job = bench.job()
    first = (await bench.put(job)).record
    run = NewRun(first.id, submit_trigger("a"), at(0), revision=first.revision)
    [taken] = await bench.store.submit([run], now=bench.now)
    second = (await bench.put(replace(job, owner="ops"))).record
    others = [NewRun(first.id, submit_trigger("b"), at(0)), replace(run, trigger=submit_trigger("c"))]
    with raises(RevisionConflict):
        await bench.store.submit(others, now=bench.now)
    assert [one.id for one in await bench.store.queries.list_runs()] == [taken]
    others[1] = replace(others[1], revision=second.revision)
    assert len(await bench.store.submit(others, now=bench.now)) == 2


# ── new runs: the trigger was drawn for the call, so a store may take a shorter way ───────────────────────────────


def new_run(record: JobRecord, token: str, due: float = 0, **fields: Any) -> NewRun:
    """A run with a trigger that no run has."""
    return NewRun(record.id, submit_trigger(token), at(due), revision=record.revision, is_new=True, **fields)


@check
async def check_new_runs_are_stored_in_order(bench: Workbench) -> None:
    """New runs of several jobs get one id each, in the order of the call, with their instants and arguments."""
    one, two = await bench.define("one"), await bench.define("two")
    bench.turn(3)
    new = [
        new_run(two, "b", 9, args='{"n":"\u00e4 \\"\\\\"}'), new_run(one, "c", 5, expires_at=at(7)), new_run(two, "a"),
        replace(new_run(one, "d"), revision=None, slot_at=at(1)),
    ]  # fmt: skip
    ids = await bench.store.submit(new, now=bench.now)
    assert len(set(ids)) == 4
    for run_id, asked in zip(ids, new, strict=True):
        run = await bench.run(run_id)
        assert (run.trigger, run.due_at, run.slot_at) == (asked.trigger, asked.due_at, asked.instant)
        assert (run.state, run.attempts, run.created_at) == (RunState.SCHEDULED, 0, at(3))
    leases = await bench.take(await bench.node(), seats=9)
    assert [(lease.run_id, lease.args) for lease in leases] == [(ids[2], None), (ids[3], None)]
    bench.turn(10)
    assert await bench.expire() == [ids[1]]
    [lease] = await bench.take(await bench.node(), seats=9)
    assert (lease.run_id, lease.args) == (ids[0], new[0].args)


@check
async def check_new_runs_wait_while_their_job_is_paused(bench: Workbench) -> None:
    """New runs of a paused job wait, and do not expire before the job is resumed."""
    record, node = await bench.define(), await bench.node()
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    [run_id] = await bench.store.submit([new_run(record, "a", expires_at=at(5))], now=bench.now)
    bench.turn(10)
    assert (await bench.take(node), await bench.expire()) == ([], [])
    await bench.store.resume_job(record.id, now=bench.now)
    assert [lease.run_id for lease in await bench.take(node)] == [run_id]


@check
async def check_new_runs_are_refused_together(bench: Workbench) -> None:
    """One job that is deleted, unknown or of another revision refuses all new runs of the call."""
    good, deleted = await bench.define("good"), await bench.define("deleted")
    edited = await bench.define("edited")
    await bench.put(replace(edited.job, owner="ops"))
    await bench.store.delete_job(deleted.id, now=bench.now)
    cases = ((deleted, UnknownJob), (replace(good, id=good.id + 99), UnknownJob), (edited, RevisionConflict))
    for bad, error in cases:
        async with bench.nothing_written():
            with raises(error):
                await bench.store.submit([new_run(good, "a"), new_run(bad, "b")], now=bench.now)


@check
async def check_new_runs_have_turns_in_a_fair_queue(bench: Workbench) -> None:
    """In a queue that is shared fairly, new runs wait in turn by their share."""
    record, node = await bench.define(share="who"), await bench.node()
    await bench.store.share_queue("default", {}, now=bench.now)
    new = [new_run(record, f"{who}{number}", args=f'{{"who":"{who}"}}') for who in "ab" for number in range(2)]
    await bench.store.submit(new, now=bench.now)
    bench.turn(1)
    taken = [(await bench.take(node))[0].args or "" for _ in new]
    assert [args[8] for args in taken] == ["a", "b", "a", "b"]


@check
async def check_new_runs_wake_workers(bench: Workbench) -> None:
    """A hint has the earliest instant at which one of the new runs is due."""
    record = await bench.define()
    hints: list[Hint] = []
    bench.store.hints.listen(hints.append)
    await bench.store.submit([new_run(record, "a", 9), new_run(record, "b", 4)], now=bench.now)
    assert [hint for hint in hints if hint.kind == "runs"] == [Hint("runs", at(4))]
