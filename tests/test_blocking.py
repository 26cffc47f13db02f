"""Programs without an event loop use the same verbs through a blocking scheduler or client."""

import asyncio
import inspect
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_type_hints

import pytest

import onthedot as otd
from onthedot.model.host_port import Listen
from onthedot.model.job import JobRecord
from onthedot.operations.verbs import Verbs
from onthedot.server.http_server import HttpServer


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'blocking.db'}"


def test_a_synchronous_program_submits_runs_and_reads_results(url):
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


def test_many_threads_can_call_verbs_at_once():
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


def test_every_verb_exists_and_wraps_that_of_the_scheduler():
    verbs = [name for name, _ in inspect.getmembers(Verbs, inspect.iscoroutinefunction) if not name.startswith("_")]
    assert len(verbs) >= 17
    for name in verbs:
        assert inspect.unwrap(getattr(otd.BlockingScheduler, name)) is getattr(Verbs, name), name
        assert getattr(otd.Scheduler, name) is not getattr(Verbs, name), name


def test_a_verb_calls_the_method_of_a_subclass():
    class Mine(otd.Scheduler):
        async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
            assert threading.current_thread() is not threading.main_thread()
            return [*await super().list_jobs(limit=limit), *await super().list_jobs(limit=limit)]

    sched = Mine("memory:")
    sched.job(name="work")(lambda: None)
    with otd.BlockingScheduler(sched) as blocking:
        assert [record.job.name for record in blocking.list_jobs()] == ["work", "work"]


def test_a_blocking_scheduler_can_be_restarted_and_leaves_no_thread():
    sched = otd.Scheduler("memory:")
    blocking = otd.BlockingScheduler(sched)
    for _ in range(2):
        blocking.start()
        with pytest.raises(otd.StateError, match="running already"):
            blocking.start()
        blocking.stop()
        blocking.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("onthedot loop")]


def test_a_verb_before_the_start_is_refused_with_a_hint():
    blocking = otd.BlockingScheduler(otd.Scheduler("memory:"))
    with pytest.raises(otd.StateError, match="call start"):
        blocking.submit("x")


def test_a_failed_start_raises_and_leaves_no_thread(tmp_path):
    blocking = otd.BlockingScheduler(otd.Scheduler(f"sqlite:///{tmp_path}"))
    with pytest.raises(otd.StoreError):
        blocking.start()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("onthedot loop")]


def test_waiting_too_long_for_a_result_raises_a_time_out():
    sched = otd.Scheduler("memory:", settings=otd.Settings(grace=50_000))

    @sched.job
    async def endless() -> None:
        await asyncio.sleep(3600)

    with otd.BlockingScheduler(sched) as blocking:
        run = blocking.submit(endless)
        with pytest.raises(TimeoutError):
            blocking.result(run, timeout="50ms")
        assert blocking.cancel(run).kind in ("asked", "cancelled")


# ── handles ──────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def opened_door(kind: str, url: str) -> Iterator[otd.BlockingScheduler | otd.BlockingClient]:
    """Open a blocking scheduler or client for a program with the jobs `add` and `fail`."""
    sched = otd.Scheduler(url, settings=otd.Settings(poll_every=200_000))

    @sched.job
    async def add(a: int, b: int = 0) -> int:
        return a + b

    @sched.job
    async def fail() -> None:
        raise ValueError("bad data")

    with otd.BlockingScheduler(sched) as blocking:
        if kind == "scheduler":
            yield blocking
            return
        server = HttpServer(url, otd.Settings(), Listen(port=0), knows=None)
        server.start()
        try:
            with otd.BlockingClient(server.url) as client:
                yield client
        finally:
            server.stop()


@pytest.fixture(params=["scheduler", pytest.param("client", marks=pytest.mark.slow)])
def door(request, tmp_path) -> Iterator[otd.BlockingScheduler | otd.BlockingClient]:
    with opened_door(request.param, f"sqlite:///{tmp_path / 'handles.db'}") as found:
        yield found


def test_the_handle_of_a_run_blocks(door):
    run = door.submit("add", {"a": 1, "b": 2}, key="sum")
    assert isinstance(run, otd.BlockingRun)
    assert run.result(timeout="20s") == 3
    assert run.state() == otd.RunState.SUCCEEDED
    later = door.submit("add", {"a": 1}, delay="1h")
    assert later.state() == otd.RunState.SCHEDULED
    with pytest.raises(TimeoutError):
        later.result(timeout="10ms")
    assert later.cancel(why="enough").kind == "cancelled"
    assert later.cancel().kind == "ended"
    with pytest.raises(otd.RunFailed, match=r"is cancelled \(enough\)"):
        later.result(timeout="20s")
    assert door.submit("add", {"a": 1, "b": 2}, key="sum") == run


def test_every_verb_that_makes_runs_returns_blocking_handles(door):
    runs = door.submit_many(["fail", "fail"], keys=["a", "b"])
    for run in runs:
        with pytest.raises(otd.RunFailed, match="bad data"):
            run.result(timeout="20s")
    made = [*runs, door.trigger("add", {"a": 7}), door.replay(runs[0])]
    assert [type(run) for run in made] == [otd.BlockingRun] * 4
    assert [run.job for run in made] == ["fail", "fail", "add", "fail"]
    assert made[2].result(timeout="20s") == 7
    assert door.replay(runs[0]).created is False


def test_a_retry_returns_a_blocking_handle():
    sched = otd.Scheduler("memory:", settings=otd.Settings(programs=False))
    sched.command("build", ["true"], labels=["tape"])
    with otd.BlockingScheduler(sched) as blocking:
        run = blocking.submit("build", delay="1h")
        run.cancel()
        again = blocking.retry_run(run)
        assert (type(again), again.job, again.state()) == (otd.BlockingRun, "build", "scheduled")


def test_no_blocking_verb_returns_an_awaitable_handle():
    """The signatures say so too, for `help()` and editors."""
    given = {"Run": otd.BlockingRun, "list[Run]": list[otd.BlockingRun]}
    verbs = inspect.getmembers(Verbs, inspect.iscoroutinefunction)
    makes_runs = {name: given[said] for name, verb in verbs if (said := verb.__annotations__.get("return")) in given}
    assert sorted(makes_runs) == ["replay", "retry_run", "submit", "submit_many", "trigger"]
    for name, kind in makes_runs.items():
        blocking = getattr(otd.BlockingScheduler, name)
        assert inspect.signature(blocking).return_annotation == get_type_hints(blocking)["return"] == kind
        assert inspect.signature(blocking).parameters == inspect.signature(getattr(Verbs, name)).parameters


@pytest.mark.parametrize("verb", ["cancel", "get_run", "history", "logs", "retry_run", "replay", "discard", "result"])
def test_every_verb_takes_a_handle_of_either_kind(verb: str):
    sched = otd.Scheduler("memory:")
    sched.job(name="work")(lambda: None)

    def answer(run: object) -> object:
        try:
            return getattr(blocking, verb)(run)
        except otd.OnTheDotError as error:
            return str(error)

    with otd.BlockingScheduler(sched) as blocking:
        run = blocking.submit("work")
        run.result(timeout="20s")
        awaited = otd.Run(run.id, job="work", created=True, verbs=sched)
        assert answer(run) == answer(awaited) == answer(run.id)


async def test_an_async_verb_takes_a_blocking_handle():
    sched = otd.Scheduler("memory:")
    sched.job(name="work")(lambda: None)
    async with sched:
        run = await sched.submit("work", delay="1h")
        blocks = otd.BlockingRun(run.id, job="work", created=True, verbs=otd.BlockingScheduler(sched))
        assert (await sched.cancel(blocks)).kind == "cancelled"
        assert await sched.discard([blocks, run]) == 0


def test_a_blocking_handle_otherwise_behaves_like_any_handle():
    blocking, other = otd.BlockingScheduler(otd.Scheduler("memory:")), otd.Scheduler("memory:")
    run = otd.BlockingRun(7, job="work", created=True, verbs=blocking)
    same, another = (otd.Run(number, job="", created=False, verbs=other) for number in (7, 8))
    assert (run == same, same == run, run == another, hash(run) == hash(same)) == (True, True, False, True)
    assert (str(run), repr(run)) == ("7", "BlockingRun(id=7, job='work', created=True)")
    assert pickle.loads(pickle.dumps(run)) == 7  # noqa: S301 - our own
    for use in (lambda: int(run), lambda: run == 7, lambda: "abcdefgh"[run]):
        with pytest.warns(DeprecationWarning, match=r"run\.id'; the next release removes this") as told:
            use()
        assert told[0].filename == __file__
    with pytest.raises(AttributeError):
        run.id = 8  # type: ignore[misc]
    with pytest.raises(otd.StateError, match="call start"):
        run.result()
