"""Checks of jobs that run after others: which ends complete a set of parents, and that each set gives one run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.after import After, On
from onthedot.model.errors import DefinitionError, DependencyCycle, StateError
from onthedot.model.job import JobRecord
from onthedot.model.run import Lease, NewRun, RunRecord, RunState, after_trigger, submit_trigger
from onthedot.model.verdict import Verdict
from onthedot.stores.values import Parent
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import (
    CANCELLED,
    DEAD,
    LOST,
    START,
    SUCCESS,
    Workbench,
    at,
    every,
    raises,
    recover,
    retry,
    window,
)


async def define(bench: Workbench, name: str, *parents: str, any: bool = False, on: On = "success") -> JobRecord:
    """Define a job, to run after these parents if there are any."""
    return await bench.define(name, after=After(*parents, any=any, on=on) if parents else None)


async def begin(bench: Workbench, record: JobRecord) -> Lease:
    """Start a run of the job on a new node."""
    await bench.submit(record, due=(bench.now - START) / SECOND)
    [lease] = await bench.take(await bench.node())
    return lease


async def end(bench: Workbench, record: JobRecord, verdict: Verdict = SUCCESS) -> int:
    """Start and end a run of the job. Returns its id."""
    lease = await begin(bench, record)
    assert lease.record.id == record.id
    assert await bench.finish(lease, verdict)
    return lease.run_id


async def followers(bench: Workbench, name: str = "child") -> list[RunRecord]:
    """The runs of a job that followed others, by id."""
    runs = [run for run in await bench.runs(name) if run.trigger.startswith("after:")]
    return sorted(runs, key=lambda run: run.id)


async def triggers(bench: Workbench, name: str = "child") -> list[str]:
    return [run.trigger for run in await followers(bench, name)]


# ── what completes a set ─────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_the_last_parent_starts_the_child(bench: Workbench) -> None:
    """The end that completes the set gives one run. That end is its trigger and its due instant, and it has the job's
    arguments."""
    a, b = await define(bench, "a"), await define(bench, "b")
    await bench.define("child", after=After("a", "b"), args={"x": 1})
    await end(bench, a)
    assert await followers(bench) == []
    bench.turn(5)
    last = await end(bench, b)
    [run] = await followers(bench)
    assert (run.trigger, run.slot_at, run.due_at, run.created_at) == (after_trigger(last), at(5), at(5), at(5))
    assert (run.state, run.attempts, run.reason) == (RunState.SCHEDULED, 0, "")
    [lease] = await bench.take(await bench.node())
    assert (lease.run_id, lease.trigger, lease.args) == (run.id, run.trigger, None)
    assert await bench.finish(lease)


@check
async def check_each_run_needs_a_new_set(bench: Workbench) -> None:
    """A run uses up its set. The next run needs a new run of each parent."""
    a, b, child = await define(bench, "a"), await define(bench, "b"), await define(bench, "child", "a", "b")
    await end(bench, a)
    first = await end(bench, b)
    assert await bench.store.queries.parents_of(child.id) == [Parent("a"), Parent("b")]
    await bench.take(await bench.node())  # so that no run waits
    await end(bench, b)
    assert await triggers(bench) == [after_trigger(first)]
    second = await end(bench, a)
    assert await triggers(bench) == [after_trigger(first), after_trigger(second)]


@check
async def check_the_newest_run_counts(bench: Workbench) -> None:
    """A parent that runs more often than the others counts once, with its newest run."""
    a, b, child = await define(bench, "a"), await define(bench, "b"), await define(bench, "child", "a", "b")
    ended = []
    for second in (1, 2, 3):
        bench.turn(second)
        ended.append(await end(bench, a))
    newest = ended[-1]
    assert await bench.store.queries.parents_of(child.id) == [Parent("a", newest, at(3)), Parent("b")]
    await end(bench, a, DEAD)
    assert await bench.store.queries.parents_of(child.id) == [Parent("a", newest, at(3)), Parent("b")]
    last = await end(bench, b)
    assert await triggers(bench) == [after_trigger(last)]


@check
async def check_with_any_each_parent_run_gives_a_run(bench: Workbench) -> None:
    """With `any` each run of a parent that counts gives one run, and nothing is noted."""
    a, b, child = await define(bench, "a"), await define(bench, "b"), await define(bench, "child", "a", "b", any=True)
    ended = []
    for record in (a, a, b):
        ended.append(await end(bench, record))
        await bench.take(await bench.node())
    await end(bench, b, DEAD)
    assert await triggers(bench) == [after_trigger(run_id) for run_id in ended]
    assert await bench.store.queries.parents_of(child.id) == [Parent("a"), Parent("b")]


@check
async def check_the_mode_decides_which_ends_count(bench: Workbench) -> None:
    """Success: succeeded. Failure: dead and lost. Either: all three. A cancelled run never counts."""
    parent = await define(bench, "parent")
    kinds: tuple[On, ...] = ("success", "failure", "either")
    for on in kinds:
        await define(bench, on, "parent", on=on)
    counting: dict[Verdict, set[str]] = {
        SUCCESS: {"success", "either"}, DEAD: {"failure", "either"}, LOST: {"failure", "either"}, CANCELLED: set(),
    }  # fmt: skip
    for verdict, expected in counting.items():
        ended = await end(bench, parent, verdict)
        found = {on for on in kinds if after_trigger(ended) in await triggers(bench, on)}
        assert found == expected, verdict
        await bench.take(await bench.node(), seats=9)  # so that no run waits


@check
async def check_a_cancelled_parent_never_counts(bench: Workbench) -> None:
    """A cancel by hand, with the job, or because the job was deleted during the run is not an end that counts."""
    parent = await define(bench, "parent")
    await define(bench, "child", "parent", on="either")
    await bench.store.cancel([await bench.submit(parent, due=9)], why="by hand", now=bench.now)
    lease = await begin(bench, parent)
    await bench.store.cancel([lease.run_id], why="by hand", now=bench.now)
    assert await bench.finish(lease, retry(9))
    lease = await begin(bench, parent)
    waiting = await bench.submit(parent, due=9)
    await bench.store.delete_job(parent.id, now=bench.now)
    assert await bench.finish(lease, retry(9))
    assert {await bench.state(one) for one in (lease.run_id, waiting)} == {RunState.CANCELLED}
    assert await followers(bench) == []


@check
async def check_a_skipped_parent_never_counts(bench: Workbench) -> None:
    """A slot that is missed, or skipped by a pause, is not an end that counts."""
    parent = await bench.define("parent", [10, 20], late=5)
    await define(bench, "child", "parent", on="either")
    bench.turn(16)
    assert len(await bench.expire()) == 1
    bench.turn(21)
    assert (await bench.store.pause_job(parent.id, reason="", now=bench.now)).skipped == 1
    assert await followers(bench) == []


@check
async def check_a_retried_parent_does_not_count_yet(bench: Workbench) -> None:
    """A run that will be retried has not ended, whether it failed or its node was lost."""
    parent = await define(bench, "parent")
    await define(bench, "child", "parent", on="either")
    lease = await begin(bench, parent)
    assert await bench.finish(lease, retry(0))
    [lease] = await bench.take(lease.incarnation)
    assert await bench.finish(lease, recover(0))
    assert await followers(bench) == []
    [lease] = await bench.take(lease.incarnation)
    assert await bench.finish(lease)
    assert await triggers(bench) == [after_trigger(lease.run_id)]


@check
async def check_any_trigger_of_a_parent_counts(bench: Workbench) -> None:
    """The parent's run may come from a slot or a submit. A child with a schedule of its own has both kinds of runs."""
    await bench.define("parent", [10])
    own = bench.job(every(), name="child", after=After("parent"))
    await bench.put(own, window(0, 60, [30], next_at=70))
    bench.turn(11)
    [lease] = await bench.take(await bench.node())
    assert await bench.finish(lease)
    runs = {run.trigger: run.due_at for run in await bench.runs("child")}
    assert runs == {"schedule:s": at(30), after_trigger(lease.run_id): at(11)}


# ── one run, in the same write ───────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_repeated_finish_gives_one_run(bench: Workbench) -> None:
    """A finish is repeated at once, twice in one call, and after the child has ended."""
    parent = await define(bench, "parent")
    child = await define(bench, "child", "parent", any=True)
    lease = await begin(bench, parent)
    done = bench.finished(lease)
    assert await bench.store.finish([done, done], now=bench.now) == [True, True]
    async with bench.nothing_written():
        assert await bench.finish(lease)
    [follower] = await bench.take(lease.incarnation)
    assert follower.record.id == child.id
    assert await bench.finish(follower)
    async with bench.nothing_written():
        assert await bench.finish(lease)
    assert len(await followers(bench)) == 1


@check
async def check_a_refused_finish_starts_no_child(bench: Workbench) -> None:
    """A refused verdict triggers nothing: a lost lease, another outcome, or a batch that is refused as a whole."""
    parent = await define(bench, "parent")
    await define(bench, "child", "parent", any=True, on="either")
    lease, other = await begin(bench, parent), await begin(bench, parent)
    lost = bench.finished(replace(lease, lease_id="made up"))
    async with bench.nothing_written():
        assert await bench.store.finish([lost], now=bench.now) == [False]
    impossible = bench.finished(other, Verdict(RunState.SKIPPED, SUCCESS.outcome))
    async with bench.nothing_written():
        with raises(StateError):
            await bench.store.finish([bench.finished(lease), impossible], now=bench.now)
    batch = [bench.finished(lease), lost, bench.finished(other)]
    assert await bench.store.finish(batch, now=bench.now) == [True, False, True]
    assert await triggers(bench) == [after_trigger(lease.run_id), after_trigger(other.run_id)]
    async with bench.nothing_written():
        assert await bench.finish(lease, DEAD) is False


@check
async def check_a_reaped_run_completes_a_set(bench: Workbench) -> None:
    """A run that is lost with its node ends like any other. A second reap does not end it again."""
    a, b = await define(bench, "a"), await define(bench, "b")
    await define(bench, "child", "a", "b", on="either")
    await end(bench, a)
    await bench.submit(b)
    [lease] = await bench.take(await bench.node("short", ttl=5))
    bench.turn(6)
    assert await bench.reap(lease, LOST)
    [run] = await followers(bench)
    assert (run.trigger, run.due_at) == (after_trigger(lease.run_id), at(6))
    async with bench.nothing_written():
        assert await bench.reap(lease, LOST) is False
        assert await bench.finish(lease, SUCCESS) is False


@check
async def check_ends_of_one_call_count_in_order(bench: Workbench) -> None:
    """Ends in one call count one after the other, in their order."""
    a, b = await define(bench, "a"), await define(bench, "b")
    await define(bench, "child", "a", "b")
    order = [a, a, b, b, a]
    leases = [await begin(bench, record) for record in order]
    assert all(await bench.store.finish([bench.finished(lease) for lease in leases], now=bench.now))
    assert await triggers(bench) == [after_trigger(leases[2].run_id), after_trigger(leases[4].run_id)]


@check
async def check_many_children_follow_one_parent(bench: Workbench) -> None:
    """Fifty jobs run after one. Each has one run, and all of them exist when the answer comes."""
    parent = await define(bench, "parent")
    for number in range(50):
        await define(bench, f"child-{number}", "parent")
    ended = await end(bench, parent)
    runs = [run for run in await bench.runs() if run.trigger == after_trigger(ended)]
    assert {run.job for run in runs} == {f"child-{number}" for number in range(50)}
    assert len(runs) == 50
    assert len(await bench.take(await bench.node(), seats=99)) == 50


@check
async def check_a_chain_runs_in_order(bench: Workbench) -> None:
    """In a chain each run follows the one before it, and none comes early."""
    first = await define(bench, "a")
    await define(bench, "c", "b")
    await define(bench, "b", "a")
    ended, worker = await end(bench, first), await bench.node()
    for second, name in enumerate(("b", "c"), 1):
        bench.turn(second)
        [lease] = await bench.take(worker, seats=9)
        assert (lease.record.job.name, lease.trigger) == (name, after_trigger(ended))
        assert await bench.finish(lease)
        ended = lease.run_id
    assert await bench.take(worker, seats=9) == []


# ── changes of the jobs ──────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_paused_child_is_held(bench: Workbench) -> None:
    """The child's run is inserted and held, like a submitted one. A resume releases it."""
    parent, child = await define(bench, "parent"), await define(bench, "child", "parent")
    await bench.store.pause_job(child.id, reason="", now=bench.now)
    ended, worker = await end(bench, parent), await bench.node()
    assert await triggers(bench) == [after_trigger(ended)]
    assert await bench.take(worker, seats=9) == []
    assert (await bench.store.resume_job(child.id, now=bench.now)).released == 1
    assert [lease.trigger for lease in await bench.take(worker, seats=9)] == [after_trigger(ended)]


@check
async def check_a_deleted_child_gets_no_run(bench: Workbench) -> None:
    """A new job of the same name inherits nothing from it either."""
    a, b = await define(bench, "a"), await define(bench, "b")
    child = await define(bench, "child", "a", "b")
    await end(bench, a)
    await bench.store.delete_job(child.id, now=bench.now)
    assert await bench.store.queries.parents_of(child.id) == []
    await end(bench, b)
    assert await followers(bench) == []
    anew = await define(bench, "child", "a", "b")
    assert await bench.store.queries.parents_of(anew.id) == [Parent("a"), Parent("b")]
    await end(bench, b)
    assert await followers(bench) == []
    last = await end(bench, a)
    assert await triggers(bench) == [after_trigger(last)]


@check
async def check_a_parent_may_be_defined_later(bench: Workbench) -> None:
    """A parent is a name. Its job may be defined after the child, deleted, and defined again."""
    child = await define(bench, "child", "a", "b")
    a, b = await define(bench, "a"), await define(bench, "b")
    noted = await end(bench, a)
    running = await begin(bench, b)
    for record in (a, b):
        await bench.store.delete_job(record.id, now=bench.now)
    assert await bench.store.queries.parents_of(child.id) == [Parent("a", noted, at(0)), Parent("b")]
    assert await bench.finish(running)  # its job was deleted since, but its name was b
    assert await triggers(bench) == [after_trigger(running.run_id)]
    await bench.take(running.incarnation)
    anew = [await define(bench, name) for name in ("a", "b")]
    await end(bench, anew[0])
    last = await end(bench, anew[1])
    assert await triggers(bench) == [after_trigger(running.run_id), after_trigger(last)]


@check
async def check_parents_are_jobs_of_the_same_namespace(bench: Workbench) -> None:
    """A job of the same name in another namespace is another job."""
    here = await define(bench, "parent")
    there = await bench.define("parent", namespace="other")
    await define(bench, "child", "parent")
    await bench.define("child", namespace="other", after=After("parent"))
    await end(bench, there)
    assert await followers(bench) == []
    assert len(await bench.store.queries.list_runs(job="child", namespace="other")) == 1
    await bench.take(await bench.node())  # so that no run waits
    ended = await end(bench, here)
    assert await triggers(bench) == [after_trigger(ended)]


@check
async def check_an_edit_keeps_noted_parents(bench: Workbench) -> None:
    """The noted runs of parents that are still named stay. An edit completes no set by itself."""
    a, b = await define(bench, "a"), await define(bench, "b")
    child = await define(bench, "child", "a", "b")
    noted = await end(bench, a)
    await define(bench, "child", "a", "c")
    assert await bench.store.queries.parents_of(child.id) == [Parent("a", noted, at(0)), Parent("c")]
    await end(bench, b)
    await define(bench, "child", "b", "c")
    assert await bench.store.queries.parents_of(child.id) == [Parent("b"), Parent("c")]
    noted = await end(bench, b)
    await define(bench, "child", "b")
    assert await bench.store.queries.parents_of(child.id) == [Parent("b", noted, at(0))]
    assert await followers(bench) == []
    last = await end(bench, b)
    assert await triggers(bench) == [after_trigger(last)]
    await define(bench, "child")
    assert await bench.store.queries.parents_of(child.id) == []


@check
async def check_an_edit_of_what_counts_clears_the_set(bench: Workbench) -> None:
    """After a change of which ends count, or of `any`, no noted run stays."""
    a, child = await define(bench, "a"), await define(bench, "child", "a", "b")
    await end(bench, a)
    await define(bench, "child", "a", "b", on="either")
    assert await bench.store.queries.parents_of(child.id) == [Parent("a"), Parent("b")]
    noted = await end(bench, a)
    await bench.define("child", after=After("a", "b", on="either"), owner="another")
    assert await bench.store.queries.parents_of(child.id) == [Parent("a", noted, at(0)), Parent("b")]
    await define(bench, "child", "a", "b", any=True, on="either")
    await define(bench, "child", "a", "b", on="either")
    assert await bench.store.queries.parents_of(child.id) == [Parent("a"), Parent("b")]


# ── cycles ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def refused(bench: Workbench, name: str, *parents: str) -> str:
    """Assert that the job is refused and that nothing is written. Returns the error text, which names the cycle."""
    async with bench.nothing_written():
        with raises(DependencyCycle) as caught:
            await define(bench, name, *parents)
    assert isinstance(caught[0], DefinitionError)
    return str(caught[0])


@check
async def check_no_job_runs_after_itself(bench: Workbench) -> None:
    """The cycle may be direct, through other jobs, or through jobs that are defined later. The error names it in
    running order."""
    assert "a → a;" in await refused(bench, "a", "a")
    await define(bench, "b", "a")
    assert "a → b → a;" in await refused(bench, "a", "b")
    await define(bench, "c", "b", "x")
    assert "a → b → c → a;" in await refused(bench, "a", "c")
    await define(bench, "a", "y")
    assert "a → b → c → a;" in await refused(bench, "a", "y", "c")
    await define(bench, "b", "z")
    await define(bench, "a", "c")  # now there is no cycle any more
    await define(bench, "d", "a", "b", "c")


@check
async def check_a_deleted_job_is_in_no_cycle(bench: Workbench) -> None:
    """Neither is a job of the same name in another namespace."""
    b = await define(bench, "b", "a")
    await bench.define("a", namespace="other", after=After("b"))
    await bench.store.delete_job(b.id, now=bench.now)
    await define(bench, "a", "b")
    assert "b → a → b;" in await refused(bench, "b", "a")


@check
async def check_concurrent_edits_make_no_cycle(bench: Workbench) -> None:
    """Two edits are each valid for what their callers read. One of them is refused."""
    records = {name: await define(bench, name) for name in ("a", "b", "c")}

    async def edit(name: str, parent: str) -> bool:
        job = bench.job(name=name, after=After(parent))
        try:
            await bench.put(job, expected=records[name].revision)
        except DependencyCycle:
            return False
        return True

    accepted = await asyncio.gather(edit("a", "b"), edit("b", "c"), edit("c", "a"))
    assert sum(accepted) == 2


@check
async def check_a_child_run_can_be_cancelled_and_keeps_its_key(bench: Workbench) -> None:
    """It can be cancelled. Its key is taken: a submit with the same key gives the same run."""
    parent, child = await define(bench, "parent"), await define(bench, "child", "parent")
    await bench.submit(child, due=0, key="beside")
    await bench.take(await bench.node())
    ended = await end(bench, parent)
    [run] = await followers(bench)
    same = NewRun(child.id, after_trigger(ended), run.slot_at)
    other = NewRun(child.id, submit_trigger("another"), run.slot_at)
    ids = await bench.store.submit([same, other], now=bench.now)
    assert ids[0] == run.id != ids[1]
    [answer] = await bench.store.cancel([run.id], why="by hand", now=bench.now)
    assert answer.kind == "cancelled"
