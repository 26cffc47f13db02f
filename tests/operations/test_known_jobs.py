"""A submit reads a job that it knows not again, and still obeys the newest definition of the job."""

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
"""Its runs wait, because no node has the label."""
MORE = replace(WORD, params=(otd.Param(name="word"), otd.Param(name="more", required=False)))


@dataclass
class Doors:
    """Two processes on one store: `here` has read the job, `other` changes it. `reads` lists the jobs read since."""

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


async def test_a_known_job_is_not_read_again(doors: Doors):
    for word in ("a", "b"):
        run = await doors.here.submit("say", {"word": word}, key=word)
        assert run.created
    assert doors.reads == []
    again = await doors.here.submit("say", {"word": "a"}, key="a")
    assert (again.created, doors.reads) == (False, [])


async def test_an_edit_by_another_process_is_seen(doors: Doors):
    await doors.other.put(MORE)
    doors.reads.clear()
    run = await doors.here.submit("say", {"word": "a", "more": "b"})  # `more` is new
    assert doors.reads == ["say"]
    assert (await doors.other.cancel(run)).kind == "cancelled"
    await doors.here.submit("say", {"word": "a", "more": "b"})
    assert doors.reads == ["say"]
    await doors.other.put(WORD)
    with pytest.raises(otd.ArgumentsError, match="more"):
        await doors.here.submit("say", {"word": "a", "more": "b"})  # `more` was removed
    assert len(await doors.other.list_runs("say")) == 3


async def test_a_job_that_another_process_deleted_is_unknown(doors: Doors):
    await doors.other.remove("say")
    with pytest.raises(otd.UnknownJob, match="no job 'say' is stored"):
        await doors.here.submit("say", {"word": "a"})


async def test_a_run_belongs_to_the_new_job_of_the_same_name(doors: Doors):
    first = await doors.here.submit("say", {"word": "a"})
    await doors.other.remove("say")
    await doors.other.put(WORD)  # a new job with the same definition and revision
    second = await doors.here.submit("say", {"word": "a"})
    runs = [await doors.other.get_run(run) for run in (first, second)]
    assert [None if run is None else str(run.state) for run in runs] == ["cancelled", "scheduled"]
    record = await doors.other.get_job("say")
    assert record is not None
    assert [run.job_id for run in runs if run is not None][1] == record.id


async def test_a_pause_by_another_process_holds_the_run(doors: Doors):
    await doors.other.pause("say")
    doors.reads.clear()
    run = await doors.here.submit("say", {"word": "a"})
    assert doors.reads == []
    resumed = await doors.other.resume("say", dry_run=True)
    assert resumed.released == 2  # this run and that of the fixture
    assert await run.state() == otd.RunState.SCHEDULED


async def test_a_submit_in_several_writes_reads_the_job_first(doors: Doors, monkeypatch: pytest.MonkeyPatch):
    """All arguments are checked against the newest definition before the first write."""
    plain = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), labels=frozenset({"tape"}))
    await doors.here.put(plain)
    doors.reads.clear()
    await doors.here.submit_many(["nap"] * 2)
    assert doors.reads == ["nap"]
    await doors.here.submit_many(["nap"] * 2)
    assert doors.reads == ["nap"]
    await doors.here.submit_many(["nap"] * (doors.here.there.settings.batch + 1))
    assert doors.reads == ["nap", "nap"]


async def test_an_edit_between_two_writes_of_a_submit_duplicates_no_run(doors: Doors, monkeypatch: pytest.MonkeyPatch):
    """A store may split more than 100 runs (`Store.submit`). Runs written before an edit must not be stored again."""
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
    assert len(await doors.other.list_runs("say")) == 1 + 101  # one is that of the fixture


def edit_after_the_next_read(doors: Doors, monkeypatch: pytest.MonkeyPatch, job: otd.Job | None) -> None:
    """Make another process edit `say` (None: delete it) between the next read of it and the write that follows."""
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
    edit_after_the_next_read(doors, monkeypatch, WORD)
    with pytest.raises(otd.ArgumentsError, match="more"):
        await doors.here.submit_many([call] * many)
    assert len(await doors.other.list_runs("say")) == 1


async def test_an_edit_between_a_read_and_the_write_of_a_trigger_is_seen(doors: Doors, monkeypatch: pytest.MonkeyPatch):
    doors.here.there.known.keep("say", "default", None)
    edit_after_the_next_read(doors, monkeypatch, MORE)
    await doors.here.trigger("say", {"word": "a"})  # valid in both definitions
    assert doors.reads == ["say"] * 3  # one of them by the edit itself
    assert len(await doors.other.list_runs("say")) == 2


async def test_a_job_that_is_deleted_between_a_read_and_the_write_is_unknown(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
):
    doors.here.there.known.keep("say", "default", None)
    edit_after_the_next_read(doors, monkeypatch, None)
    with pytest.raises(otd.UnknownJob, match="no job 'say' is stored"):
        await doors.here.submit("say", {"word": "a"})


async def test_a_trigger_does_not_read_a_known_job_again(doors: Doors):
    await doors.here.trigger("say", {"word": "a"})
    assert doors.reads == []
    await doors.other.put(MORE)
    doors.reads.clear()
    await doors.here.trigger("say", {"word": "a", "more": "b"})
    assert doors.reads == ["say"]
    await doors.other.remove("say")
    with pytest.raises(otd.UnknownJob, match="no job 'say' is stored"):
        await doors.here.trigger("say", {"word": "a"})


async def test_only_a_limited_number_of_jobs_is_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_jobs, "MOST_KNOWN", 2)
    store = MemoryStore()
    known = KnownJobs(store)
    for name in ("a", "b", "c"):
        await store.put_job(replace(WORD, name=name))
        assert (await known.read(name, "default")) is known.get(name, "default") is not None
    assert known.get("a", "default") is None
    assert await known.read("nobody", "default") is None
    assert known.get("nobody", "default") is None
