"""Hooks and retry functions: when they are called, and that their errors never harm the worker."""

import asyncio
import threading

import pytest

import onthedot as otd
from onthedot.model.events import AttemptEnded, HookFailed
from onthedot.runners.hooks import Ended
from onthedot.stores.memory import MemoryStore
from tests.watching import Watch


async def works() -> dict[str, int]:
    return {"pages": 3}


async def fails() -> None:
    raise ConnectionError("no line")


def quickly(attempts: int) -> otd.Retry:
    return otd.Retry(attempts, delay="1ms", jitter=False)


async def test_a_hook_gets_the_arguments_of_the_run():
    calls: list[Ended] = []
    sched = otd.Scheduler("memory:")

    async def greet(name: str, loud: bool) -> None: ...

    sched.job(args={"name": "Ada", "loud": False}, on_success=calls.append)(greet)
    watch = Watch(sched)
    async with sched:
        await sched.submit("greet")
        await sched.submit("greet", {"name": "Grace", "loud": True})
        await watch.until_count(AttemptEnded, 2)
    assert [ended.args for ended in calls] == [{"name": "Ada", "loud": False}, {"name": "Grace", "loud": True}]


async def test_each_verdict_calls_the_hooks_of_the_job_and_of_the_scheduler_once():
    calls: list[tuple[str, Ended]] = []
    sched = otd.Scheduler("memory:")

    def note(kind: str):
        return lambda ended: calls.append((kind, ended))

    own = {kind: note(f"own {kind}") for kind in ("on_success", "on_failure", "on_dead")}
    sched.job(**own)(works)
    sched.job(retry=quickly(2), **own)(fails)
    for kind in own:
        getattr(sched.hooks, kind)(note(kind))
    watch = Watch(sched)
    async with sched:
        await sched.submit("works")
        await watch.until_count(AttemptEnded, 1)
        await sched.submit("fails")
        await watch.until_count(AttemptEnded, 3)
    assert [(kind, ended.job, ended.attempt, ended.state) for kind, ended in calls] == [
        ("own on_success", "works", 1, "succeeded"),
        ("on_success", "works", 1, "succeeded"),
        ("own on_failure", "fails", 1, "scheduled"),
        ("on_failure", "fails", 1, "scheduled"),
        ("own on_failure", "fails", 2, "dead"),
        ("on_failure", "fails", 2, "dead"),
        ("own on_dead", "fails", 2, "dead"),
        ("on_dead", "fails", 2, "dead"),
    ]
    assert calls[0][1].result == {"pages": 3}
    assert calls[2][1].error == "ConnectionError: no line"
    assert calls[2][1].again_at is not None
    assert calls[-1][1].again_at is None


async def test_coroutine_hooks_run_on_the_applications_loop_and_functions_in_a_thread_after_the_write():
    store, seen, asked = MemoryStore(), dict[str, object](), asyncio.Event()
    sched = otd.Scheduler(store)

    async def on_loop(ended: Ended) -> None:
        seen["loop"] = asyncio.get_running_loop()
        run = await sched.get_run(ended.run_id)
        seen["stored"] = run is not None and run.state
        asked.set()

    def in_thread(ended: Ended) -> None:
        seen["thread"] = threading.current_thread().name

    sched.job(on_success=[on_loop, in_thread])(works)
    watch = Watch(sched)
    async with sched:
        await sched.submit("works")
        await watch.until_count(AttemptEnded, 1)
        await asyncio.wait_for(asked.wait(), 10)
    assert seen == {"loop": asyncio.get_running_loop(), "stored": "succeeded", "thread": "onthedot hooks"}


class Bolt(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("error", [ValueError, Bolt, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("kind", ["coroutine", "function"])
async def test_an_error_of_a_hook_is_reported_and_changes_nothing(kind, error):
    sched = otd.Scheduler("memory:")

    async def hook(ended: Ended) -> None:
        raise error("no hook")

    def hook_function(ended: Ended) -> None:
        raise error("no hook")

    sched.job(on_success=hook if kind == "coroutine" else hook_function)(works)
    watch = Watch(sched)
    async with sched:
        for count in (1, 2):  # hooks still work after a failure
            run_id = (await sched.submit("works")).id
            failures = await watch.until_count(HookFailed, count)
            assert (failures[-1].job, failures[-1].hook) == ("works", "on_success")
            assert error.__name__ in failures[-1].error
            run = await sched.get_run(run_id)
            assert run is not None
            assert run.state == "succeeded"


@pytest.mark.slow
async def test_a_hook_that_hangs_does_not_delay_runs():
    sched, go_on = otd.Scheduler("memory:"), threading.Event()

    @sched.hooks.on_success
    def hangs(ended: Ended) -> None:
        go_on.wait(30)

    sched.job(works)
    watch = Watch(sched)
    async with sched:
        for count in (1, 2, 3):
            await sched.submit("works")
            await watch.until_count(AttemptEnded, count)
    go_on.set()
    [unfinished] = watch.of(HookFailed)
    assert "3 of them have not returned; not waited for" in unfinished.error


def test_hooks_are_not_part_of_the_definition_and_are_checked():
    sched = otd.Scheduler("memory:")
    sched.job(name="plain")(works)
    sched.job(name="hooked", on_dead=print)(works)
    assert sched.jobs["hooked"].task != sched.jobs["plain"].task
    with pytest.raises(otd.DefinitionError, match="on_dead: expected a function, got 'mail'"):
        sched.job(name="bad", on_dead="mail")(works)  # type: ignore[arg-type]
    with pytest.raises(otd.DefinitionError, match="on_failure: expected a function, got 5"):
        sched.hooks.on_failure(5)  # type: ignore[type-var]
    sched.job(name="bad")(works)  # the failed definitions left nothing behind


# ── retry=Retry(…, when=function) ────────────────────────────────────────────────────────────────────────────────


async def test_a_retry_function_decides_about_retries():
    asked = []

    def patient(attempt: int, types: tuple[str, ...], error: str) -> float | None:
        asked.append((attempt, types[0], error))
        return 0.001 if attempt < 3 else None

    sched = otd.Scheduler("memory:")
    sched.job(retry=otd.Retry(10, when=patient))(fails)
    watch = Watch(sched)
    async with sched:
        run_id = (await sched.submit("fails")).id
        await watch.until_count(AttemptEnded, 3)
        run = await sched.get_run(run_id)
    assert run is not None
    assert (run.state, run.reason, run.failures) == ("dead", "not worth a retry", 3)
    assert asked == [(n, "builtins.ConnectionError", "ConnectionError: no line") for n in (1, 2, 3)]


@pytest.mark.parametrize("error", [ValueError, Bolt, SystemExit])
async def test_a_retry_function_that_raises_falls_back_to_the_backoff(error):
    def broken(attempt: int, types: tuple[str, ...], text: str) -> float:
        raise error("no advice")

    sched = otd.Scheduler("memory:")
    sched.job(retry=otd.Retry(2, delay="1ms", jitter=False, when=broken))(fails)
    watch = Watch(sched)
    async with sched:
        await sched.submit("fails")
        ended = await watch.until_count(AttemptEnded, 2)
    assert [e.finish.verdict.state for e in ended] == ["scheduled", "dead"]
    [failure] = watch.of(HookFailed)
    assert (failure.job, failure.hook, failure.error) == ("fails", "retry.when", f"{error.__name__}: no advice")


async def test_a_program_without_the_retry_function_uses_the_backoff(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    first = otd.Scheduler(url)
    first.job(retry=otd.Retry(2, delay="1ms", jitter=False, when=lambda *_: 3600))(fails)
    async with first:
        pass
    second = otd.Scheduler(url)
    second.registry.add("fails", fails)
    watch = Watch(second)
    async with second:
        await second.submit("fails")
        ended = await watch.until_count(AttemptEnded, 2)
    assert ended[-1].finish.verdict.reason == "failed 2 times"
