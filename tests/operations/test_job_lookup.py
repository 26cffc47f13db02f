"""A run of a job takes only the declared parameters of the job, and an unknown queue is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.job import Job
from onthedot.model.task import Command, Noop, Param
from onthedot.operations import job_lookup
from onthedot.operations.job_lookup import why_unused
from onthedot.stores.memory import MemoryStore
from onthedot.stores.queries import JobCursor, JobFilter, JobPage
from onthedot.stores.sql.store import SqlQueries
from onthedot.stores.sqlite import SqliteStore

LIST = Job(
    name="list",
    task=Command(argv=("ls", "--", "${{ params.where }}")),
    params=(Param(name="where", choices=("/srv", "/etc"), required=True),),
)
WRONG = {"where": "/root", "then": "; rm -rf /"}


@pytest.mark.slow
async def test_an_undeclared_parameter_is_refused_and_nothing_is_stored():
    async with otd.Scheduler("memory:") as sched:
        await sched.put(LIST)
        for ask in (sched.submit, sched.trigger):
            with pytest.raises(otd.ArgumentsError) as told:
                await ask("list", WRONG)
            assert told.value.problems == [
                "then: expected a parameter of the job; known: where",
                'where: expected one of "/srv", "/etc", got "/root"',
            ]
            with pytest.raises(otd.ArgumentsError, match="where: expected text, got nothing; it is required"):
                await ask("list")
        with pytest.raises(otd.ArgumentsError, match="it is required"):
            await sched.submit_many(["list"])
        assert await sched.list_runs() == []
        run = await sched.submit("list", {"where": "/etc"})
        assert [one.id for one in await sched.list_runs()] == [run.id]


async def test_parameters_are_checked_if_another_program_defined_the_job(tmp_path: Path):
    store = await SqliteStore.open(tmp_path / "shop.db")
    await store.put_job(LIST)
    await store.close()
    async with otd.Scheduler(f"sqlite:///{tmp_path / 'shop.db'}") as sched:
        with pytest.raises(otd.ArgumentsError, match="known: where"):
            await sched.trigger("list", WRONG)
        assert await sched.list_runs() == []


async def test_a_definition_is_refused_if_its_arguments_do_not_fit_its_parameters():
    async with otd.Scheduler("memory:") as sched:
        with pytest.raises(otd.DefinitionError, match=r"args\.where: expected text, got 3"):
            await sched.put(Job(name="list", task=LIST.task, params=LIST.params, args={"where": 3}))
        assert await sched.list_jobs() == []


class Counting(SqlQueries):
    """Queries that count the jobs that are read."""

    jobs_read = 0

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        page: JobPage = await super().find_jobs(wanted, after=after, limit=limit)
        self.jobs_read += len(page.items)
        return page


async def test_an_unused_queue_is_reported_without_reading_every_job(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    store.queries = counting = Counting(store.database)
    for number in range(30):
        queue = "late" if number == 29 else "mail"
        await store.put_job(Job(name=f"job{number:02}", task=Noop(), queue=queue))
    monkeypatch.setattr(job_lookup, "_FEW", 10)
    assert await why_unused(store.queries, "mial") == (
        "expected a queue that a job or a node uses, got 'mial', did you mean 'mail'?"
    )
    assert counting.jobs_read == 10
    assert await why_unused(store.queries, "late") is None  # its job is not among those that are read
