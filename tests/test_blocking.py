"""The verbs for programs without an event loop."""

import asyncio
import inspect
import threading

import pytest

import onthedot as otd
from onthedot.model.job import JobRecord
from onthedot.operations.verbs import Verbs


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'blocking.db'}"


def test_a_synchronous_program_submits_waits_and_looks(url):
    sched = otd.Scheduler(url)

    @sched.job
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    @sched.job
    def fail(ctx: otd.Context) -> None:
        ctx.log("about to")
        raise ValueError("bad data")

    with otd.BlockingScheduler(sched) as blocking:
        run = blocking.submit(add.call(1, 2), key="sum")
        assert blocking.result(run, timeout="20s") == 3
        assert blocking.submit(add.call(1, 2), key="sum").created is False
        with pytest.raises(otd.RunFailed, match="bad data"):
            blocking.result(blocking.submit("fail"), timeout="20s")
        [failed, succeeded] = blocking.list_runs()
        assert (failed.state, succeeded.state) == ("dead", "succeeded")
        said, trace = blocking.logs(failed.id)[0].text.split("\n", 1)
        assert (said, trace.partition("\n")[0]) == ("about to", "ValueError came from (last frame last):")
        assert len(blocking.history(failed.id)) == 1
        assert [record.job.name for record in blocking.list_jobs()] == ["add", "fail"]
        runs = blocking.submit_many(add.call(n, n) for n in range(10))
        assert [blocking.result(run, timeout="20s") for run in runs] == [2 * n for n in range(10)]


def test_many_threads_ask_at_once():
    sched = otd.Scheduler("memory:")

    @sched.job
    def double(n: int) -> int:
        return 2 * n

    results: dict[int, int] = {}
    with otd.BlockingScheduler(sched) as blocking:

        def serve(n: int) -> None:
            results[n] = blocking.result(blocking.submit(double.call(n)), timeout="20s")

        threads = [threading.Thread(target=serve, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {n: 2 * n for n in range(20)}


def test_every_verb_is_there_and_is_the_schedulers_own():
    verbs = [name for name, _ in inspect.getmembers(Verbs, inspect.iscoroutinefunction) if not name.startswith("_")]
    assert len(verbs) >= 17
    for name in verbs:
        assert inspect.unwrap(getattr(otd.BlockingScheduler, name)) is getattr(Verbs, name), name
        assert getattr(otd.Scheduler, name) is not getattr(Verbs, name), name


def test_a_verb_calls_the_schedulers_own():
    class Mine(otd.Scheduler):
        async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
            assert threading.current_thread() is not threading.main_thread()
            return [*await super().list_jobs(limit=limit), *await super().list_jobs(limit=limit)]

    sched = Mine("memory:")
    sched.job(name="work")(lambda: None)
    with otd.BlockingScheduler(sched) as blocking:
        assert [record.job.name for record in blocking.list_jobs()] == ["work", "work"]


def test_it_can_be_started_again_and_leaves_no_thread_behind():
    sched = otd.Scheduler("memory:")
    blocking = otd.BlockingScheduler(sched)
    for _ in range(2):
        blocking.start()
        with pytest.raises(otd.StateError, match="running already"):
            blocking.start()
        blocking.stop()
        blocking.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("onthedot loop")]


def test_verbs_at_the_wrong_time_say_so():
    blocking = otd.BlockingScheduler(otd.Scheduler("memory:"))
    with pytest.raises(otd.StateError, match="call start"):
        blocking.submit("x")


def test_a_start_that_fails_is_raised_and_leaves_no_thread(tmp_path):
    blocking = otd.BlockingScheduler(otd.Scheduler(f"sqlite:///{tmp_path}"))
    with pytest.raises(otd.StoreError):
        blocking.start()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("onthedot loop")]


def test_a_wait_that_takes_too_long_raises():
    sched = otd.Scheduler("memory:", settings=otd.Settings(grace=50_000))

    @sched.job
    async def endless() -> None:
        await asyncio.sleep(3600)

    with otd.BlockingScheduler(sched) as blocking:
        run = blocking.submit(endless)
        with pytest.raises(TimeoutError):
            blocking.result(run, timeout="50ms")
        assert blocking.cancel(run).kind in ("asked", "cancelled")
