"""Stores with more jobs, runs or nodes than one page holds: nothing is missed, and every cut list says so."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.cli.node_process import banner as finding
from onthedot.cli.node_process.banner import Banner, PreviousState, read_previous_state
from onthedot.clock import SECOND, SystemClock
from onthedot.model.errors import UnknownJob
from onthedot.model.job import Call as CallTask
from onthedot.model.job import Job
from onthedot.model.run import NewRun
from onthedot.operations.cluster import live_workers
from onthedot.operations.job_lookup import find_job, near_names, why_unused
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.queries import JobFilter
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node
from tests.cli.conftest import Call

MANY = 1_001
NAP = otd.Sleep(duration=timedelta(0))
pytestmark = pytest.mark.slow  # filling the store takes a second


async def fill(store: Store) -> None:
    """Store many jobs, one that no worker can run, and one of another namespace with an overdue run."""
    foreign = Job(name="zoo", task=CallTask(handler="elsewhere"), queue="night")
    far = Job(name="wanted", namespace="zeta", task=NAP)
    jobs = [*(Job(name=f"job-{number:04}", task=NAP) for number in range(MANY)), foreign, far]
    put = await asyncio.gather(*(store.put_job(job) for job in jobs))
    await store.submit([NewRun(put[-1].record.id, "api:1", SystemClock().now() - 3_600 * SECOND)])


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crowded") / "onthedot.db"

    async def make() -> None:
        store = await SqliteStore.open(path)
        await fill(store)
        await store.close()

    asyncio.run(make())
    return path


def test_check_finds_an_overdue_run_after_a_thousand_jobs(call: Call, crowded: Path):
    checked = call("store", "check", "--db", crowded, "--json")
    told = json.loads(checked.output)
    assert (checked.exit_code, told["jobs"], told["overdue"]) == (1, MANY + 2, 1)
    assert told["problems"] == ["1 run due for more than a minute, and not started"]


async def test_a_start_counts_all_jobs_and_overdue_runs(crowded: Path):
    found = await read_previous_state(f"sqlite:///{crowded}", SystemClock().now())
    assert found is not None
    assert found.in_words()[0] == f"{MANY + 2} jobs, 1 run waiting (1 of them due already)"
    assert found.as_json()["more_jobs"] is False


async def test_a_start_says_if_it_did_not_read_all_jobs(crowded: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(finding, "_MOST_JOBS", 500)
    found = await read_previous_state(f"sqlite:///{crowded}", SystemClock().now())
    assert found is not None
    assert found.in_words()[0].startswith("more than 500 jobs")
    assert (found.as_json()["jobs"], found.as_json()["more_jobs"]) == (500, True)
    warnings = _opening(found).in_words()
    assert "warning   only the first 500 stored jobs were compared with what this program can do" in warnings


async def test_a_start_warns_of_an_unrunnable_job_after_a_thousand_others(crowded: Path):
    opening = _opening(await read_previous_state(f"sqlite:///{crowded}", SystemClock().now()))
    assert [job.name for job in opening.unrunnable] == ["zoo"]


async def test_many_unrunnable_jobs_are_counted(crowded: Path):
    found = await read_previous_state(f"sqlite:///{crowded}", SystemClock().now())
    assert found is not None
    [foreign] = [record for record in found.jobs if record.job.name == "zoo"]
    lines = _opening(PreviousState(found.now, jobs=[foreign] * 13)).in_words()
    assert sum(line.startswith("warning   stored job 'zoo'") for line in lines) == 10
    assert "warning   3 other stored jobs cannot be done by this program either: 'onthedot jobs' lists them" in lines


def _opening(found: PreviousState | None) -> Banner:
    return Banner.of("memory:", found, otd.Scheduler("memory:"), [], SystemClock().now())


def test_runs_suggests_a_job_after_a_thousand_others(call: Call, crowded: Path):
    assert "did you mean 'zoo'?" in call("runs", "--db", crowded, "--job", "zoos").output
    assert "did you mean 'wanted'?" in call("runs", "--db", crowded, "--job", "wantd", "--namespace", "zeta").output


def test_json_has_all_jobs_and_a_cut_table_says_so(call: Call, crowded: Path):
    assert len(json.loads(call("jobs", "--db", crowded, "--json").output)) == MANY + 2
    assert call("jobs", "--db", crowded).output.endswith(
        "showing 1000 jobs, and there are more; --limit sets how many\n"
    )
    all_shown = call("jobs", "--db", crowded, "--limit", MANY + 2).output
    assert "zeta/wanted" in all_shown
    assert "there are more" not in all_shown


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_name_after_a_thousand_others_is_suggested(kind: str, crowded: Path):
    store: Store = await SqliteStore.open(crowded) if kind == "sqlite" else MemoryStore(SystemClock())
    if kind == "memory":
        await fill(store)
    with pytest.raises(UnknownJob, match="did you mean 'zoo'"):
        await find_job(store, "zooo")
    assert await near_names(store.queries, "wnted", JobFilter(namespaces=("zeta",))) == {"wanted"}
    assert await why_unused(store.queries, "night") is None
    assert await why_unused(store.queries, "nigth") is not None
    assert len(await store.queries.list_jobs()) == MANY + 2
    await store.close()


async def test_lists_of_a_store_have_no_limit_by_default():
    store = MemoryStore(SystemClock())
    put = await store.put_job(Job(name="one", task=NAP))
    await store.submit([NewRun(put.record.id, f"api:{number}", number) for number in range(MANY)])
    assert len(await store.queries.list_runs()) == MANY
    assert len(await store.queries.list_runs(limit=7)) == 7


async def test_the_oldest_node_is_found_after_a_thousand_new_ones():
    """A node that restarts again and again must not hide a worker that has lived for weeks."""
    store = MemoryStore(SystemClock())
    for number in range(MANY):
        await store.register(Node("old" if not number else "new", f"life-{number}", roles=("worker",)), ttl=60 * SECOND)
    places = await live_workers(store, SystemClock().now())
    assert "old" in {place.node_id for place in places}
