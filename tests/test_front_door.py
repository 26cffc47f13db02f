"""A scheduler survives cancelled starts, broken engines, renamed jobs and unreadable definitions."""

import asyncio
import contextlib
import sqlite3
import threading
from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.errors import DefinitionError, OnTheDotError
from onthedot.model.events import AttemptEnded
from onthedot.node.engine import Engine
from onthedot.node.engine_thread import GiveWay
from onthedot.stores.memory import MemoryStore
from onthedot.testing import Harness, run_virtual
from tests.watching import Watch

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


async def test_a_cancelled_start_leaves_no_engine(tmp_path, monkeypatch):
    sched = otd.Scheduler(f"sqlite:///{tmp_path}/x.db")
    for n in range(50):
        sched.job(name=f"j{n}", schedule=otd.every("1h"))(lambda: None)
    loop, storing, cancelled = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    put_job = Engine.put_job

    async def in_the_middle(self: Engine, *args, **options):
        loop.call_soon_threadsafe(storing.set)
        await asyncio.to_thread(cancelled.wait, 20)
        return await put_job(self, *args, **options)

    monkeypatch.setattr(Engine, "put_job", in_the_middle)
    task = asyncio.create_task(sched.start())
    await asyncio.wait_for(storing.wait(), 20)
    task.cancel()
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(200):
        if not [t for t in threading.enumerate() if t.name == "onthedot engine"]:
            break
        await asyncio.sleep(0.1)
    assert not [t for t in threading.enumerate() if t.name == "onthedot engine"]


@pytest.mark.slow
async def test_a_broken_engine_does_not_slow_down_the_application(monkeypatch):
    """The application does not wait for an engine that has ended, and no thread waits for its work."""
    store = MemoryStore()
    sched = otd.Scheduler(store)
    stopped, stop = [], GiveWay.stop

    def stop_and_note(self: GiveWay) -> None:
        stopped.append(self)
        stop(self)

    monkeypatch.setattr(GiveWay, "stop", stop_and_note)
    await sched.start()

    async def broken(**_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(store, "expire", broken)
    with pytest.raises(ZeroDivisionError):
        await sched.broken()
    with pytest.raises(ZeroDivisionError):
        await sched.stop()
    assert len(stopped) == 1
    assert stopped[0].look() is False


async def test_a_function_is_submitted_by_the_name_of_its_job():
    sched = otd.Scheduler("memory:")

    @sched.job(name="other-name")
    async def handler() -> None: ...

    async with sched:
        await sched.submit(handler)


async def test_a_job_in_a_namespace_can_be_submitted():
    sched = otd.Scheduler("memory:")

    @sched.job(namespace="team")
    async def handler() -> None: ...

    async with sched:
        await sched.submit("handler")


@pytest.mark.slow
async def test_a_coroutine_that_ignores_its_cancellation_is_still_timed_out():
    sched = otd.Scheduler("memory:", settings=otd.Settings(grace=SECOND))
    over = asyncio.Event()

    @sched.job(timeout="100ms")
    async def stubborn() -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    watch = Watch(sched)
    async with sched:
        await sched.submit("stubborn")
        try:
            async with asyncio.timeout(20):
                [ended] = await watch.until_count(AttemptEnded, 1)
                assert ended.finish.verdict.outcome == "timed_out"
        finally:
            over.set()


def test_every_overdue_slot_of_a_removed_schedule_is_recorded():
    def program(interval):
        sched = otd.Scheduler("memory:")

        @sched.job(name="job", schedule=otd.every(interval))
        async def job() -> None: ...

        return sched

    async def scenario():
        harness = Harness(START)
        await harness.start(program("1s"))
        await harness.advance("10s")
        await harness.crash()
        await harness.advance("2d")
        await harness.start(program("2s"))
        skips = await harness.store.queries.list_skips(job="job")
        await harness.stop()
        return skips

    [skip] = run_virtual(scenario())
    assert skip.last == to_micros(START) + (2 * 86400 + 10) * SECOND
    assert skip.count == (skip.last - skip.first) // SECOND + 1


@pytest.mark.slow
async def test_an_unreadable_definition_of_a_run_does_not_end_the_engine(tmp_path):
    path = tmp_path / "x.db"

    def program() -> otd.Scheduler:
        sched = otd.Scheduler(f"sqlite:///{path}", settings=otd.Settings().with_leases(SECOND))

        @sched.job
        async def work() -> None: ...

        return sched

    async with program() as sched:
        await sched.submit("work", delay="1h")
    db = sqlite3.connect(path)
    db.execute(
        "INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,"
        " definition_hash, created_at, updated_at) "
        "SELECT 99, namespace, 'theirs', owner, state, 1, 'call:theirs', queue, route, priority, share, 0, '', 0, 0 "
        "FROM jobs"
    )
    db.execute('INSERT INTO job_revisions VALUES (99, 1, \'{"name":"theirs","new_key":1}\', 0)')
    db.execute(
        "UPDATE runs SET job_id = 99, state = 'running', lease_id = 'x', fence = 1, incarnation = 'dead', "
        "revision = 1, reserved_at = 0, armed_at = 0, attempt = 1"
    )
    db.commit()
    db.close()
    async with program() as sched:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sched.broken(), 1)


async def test_a_program_replaces_its_unreadable_definition(tmp_path):
    path = tmp_path / "x.db"

    def program() -> otd.Scheduler:
        sched = otd.Scheduler(f"sqlite:///{path}")

        @sched.job(schedule=otd.every("1h"))
        async def work() -> None: ...

        return sched

    async with program():
        pass
    db = sqlite3.connect(path)
    db.execute("UPDATE job_revisions SET definition = '{}'")
    db.commit()
    db.close()
    async with program():
        pass


@pytest.mark.parametrize("on", ["ConnectionError", ConnectionError, 5])
def test_retry_on_refuses_anything_but_a_list(on):
    with pytest.raises(DefinitionError):
        otd.Retry(3, on=on)


@pytest.mark.parametrize("options", [{"owner": "\ud800"}, {"args": {"x": "\ud800"}}])
async def test_text_that_cannot_be_stored_is_refused(options, tmp_path):
    sched = otd.Scheduler(f"sqlite:///{tmp_path}/x.db")

    async def define_and_start() -> None:
        sched.job(name="w", **options)(lambda **_: None)
        await sched.start()

    with pytest.raises(OnTheDotError):
        await define_and_start()


async def test_arguments_that_differ_only_in_type_count_as_an_edit(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    got = []
    for value in (1, True):
        sched = otd.Scheduler(url)

        @sched.job(args={"x": value})
        async def work(x) -> None:
            got.append(x)

        watch = Watch(sched)
        async with sched:
            await sched.submit("work")
            await watch.until_count(AttemptEnded, 1)
    assert [type(x) for x in got] == [int, bool]


def test_an_instant_that_has_passed_at_its_definition_is_recorded():
    sched = otd.Scheduler("memory:")

    @sched.job(name="job", schedule=otd.at("2026-06-01T11:59:59Z"))
    async def job() -> None: ...

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await harness.advance("10s")
        found = len(await harness.runs("job")) + len(await harness.skips("job"))
        await harness.stop()
        return found

    assert run_virtual(scenario()) == 1
