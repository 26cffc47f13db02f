"""A new run that goes on where another has ended settles the dead letter of that one, on every store."""

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
    """A run of a command that has ended."""
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


async def test_the_letter_is_settled_by_the_new_run(store: Store):
    dead = await ended(store)
    made, _ = await rerun(store, dead, None, token="a", now=LATER)
    assert await settled(store, dead) == f"replayed:{made}"
    assert await store.queries.list_dead() == []


async def test_to_replay_it_afterwards_is_the_same_run(store: Store):
    dead = await ended(store)
    made, _ = await rerun(store, dead, None, token="a", now=LATER)
    assert (await replay_letter(store, dead, clock=SystemClock()))[1:] == (made, False)


async def test_again_is_another_run_and_what_was_said_first_stays(store: Store):
    dead = await ended(store)
    first, _ = await rerun(store, dead, None, token="a", now=LATER)
    second, _ = await rerun(store, dead, None, token="b", now=LATER)
    assert first != second
    assert await settled(store, dead) == f"replayed:{first}"


async def test_one_that_was_discarded_stays_so(store: Store):
    dead = await ended(store)
    assert await discard_letters(store, [dead], why="known") == [dead]
    await rerun(store, dead, None, token="a", now=LATER)
    assert await settled(store, dead) == "discarded:known"


async def test_what_is_no_letter_is_not_settled(store: Store):
    done = await ended(store, SUCCESS)
    await rerun(store, done, None, token="a", now=LATER)
    assert await settled(store, done) == ""


# ── the name belongs to another job by now ───────────────────────────────────────────────────────────────────


async def renamed(store: Store) -> int:
    """A dead run of a deleted job, whose name another owner's job has."""
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


async def test_nothing_is_run_again_for_who_does_not_see_the_job(store: Store):
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
