"""The verbs of the library submit runs, wait for results, and list jobs, runs and attempts."""

import asyncio
import json
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import onthedot as otd
from onthedot.model.job import Call
from onthedot.operations.verbs import Verbs
from onthedot.stores.memory import MemoryStore


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'verbs.db'}"


def quick(url: object) -> otd.Scheduler:
    """Return a scheduler that polls so rarely that only hints can wake it within a test."""
    return otd.Scheduler(url, settings=otd.Settings(poll_every=50_000_000))  # type: ignore[arg-type]


async def test_a_result_equals_the_value_that_the_handler_returned(url):
    sched = quick(url)

    @sched.job
    async def echo(value: dict[str, list[object]] | str | float | bool | None) -> object:
        return value

    values: tuple[dict[str, list[object]] | str | int | None, ...] = ({"pages": [1, 2.5, None]}, "text", 0, False, None)
    async with sched:
        for value in values:
            run = await sched.submit(echo.call(value))
            async with asyncio.timeout(20):
                assert await run.result() == value
            assert await run.state() == "succeeded"
            assert await sched.result(run.id) == value


@pytest.mark.parametrize("kind", ["dead", "cancelled", "deleted"])
async def test_waiting_for_a_run_that_fails_raises_its_reason(url, kind):
    sched = otd.Scheduler(url, settings=otd.Settings(poll_every=50_000_000, expire_every=50_000))

    @sched.job
    async def broken() -> None:
        raise ConnectionError("no route")

    async with sched:
        if kind == "dead":
            run = await sched.submit(broken)
        elif kind == "cancelled":
            run = await sched.submit(broken, delay="1h")
            await run.cancel(why="not needed")
        else:
            await sched.pause("broken")
            run = await sched.submit(broken, delay="1h")
            await sched.remove("broken")
        with pytest.raises(otd.RunFailed) as failed:
            await run.result(timeout="20s")
    error = failed.value
    expected = {
        "dead": ("dead", "failed", "ConnectionError: no route"),
        "cancelled": ("cancelled", "not needed", None),
        "deleted": ("cancelled", "deleted", None),
    }[kind]
    assert (error.run_id, error.state, error.reason, error.error) == (run.id, *expected)
    assert f"run {run} is {expected[0]}" in str(error)


async def test_a_cancel_wakes_all_callers_that_wait_for_the_result(url):
    sched = quick(url)

    @sched.job
    async def later() -> None: ...

    async with sched:
        run = await sched.submit(later, delay="1h")
        waiting = [asyncio.create_task(run.result(timeout="20s")) for _ in range(3)]
        with pytest.raises(TimeoutError):
            await run.result(timeout="10ms")
        await run.cancel()
        for answer in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(answer, otd.RunFailed)


async def test_a_time_out_of_result_does_not_end_the_run(url):
    sched = otd.Scheduler(url)
    release = asyncio.Event()

    @sched.job
    async def slow() -> str:
        await release.wait()
        return "done"

    async with sched:
        run = await sched.submit(slow)
        with pytest.raises(TimeoutError):
            await run.result(timeout="50ms")
        release.set()
        assert await run.result(timeout="20s") == "done"


async def test_waiting_for_an_unknown_run_raises_an_error(url):
    sched = otd.Scheduler(url)
    async with sched:
        with pytest.raises(otd.UnknownRun, match="no run 4711"):
            await sched.result(4711, timeout="20s")


async def test_stopping_the_scheduler_wakes_callers_that_wait(url):
    sched = otd.Scheduler(url)

    @sched.job
    async def later() -> None: ...

    await sched.start()
    run = await sched.submit(later, delay="1h")
    waiting = asyncio.create_task(run.result())
    await asyncio.sleep(0.05)
    await sched.stop()
    with pytest.raises(otd.StateError):
        await asyncio.wait_for(waiting, 20)


async def test_results_are_polled_only_for_waiting_callers_and_in_one_query():
    store = MemoryStore()
    sched = quick(store)
    looks: list[int] = []
    get_runs = store.queries.get_runs

    async def counted(run_ids):
        looks.append(len(run_ids))
        return await get_runs(run_ids)

    store.queries.get_runs = counted  # type: ignore[method-assign]
    release = asyncio.Event()

    @sched.job
    async def work(n: int) -> int:
        await release.wait()
        return n

    async with sched:
        runs = await sched.submit_many(work.call(n) for n in range(50))
        assert looks == []
        waiting = asyncio.gather(*(run.result(timeout="20s") for run in runs))
        await asyncio.sleep(0.2)
        assert len(looks) <= 60
        before = len(looks)
        release.set()
        assert await waiting == list(range(50))
        assert len(looks) - before <= 60


async def test_a_hint_wakes_a_caller_in_another_process(tmp_path):
    """Two engines share one file. One works, the other waits, and its next poll is 50 s away."""
    url = f"sqlite:///{tmp_path / 'two.db'}"
    working = quick(url)
    asking = otd.Scheduler(url, settings=otd.Settings(poll_every=50_000_000, queues=("nothing",)))
    release = asyncio.Event()

    @working.job
    async def work() -> str:
        await release.wait()
        return "done"

    async with working, asking:
        run = await asking.submit("work")
        waiting = asyncio.create_task(run.result(timeout="20s"))
        await asyncio.sleep(0.1)
        release.set()
        assert await waiting == "done"


async def test_a_handle_has_an_id_and_does_not_change():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work() -> None: ...

    async with sched:
        run = await sched.submit(work)
        assert type(run.id) is int
        assert (json.dumps({"run": run.id}), f"{run}", str(run)) == (f'{{"run": {run.id}}}', str(run.id), str(run.id))
        assert pickle.loads(pickle.dumps(run)) == run.id  # noqa: S301 - our own
        assert repr(run) == f"Run(id={run.id}, job='work', created=True)"
        for name in ("created", "id", "job"):
            with pytest.raises(AttributeError):
                setattr(run, name, 7)


def test_handles_are_equal_if_their_ids_are():
    door, other = otd.Scheduler("memory:"), otd.Scheduler("memory:")
    run = otd.Run(7, job="work", created=True, verbs=door)
    same, another = (otd.Run(number, job="", created=False, verbs=other) for number in (7, 8))
    assert (run == same, run != same, run == another, hash(run) == hash(same)) == (True, False, False, True)
    assert {run, same, another} == {run, another}
    assert run != "7"


def test_using_a_handle_as_a_number_works_for_one_release_with_a_warning():
    run = otd.Run(1, job="work", created=True, verbs=otd.Scheduler("memory:"))
    uses: list[Callable[[], object]] = [
        lambda: int(run) == 1,
        lambda: "ab"[run] == "b",
        lambda: run == 1,
        lambda: 1 == run,  # noqa: SIM300 - the other way round
        lambda: run in {1},
        lambda: {1: True}[run],  # type: ignore[index]
        lambda: run != 2,
    ]
    for use in uses:
        with pytest.warns(DeprecationWarning, match=r"run\.id'; the next release removes this") as told:
            assert use()
        assert told[0].filename == __file__


@pytest.mark.parametrize("verb", ["cancel", "get_run", "history", "logs", "retry_run", "replay", "discard", "result"])
async def test_a_verb_takes_a_run_or_its_id(verb: str):
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work() -> None: ...

    answers: list[object] = []
    async with sched:
        run = await sched.submit(work)
        await run.result(timeout="20s")
        for given in (run, run.id):
            try:
                answers.append(await getattr(sched, verb)(given))
            except otd.OnTheDotError as error:
                answers.append(str(error))
    assert answers[0] == answers[1]


async def test_a_repeated_key_returns_the_first_run_and_says_so(url):
    sched = otd.Scheduler(url)

    @sched.job
    async def work(n: int) -> int:
        return n

    async with sched:
        first = await sched.submit(work.call(1), key="one")
        assert first.created is True
        await first.result(timeout="20s")
        again = await sched.submit(work.call(1), key="one")
        assert (again, again.created) == (first, False)
        with pytest.raises(otd.KeyConflict):
            await sched.submit(work.call(2), key="one")
        mixed = await sched.submit_many([work.call(1), work.call(2), work.call(2)], keys=["one", "two", "two"])
        assert [run.created for run in mixed] == [False, True, False]
        assert (mixed[0], mixed[1] == mixed[2]) == (first, True)


@pytest.mark.slow
async def test_thousands_are_submitted_in_batches():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    batches: list[int] = []
    submit = store.submit

    async def counted(runs, **more):
        batches.append(len(runs))
        return await submit(runs, **more)

    store.submit = counted  # type: ignore[method-assign]
    done: list[int] = []

    @sched.job
    async def work(n: int) -> int:
        done.append(n)
        return n

    async with sched:
        runs = await sched.submit_many(work.call(n) for n in range(2200))
        results = await asyncio.gather(*(run.result(timeout="30s") for run in runs))
    assert batches == [500, 500, 500, 500, 200]
    assert results == list(range(2200))
    assert sorted(done) == list(range(2200))
    assert len(set(runs)) == 2200


async def test_no_run_of_a_batch_is_written_if_an_argument_is_wrong(url):
    sched = otd.Scheduler(url)

    @sched.job
    async def work(n: int) -> None: ...

    async with sched:
        with pytest.raises(otd.ArgumentsError):
            await sched.submit_many([work.call(1), "work"])
        with pytest.raises(otd.UnknownJob):
            await sched.submit_many([work.call(1), "wrok"])
        with pytest.raises(otd.DefinitionError, match="one for each of 1 runs, got 2"):
            await sched.submit_many([work.call(1)], keys=["a", "b"])
        assert await sched.list_runs() == []
        assert await sched.submit_many([]) == []


def test_arguments_are_checked_when_a_call_is_made():
    sched = otd.Scheduler("memory:")

    @sched.job(args={"region": "eu"})
    async def report(ctx: otd.Context, region: str, pages: int = 3, *, deep: bool = False) -> None: ...

    assert report.call("us").args == '{"region":"us"}'
    assert report.call(pages=7, deep=True).args == '{"deep":true,"pages":7,"region":"eu"}'  # type: ignore[call-arg]
    assert report.call("us", 7).args == '{"pages":7,"region":"us"}'
    for wrong in (
        lambda: report.call("us", 7, True),  # type: ignore[call-arg]
        lambda: report.call("us", region="eu"),  # type: ignore[misc]
        lambda: report.call("us", page=7),  # type: ignore[call-arg]
        lambda: report.call(object()),  # type: ignore[arg-type]
        lambda: report.call("us", ctx=1),  # type: ignore[call-arg]
    ):
        with pytest.raises(otd.ArgumentsError, match="job 'report'"):
            wrong()


def test_a_later_change_of_an_argument_does_not_change_the_call():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work(items: list[int]) -> None: ...

    items = [1]
    call = work.call(items)
    items.append(2)
    assert call.args == '{"items":[1]}'


async def test_handler_arguments_and_submit_options_cannot_clash():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work(key: str, delay: int, expires: str, args: list[int]) -> list[object]:
        return [key, delay, expires, args]

    async with sched:
        run = await sched.submit(work.call(key="k", delay=3, expires="never", args=[1]), key="other", delay="1ms")
        assert await run.result(timeout="20s") == ["k", 3, "never", [1]]
        with pytest.raises(otd.DefinitionError, match="in the call, got more beside it"):
            await sched.submit(work.call("k", 3, "never", [1]), {"key": "x"})


async def test_a_decorated_function_can_still_be_called():
    sched, other = otd.Scheduler("memory:"), otd.Scheduler("memory:")

    @sched.job(name="adding")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @sched.job
    async def later(a: int) -> int:
        return a

    assert (add(1, b=2), await later(3)) == (3, 3)
    assert (add.__name__, add.__doc__, add.job.name) == ("add", "Add.", "adding")
    other.job(name="again")(add)
    async with other:
        run = await other.submit("again", {"a": 1, "b": 2})
        assert await run.result(timeout="20s") == 3


async def test_a_job_is_put_edited_and_removed_while_the_scheduler_runs(url):
    sched = otd.Scheduler(url)

    @sched.job
    async def handler() -> str:
        return "done"

    async with sched:
        handled = (await sched.get_job("handler")).job  # type: ignore[union-attr]
        extra = otd.Job(name="extra", task=handled.task)
        assert [(await sched.put(extra)).change for _ in range(2)] == ["created", "unchanged"]
        assert await (await sched.submit("extra")).result(timeout="20s") == "done"
        edited = otd.Job(name="extra", task=handled.task, timeout=timedelta(seconds=3))
        put = await sched.put(edited)
        assert (put.change, put.record.revision) == ("changed", 2)
        assert [record.job.name for record in await sched.list_jobs()] == ["extra", "handler"]
        await sched.remove("extra")
        assert await sched.get_job("extra") is None
        with pytest.raises(otd.UnknownHandler):
            await sched.put(otd.Job(name="bad", task=Call(handler="os.system")))
        with pytest.raises(otd.DefinitionError):
            await sched.put(otd.Job(name="bad name", task=handled.task))


async def test_runs_and_attempts_are_listed(url):
    sched = otd.Scheduler(url)

    @sched.job(retry=otd.Retry(2, delay="1ms"), namespace="team")
    async def flaky(ctx: otd.Context) -> None:
        if ctx.attempt == 1:
            raise ConnectionError("again")

    async with sched:
        run = await sched.trigger(flaky)
        await run.result(timeout="20s")
        assert [record.id for record in await sched.list_runs("flaky")] == [run.id]
        assert [attempt.outcome for attempt in await sched.history(run)] == ["failed", "succeeded"]


async def test_runs_are_filtered_by_owner_queue_node_and_time():
    sched = otd.Scheduler("memory:", settings=otd.Settings(node_id="here"))
    mail = sched.job(name="mail", queue="post", owner="ann")(lambda: None)
    report = sched.job(name="report", owner="bob")(lambda: None)
    async with sched:
        ran = [await sched.submit(job) for job in (mail, report)]
        for run in ran:
            await run.result(timeout="20s")
        mailed, reported = (run.id for run in ran)
        waits = (await sched.submit(report, delay="1h")).id

        async def found(**asked: Any) -> list[int]:
            return [run.id for run in await sched.list_runs(**asked)]

        assert await found(owner="ann") == await found(queue="post") == [mailed]
        assert await found(owner="bob") == [waits, reported]
        assert sorted(await found(node="here")) == [mailed, reported]
        due = (await sched.list_runs(node=""))[0].due
        assert await found(node="") == await found(since=due) == [waits]
        assert waits not in await found(until=due)
        assert await found(until="2026-01-01T00:00Z") == await found(label="gpu") == []
        assert [(run.owner, run.node, run.revision) for run in await sched.list_runs("mail")] == [("ann", "here", 1)]
        with pytest.raises(otd.DefinitionError, match="since"):
            await sched.list_runs(since="yesterday")


def test_the_scheduler_satisfies_the_protocol_of_verbs():
    def check(verbs: Verbs) -> None: ...

    check(otd.Scheduler("memory:"))  # mypy checks it
