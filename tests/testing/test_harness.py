"""The harness runs a user's scheduler in virtual time, with crashes and lost answers on request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import to_micros
from onthedot.model.errors import DefinitionError, StateError, UnknownJob
from onthedot.testing import Harness, run_virtual

NOON = "2026-06-01T12:00+00:00"


def play(sched: otd.Scheduler, test: Callable[[Harness], Any], at: str = NOON, **options: Any) -> None:
    """Run a test with a harness that runs this scheduler."""

    async def main() -> None:
        h = Harness(at, quiet=True, **options)
        await h.start(sched)
        try:
            await test(h)
        finally:
            h.close()

    run_virtual(main())


def clock_times(instants) -> list[str]:
    return [f"{instant:%H:%M:%S}" for instant in instants]


def test_plain_functions_run_one_at_a_time_and_take_no_virtual_time():
    sched = otd.Scheduler("memory:")
    seen: list[tuple[str, int]] = []
    at_once = threading.Semaphore(1)

    def note(name: str) -> None:
        assert at_once.acquire(blocking=False)
        seen.append((name, threading.get_ident()))
        at_once.release()

    for name in "abc":
        sched.job(name=name, schedule=otd.every("1h"))(lambda name=name: note(name))

    async def test(h: Harness) -> None:
        await h.advance("3h")
        assert clock_times(h.starts()) == ["13:00:00"] * 3 + ["14:00:00"] * 3 + ["15:00:00"] * 3
        assert {run.state for run in await h.runs()} == {"succeeded"}

    play(sched, test)
    assert "".join(name for name, _ in seen) == "abc" * 3
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_a_plain_function_can_save_a_checkpoint_and_call_the_scheduler():
    sched = otd.Scheduler("memory:")

    @sched.job(retry=otd.Retry(2, delay="1m", jitter=False))
    def load(ctx: otd.Context) -> Any:
        if ctx.attempt == 1:
            ctx.checkpoint_blocking("half")
            asyncio.run(submit_other())
            raise OSError("in the middle")
        return ctx.last_checkpoint

    @sched.job
    async def other() -> None: ...

    async def submit_other() -> None:
        await sched.submit(other)

    async def test(h: Harness) -> None:
        run = await sched.submit(load)
        assert await run.result(timeout="5m") == "half"
        assert clock_times(h.starts(load)) == ["12:00:00", "12:01:00"]
        assert [found.state for found in await h.runs(other)] == ["succeeded"]

    play(sched, test)


def test_coroutines_take_the_time_that_they_sleep_and_may_overlap():
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.every("10m"), overlap="skip")
    async def slow() -> None:
        await asyncio.sleep(15 * 60)

    async def test(h: Harness) -> None:
        await h.advance("50m")
        assert clock_times(h.starts(slow)) == ["12:10:00", "12:30:00", "12:50:00"]
        assert [run.reason for run in await h.runs(slow, state="skipped")] == ["overlap"] * 2
        assert len(await h.runs(slow, state=("running", "succeeded"))) == 3

    play(sched, test)


def test_future_slots_are_listed_only_on_request():
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.every("1m"))
    async def often() -> None: ...

    async def test(h: Harness) -> None:
        await h.advance("2m")
        assert len(await h.runs(often)) == 2
        assert await h.runs(often, state="scheduled")
        planned = await h.plan_once()
        assert planned[0].due_at == to_micros(h.now) + 60_000_000
        assert len(await h.runs(often)) == 2

    play(sched, test)


def test_work_once_executes_due_runs_and_does_not_move_the_clock():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def twice(number: int) -> int:
        return 2 * number

    @sched.job(retry=otd.Retry(3, delay="1h"))
    def fails() -> None:
        raise OSError("no")

    async def test(h: Harness) -> None:
        assert await h.work_once() == []
        await sched.submit(twice.call(21))
        await sched.submit(fails)
        await sched.submit(twice.call(1), delay="1m")
        done, failed = await h.work_once()
        assert (done.result, done.state) == ("42", "succeeded")
        assert (failed.state, failed.failures, failed.attempts) == ("scheduled", 1, 1)
        assert h.now.isoformat() == "2026-06-01T12:00:00+00:00"

    play(sched, test)


@pytest.mark.parametrize(("guarantee", "states"), [("at_least_once", ["succeeded"]), ("at_most_once", ["lost"])])
def test_a_run_of_a_crashed_node_obeys_its_guarantee_after_the_lease(guarantee, states):
    sched = otd.Scheduler("memory:")
    ended: list[str] = []

    @sched.job(guarantee=guarantee)
    async def slow() -> None:
        await asyncio.sleep(60)
        ended.append("yes")

    async def test(h: Harness) -> None:
        await sched.submit(slow)
        await h.advance("10s")
        await h.crash()
        with pytest.raises(StateError, match="not running"):
            await sched.submit(slow)
        await h.advance("5s")
        await h.restart()
        await h.advance("5m")
        assert [run.state for run in await h.runs(slow)] == states
        if states == ["succeeded"]:
            assert clock_times(h.starts(slow)) == ["12:00:00", "12:00:25"]

    play(sched, test)
    assert len(ended) == (states == ["succeeded"])


def test_a_new_node_plans_after_the_term_of_the_crashed_one():
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.every("1s"), overlap="allow")
    async def tick() -> None: ...

    async def test(h: Harness) -> None:
        await h.advance("1m")
        await h.crash()
        await h.restart()
        await h.advance("10m")
        assert len(h.starts(tick)) == 11 * 60

    play(sched, test)


def test_a_lost_answer_changes_no_result():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def once() -> None: ...

    async def test(h: Harness) -> None:
        for operation in ("reserve", "finish"):
            h.lose_answer(operation)
            await sched.submit(once)
            await h.advance("1m")
        assert len(h.starts(once)) == 2
        assert [run.state for run in await h.runs(once)] == ["succeeded"] * 2
        with pytest.raises(DefinitionError, match="did you mean 'finish'"):
            h.lose_answer("finnish")

    play(sched, test)


def test_a_pause_ends_exactly_at_its_end():
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.every("1m"))
    async def often() -> None: ...

    async def test(h: Harness) -> None:
        await sched.pause("often", until=h.now.replace(minute=7, second=30))
        await h.advance("10m")
        assert clock_times(h.starts(often)) == ["12:08:00", "12:09:00", "12:10:00"]

    play(sched, test)


def test_every_queue_and_label_of_the_program_is_served():
    sched = otd.Scheduler("memory:")

    @sched.job(queue="mail", labels=["gpu"])
    async def far_away() -> None: ...

    async def test(h: Harness) -> None:
        await sched.submit(far_away)
        [run] = await h.work_once()
        assert run.state == "succeeded"

    play(sched, test)


def test_a_harness_may_run_only_some_jobs():
    sched = otd.Scheduler("memory:")
    for name in ("often", "rarely"):
        sched.job(name=name, schedule=otd.every("1s" if name == "often" else "1h"))(lambda: None)

    async def main() -> None:
        h = Harness(NOON, quiet=True)
        with pytest.raises(UnknownJob, match="did you mean 'rarely'"):
            await h.start(sched, only=["rarly"])
        await h.start(sched, only=["rarely"])
        await h.advance("1h")
        await h.crash()
        await h.restart()
        await h.advance("1h")
        assert clock_times(h.starts()) == ["13:00:00", "14:00:00"]
        h.close()

    run_virtual(main())


def test_the_scheduler_can_be_used_again_afterwards():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def job() -> None: ...

    async def test(h: Harness) -> None:
        await sched.submit(job)
        await sched.stop()
        with pytest.raises(StateError, match="no node is running"):
            h.engine.wake("planner")

    play(sched, test)
    sched.job(name="later")(lambda: None)
    assert set(sched.jobs) == {"job", "later"}


def test_a_subscriber_that_raises_is_not_hidden():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def job() -> None: ...

    def raises(event: object) -> None:
        if type(event).__name__ == "AttemptStarted":
            raise ValueError("my own bug")

    sched.subscribe(raises)

    async def test(h: Harness) -> None:
        await sched.submit(job)
        await h.advance("1s")

    with pytest.raises(ValueError, match="my own bug"):
        play(sched, test)


def test_a_mistake_in_a_test_raises_a_clear_error():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def report() -> None: ...

    async def test(h: Harness) -> None:
        for ask in (h.runs("reprot"), h.skips("reprot")):
            with pytest.raises(UnknownJob, match="did you mean 'report'"):
                await ask
        with pytest.raises(UnknownJob, match="did you mean 'report'"):
            h.starts("reprot")
        with pytest.raises(DefinitionError, match="state: expected one of scheduled"):
            await h.runs("report", state="failed")
        with pytest.raises(DefinitionError, match="advance: expected a length of time"):
            await h.advance("3 dogs")
        with pytest.raises(StateError, match="running already"):
            await h.restart()

    play(sched, test)
