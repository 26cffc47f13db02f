"""Definitions that several calls share: what one call forgets, another that has loaded it still finds."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from onthedot.model.job import Call, Job
from onthedot.model.job_json import encode
from onthedot.stores.sql import records as kept
from onthedot.stores.sql.port import Tx
from onthedot.stores.sql.records import Records, Revision


class Answers:
    """A transaction that knows revision 1 of every job, and answers when it is let."""

    concurrent = True

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may = asyncio.Event()
        self.may.set()

    async def rows(self, statement: object, jobs: list[int], revisions: list[int]) -> list[Any]:
        self.asked.append(jobs)
        await self.may.wait()
        return [
            Revision(job, revision, 0, 0, encode(Job(name=f"j{job}", task=Call(handler="j"))))
            for job, revision in zip(jobs, revisions, strict=True)
        ]


async def load(records: Records, answers: Answers, *jobs: int) -> list[str]:
    found = await records.load(cast(Tx, answers), [(job, 1, "active") for job in jobs])
    return [found[job, 1].job.name for job in jobs]


async def test_what_another_call_forgets_in_the_middle_is_still_found():
    records, answers = Records(), Answers()
    await load(records, answers, 1)
    answers.may.clear()
    loading = asyncio.create_task(load(records, answers, 1, 2))
    await asyncio.sleep(0)
    records.forget()  # a write of somebody else was undone
    answers.may.set()
    assert await loading == ["j1", "j2"]


async def test_what_was_forgotten_is_read_anew():
    records, answers = Records(), Answers()
    await load(records, answers, 1)
    await load(records, answers, 1)
    records.forget()
    await load(records, answers, 1)
    await load(records, answers, 1)
    assert answers.asked == [[1], [1]]


async def test_what_is_wanted_now_does_not_go_for_what_is_read_beside_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "KEPT_RECORDS", 2)
    records, answers = Records(), Answers()
    assert await load(records, answers, 1, 2) == ["j1", "j2"]
    assert await load(records, answers, 1, 3) == ["j1", "j3"]
    records.forget()
    assert await load(records, answers, 3, 1) == ["j3", "j1"]


async def test_the_oldest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "KEPT_RECORDS", 2)
    records, answers = Records(), Answers()
    await load(records, answers, 1, 2)
    await load(records, answers, 3)
    await load(records, answers, 2, 3)
    await load(records, answers, 1)
    assert answers.asked == [[1, 2], [3], [1]]
