"""Steps with `when="always"` also run after a time-out or a cancel, within the grace; real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.task import Step, Steps
from onthedot.runners.guard.protocol import ProgramEnd
from tests.runners.program.plain_guard import PlainGuard, guard
from tests.runners.program.test_commands import run_it, scheduler
from tests.runners.program.test_steps import lines, step

pytestmark = pytest.mark.slow

__all__ = ["guard"]  # a fixture

A_WHILE = timedelta(seconds=2)
"""Long enough for one or two shells to start and print, also on a busy machine."""
SLEEPS = step("work", "echo works; touch begun; exec sleep 60")
CLEANS = step("clean", "echo cleans", when="always")


def job(folder: Path, *steps: Step, **options: Any) -> otd.Scheduler:
    return scheduler(folder, Steps(steps=steps), **options)


async def wait_begun(folder: Path) -> None:
    """Wait until the step that sleeps has begun."""
    await asyncio.to_thread(_poll_until, lambda: bool(list(folder.glob("spool/*/work/begun"))))


def _poll_until(found: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 20
    while not found():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


async def test_after_a_time_out_only_the_always_steps_run(tmp_path: Path, guard: PlainGuard):
    steps = (
        step("set up", "echo id=7 > $OTD_OUTPUT"), SLEEPS, step("mourn", "echo mourns", when="failure"),
        step("more", "echo never"), step("tidy", "echo tidies $OTD_OUTPUT_SET_UP_ID; exit 3", when="always"), CLEANS,
    )  # fmt: skip
    record, log = await run_it(job(tmp_path, *steps, timeout=A_WHILE))
    assert lines(log) == ["works", "tidies 7", "cleans"]
    assert (record.state, record.error) == ("dead", "took longer than its time-out of 2 s")
    assert "onthedot: step 5 of 6: tidy" in log
    assert "onthedot: step 'tidy': exit code 3" in log


async def test_after_a_cancel_the_always_steps_run(tmp_path: Path, guard: PlainGuard):
    async with job(tmp_path, SLEEPS, CLEANS) as sched:
        run = await sched.submit("it")
        await wait_begun(tmp_path)
        await sched.cancel(run, why="not needed")
        with pytest.raises(otd.RunFailed, match="not needed"):
            await run.result(timeout="20s")
        [log] = await sched.logs(run)
    assert lines(log.text) == ["works", "cleans"]


async def test_all_always_steps_together_have_one_grace(tmp_path: Path, guard: PlainGuard):
    """The grace is one second here. A program that ignores SIGTERM gets the same time again before SIGKILL."""
    slow = step("slow", "echo begins; trap '' TERM; sleep 60; echo never", when="always")
    sched = job(tmp_path, SLEEPS, slow, CLEANS, timeout=A_WHILE, settings={"kill_after": SECOND})
    record, log = await run_it(sched)
    assert record.error == "took longer than its time-out of 2 s"
    assert lines(log) == ["works", "begins"]
    assert "the steps that always run were not done in time" in log
    assert [(program.timeout <= SECOND, program.grace) for program in guard.programs[1:]] == [(True, SECOND)]


async def test_the_next_attempt_begins_at_the_step_that_was_cut_off(tmp_path: Path, guard: PlainGuard):
    work = step("work", "echo works; test $OTD_ATTEMPT = 2 || exec sleep 60")
    retry = otd.Retry(2, delay="1ms")
    record, log = await run_it(job(tmp_path, step("once", "echo once"), work, CLEANS, timeout=A_WHILE, retry=retry))
    assert record.state == "succeeded"
    assert lines(log) == ["once", "works", "cleans", "works", "cleans"]


async def test_an_always_step_that_is_cut_off_does_not_run_again(tmp_path: Path, guard: PlainGuard):
    slow = step("slow", "echo slow; exec sleep 60", when="always")
    _, log = await run_it(job(tmp_path, slow, CLEANS, timeout=A_WHILE))
    assert lines(log) == ["slow", "cleans"]


async def test_a_command_without_steps_ends_at_its_time_out(tmp_path: Path, guard: PlainGuard):
    sched = scheduler(tmp_path, otd.Command(script="echo works; exec sleep 60"), timeout=A_WHILE)
    _, log = await run_it(sched)
    assert log == "works\n"


async def test_a_stopping_node_leaves_the_always_steps_to_the_next_node(tmp_path: Path, guard: PlainGuard):
    sched = job(tmp_path, SLEEPS, CLEANS)
    sched.settings = replace(sched.settings, grace=1)
    async with sched:
        await sched.submit("it")
        await wait_begun(tmp_path)
    assert [program.label for program in guard.programs] == ["work"]


async def test_an_attempt_ends_if_its_guard_dies_during_an_always_step(tmp_path: Path, guard: PlainGuard):
    guard.instead = lambda program: ProgramEnd("stopped", error="its guard died") if program.label == "clean" else None
    record, _ = await run_it(job(tmp_path, SLEEPS, CLEANS, timeout=A_WHILE))
    assert (record.state, record.error) == ("dead", "took longer than its time-out of 2 s")


async def test_a_real_guard_kills_a_stuck_step_before_the_always_steps(tmp_path: Path):
    """It first kills the step that ignores SIGTERM, with its children. Then the always steps run."""
    stuck = step("left", "echo works; setsid sleep 300 & trap '' TERM; while :; do sleep 0.1; done")
    looks = step("looks", "touch done; ls", when="always")
    sched = job(tmp_path, stuck, looks, timeout=A_WHILE, settings={"kill_after": SECOND // 2})
    sched.settings = replace(sched.settings, programs=True)
    record, log = await run_it(sched)
    assert record.error == "took longer than its time-out of 2 s"
    assert lines(log)[0] == "works"
    assert lines(log)[-1] == "done"
