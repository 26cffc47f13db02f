"""`apply` stores the jobs of a source, reports what changes, and leaves all other jobs alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.access import audit
from onthedot.model.errors import DefinitionError, RevisionConflict, SourceConflict, StoreUnavailable
from onthedot.model.job import Pause
from onthedot.model.task import Noop
from onthedot.operations.apply import KIND, Applied
from onthedot.operations.open_verbs import OpenVerbs, opened
from onthedot.rules.pauses import pause_of


def job(name: str, time: str = "0 2 * * *", **more: object) -> otd.Job:
    return otd.Job(name=name, task=Noop(), schedules=(otd.cron(time),), **more)  # type: ignore[arg-type]


@pytest.fixture(params=["memory", "sqlite"])
async def verbs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenVerbs]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'apply.db'}"
    async with opened(url) as there:
        yield there.verbs(door="a test")


async def names(verbs: OpenVerbs) -> list[str]:
    return [record.job.name for record in await verbs.list_jobs()]


def kinds(applied: Applied) -> dict[str, str]:
    return {one.name: one.kind for one in applied.differences}


async def test_a_dry_run_reports_what_apply_then_does(verbs: OpenVerbs):
    first = [job("a"), job("b")]
    planned = await verbs.apply(first, source="jobs.yaml", dry_run=True)
    assert await names(verbs) == []
    assert await verbs.there.store.documents.list_documents(KIND) == []
    done = await verbs.apply(first, source="jobs.yaml")
    assert kinds(planned) == kinds(done) == {"a": "created", "b": "created"}
    assert (planned.dry_run, done.dry_run, done.changes) == (True, False, 2)
    again = await verbs.apply(first, source="jobs.yaml")
    assert (kinds(again), again.changes) == ({"a": "unchanged", "b": "unchanged"}, 0)
    [changed, same] = (await verbs.apply([job("a", "0 3 * * *"), job("b")], source="jobs.yaml")).differences
    assert (changed.kind, len(changed.moved), same.kind) == ("changed", 30, "unchanged")


async def test_only_jobs_of_the_source_are_removed_and_only_with_prune(verbs: OpenVerbs):
    await verbs.put(job("by_hand"))
    await verbs.apply([job("other")], source="other.yaml")
    await verbs.apply([job("a"), job("b")], source="jobs.yaml")
    kept = await verbs.apply([job("a")], source="jobs.yaml")
    assert kept.left == ("b",)
    assert await names(verbs) == ["a", "b", "by_hand", "other"]
    planned = await verbs.apply([job("a")], source="jobs.yaml", prune=True, dry_run=True)
    assert kinds(planned) == {"a": "unchanged", "b": "removed"}
    await verbs.apply([job("a")], source="jobs.yaml", prune=True)
    assert await names(verbs) == ["a", "by_hand", "other"]
    assert (await verbs.apply([job("a")], source="jobs.yaml", prune=True)).changes == 0


async def test_a_job_of_another_source_is_not_overwritten(verbs: OpenVerbs):
    await verbs.apply([job("a"), job("b")], source="other.yaml")
    jobs = [job("new"), job("a", "0 3 * * *"), job("b")]
    planned = await verbs.apply(jobs, source="jobs.yaml", dry_run=True)
    assert (planned.refused, planned.elsewhere) == (("a", "b"), {"a": "other.yaml", "b": "other.yaml"})
    with pytest.raises(SourceConflict) as refused:
        await verbs.apply(jobs, source="jobs.yaml", prune=True)
    assert [problem.partition(";")[0] for problem in refused.value.problems] == [
        "job 'a' is stored from other.yaml", "job 'b' is stored from other.yaml",
    ]  # fmt: skip
    assert await names(verbs) == ["a", "b"]
    assert (await verbs.apply([job("a"), job("b")], source="other.yaml")).changes == 0


async def test_with_take_over_a_job_of_another_source_changes_its_source(verbs: OpenVerbs):
    await verbs.put(job("by_hand"))
    await verbs.apply([job("other")], source="other.yaml")
    taken = await verbs.apply([job("by_hand"), job("other")], source="jobs.yaml", take_over=True)
    assert taken.refused == ()
    assert taken.elsewhere == {"by_hand": "", "other": "other.yaml"}
    assert (await verbs.apply([], source="other.yaml", prune=True)).changes == 0
    assert await names(verbs) == ["by_hand", "other"]


async def test_apply_keeps_the_pause_of_a_job(verbs: OpenVerbs):
    await verbs.apply([job("a")], source="jobs.yaml")
    await verbs.pause("a", reason="stocktaking")
    applied = await verbs.apply([job("a", "0 3 * * *")], source="jobs.yaml")
    record = await verbs.get_job("a")
    assert record is not None
    assert (record.state, record.revision, record.pause_reason) == ("paused", 2, "stocktaking")
    assert applied.paused == ("a",)


PAUSED = Pause(reason="it moves", until=datetime(2096, 1, 1, tzinfo=UTC))


async def pause_in(verbs: OpenVerbs, name: str = "a") -> Pause | None:
    return pause_of(await verbs.get_job(name))


async def audited(verbs: OpenVerbs) -> list[str]:
    """Return the verbs in the audit log, oldest first."""
    return [one.verb for one in await audit.read(verbs.there.store)]


async def test_a_job_that_its_source_pauses_is_created_paused(verbs: OpenVerbs, monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[int, str]] = []
    store = verbs.there.store
    put_job = store.put_job

    async def put(job: otd.Job, *given: Any, **options: Any) -> Any:
        record = await store.queries.get_job(job.name)
        seen.append((len(job.schedules), "" if record is None else str(record.state)))
        return await put_job(job, *given, **options)

    monkeypatch.setattr(store, "put_job", put)
    planned = await verbs.apply([job("a", "* * * * *", paused=PAUSED)], source="jobs.yaml", dry_run=True)
    applied = await verbs.apply([job("a", "* * * * *", paused=PAUSED)], source="jobs.yaml")
    assert seen == [(0, ""), (1, "paused")], "expected the job to be paused before it gets a schedule"
    for told in (planned, applied):
        [one] = told.differences
        assert (one.kind, one.appear, told.paused) == ("created", (), ())
        assert one.fields["paused"] == (None, {"reason": "it moves", "until": "2096-01-01T00:00Z"})
    assert await pause_in(verbs) == PAUSED
    assert await verbs.list_runs(job="a") == []
    record = await verbs.get_job("a")
    assert record is not None
    assert record.job == job("a", "* * * * *")
    assert record.job.paused is None
    assert await audited(verbs) == ["jobs.create", "jobs.pause"]
    assert (await verbs.apply([job("a", "* * * * *", paused=PAUSED)], source="jobs.yaml")).changes == 0
    assert await audited(verbs) == ["jobs.create", "jobs.pause"]


async def test_a_source_pauses_and_resumes(verbs: OpenVerbs):
    await verbs.apply([job("a")], source="jobs.yaml")
    paused = await verbs.apply([job("a", "0 3 * * *", paused=Pause())], source="jobs.yaml")
    assert (paused.differences[0].fields["paused"], paused.changes) == ((False, True), 1)
    assert (len(paused.differences[0].vanish), paused.paused) == (30, ())
    assert await pause_in(verbs) == Pause()
    await verbs.pause("a", reason="by hand")
    for says in (None, Pause(), Pause(reason="over", until=datetime(2020, 1, 1, tzinfo=UTC))):
        same = await verbs.apply([job("a", "0 3 * * *", paused=says)], source="jobs.yaml")
        assert (same.changes, same.paused, await pause_in(verbs)) == (0, ("a",), Pause(reason="by hand"))
    again = await verbs.apply([job("a", "0 3 * * *", paused=PAUSED)], source="jobs.yaml")
    assert (kinds(again), await pause_in(verbs)) == ({"a": "changed"}, PAUSED)
    told = await verbs.apply([job("a", "0 3 * * *", paused=Pause(on=False))], source="jobs.yaml", dry_run=True)
    assert (len(told.differences[0].appear), await pause_in(verbs)) == (30, PAUSED)
    await verbs.apply([job("a", "0 3 * * *", paused=Pause(on=False))], source="jobs.yaml")
    assert await pause_in(verbs) is None
    assert (await verbs.apply([job("a", "0 3 * * *", paused=Pause(on=False))], source="jobs.yaml")).changes == 0
    assert await audited(verbs) == [
        "jobs.create", "jobs.edit", "jobs.pause", "jobs.pause", "jobs.pause", "jobs.resume",
    ]  # fmt: skip


async def test_put_pauses_and_resumes_a_job_as_its_definition_says(verbs: OpenVerbs):
    put = await verbs.put(job("a", paused=PAUSED))
    assert (put.change, put.pause, str(put.record.state), await pause_in(verbs)) == (
        "created",
        "pause",
        "paused",
        PAUSED,
    )
    with pytest.raises(RevisionConflict):
        await verbs.put(job("a", "0 3 * * *", paused=Pause(reason="else")), revision=7)
    assert await pause_in(verbs) == PAUSED
    put = await verbs.put(job("a", paused=Pause(on=False)))
    assert (put.change, put.pause, str(put.record.state)) == ("unchanged", "resume", "active")


async def test_a_job_that_was_deleted_by_hand_is_created_again(verbs: OpenVerbs):
    await verbs.apply([job("a")], source="jobs.yaml")
    await verbs.remove("a")
    assert kinds(await verbs.apply([job("a")], source="jobs.yaml")) == {"a": "created"}


async def test_jobs_of_the_same_name_in_two_namespaces_are_separate(verbs: OpenVerbs):
    await verbs.apply([job("a"), job("a", namespace="night")], source="jobs.yaml")
    applied = await verbs.apply([job("a")], source="jobs.yaml", prune=True)
    assert kinds(applied) == {"a": "unchanged", "night/a": "removed"}


async def test_nothing_is_written_if_a_job_is_invalid(verbs: OpenVerbs):
    wrong = [job("a"), job("b", queue="no queue"), job("c", max_recoveries=-1), job("a")]
    with pytest.raises(DefinitionError) as raised:
        await verbs.apply(wrong, source="what is this?")
    told = "\n".join(raised.value.problems)
    assert all(part in told for part in ("source:", "job 'b'", "job 'c'", "job 'a': expected it once, got it 2 times"))
    assert await names(verbs) == []


async def test_parents_may_come_after_their_children_and_cycles_are_refused(verbs: OpenVerbs):
    child = replace(job("child"), after=otd.After("parent"))
    await verbs.apply([child, job("parent")], source="jobs.yaml")
    assert await names(verbs) == ["child", "parent"]
    with pytest.raises(otd.DependencyCycle):
        await verbs.apply([child, replace(job("parent"), after=otd.After("child"))], source="jobs.yaml")


async def test_a_concurrent_edit_by_another_user_is_not_lost(verbs: OpenVerbs, monkeypatch: pytest.MonkeyPatch):
    await verbs.apply([job("a")], source="jobs.yaml")
    ask, edits = verbs.there.store.queries.get_job, [job("a", "0 9 * * *")]

    async def edited_once_it_was_read(name: str, *, namespace: str = "default") -> object:
        record = await ask(name, namespace=namespace)
        if edits:
            await verbs.put(edits.pop())
        return record

    monkeypatch.setattr(verbs.there.store.queries, "get_job", edited_once_it_was_read)
    with pytest.raises(RevisionConflict, match="expected revision 1, found revision 2"):
        await verbs.apply([job("a", "0 3 * * *")], source="jobs.yaml")


async def test_the_next_apply_completes_one_that_failed_halfway(verbs: OpenVerbs, monkeypatch: pytest.MonkeyPatch):
    store, put = verbs.there.store, verbs.there.store.documents.put_document

    async def away(*args: object, **more: object) -> object:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store.documents, "put_document", away)
    with pytest.raises(StoreUnavailable):
        await verbs.apply([job("a"), job("b")], source="jobs.yaml")
    monkeypatch.setattr(store.documents, "put_document", put)
    await verbs.apply([job("a"), job("b")], source="jobs.yaml")
    assert (await verbs.apply([], source="jobs.yaml", prune=True)).changes == 2
