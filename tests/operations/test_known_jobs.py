"""Submits of jobs that were read before: they read nothing, and still go by the job as it is now."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.clock import Micros
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun
from onthedot.operations import known_jobs
from onthedot.operations.known_jobs import KnownJobs
from onthedot.operations.open_verbs import OpenStore, OpenVerbs, opened
from onthedot.stores.documents import Noting
from onthedot.stores.memory import MemoryStore

WORD = otd.Job(
    name="say", task=otd.Command(argv=("echo", "${{ params.word }}")), params=(otd.Param(name="word"),),
    labels=frozenset({"tape"}),
)  # fmt: skip
"""It needs a label that no node has: its runs wait."""
MORE = replace(WORD, params=(otd.Param(name="word"), otd.Param(name="more", required=False)))


@dataclass
class Doors:
    """Two doors on one store, as two processes have them: the one here has read the job, the other one changes it."""

    here: OpenVerbs
    other: OpenVerbs
    reads: list[str]


@pytest.fixture(params=["memory", "sqlite", "postgres", "valkey"])
async def doors(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Doors]:
    if request.param in ("postgres", "valkey"):
        url = str(request.getfixturevalue(f"{request.param}_url"))
    else:
        url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'known.db'}"
    reads: list[str] = []
    async with opened(url) as there:
        get_job = there.store.queries.get_job

        async def counted(name: str, *, namespace: str = "default") -> JobRecord | None:
            reads.append(name)
            return await get_job(name, namespace=namespace)

        other = OpenStore(there.store, there.clock, there.settings, None).verbs()
        here = there.verbs()
        await here.put(WORD)
        await here.submit("say", {"word": "first"})
        monkeypatch.setattr(there.store.queries, "get_job", counted)
        yield Doors(here, other, reads)


async def test_a_job_is_read_once(doors: Doors):
    for word in ("a", "b"):
        run = await doors.here.submit("say", {"word": word}, key=word)
        assert run.created
    assert doors.reads == []
    again = await doors.here.submit("say", {"word": "a"}, key="a")
    assert (again.created, doors.reads) == (False, [])


async def test_an_edit_elsewhere_is_seen(doors: Doors):
    await doors.other.put(MORE)
    doors.reads.clear()
    run = await doors.here.submit("say", {"word": "a", "more": "b"})  # which the job did not take before
    assert doors.reads == ["say"]
    assert (await doors.other.cancel(run)).kind == "cancelled"
    await doors.here.submit("say", {"word": "a", "more": "b"})
    assert doors.reads == ["say"]
    await doors.other.put(WORD)
    with pytest.raises(otd.ArgumentsError, match="more"):
        await doors.here.submit("say", {"word": "a", "more": "b"})  # which it does not take any more
    assert len(await doors.other.list_runs("say")) == 3


async def test_a_job_that_was_deleted_elsewhere_is_unknown(doors: Doors):
    await doors.other.remove("say")
    with pytest.raises(otd.UnknownJob, match="no job 'say' is stored"):
        await doors.here.submit("say", {"word": "a"})


async def test_another_job_of_the_same_name_has_the_run(doors: Doors):
    first = await doors.here.submit("say", {"word": "a"})
    await doors.other.remove("say")
    await doors.other.put(WORD)  # the same definition, and the first revision again
    second = await doors.here.submit("say", {"word": "a"})
    runs = [await doors.other.get_run(run) for run in (first, second)]
    assert [None if run is None else str(run.state) for run in runs] == ["cancelled", "scheduled"]
    record = await doors.other.get_job("say")
    assert record is not None
    assert [run.job_id for run in runs if run is not None][1] == record.id


async def test_a_pause_elsewhere_holds_the_run(doors: Doors):
    await doors.other.pause("say")
    doors.reads.clear()
    run = await doors.here.submit("say", {"word": "a"})
    assert doors.reads == []
    resumed = await doors.other.resume("say", dry_run=True)
    assert resumed.released == 2  # this one, and the first
    assert await run.state() == otd.RunState.SCHEDULED


async def test_more_than_one_write_reads_the_job_first(doors: Doors, monkeypatch: pytest.MonkeyPatch):
    """Its arguments are checked before the first write, by the job as it is then."""
    plain = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), labels=frozenset({"tape"}))
    await doors.here.put(plain)
    doors.reads.clear()
    await doors.here.submit_many(["nap"] * 2)
    assert doors.reads == ["nap"]
    await doors.here.submit_many(["nap"] * 2)
    assert doors.reads == ["nap"]
    await doors.here.submit_many(["nap"] * (doors.here.there.settings.batch + 1))
    assert doors.reads == ["nap", "nap"]


async def test_an_edit_between_two_writes_of_one_submit_doubles_no_run(doors: Doors, monkeypatch: pytest.MonkeyPatch):
    """A store may take more than 100 runs apart (`Store.submit`). Those before an edit stay; they were stored again."""
    store = doors.here.there.store
    submit_whole = store.submit

    async def submit(runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None) -> list[int]:
        ids = await submit_whole(runs[:100], now=now)
        if len(runs) > 100:
            await doors.other.put(MORE)
            ids += await submit_whole(runs[100:], now=now)
        return ids

    monkeypatch.setattr(store, "submit", submit)
    made = await doors.here.submit_many([otd.BoundCall("say", '{"word":"a"}')] * 101)
    assert len(made) == 101
    assert len(await doors.other.list_runs("say")) == 1 + 101  # the first is of the fixture


def edited_after_the_next_read(doors: Doors, monkeypatch: pytest.MonkeyPatch, job: otd.Job | None) -> None:
    """Another process edits `say` (None: deletes it) between the next read of it and the write that follows."""
    queries = doors.here.there.store.queries
    get_job, edits = queries.get_job, [job]

    async def get_before_edit(name: str, *, namespace: str = "default") -> JobRecord | None:
        record = await get_job(name, namespace=namespace)
        if edits:
            edit = edits.pop()
            await (doors.other.remove("say") if edit is None else doors.other.put(edit))
        return record

    monkeypatch.setattr(queries, "get_job", get_before_edit)


@pytest.mark.parametrize("many", [1, 501])
async def test_an_edit_between_a_read_and_the_write_is_seen(doors: Doors, monkeypatch: pytest.MonkeyPatch, many: int):
    call = otd.BoundCall("say", '{"more":"b","word":"a"}')
    await doors.other.put(MORE)
    doors.here.there.known.keep("say", "default", None)
    edited_after_the_next_read(doors, monkeypatch, WORD)
    with pytest.raises(otd.ArgumentsError, match="more"):
        await doors.here.submit_many([call] * many)
    assert len(await doors.other.list_runs("say")) == 1


async def test_an_edit_between_a_read_and_the_write_of_a_run_by_hand_is_seen(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
):
    doors.here.there.known.keep("say", "default", None)
    edited_after_the_next_read(doors, monkeypatch, MORE)
    await doors.here.trigger("say", {"word": "a"})  # which both take
    assert doors.reads == ["say"] * 3  # one of them is of the edit itself
    assert len(await doors.other.list_runs("say")) == 2


async def test_a_job_that_is_deleted_between_a_read_and_the_write_is_unknown(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
):
    doors.here.there.known.keep("say", "default", None)
    edited_after_the_next_read(doors, monkeypatch, None)
    with pytest.raises(otd.UnknownJob, match="no job 'say' is stored"):
        await doors.here.submit("say", {"word": "a"})


async def test_a_run_by_hand_reads_no_job_that_is_known(doors: Doors):
    await doors.here.trigger("say", {"word": "a"})
    assert doors.reads == []
    await doors.other.put(MORE)
    doors.reads.clear()
    await doors.here.trigger("say", {"word": "a", "more": "b"})
    assert doors.reads == ["say"]
    await doors.other.remove("say")
    with pytest.raises(otd.UnknownJob, match="no job 'say' is stored"):
        await doors.here.trigger("say", {"word": "a"})


async def test_not_more_jobs_are_remembered_than_that(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_jobs, "MOST_KNOWN", 2)
    store = MemoryStore()
    known = KnownJobs(store)
    for name in ("a", "b", "c"):
        await store.put_job(replace(WORD, name=name))
        assert (await known.read(name, "default")) is known.get(name, "default") is not None
    assert known.get("a", "default") is None
    assert await known.read("nobody", "default") is None
    assert known.get("nobody", "default") is None
