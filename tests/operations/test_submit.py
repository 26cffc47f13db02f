"""Runs that several callers submit at the same time are stored together, and each caller has an answer of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.errors import RevisionConflict
from onthedot.operations.open_verbs import OpenVerbs, opened
from onthedot.stores.protocol import Store

WORK = otd.Job(name="work", task=otd.Command(argv=("true",)), labels=frozenset({"nobody-has-it"}))
PICKY = otd.Job(
    name="picky", task=otd.Command(argv=("echo", "${{ params.word }}")), params=(otd.Param(name="word"),),
    labels=WORK.labels,
)  # fmt: skip


class Calls:
    """How many runs each call of the store had."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        submit = store.submit

        async def counted(runs, **named):
            self.sizes.append(len(runs))
            return await submit(runs, **named)

        monkeypatch.setattr(store, "submit", counted)


@pytest.fixture
async def verbs(tmp_path: Path) -> AsyncGenerator[OpenVerbs]:
    async with opened(f"sqlite:///{tmp_path / 'submit.db'}") as there:
        verbs = there.verbs()
        await verbs.put(WORK)
        await verbs.put(PICKY)
        await verbs.submit("work")
        await verbs.submit("picky", {"word": "first"})
        yield verbs


async def test_what_comes_during_a_write_is_the_next_write(verbs: OpenVerbs, monkeypatch: pytest.MonkeyPatch):
    calls = Calls(verbs.there.store, monkeypatch)
    runs = await asyncio.gather(*(verbs.submit("work", delay=f"{number}s") for number in range(1, 65)))
    assert calls.sizes == [1, 63]
    stored = [await verbs.get_run(run) for run in runs]
    dues = [run.due_at for run in stored if run is not None]
    assert dues == sorted(dues)
    assert len(set(dues)) == 64
    assert all(run.created for run in runs)


async def test_each_caller_has_its_own_answer(verbs: OpenVerbs):
    answers = await asyncio.gather(
        verbs.submit("work"),
        verbs.submit("picky", {"word": "a"}),
        verbs.submit("picky", {"wrong": "a"}),
        verbs.submit("nothing"),
        verbs.submit("work", {"x": 1}),
        verbs.submit("work"),
        return_exceptions=True,
    )
    kinds = [type(answer) for answer in answers]
    assert kinds == [otd.Run, otd.Run, otd.ArgumentsError, otd.UnknownJob, otd.ArgumentsError, otd.Run]
    assert len(await verbs.list_runs("work")) == 3
    assert len(await verbs.list_runs("picky")) == 2


async def test_an_edit_of_one_job_leaves_the_others_alone(verbs: OpenVerbs):
    other = verbs.there.verbs()
    other.there.known = type(verbs.there.known)(verbs.there.store)
    await other.put(otd.Job(name="work", task=WORK.task, labels=WORK.labels, owner="ops"))
    runs = await asyncio.gather(*(verbs.submit("work") for _ in range(3)), verbs.submit("picky", {"word": "a"}))
    assert len({run.id for run in runs}) == 4


async def test_a_write_that_stored_some_runs_and_failed_duplicates_none(
    verbs: OpenVerbs, monkeypatch: pytest.MonkeyPatch
):
    """Redis stores 100 runs at a time, and a job may be edited in between."""
    submit = verbs.there.store.submit

    async def store_and_fail(runs, **named):
        ids = await submit(runs, **named)
        if len(runs) > 1:
            raise RevisionConflict("edited meanwhile")
        return ids

    monkeypatch.setattr(verbs.there.store, "submit", store_and_fail)
    before = len(await verbs.list_runs("work"))
    runs = await asyncio.gather(*(verbs.submit("work") for _ in range(5)))
    assert len({run.id for run in runs}) == 5
    assert len(await verbs.list_runs("work")) == before + 5


async def test_a_caller_that_is_cancelled_leaves_the_others_alone(verbs: OpenVerbs):
    tasks = [asyncio.create_task(verbs.submit("work")) for _ in range(8)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[5].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    cancelled = [isinstance(answer, asyncio.CancelledError) for answer in answers]
    assert [number for number, one in enumerate(cancelled) if one] == [0, 5]
    stored = {run.id for run in await verbs.list_runs("work")}
    assert {answer.id for answer in answers if isinstance(answer, otd.Run)} <= stored


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres", "valkey"])
async def test_a_program_submits_from_any_loop(kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    """From two event loops on two threads, while the node runs what they submit."""
    if kind in ("postgres", "valkey"):
        url = str(request.getfixturevalue(f"{kind}_url"))
    else:
        url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'loops.db'}"
    sched = otd.Scheduler(url)

    @sched.job(name="double")
    async def double(n: int) -> int:
        return 2 * n

    async def submit_all(first: int) -> list[object]:
        runs = await asyncio.gather(*(sched.submit("double", {"n": n}) for n in range(first, first + 40)))
        return [await run.result(timeout="30s") for run in runs]

    answers: list[object] = []
    elsewhere = threading.Thread(target=lambda: answers.extend(asyncio.run(submit_all(100))))
    async with sched:
        elsewhere.start()
        here = await submit_all(0)
        await asyncio.to_thread(elsewhere.join)
    assert here == [2 * n for n in range(40)]
    assert answers == [2 * n for n in range(100, 140)]


async def test_submits_of_many_threads_are_all_counted_in_the_audit(tmp_path: Path):
    sched = otd.Scheduler(f"sqlite:///{tmp_path / 'audit.db'}")
    sched.job(name="work", labels=["nobody-has-it"])(lambda: None)

    async def submit_some() -> None:
        for _ in range(50):
            await sched.submit("work")

    async with sched:
        threads = [threading.Thread(target=lambda: asyncio.run(submit_some())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    async with opened(f"sqlite:///{tmp_path / 'audit.db'}") as there:
        entries = await there.store.documents.list_appended("audit")
    counts = [entry.body for entry in entries if '"runs.submit"' in entry.body]
    assert counts
    assert sum(json.loads(body)["after"].get("runs", 1) for body in counts) == 200
