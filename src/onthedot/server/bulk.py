"""Many runs in one request: read in pieces, checked line by line, stored batch by batch.

What is held at any time is one line that is not whole yet, one batch, and eight bytes for each run that was stored: the
store sets the pace, and whoever sends waits. The answer begins when all was read, because many clients read nothing
before they have sent everything: both sides would wait for each other.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from onthedot.errors import KeyConflict, OnTheDotError, UnknownJob
from onthedot.job import JobRecord
from onthedot.open_verbs import OpenStore
from onthedot.plan.asking import insert_runs
from onthedot.run import NewRun
from onthedot.server.answering import as_json, read_body
from onthedot.server.asked import own_key
from onthedot.server.problems import Problem, problem_of, problem_of_request, shown
from onthedot.server.submitting import Submit, new_run

NDJSON = "application/x-ndjson"

MOST_LINE = 64 * 1024
MOST_LINES = 100_000
MOST_BYTES = 64 * 1024 * 1024
BATCH = 500
BATCH_BYTES = 1024 * 1024
"""A batch is stored when it has so many lines, or so many bytes."""
TURN = 50
"""How many lines are checked in one turn of the loop."""

Find = Callable[[str], Awaitable[JobRecord]]
"""The job of a name, if it is there for whoever asks."""


class BadLine(Exception):
    """A line that is refused, and why."""

    def __init__(self, number: int, problem: Problem) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem


async def lines_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[int, bytes]]:
    """Lines with their numbers, those that are empty left out; `BadLine` at the first that is too much."""
    number, size, rest = 0, 0, b""
    async for piece in pieces:
        size += len(piece)
        *lines, rest = (rest + piece).split(b"\n") if b"\n" in piece else (rest + piece,)
        for line in lines:
            number += 1
            if line.strip():
                yield number, _bounded(number, line)
        if len(rest) > MOST_LINE:
            _bounded(number + 1, rest)
        if size > MOST_BYTES:
            raise _too_large(number + 1, f"at most {MOST_BYTES} bytes in a request")
    if rest.strip():
        yield number + 1, _bounded(number + 1, rest)


def _bounded(number: int, line: bytes) -> bytes:
    if len(line) > MOST_LINE:
        raise _too_large(number, f"at most {MOST_LINE} bytes in a line")
    if number > MOST_LINES:
        raise _too_large(number, f"at most {MOST_LINES} lines in a request")
    return line


def _too_large(number: int, what: str) -> BadLine:
    return BadLine(number, Problem(413, "too-large", f"expected {what}, got more; send the rest in another request"))


class Bulk:
    """Runs that come line by line. `stored` has the id of each, below zero if it was there before."""

    def __init__(self, there: OpenStore, find: Find) -> None:
        self.stored = array("q")
        self.numbers = array("l")  # of their lines
        self.bad: BadLine | None = None
        self._there = there
        self._find = find
        self._token = there.ids.token()  # one for all: with the number of its line it is each one's own
        self._batch: list[tuple[int, NewRun]] = []
        self._bytes = 0
        self._next = 1  # the line that comes next
        self._jobs: dict[str, JobRecord] = {}

    async def take(self, pieces: AsyncIterator[bytes]) -> None:
        """Store all there is, up to the first line that is refused; what comes after that is read, and left alone."""
        try:
            await self._take(pieces)
        except BadLine as bad:
            self.bad = bad
            await self._read_rest(pieces)

    async def _read_rest(self, pieces: AsyncIterator[bytes]) -> None:
        left = MOST_BYTES
        with suppress(ClientDisconnect):
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    return

    async def _take(self, pieces: AsyncIterator[bytes]) -> None:
        try:
            async for number, line in lines_of(pieces):
                self._next = number + 1
                self._batch.append((number, await self._new_run(number, line)))
                self._bytes += len(line)
                if len(self._batch) >= BATCH or self._bytes >= BATCH_BYTES:
                    await self._flush()
                elif len(self._batch) % TURN == 0:
                    await asyncio.sleep(0)
        except ClientDisconnect:
            problem = Problem(422, "invalid", "expected the whole request, got a part of it: its sender is gone")
            raise BadLine(self._next, problem) from None  # half a batch is not stored
        except BadLine:
            await self._flush()  # what is before it is stored; if that is refused, it was first
            raise
        await self._flush()

    async def _new_run(self, number: int, line: bytes) -> NewRun:
        try:
            asked = read_body(Submit, line)
            record = self._jobs.get(asked.job)
            if record is None:
                record = self._jobs[asked.job] = await self._find(asked.job)
            now = self._there.clock.now()
            return new_run(record, asked, token=f"{self._token}-{number}", key=own_key(asked.key), now=now)
        except RequestValidationError as error:
            raise BadLine(number, problem_of_request(error)) from None
        except Problem as problem:
            raise BadLine(number, problem) from None
        except OnTheDotError as error:
            raise BadLine(number, problem_of(error)) from None

    async def _flush(self) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        self._jobs = {}  # the next batch goes by what is stored then
        try:
            await self._insert(batch)
        except (KeyConflict, UnknownJob):  # nothing of it is stored: one by one tells which line it was
            for one in batch:
                await self._insert_one(one)
        except OnTheDotError as error:
            raise BadLine(batch[0][0], problem_of(error)) from None

    async def _insert_one(self, one: tuple[int, NewRun]) -> None:
        try:
            await self._insert([one])
        except OnTheDotError as error:
            raise BadLine(one[0], problem_of(error)) from None

    async def _insert(self, batch: list[tuple[int, NewRun]]) -> None:
        if not batch:
            return
        for run_id, created in await insert_runs(self._there.store, [new for _, new in batch]):
            self.stored.append(run_id if created else -run_id)
        self.numbers.extend([number for number, _ in batch])


def bulk_answer(bulk: Bulk, request_id: str) -> Response:
    """A line for each run, in order, and one for the line that was refused."""
    status = 200 if bulk.bad is None else bulk.bad.problem.status
    headers = {} if bulk.bad is None else bulk.bad.problem.headers
    return StreamingResponse(_told(bulk, request_id), status, headers, NDJSON)


async def _told(bulk: Bulk, request_id: str) -> AsyncIterator[str]:
    for first in range(0, len(bulk.stored), BATCH):
        yield "".join(_lines(bulk, first))
    if bulk.bad is not None:
        yield as_json({"line": bulk.bad.number, "problem": shown(bulk.bad.problem, request_id)}) + "\n"


def _lines(bulk: Bulk, first: int) -> Iterator[str]:
    for number, run_id in zip(bulk.numbers[first : first + BATCH], bulk.stored[first : first + BATCH], strict=True):
        created = "true" if run_id > 0 else "false"
        yield f'{{"line":{number},"run_id":{abs(run_id)},"created":{created}}}\n'
