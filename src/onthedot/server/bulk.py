"""Stores many runs of one request: reads it in pieces, checks each line, and stores batch by batch.

Memory holds one incomplete line, one batch, and eight bytes for each stored run. The store sets the pace, and the
sender waits. The answer begins after the whole body was read, because many clients read nothing before they have sent
everything: both sides would wait for each other.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from onthedot.access.audit import Entry, noting_together
from onthedot.clock import Micros
from onthedot.model.errors import KeyConflict, OnTheDotError, UnknownJob
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun
from onthedot.operations.open_verbs import OpenStore
from onthedot.operations.submit import insert_runs
from onthedot.server.json_response import to_json
from onthedot.server.ndjson import MOST_BYTES, BadLine, Line, lines_of, read_line
from onthedot.server.problems import Problem, problem_of, shown
from onthedot.server.quotas import Owner, Share, owner_of
from onthedot.server.run_request import RunRequest, new_run, own_key

NDJSON = "application/x-ndjson"

BATCH = 500
BATCH_BYTES = 1024 * 1024
"""A batch is stored when it has this many lines or bytes."""

FindJob = Callable[[str], Awaitable[JobRecord]]
"""Finds the job of a name, if the caller sees it."""
MakeEntry = Callable[[int], Entry]
"""Makes the audit entry of this many runs. It is written with them, whatever ends the request."""


class Bulk:
    """The runs of one request. `stored` has the id of each; it is negative if the run was there before."""

    def __init__(self, there: OpenStore, find: FindJob, told: MakeEntry, share: Share | None = None) -> None:
        self.stored = array("q")
        self.numbers = array("l")  # of their lines
        self.bad: BadLine | None = None
        self._there = there
        self._find = find
        self._told = told
        self._share = share  # of the quotas, if there are any
        self._token = there.ids.token()  # with the number of its line it is unique
        self._runs: list[NewRun] = []  # the batch
        self._numbers: list[int] = []
        self._owners: list[Owner] = []  # whose jobs they are
        self._bytes = 0
        self._next = 1  # the line that comes next
        self._jobs: dict[str, JobRecord] = {}

    async def take(self, pieces: AsyncIterator[bytes]) -> None:
        """Store all lines up to the first that is refused. The lines after it are read and ignored."""
        try:
            await self._take(pieces)
        except BadLine as bad:
            self.bad = bad
            await self._read_rest(pieces)
        finally:
            if self._share is not None:
                self._share.land(Counter())  # half a batch is not stored

    async def _read_rest(self, pieces: AsyncIterator[bytes]) -> None:
        left = MOST_BYTES
        with suppress(ClientDisconnect):
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    return

    async def _take(self, pieces: AsyncIterator[bytes]) -> None:
        try:
            async for some in lines_of(pieces):
                await self._add(some)
                if len(self._runs) >= BATCH or self._bytes >= BATCH_BYTES:
                    await self._flush()
                else:
                    await asyncio.sleep(0)  # let other requests run
        except ClientDisconnect:
            problem = Problem(422, "invalid", "expected the whole request, got a part of it: its sender is gone")
            raise BadLine(self._next, problem) from None  # an incomplete batch is not stored
        except BadLine:
            await self._flush()  # store the lines before it; one of them may be refused first
            raise
        await self._flush()

    async def _add(self, some: Sequence[Line]) -> None:
        """Add lines to the batch, up to the first that is refused."""
        now = self._there.clock.now()
        for number, line in some:
            self._next = number + 1
            wanted = read_line(number, line)
            record = self._jobs.get(wanted.job) or await self._look(number, wanted.job)
            run = self._new_run(number, record, wanted, now)
            if self._share is not None:
                await self._book(self._share, number, owner_of(record.job))
            self._runs.append(run)
            self._numbers.append(number)
            self._owners.append(owner_of(record.job))
            self._bytes += len(line)

    async def _book(self, share: Share, number: int, owner: Owner) -> None:
        try:
            await share.book(owner)
        except Problem:
            await self._flush()  # runs that existed before give their room back
            try:
                await share.book(owner)
            except Problem as problem:
                raise BadLine(number, problem) from None

    async def _look(self, number: int, job: str) -> JobRecord:
        try:
            record = self._jobs[job] = await self._find(job)
        except Problem as problem:
            raise BadLine(number, problem) from None
        except OnTheDotError as error:
            raise BadLine(number, problem_of(error)) from None
        return record

    def _new_run(self, number: int, record: JobRecord, wanted: RunRequest, now: Micros) -> NewRun:
        try:
            return new_run(record, wanted, token=f"{self._token}-{number}", key=own_key(wanted.key), now=now)
        except OnTheDotError as error:
            raise BadLine(number, problem_of(error)) from None

    async def _flush(self) -> None:
        runs, numbers, owners = self._runs, self._numbers, self._owners
        self._runs, self._numbers, self._owners, self._bytes = [], [], [], 0
        self._jobs = {}  # the next batch reads the jobs again
        first = len(self.stored)
        try:
            await self._insert(runs, numbers)
        except (KeyConflict, UnknownJob):  # nothing is stored: one by one finds the line
            for run, number in zip(runs, numbers, strict=True):
                await self._insert_one(run, number)
        except OnTheDotError as error:
            raise BadLine(numbers[0], problem_of(error)) from None
        finally:
            if self._share is not None:
                made = zip(owners, self.stored[first:], strict=False)
                self._share.land(Counter(owner for owner, run_id in made if run_id > 0))

    async def _insert_one(self, run: NewRun, number: int) -> None:
        try:
            await self._insert([run], [number])
        except OnTheDotError as error:
            raise BadLine(number, problem_of(error)) from None

    async def _insert(self, runs: list[NewRun], numbers: list[int]) -> None:
        if not runs:
            return
        noting = noting_together([self._told(len(runs))])
        stored = await insert_runs(self._there.store, runs, noting=noting)
        self.stored.extend([run_id if created else -run_id for run_id, created in stored])
        self.numbers.extend(numbers)


def bulk_response(bulk: Bulk, request_id: str) -> Response:
    """The answer: a line for each run, in order, and one for the line that was refused."""
    status = 200 if bulk.bad is None else bulk.bad.problem.status
    headers = {} if bulk.bad is None else bulk.bad.problem.headers
    return StreamingResponse(_told(bulk, request_id), status, headers, NDJSON)


async def _told(bulk: Bulk, request_id: str) -> AsyncIterator[str]:
    for first in range(0, len(bulk.stored), BATCH):
        yield "".join(_lines(bulk, first))
    if bulk.bad is not None:
        yield to_json({"line": bulk.bad.number, "problem": shown(bulk.bad.problem, request_id)}) + "\n"


def _lines(bulk: Bulk, first: int) -> Iterator[str]:
    for number, run_id in zip(bulk.numbers[first : first + BATCH], bulk.stored[first : first + BATCH], strict=True):
        created = "true" if run_id > 0 else "false"
        yield f'{{"line":{number},"run_id":{abs(run_id)},"created":{created}}}\n'
