"""Jobs that are put while a harness runs are executed, and are removed with the harness."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

import onthedot as otd
from onthedot.testing import Harness, run_virtual

called_in: list[int] = []


def heavy() -> None:
    """A handler at module level, so that a child process could import it."""
    called_in.append(os.getpid())


def program() -> tuple[otd.Scheduler, otd.Job]:
    sched = otd.Scheduler("memory:")
    return sched, sched.job(isolation="process")(heavy).job


@pytest.mark.parametrize(
    "change", [{"priority": "high"}, {"queue": "night"}, {"labels": frozenset({"gpu"})}, {"name": "another"}]
)
def test_a_job_that_is_put_runs_here_whatever_it_needs(change: dict[str, Any]):
    sched, job = program()
    changed = replace(job, **change)

    async def main() -> list[str]:
        harness = Harness("2026-06-01T12:00Z", quiet=True)
        await harness.start(sched)
        await sched.put(changed)
        await sched.submit(changed.name)
        found = [run.state.value for run in await harness.work_once()]
        harness.close()
        return found

    called_in.clear()
    assert run_virtual(main()) == ["succeeded"]
    assert called_in == [os.getpid()]


def test_the_jobs_of_the_scheduler_are_unchanged_afterwards():
    sched, job = program()

    async def main() -> None:
        harness = Harness("2026-06-01T12:00Z", quiet=True)
        await harness.start(sched)
        await sched.put(replace(job, priority="high"))
        await sched.put(replace(job, name="another"))
        assert sched.jobs["heavy"].priority == "high"
        harness.close()

    run_virtual(main())
    assert dict(sched.jobs) == {"heavy": job}
