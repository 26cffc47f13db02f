"""The history of real processes contains enough for the checker to find broken rules."""

from __future__ import annotations

from onthedot.ids import SeededIds
from onthedot.model.job import Call, Guarantee, Job, ability_of
from onthedot.model.run import NewRun, RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node, ReserveRequest
from tests.crash.victim import Journal
from tests.processes.history import broken_rules
from tests.processes.kit import SECOND, Cluster, now


async def one_run(nodes: Cluster) -> dict[str, object]:
    """Store a run that has succeeded, and return the fields that its handler would note."""
    store, ids = await SqliteStore.open(nodes.database), SeededIds(1)
    job = Job(name="job", task=Call(handler="job"), guarantee=Guarantee.AT_MOST_ONCE)
    put = await store.put_job(job)
    await store.submit([NewRun(put.record.id, "submit:1", now() - SECOND)])
    await store.register(Node("n", "inc"), ttl=60 * SECOND)
    [lease] = (await store.reserve(ReserveRequest("inc", ids.leases(1), 1, tasks=frozenset({ability_of(job)})))).armed
    began = now()
    assert await store.finish([Finish(lease, Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED), began, began + 5)])
    await store.close()
    return {
        "job": "job", "run": lease.run_id, "attempt": 1, "fence": lease.fence, "slot": lease.slot_at, "at": began + 1,
    }  # fmt: skip


async def broken(tmp_path, *noted: str, **other: int) -> set[str]:
    """Return the names of the rules that are broken if the handler has noted these events."""
    nodes = Cluster(tmp_path)
    seen = await one_run(nodes)
    journal = Journal(nodes.journal)
    for event in noted:
        journal.note(event, **(seen | other))
    return {violation.rule for violation in await broken_rules(nodes)}


async def test_a_correct_history_breaks_no_rule(tmp_path):
    assert await broken(tmp_path, "start", "end") == set()


async def test_a_second_start_is_found(tmp_path):
    assert await broken(tmp_path, "start", "end", "start", "end") == {"S5", "S9"}


async def test_a_success_without_an_end_is_found(tmp_path):
    assert await broken(tmp_path, "start") == {"matching by key", "matching by time"}


async def test_an_early_start_is_found(tmp_path):
    early = now() - 3 * SECOND
    assert {"S2", "S3"} <= await broken(tmp_path, "start", "end", at=early)
