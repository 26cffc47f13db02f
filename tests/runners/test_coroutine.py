"""The simulated task, and how runners report outcomes."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.runners.attempt import Attempt
from onthedot.runners.coroutine import CoroutineRunner
from onthedot.runners.outcomes import failed, succeeded, type_names
from onthedot.runners.registry import Registry
from onthedot.runners.runner import Host, Report
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def test_a_sleep_task_simulates_an_execution():
    sched = otd.Scheduler("memory:")
    sched.add(
        otd.Job(name="nap", task=otd.Sleep(duration=timedelta(seconds=3)), schedules=(otd.at("2026-06-01T12:00:10Z"),))
    )

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await harness.advance("20s")
        [run] = await harness.runs("nap")
        await harness.stop()
        return run

    run = run_virtual(scenario())
    assert run.state == "succeeded"
    assert run.ended_at - run.started_at == 3 * SECOND


async def test_an_attempt_that_is_stopped_before_its_first_step_is_released():
    """It is started and stopped in one turn of the loop, as on a node that wakes up and has lost its lease."""
    loop, ended, stuck = asyncio.get_running_loop(), list[Attempt](), list[Attempt]()
    runner = CoroutineRunner(host_of(loop, ended.extend, seats=1, stuck=stuck.extend), loop)
    no_lease: Any = None
    attempt = Attempt(no_lease, stop_as=Outcome(OutcomeKind.LOST, "its lease is gone"))
    runner.start([attempt])
    runner.stop([attempt])
    for _ in range(10):  # several turns of the loop
        await asyncio.sleep(0)
    assert (ended, stuck) == ([attempt], [])
    assert not attempt.stuck  # its seat is free
    assert attempt.outcome is not None
    assert attempt.outcome.kind is OutcomeKind.RELEASED


async def test_outcomes_are_reported_together_while_attempts_wait_for_seats():
    """Six attempts on two seats give one report, so that the store gets one batch of verdicts."""
    loop, batches, all_reported = asyncio.get_running_loop(), list[list[Attempt]](), asyncio.Event()

    def ended(attempts: list[Attempt]) -> None:
        batches.append(attempts)
        if sum(map(len, batches)) == 6:
            all_reported.set()

    runner = coroutine_runner(loop, ended, seats=2)
    runner.start([nap(0) for _ in range(6)])
    await asyncio.wait_for(all_reported.wait(), 10)
    assert [len(batch) for batch in batches] == [6]


async def test_an_outcome_does_not_wait_for_a_long_attempt():
    """One seat is busy for an hour, and more attempts wait than the other seat can take. Still the first outcome is
    reported."""
    loop, reported = asyncio.get_running_loop(), asyncio.Event()
    runner = coroutine_runner(loop, lambda _: reported.set(), seats=2)
    long = [nap(3600), nap(0), nap(3600), nap(3600)]
    runner.start(long)
    await asyncio.wait_for(reported.wait(), 10)
    assert [attempt.outcome is not None for attempt in long] == [False, True, False, False]
    for attempt in long:
        if attempt.handle is not None:
            attempt.handle.cancel()


def coroutine_runner(loop: asyncio.AbstractEventLoop, ended: Report, *, seats: int) -> CoroutineRunner:
    return CoroutineRunner(host_of(loop, ended, seats=seats, stuck=ended), loop)


def host_of(loop: asyncio.AbstractEventLoop, ended: Report, *, seats: int, stuck: Report) -> Host:
    settings = otd.Settings(seats=seats, result_bytes=99)
    return Host(loop, SystemClock(), settings, Registry(), ended=ended, stuck=stuck, freed=stuck)


def nap(seconds: int) -> Attempt:
    """Returns an attempt of a job that sleeps."""
    job = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(seconds=seconds)))
    lease: Any = SimpleNamespace(record=SimpleNamespace(job=job), fence=1)
    return Attempt(lease)


def test_a_result_that_is_not_json_is_a_failure():
    assert succeeded(None, 10).result is None
    assert succeeded([1, "a"], 10).result == '[1,"a"]'
    assert succeeded(float("inf"), 10).kind == "failed"
    assert succeeded({1, 2}, 10).kind == "failed"
    assert succeeded("x" * 20, 10).kind == "failed"
    endless: list = []
    endless.append(endless)
    assert succeeded(endless, 10).kind == "failed"


def test_an_error_has_its_types_and_is_cut():
    outcome = failed(ConnectionResetError("x" * 10_000))
    assert outcome.error is not None
    assert len(outcome.error) == 4_000
    assert outcome.error_types[:2] == ("builtins.ConnectionResetError", "builtins.ConnectionError")


def test_types_of_nested_classes_have_their_qualified_names():
    class Boom(OSError):
        pass

    assert type_names(Boom)[0].endswith("test_types_of_nested_classes_have_their_qualified_names.<locals>.Boom")
