"""Definitions and their revisions: creating, putting the same again, conflicts, and how jobs are listed."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND, SystemClock
from onthedot.model.errors import RevisionConflict, WindowStale
from onthedot.model.job import JobState
from onthedot.stores.values import Node
from onthedot_verify.contract.register import check
from onthedot_verify.contract.workbench import Workbench, at, every, once_at, raises, skip, window


@check
async def check_created_with_its_window(bench: Workbench) -> None:
    """A new job is revision 1 and active; its window's slots are runs and its skips recorded, at once."""
    plan = window(0, 60, [20, 30], next_at=70, skips=[skip(10, 10, 1)])
    bench.turn(15)
    put = await bench.put(bench.job(every()), plan)
    assert (put.change, put.planned, put.withdrawn) == ("created", 2, 0)
    assert (put.record.revision, put.record.state) == (1, JobState.ACTIVE)
    assert (put.record.created_at, put.record.updated_at) == (at(15), at(15))
    state = await bench.schedule(put.record)
    assert (state.origin, state.watermark, state.next_at) == (at(0), at(60), at(70))
    assert state.last_end is None
    assert await bench.slots(put.record) == [20, 30]
    assert [shown.count for shown in await bench.store.queries.list_skips()] == [1]


@check
async def check_the_window_start_is_the_origin(bench: Workbench) -> None:
    """A new schedule's origin and first watermark are its window's start, not the store's clock."""
    bench.turn(25)
    record = (await bench.put(bench.job(every()), window(5, 5, next_at=10))).record
    state = await bench.schedule(record)
    assert (state.origin, state.watermark, state.next_at) == (at(5), at(5), at(10))


@check
async def check_an_equal_definition_writes_nothing(bench: Workbench) -> None:
    """The same definition again is "unchanged": not even its window is looked at."""
    job = bench.job(every(), args={"region": "eu"})
    first = await bench.put(job, window(0, 20, [10], next_at=30))
    bench.turn(12)
    async with bench.nothing_written():
        again = await bench.put(bench.job(every(), args={"region": "eu"}), window(12, 40, [30], next_at=50), expected=1)
    assert (again.change, again.planned, again.withdrawn) == ("unchanged", 0, 0)
    assert again.record == first.record


@check
async def check_an_edit_is_the_next_revision(bench: Workbench) -> None:
    """Another definition under the same name keeps the id and the creation instant and grows the revision."""
    job = bench.job()
    first = (await bench.put(job)).record
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), expected=1)
    assert put.change == "changed"
    assert (put.record.id, put.record.revision, put.record.job.owner) == (first.id, 2, "ops")
    assert (put.record.created_at, put.record.updated_at) == (at(0), at(5))
    assert await bench.store.queries.get_job("job") == put.record


@check
async def check_another_revision_conflicts(bench: Workbench) -> None:
    """An edit that expects another revision than the stored one raises, and nothing is written."""
    job = bench.job(every())
    await bench.put(job, window(0, 20, [10], next_at=30))
    await bench.put(replace(job, owner="ops"), window(0, 20, [10], next_at=30))
    for expected in (1, 3):
        async with bench.nothing_written():
            with raises(RevisionConflict):
                await bench.put(replace(job, owner="dev"), window(0, 90, [80]), expected=expected)


@check
async def check_expecting_a_job_that_is_missing_conflicts(bench: Workbench) -> None:
    """Whoever read revision 1 of a job that does not exist (any more) does not create it by accident."""
    async with bench.nothing_written():
        with raises(RevisionConflict):
            await bench.put(bench.job(), expected=1)
    assert await bench.store.queries.get_job("job") is None


@check
async def check_a_stale_window_is_refused(bench: Workbench) -> None:
    """A surviving schedule's window that starts after W raises `WindowStale` with W and the store's clock."""
    job = bench.job(every(), every(name="other"))
    await bench.put(job, window(0, 60, [10, 20], next_at=70), window(0, 60, [10], name="other", next_at=70))
    bench.turn(15)
    async with bench.nothing_written():
        with raises(WindowStale) as caught:
            await bench.put(
                replace(job, owner="ops"),
                window(15, 75, [70], name="other", next_at=80),
                window(15.1, 75, [70], next_at=80),
            )
    [error] = caught
    assert (error.watermark, error.now) == (at(15), at(15))


@check
async def check_namespaces_keep_names_apart(bench: Workbench) -> None:
    """The same name in two namespaces is two jobs."""
    one = (await bench.put(bench.job())).record
    two = (await bench.put(bench.job(namespace="team"))).record
    assert one.id != two.id
    assert await bench.store.queries.get_job("job") == one
    assert await bench.store.queries.get_job("job", namespace="team") == two
    assert await bench.store.queries.get_job("other") is None


@check
async def check_jobs_are_listed_by_namespace_and_name(bench: Workbench) -> None:
    """`list_jobs` sorts by namespace, then name, and stops at the limit."""
    for namespace, name in (("b", "x"), ("a", "z"), ("b", "a"), ("a", "y")):
        await bench.put(bench.job(name=name, namespace=namespace))
    listed = [(record.job.namespace, record.job.name) for record in await bench.store.queries.list_jobs()]
    assert listed == [("a", "y"), ("a", "z"), ("b", "a"), ("b", "x")]
    assert len(await bench.store.queries.list_jobs(limit=3)) == 3


@check
async def check_schedules_are_listed_by_id(bench: Workbench) -> None:
    """`schedules_of` gives every schedule of one job, by id, with the current record; none for an unknown job."""
    job = bench.job(every(name="b"), every(name="a"))
    await bench.define("other", slots=[10])
    record = (await bench.put(job, window(0, 20, name="b"), window(0, 30, name="a"))).record
    states = await bench.store.queries.schedules_of(record.id)
    assert [(state.schedule_id, state.watermark) for state in states] == [("a", at(30)), ("b", at(20))]
    assert all(state.record == record for state in states)
    assert await bench.store.queries.schedules_of(record.id + 99) == []


@check
async def check_the_definition_comes_back_whole(bench: Workbench) -> None:
    """Whatever a definition says is read back equal, so that putting it again changes nothing."""
    args = {"text": "ä\n\"'", "list": [1, 2.5, None, True], "deep": {"a": {"b": []}}}
    job = bench.job(every(), once_at(99.000001, name="once"), args=args, owner="ops", max_recoveries=1)
    await bench.put(job, window(0, 0, next_at=10), window(0, 0, name="once", next_at=99.000001))
    found = await bench.store.queries.get_job("job")
    assert found is not None
    assert found.job == job


@check
async def check_a_job_is_exhausted_when_nothing_can_follow(bench: Workbench) -> None:
    """A job is shown exhausted when no schedule yields again and no run of theirs is open; a job without
    schedules never is."""
    await bench.define("bare")
    node = await bench.node()
    await bench.put(bench.job(once_at(10)), window(0, 30, [10]))
    bench.turn(10)
    [lease] = await bench.take(node)
    await bench.finish(lease)
    states = {record.job.name: record.state for record in await bench.store.queries.list_jobs()}
    assert states == {"bare": JobState.ACTIVE, "job": JobState.EXHAUSTED}
    exhausted = await bench.store.queries.get_job("job")
    assert exhausted is not None
    assert exhausted.state is JobState.EXHAUSTED


SLACK = SECOND


@check
async def check_without_now_the_stores_clock_counts(bench: Workbench) -> None:
    """`now=None` is the store's own clock."""
    clock = bench.store.clock or SystemClock()  # a server's own clock is this machine's, in a test
    before = clock.now() - SLACK
    beat = await bench.store.register(Node(id="node", incarnation="clocked"), ttl=SECOND)
    assert before <= beat.now <= clock.now() + SLACK
    assert beat.lease_until == beat.now + SECOND
