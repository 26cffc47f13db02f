"""A worker serves the queues of its program's jobs, unless the settings name other ones."""

from __future__ import annotations

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.job import Call, Job
from onthedot.model.run import RunState
from onthedot.stores.memory import MemoryStore


async def test_a_job_in_its_own_queue_runs_without_any_setting():
    sched = otd.Scheduler("memory:")

    @sched.job(queue="mail")
    async def receipt() -> str:
        return "sent"

    async with sched:
        assert await (await sched.submit(receipt.call())).result(timeout="10s") == "sent"


async def test_a_job_in_a_new_queue_runs_if_it_is_put_while_the_node_runs():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def receipt() -> str:
        return "sent"

    async with sched:
        await sched.put(Job(name="late", task=Call(handler="receipt"), queue="bulk"))
        assert await (await sched.submit("late")).result(timeout="10s") == "sent"


def program(store: MemoryStore, settings: otd.Settings) -> otd.Scheduler:
    sched = otd.Scheduler(store, settings=settings)

    @sched.job(queue="mail")
    async def receipt() -> None: ...

    @sched.job
    async def other() -> None: ...

    return sched


async def served(settings: otd.Settings) -> tuple[tuple[str, ...], dict[str, RunState | None]]:
    """Return the queues that the node registered and the state of one run of each job.

    The states are read when a later run of the default queue has ended.
    """
    store = MemoryStore()
    sched = program(store, settings)
    async with sched:
        runs = {name: await sched.submit(name) for name in ("receipt", "other")}
        await (await sched.submit("other")).result(timeout="10s")
        if settings.queues is None:
            await runs["receipt"].result(timeout="10s")
        [node] = await store.queries.list_nodes()
        return node.queues, {name: await run.state() for name, run in runs.items()}


async def test_a_worker_serves_its_programs_queues_and_the_default_one():
    queues, runs = await served(otd.Settings())
    assert queues == ("default", "mail")
    assert set(runs.values()) == {RunState.SUCCEEDED}


async def test_a_worker_serves_only_the_queues_of_its_settings():
    queues, runs = await served(otd.Settings(queues=("default",)))
    assert queues == ("default",)
    assert runs == {"receipt": RunState.SCHEDULED, "other": RunState.SUCCEEDED}


async def test_a_put_adds_no_queue_to_those_of_the_settings():
    sched = otd.Scheduler("memory:", settings=otd.Settings(queues=("default",), poll_every=SECOND // 20))

    @sched.job
    async def receipt() -> None: ...

    async with sched:
        await sched.put(Job(name="late", task=Call(handler="receipt"), queue="bulk"))
        waits = await sched.submit("late")
        await (await sched.submit("receipt")).result(timeout="10s")
        assert await waits.state() == RunState.SCHEDULED
