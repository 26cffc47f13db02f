"""Definitions that several calls share: what one call forgets, another that has loaded it still finds."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from onthedot.job import Call, Job
from onthedot.stores.definitions import encode
from onthedot.stores.postgres.tables import Records
from onthedot.stores.postgres.transaction import Transaction


class Answers:
    """A transaction that knows revision 1 of every job, and answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may = asyncio.Event()
        self.may.set()

    async def rows(self, statement: str, jobs: list[int], revisions: list[int]) -> list[Any]:
        self.asked.append(jobs)
        await self.may.wait()
        return [(job, revision, 0, 0, encode(Job(name=f"j{job}", task=Call(handler="j")))) for job, revision in
                zip(jobs, revisions, strict=True)]  # fmt: skip


async def load(records: Records, answers: Answers, *jobs: int) -> None:
    await records.load(cast(Transaction, answers), [(job, 1, "active") for job in jobs])


async def test_what_another_call_forgets_in_the_middle_is_still_found():
    records, answers = Records(), Answers()
    await load(records, answers, 1)
    answers.may.clear()
    loading = asyncio.create_task(load(records, answers, 1, 2))
    await asyncio.sleep(0)
    records.forget()  # a write of somebody else was undone
    answers.may.set()
    await loading
    assert [records.find(job, 1).job.name for job in (1, 2)] == ["j1", "j2"]


async def test_what_was_forgotten_is_read_anew():
    records, answers = Records(), Answers()
    await load(records, answers, 1)
    await load(records, answers, 1)
    records.forget()
    await load(records, answers, 1)
    await load(records, answers, 1)
    assert answers.asked == [[1], [1]]
