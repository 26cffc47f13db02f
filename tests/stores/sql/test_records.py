"""The cache of job definitions: a call still finds what it has loaded after another call drops the cache."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from onthedot.model.job import Call, Job
from onthedot.model.job_json import encode
from onthedot.stores.sql import records as kept
from onthedot.stores.sql.port import Tx
from onthedot.stores.sql.records import Records, Revision


class FakeTransaction:
    """A transaction that has revision 1 of every job, and answers when it is allowed to."""

    concurrent = True

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def rows(self, statement: object, jobs: list[int], revisions: list[int]) -> list[Any]:
        self.asked.append(jobs)
        await self.may_answer.wait()
        return [
            Revision(job, revision, 0, 0, encode(Job(name=f"j{job}", task=Call(handler="j"))))
            for job, revision in zip(jobs, revisions, strict=True)
        ]


async def load(records: Records, answers: FakeTransaction, *jobs: int) -> list[str]:
    found = await records.load(cast(Tx, answers), [(job, 1, "active") for job in jobs])
    return [found[job, 1].job.name for job in jobs]


async def test_a_definition_is_found_although_another_call_drops_the_cache():
    records, answers = Records(), FakeTransaction()
    await load(records, answers, 1)
    answers.may_answer.clear()
    loading = asyncio.create_task(load(records, answers, 1, 2))
    await asyncio.sleep(0)
    records.forget()  # as after the rollback of another write
    answers.may_answer.set()
    assert await loading == ["j1", "j2"]


async def test_a_dropped_definition_is_read_again():
    records, answers = Records(), FakeTransaction()
    await load(records, answers, 1)
    await load(records, answers, 1)
    records.forget()
    await load(records, answers, 1)
    await load(records, answers, 1)
    assert answers.asked == [[1], [1]]


async def test_a_load_does_not_evict_the_definitions_that_it_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "KEPT_RECORDS", 2)
    records, answers = Records(), FakeTransaction()
    assert await load(records, answers, 1, 2) == ["j1", "j2"]
    assert await load(records, answers, 1, 3) == ["j1", "j3"]
    records.forget()
    assert await load(records, answers, 3, 1) == ["j3", "j1"]


async def test_the_oldest_definition_is_evicted_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "KEPT_RECORDS", 2)
    records, answers = Records(), FakeTransaction()
    await load(records, answers, 1, 2)
    await load(records, answers, 3)
    await load(records, answers, 2, 3)
    await load(records, answers, 1)
    assert answers.asked == [[1, 2], [3], [1]]
