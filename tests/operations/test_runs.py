"""A retry of a dead run settles its dead letter, and never runs another job of the same name, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.clock import SystemClock
from onthedot.model.errors import UnknownJob
from onthedot.model.events import Events
from onthedot.model.task import Command
from onthedot.operations.dead_letters import Box, discard_letters, replay_letter, replay_letters
from onthedot.operations.runs import rerun
from onthedot.stores.connect import open_store
from onthedot.stores.protocol import Store
from onthedot_verify.contract import Workbench
from onthedot_verify.contract.workbench import DEAD, SUCCESS, at

LATER = at(60)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/otd.db"}
    servers = {"postgres": "postgres_url", "redis": "valkey_url"}
    kind = request.param
    opened = await open_store(urls[kind] if kind in urls else request.getfixturevalue(servers[kind]))
    yield opened
    await opened.close()


async def ended(store: Store, verdict=DEAD) -> int:
    """Make a run of a command that ends with this verdict, and return its id."""
    bench = Workbench(store)
    record, node = await bench.define(task=Command(argv=("true",))), await bench.node()
    run_id = await bench.submit(record)
    [lease] = (await bench.reserve(node, seats=1, tasks=frozenset({"command"}))).armed
    assert await bench.finish(lease, verdict)
    return run_id


async def settled(store: Store, run_id: int) -> str:
    run = await store.queries.get_run(run_id)
    assert run is not None
    return run.settled


async def test_a_retry_settles_the_letter(store: Store):
    dead = await ended(store)
    made, _ = await rerun(store, dead, None, token="a", now=LATER)
    assert await settled(store, dead) == f"replayed:{made}"
    assert await store.queries.list_dead() == []


async def test_a_replay_after_a_retry_gives_the_same_run(store: Store):
    dead = await ended(store)
    made, _ = await rerun(store, dead, None, token="a", now=LATER)
    assert (await replay_letter(store, dead, clock=SystemClock()))[1:] == (made, False)


async def test_a_second_retry_makes_another_run_and_the_letter_names_the_first(store: Store):
    dead = await ended(store)
    first, _ = await rerun(store, dead, None, token="a", now=LATER)
    second, _ = await rerun(store, dead, None, token="b", now=LATER)
    assert first != second
    assert await settled(store, dead) == f"replayed:{first}"


async def test_a_discarded_letter_stays_discarded_after_a_retry(store: Store):
    dead = await ended(store)
    assert await discard_letters(store, [dead], why="known") == [dead]
    await rerun(store, dead, None, token="a", now=LATER)
    assert await settled(store, dead) == "discarded:known"


async def test_a_retry_of_a_run_that_succeeded_settles_nothing(store: Store):
    done = await ended(store, SUCCESS)
    await rerun(store, done, None, token="a", now=LATER)
    assert await settled(store, done) == ""


# ── another job has the name now ─────────────────────────────────────────────────────────────────────────────


async def renamed(store: Store) -> int:
    """Make a dead run of a deleted job and a job of another owner with the same name; return the run's id."""
    dead = await ended(store)
    run = await store.queries.get_run(dead)
    assert run is not None
    await store.delete_job(run.job_id)
    again = await Workbench(store).define(task=Command(argv=("false",)), owner="bob")
    assert again.id != run.job_id
    return dead


async def test_a_retry_does_not_run_the_job_that_has_the_name_now(store: Store):
    dead = await renamed(store)
    with pytest.raises(UnknownJob, match=f"run {dead}: its job 'job' was deleted; another job has that name now"):
        await rerun(store, dead, None, token="a", now=LATER)
    assert [run.id for run in await store.queries.list_dead()] == [dead]
    assert await store.queries.get_run(dead + 1) is None


async def test_a_replay_does_not_run_the_job_that_has_the_name_now(store: Store):
    dead = await renamed(store)
    with pytest.raises(UnknownJob, match=f"run {dead}: its job 'job' was deleted; another job has that name now"):
        await replay_letter(store, dead, clock=SystemClock())
    answer = await replay_letters(store, Box(), rate=None, dry_run=False, clock=SystemClock(), events=Events())
    assert (answer.letters, answer.without_job, answer.run_ids) == (1, 1, ())
    assert [run.id for run in await store.queries.list_dead()] == [dead]


async def test_a_caller_who_may_not_see_the_job_cannot_run_it_again(store: Store):
    dead = await ended(store)

    def sees(namespace: str, owner: str) -> bool:
        return owner == "bob"

    with pytest.raises(UnknownJob):
        await rerun(store, dead, None, token="a", now=LATER, sees=sees)
    with pytest.raises(UnknownJob):
        await replay_letter(store, dead, clock=SystemClock(), sees=sees)
    answer = await replay_letters(
        store, Box(), rate=None, dry_run=False, clock=SystemClock(), events=Events(), sees=sees
    )
    assert (answer.letters, answer.without_job) == (1, 1)
    assert [run.id for run in await store.queries.list_dead()] == [dead]
