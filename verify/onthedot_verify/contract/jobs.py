"""Checks of job definitions and their revisions: create, put again, conflict, and list."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND, SystemClock
from onthedot.model.errors import RevisionConflict, WindowStale
from onthedot.model.job import JobState
from onthedot.stores.values import Node
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, every, once_at, raises, skip, window


@check
async def check_a_new_job_is_created_with_its_window(bench: Workbench) -> None:
    """It has revision 1 and is active. At once the slots of its window are runs, and its skips are recorded."""
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
async def check_a_schedules_origin_is_its_windows_start(bench: Workbench) -> None:
    """Origin and first watermark of a new schedule are the start of its window, not the store's clock."""
    bench.turn(25)
    record = (await bench.put(bench.job(every()), window(5, 5, next_at=10))).record
    state = await bench.schedule(record)
    assert (state.origin, state.watermark, state.next_at) == (at(5), at(5), at(10))


@check
async def check_an_equal_definition_writes_nothing(bench: Workbench) -> None:
    """The answer is "unchanged", and the window is ignored."""
    job = bench.job(every(), args={"region": "eu"})
    first = await bench.put(job, window(0, 20, [10], next_at=30))
    bench.turn(12)
    async with bench.nothing_written():
        again = await bench.put(bench.job(every(), args={"region": "eu"}), window(12, 40, [30], next_at=50), expected=1)
    assert (again.change, again.planned, again.withdrawn) == ("unchanged", 0, 0)
    assert again.record == first.record


@check
async def check_an_edit_makes_the_next_revision(bench: Workbench) -> None:
    """Another definition under the same name keeps id and creation instant. The revision grows."""
    job = bench.job()
    first = (await bench.put(job)).record
    bench.turn(5)
    put = await bench.put(replace(job, owner="ops"), expected=1)
    assert put.change == "changed"
    assert (put.record.id, put.record.revision, put.record.job.owner) == (first.id, 2, "ops")
    assert (put.record.created_at, put.record.updated_at) == (at(0), at(5))
    assert await bench.store.queries.get_job("job") == put.record


@check
async def check_an_edit_of_another_revision_conflicts(bench: Workbench) -> None:
    """If the stored revision is not the expected one, the edit raises, and nothing is written."""
    job = bench.job(every())
    await bench.put(job, window(0, 20, [10], next_at=30))
    await bench.put(replace(job, owner="ops"), window(0, 20, [10], next_at=30))
    for expected in (1, 3):
        async with bench.nothing_written():
            with raises(RevisionConflict):
                await bench.put(replace(job, owner="dev"), window(0, 90, [80]), expected=expected)


@check
async def check_an_edit_of_a_missing_job_conflicts(bench: Workbench) -> None:
    """A caller that expects revision 1 of a job that does not exist does not create it."""
    async with bench.nothing_written():
        with raises(RevisionConflict):
            await bench.put(bench.job(), expected=1)
    assert await bench.store.queries.get_job("job") is None


@check
async def check_a_stale_window_is_refused(bench: Workbench) -> None:
    """A window that starts after W, of a schedule that stays, raises `WindowStale` with W and the store's clock."""
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
async def check_namespaces_separate_names(bench: Workbench) -> None:
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
    """`schedules_of` returns each schedule of a job with the current record. An unknown job has none."""
    job = bench.job(every(name="b"), every(name="a"))
    await bench.define("other", slots=[10])
    record = (await bench.put(job, window(0, 20, name="b"), window(0, 30, name="a"))).record
    states = await bench.store.queries.schedules_of(record.id)
    assert [(state.schedule_id, state.watermark) for state in states] == [("a", at(30)), ("b", at(20))]
    assert all(state.record == record for state in states)
    assert await bench.store.queries.schedules_of(record.id + 99) == []


@check
async def check_a_definition_is_read_as_it_was_put(bench: Workbench) -> None:
    """Each field of a definition is read back equal, so putting it again changes nothing."""
    args = {"text": "ä\n\"'", "list": [1, 2.5, None, True], "deep": {"a": {"b": []}}}
    job = bench.job(every(), once_at(99.000001, name="once"), args=args, owner="ops", max_recoveries=1)
    await bench.put(job, window(0, 0, next_at=10), window(0, 0, name="once", next_at=99.000001))
    found = await bench.store.queries.get_job("job")
    assert found is not None
    assert found.job == job


@check
async def check_a_job_is_exhausted_when_no_slot_can_follow(bench: Workbench) -> None:
    """No schedule has another slot, and no run of theirs is open. A job without schedules is never exhausted."""
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
async def check_the_stores_clock_is_the_default_now(bench: Workbench) -> None:
    """`now=None` uses the store's own clock."""
    clock = bench.store.clock or SystemClock()  # in a test, the server runs on this machine
    before = clock.now() - SLACK
    beat = await bench.store.register(Node(id="node", incarnation="clocked"), ttl=SECOND)
    assert before <= beat.now <= clock.now() + SLACK
    assert beat.lease_until == beat.now + SECOND
