"""A scheduler embedded in a program runs handlers on time, keeps results, retries, and stops cleanly."""

import asyncio
import threading
import time

import pytest

import onthedot as otd
from onthedot.clock import Clock
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    DrainBegun,
    JobPut,
    NodeLeft,
    RunMissed,
    StoreTrouble,
    ZombieHandler,
)
from onthedot.stores.memory import MemoryStore
from tests.watching import Watch


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'scheduler.db'}"


async def test_a_coroutine_runs_on_the_application_loop_and_a_function_in_a_thread(url):
    sched = otd.Scheduler(url)
    seen: dict[str, threading.Thread] = {}

    @sched.job
    async def coroutine() -> None:
        seen["coroutine"] = threading.current_thread()

    @sched.job
    def function() -> None:
        seen["function"] = threading.current_thread()

    watch = Watch(sched)
    async with sched:
        await sched.submit("coroutine")
        await sched.submit(function)
        await watch.until_count(AttemptEnded, 2)
    assert seen["coroutine"] is threading.main_thread()
    assert seen["function"].name.startswith("onthedot handler")


@pytest.mark.slow
async def test_slots_start_on_time_and_never_early(url):
    sched = otd.Scheduler(url)
    starts: list[tuple[float, float]] = []

    @sched.job(schedule=otd.every("250ms"))
    async def tick(ctx: otd.Context) -> None:
        starts.append((ctx.scheduled_at.timestamp(), time.time()))

    watch = Watch(sched)
    async with sched:
        await watch.until_count(AttemptEnded, 10)
    slots = [slot for slot, _ in starts]
    assert slots == sorted(set(slots))
    assert all(started - slot >= 0 for slot, started in starts)
    assert sorted(started - slot for slot, started in starts)[len(starts) // 2] < 0.25


async def test_arguments_and_results_are_stored(url):
    sched = otd.Scheduler(url)

    @sched.job(args={"region": "eu"})
    async def report(ctx: otd.Context, region: str, pages: int = 3) -> dict[str, object]:
        return {"region": region, "pages": pages, "attempt": ctx.attempt}

    watch = Watch(sched)
    async with sched:
        default = await sched.submit("report")
        given = await sched.submit("report", {"region": "us", "pages": 7})
        await watch.until_count(AttemptEnded, 2)
        first, second = await sched.get_run(default), await sched.get_run(given)
    assert first is not None
    assert second is not None
    assert first.result == '{"region":"eu","pages":3,"attempt":1}'
    assert second.result == '{"region":"us","pages":7,"attempt":1}'


async def test_a_handler_cannot_change_the_arguments_of_later_runs():
    sched = otd.Scheduler("memory:")
    seen = []

    @sched.job(args={"items": [1]})
    async def greedy(items: list[int]) -> None:
        items.append(2)
        seen.append(list(items))

    watch = Watch(sched)
    async with sched:
        await sched.submit("greedy")
        await sched.submit("greedy")
        await watch.until_count(AttemptEnded, 2)
    assert seen == [[1, 2], [1, 2]]


async def test_a_delayed_submit_waits(url):
    sched = otd.Scheduler(url)

    @sched.job
    async def later() -> None: ...

    watch = Watch(sched)
    async with sched:
        asked_at = round(time.time() * 1_000_000)
        run_id = (await sched.submit("later", delay="300ms")).id
        [started] = await watch.until_count(AttemptStarted, 1)
        run = await sched.get_run(run_id)
    assert run is not None
    assert run.due_at - asked_at >= 290_000
    assert started.started_at - run.due_at >= 0


async def test_failures_are_retried_and_then_dead(url):
    sched = otd.Scheduler(url)

    @sched.job(retry=otd.Retry(3, delay="10ms"))
    async def broken() -> None:
        raise ConnectionError("no route")

    @sched.job(retry=otd.Retry(3, delay="10ms", on=(OSError,)))
    def wrong() -> None:
        raise ValueError("bad data")

    watch = Watch(sched)
    async with sched:
        tried = await sched.submit("broken")
        given_up = await sched.submit("wrong")
        await watch.until_count(AttemptEnded, 4)
        first, second = await sched.get_run(tried), await sched.get_run(given_up)
    assert first is not None
    assert second is not None
    assert (first.state, first.attempts, first.reason) == ("dead", 3, "failed 3 times")
    assert first.error == "ConnectionError: no route"
    assert (second.state, second.attempts, second.reason) == ("dead", 1, "not worth a retry")


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), MemoryError()])
@pytest.mark.parametrize("kind", ["coroutine", "function"])
async def test_no_error_of_a_handler_ends_the_worker(kind, raised):
    sched = otd.Scheduler("memory:")

    @sched.job(name="coroutine")
    async def coroutine() -> None:
        raise raised

    @sched.job(name="function")
    def function() -> None:
        raise raised

    @sched.job
    async def after() -> None: ...

    watch = Watch(sched)
    async with sched:
        run_id = (await sched.submit(kind)).id
        await watch.until_count(AttemptEnded, 1)
        await sched.submit("after")
        await watch.until_count(AttemptEnded, 2)
        run = await sched.get_run(run_id)
    assert run is not None
    assert run.state == "dead"
    assert type(raised).__name__ in (run.error or "")


async def test_a_coroutine_past_its_time_out_is_cancelled_by_a_timer(url):
    sched = otd.Scheduler(url)
    cleaned_up = asyncio.Event()

    @sched.job(timeout="50ms")
    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            cleaned_up.set()

    watch = Watch(sched)
    async with sched:
        run_id = (await sched.submit("slow")).id
        await watch.until_count(AttemptEnded, 1)
        run = await sched.get_run(run_id)
    assert cleaned_up.is_set()
    assert run is not None
    assert (run.state, run.error) == ("dead", "took longer than its time-out of 0.05 s")
    assert run.ended_at is not None
    assert run.started_at is not None
    assert 50_000 <= run.ended_at - run.started_at < 20_000_000  # much less than its sleep of 30 s


async def test_a_function_past_its_time_out_keeps_its_seat_until_it_returns():
    sched = otd.Scheduler("memory:", settings=otd.Settings(seats=1))
    let_go = threading.Event()

    @sched.job(timeout="50ms")
    def stuck() -> None:
        let_go.wait(20)

    @sched.job
    async def next_one() -> None: ...

    watch = Watch(sched)
    async with sched:
        await sched.submit("stuck")
        await watch.until_count(ZombieHandler, 1)
        await sched.submit("next_one")
        ended = await watch.until_count(AttemptEnded, 1)
        assert ended[0].finish.verdict.outcome == "timed_out"
        assert not [e for e in watch.of(AttemptStarted) if e.lease.record.job.name == "next_one"]
        let_go.set()
        await watch.until_count(AttemptEnded, 2)


async def test_a_result_that_cannot_be_stored_is_a_failure():
    sched = otd.Scheduler("memory:", settings=otd.Settings(result_bytes=100))

    @sched.job
    async def not_json() -> object:
        return object()

    @sched.job
    async def too_large() -> str:
        return "x" * 200

    watch = Watch(sched)
    async with sched:
        ids = [await sched.submit("not_json"), await sched.submit("too_large")]
        await watch.until_count(AttemptEnded, 2)
        errors = [run.error or "" for run_id in ids if (run := await sched.get_run(run_id))]
    assert "which is not JSON" in errors[0]
    assert "more than 100" in errors[1]


async def test_stopping_waits_for_running_attempts(url):
    sched = otd.Scheduler(url)
    release = asyncio.Event()

    @sched.job
    async def running() -> str:
        await release.wait()
        return "done"

    watch = Watch(sched)
    await sched.start()
    await sched.submit("running")
    await watch.until_count(AttemptStarted, 1)
    stopping = asyncio.create_task(sched.stop())
    await watch.until_count(DrainBegun, 1)
    release.set()
    await stopping
    [ended] = watch.of(AttemptEnded)
    assert ended.finish.verdict.result == '"done"'
    assert watch.of(NodeLeft)[-1].abandoned == 0


@pytest.mark.parametrize(("guarantee", "state"), [("at_least_once", "scheduled"), ("at_most_once", "lost")])
async def test_stop_now_ends_attempts_as_their_guarantee_says(guarantee, state):
    store = MemoryStore()
    sched = otd.Scheduler(store)

    @sched.job(guarantee=guarantee)
    async def endless() -> None:
        await asyncio.sleep(3600)

    watch = Watch(sched)
    await sched.start()
    run_id = (await sched.submit("endless")).id
    await watch.until_count(AttemptStarted, 1)
    stopping = asyncio.create_task(sched.stop())
    await watch.until_count(DrainBegun, 1)
    sched.stop_now()
    await stopping
    run = await store.queries.get_run(run_id)
    assert run is not None
    assert (run.state, run.recoveries) == (state, 1)


async def test_a_stop_waits_no_longer_than_the_grace():
    sched = otd.Scheduler("memory:", settings=otd.Settings(grace=50_000))

    @sched.job
    async def endless() -> None:
        await asyncio.sleep(3600)

    watch = Watch(sched)
    await sched.start()
    await sched.submit("endless")
    await watch.until_count(AttemptStarted, 1)
    async with asyncio.timeout(10):
        await sched.stop()
    assert watch.of(AttemptEnded)[0].finish.verdict.reason == "recovered"


async def test_a_bug_in_the_engine_is_raised_to_the_program():
    store = MemoryStore()
    sched = otd.Scheduler(store)

    async def broken(**_: object) -> object:
        raise ZeroDivisionError("a bug")

    store.due_schedules = broken  # type: ignore[method-assign,assignment]
    await sched.start()
    with pytest.raises(ZeroDivisionError):
        await sched.broken()
    with pytest.raises(ZeroDivisionError):
        await sched.stop()


async def test_a_write_is_repeated_while_the_store_is_unavailable():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    finish, failures = store.finish, 2

    async def flaky(finishes, *, now=None):
        nonlocal failures
        if failures:
            failures -= 1
            raise otd.StoreUnavailable("the disk is full")
        return await finish(finishes, now=now)

    store.finish = flaky  # type: ignore[method-assign]

    @sched.job
    async def work() -> None: ...

    watch = Watch(sched)
    async with sched:
        await sched.submit("work")
        await watch.until_count(AttemptEnded, 1)
    assert [trouble.error for trouble in watch.of(StoreTrouble)] == ["the disk is full"] * 2


async def test_a_run_whose_reserve_had_no_answer_still_executes():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    reserve, lose = store.reserve, True

    async def lost_reply(ask, *, now=None):
        nonlocal lose
        answer = await reserve(ask, now=now)
        if lose and answer.armed:
            lose = False
            raise otd.StoreUnavailable("the reply was lost")
        return answer

    store.reserve = lost_reply  # type: ignore[method-assign]
    executed = []

    @sched.job
    async def work(ctx: otd.Context) -> None:
        executed.append((ctx.run_id, ctx.attempt))

    watch = Watch(sched)
    async with sched:
        run_id = (await sched.submit("work")).id
        await watch.until_count(AttemptEnded, 1)
    assert executed == [(run_id, 1)]


async def test_a_verb_at_the_wrong_time_is_refused_with_a_hint():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.StateError, match="call start"):
        await sched.submit("x")
    await sched.start()
    with pytest.raises(otd.StateError, match="running already"):
        await sched.start()
    with pytest.raises(otd.StateError, match=r"before start\(\)"):
        sched.job(lambda: None)
    with pytest.raises(otd.UnknownJob, match="no job 'x' is stored"):
        await sched.submit("x")
    await sched.stop()
    await sched.stop()


async def test_a_failed_start_can_be_repeated(tmp_path):
    (tmp_path / "folder.db").mkdir()
    sched = otd.Scheduler(f"sqlite:///{tmp_path / 'folder.db'}")
    with pytest.raises(otd.StoreError, match="expected a file"):
        await sched.start()
    (tmp_path / "folder.db").rmdir()
    async with sched:
        pass


async def test_jobs_survive_a_restart_and_edits_are_noticed(tmp_path):
    url = f"sqlite:///{tmp_path / 'restart.db'}"
    changes = []
    for timeout in ("10s", "10s", "20s"):
        sched = otd.Scheduler(url)

        @sched.job(schedule=otd.cron("0 3 * * *"), timeout=timeout)
        async def nightly() -> None: ...

        watch = Watch(sched)
        async with sched:
            [put] = await watch.until_count(JobPut, 1)
            changes.append((put.change, put.revision))
    assert changes == [("created", 1), ("unchanged", 1), ("changed", 2)]


async def test_an_armed_run_that_is_not_due_does_not_start_after_stop_now():
    store = MemoryStore()
    sched = otd.Scheduler(store, settings=otd.Settings(arm_lead_min=400_000))
    started, armed, loop, arm = [], asyncio.Event(), asyncio.get_running_loop(), store.arm

    async def told(leases, *, gates=None, now=None):
        answers = await arm(leases, gates=gates, now=now)
        loop.call_soon_threadsafe(armed.set)
        return answers

    store.arm = told  # type: ignore[method-assign]

    @sched.job
    async def later(ctx: otd.Context) -> None:
        started.append(ctx.run_id)

    watch = Watch(sched)
    await sched.start()
    run_id = (await sched.submit("later", delay="600ms")).id

    await armed.wait()
    sched.stop_now()
    await sched.stop()
    run = await store.queries.get_run(run_id)
    assert run is not None
    assert (run.state, run.reason, run.recoveries, started) == ("scheduled", "released", 0, [])
    assert not watch.of(AttemptStarted)


async def test_a_key_makes_one_run_and_an_expired_run_is_skipped(url):
    sched = otd.Scheduler(url, settings=otd.Settings(seats=1, expire_every=50_000))
    release, executed = asyncio.Event(), []

    @sched.job
    async def receipt(ctx: otd.Context, order: int) -> None:
        executed.append(order)
        await release.wait()

    watch = Watch(sched)
    async with sched:
        first = await sched.submit("receipt", {"order": 1}, key="receipt:1")
        assert await sched.submit("receipt", {"order": 1}, key="receipt:1") == first
        with pytest.raises(otd.KeyConflict, match="'receipt:1': used before by run"):
            await sched.submit("receipt", {"order": 2}, key="receipt:1")
        await watch.until_count(AttemptStarted, 1)
        late = await sched.submit("receipt", {"order": 3}, expires="100ms")
        [missed] = await watch.until_count(RunMissed, 1)
        release.set()
        assert (missed.run.id, missed.run.reason) == (late.id, "expired")
        await watch.until_count(AttemptEnded, 1)
        assert await sched.submit("receipt", {"order": 1}, key="receipt:1") == first
    assert executed == [1]


@pytest.mark.parametrize("given", [otd.every("10s"), "0 2 * * *"])
def test_a_schedule_in_place_of_the_function_is_refused_with_a_hint(given):
    with pytest.raises(otd.DefinitionError, match=r"options by their names as in @sched.job\(schedule=.*got"):
        otd.Scheduler("memory:").job(given)


async def test_an_unencrypted_connection_is_logged_at_the_start(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    async def open_here(url: str, *, clock: Clock | None = None) -> MemoryStore:
        return MemoryStore(clock)

    monkeypatch.setattr("onthedot.node.engine_thread.open_store", open_here)
    async with otd.Scheduler("redis://me:secret@db/0?tls=off"):
        pass
    assert "the connection to redis://me:***@db/0 is not encrypted: whoever is between can read it" in caplog.text
