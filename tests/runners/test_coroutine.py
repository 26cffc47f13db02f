"""The simulated task, and what runners promise beside what the scheduler's tests show."""

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


def test_sleep_simulates_an_execution():
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


async def test_an_attempt_that_is_stopped_before_its_first_step_has_not_begun():
    """Started and stopped within one turn of the loop, as on a node that wakes up and finds its lease gone."""
    loop, ended, stuck = asyncio.get_running_loop(), list[Attempt](), list[Attempt]()
    runner = CoroutineRunner(host_of(loop, ended.extend, seats=1, stuck=stuck.extend), loop)
    no_lease: Any = None
    attempt = Attempt(no_lease, stop_as=Outcome(OutcomeKind.LOST, "its lease is gone"))
    runner.start([attempt])
    runner.stop([attempt])
    for _ in range(10):  # turns of the loop
        await asyncio.sleep(0)
    assert (ended, stuck) == ([attempt], [])
    assert not attempt.stuck  # its seat is free
    assert attempt.outcome is not None
    assert attempt.outcome.kind is OutcomeKind.RELEASED


async def test_outcomes_go_over_together_while_more_is_here_than_seats():
    """Six attempts on two seats: one hand-over, so that the store gets one batch of verdicts."""
    loop, batches, over = asyncio.get_running_loop(), list[list[Attempt]](), asyncio.Event()

    def ended(attempts: list[Attempt]) -> None:
        batches.append(attempts)
        if sum(map(len, batches)) == 6:
            over.set()

    runner = napping(loop, ended, seats=2)
    runner.start([nap(0) for _ in range(6)])
    await asyncio.wait_for(over.wait(), 10)
    assert [len(batch) for batch in batches] == [6]


async def test_outcomes_do_not_wait_for_who_has_to_wait_for_long():
    """One seat is taken for ever, and more is here than the other can hold: the first outcome is told all the same."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    runner = napping(loop, lambda _: told.set(), seats=2)
    long = [nap(3600), nap(0), nap(3600), nap(3600)]
    runner.start(long)
    await asyncio.wait_for(told.wait(), 10)
    assert [attempt.outcome is not None for attempt in long] == [False, True, False, False]
    for attempt in long:
        if attempt.handle is not None:
            attempt.handle.cancel()


def napping(loop: asyncio.AbstractEventLoop, ended: Report, *, seats: int) -> CoroutineRunner:
    return CoroutineRunner(host_of(loop, ended, seats=seats, stuck=ended), loop)


def host_of(loop: asyncio.AbstractEventLoop, ended: Report, *, seats: int, stuck: Report) -> Host:
    settings = otd.Settings(seats=seats, result_bytes=99)
    return Host(loop, SystemClock(), settings, Registry(), ended=ended, stuck=stuck, freed=stuck)


def nap(seconds: int) -> Attempt:
    """An attempt at a job that sleeps."""
    job = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(seconds=seconds)))
    lease: Any = SimpleNamespace(record=SimpleNamespace(job=job), fence=1)
    return Attempt(lease)


def test_a_result_is_json_or_a_failure():
    assert succeeded(None, 10).result is None
    assert succeeded([1, "a"], 10).result == '[1,"a"]'
    assert succeeded(float("inf"), 10).kind == "failed"
    assert succeeded({1, 2}, 10).kind == "failed"
    assert succeeded("x" * 20, 10).kind == "failed"
    endless: list = []
    endless.append(endless)
    assert succeeded(endless, 10).kind == "failed"


def test_an_error_is_told_with_its_types_and_kept_short():
    outcome = failed(ConnectionResetError("x" * 10_000))
    assert outcome.error is not None
    assert len(outcome.error) == 4_000
    assert outcome.error_types[:2] == ("builtins.ConnectionResetError", "builtins.ConnectionError")


def test_types_of_nested_classes_have_their_qualified_names():
    class Boom(OSError):
        pass

    assert type_names(Boom)[0].endswith("test_types_of_nested_classes_have_their_qualified_names.<locals>.Boom")
