"""Reads submissions of runs: one in a JSON body, or many in a body of newline-delimited JSON (NDJSON).

Many runs are stored batch by batch while the body is read. Memory holds one incomplete line, one batch, and eight bytes
for each stored run. The store sets the pace, and the sender waits. The answer starts after the whole body was read,
because many clients read nothing before they have sent everything: both sides would wait for each other.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, JsonValue, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from onthedot.access.audit import Entry, noting_together
from onthedot.access.permissions import Principal
from onthedot.clock import Micros
from onthedot.define.arguments import encode_arguments
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import DefinitionError, KeyConflict, OnTheDotError, UnknownJob
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun, submit_trigger
from onthedot.operations.open_verbs import OpenStore
from onthedot.operations.submit import check_arguments, insert_runs
from onthedot.server.models import Body, Text, to_json
from onthedot.server.problems import Problem, problem_of, problem_of_request, shown
from onthedot.server.quotas import Owner, Share, owner_of

MOST_NAME = 100


class Submit(Body):
    """One run to submit."""

    job: Text = Field(max_length=MOST_NAME, examples=["nightly_report"])
    args: dict[str, JsonValue] | None = Field(None, examples=[{"region": "eu"}])
    key: Text = Field("", description="A request with the same key again returns the same run.")
    delay: Text | None = Field(None, max_length=50, examples=["10m"])
    expires: Text | None = Field(None, max_length=50, examples=["1h"])


class RunRequest(NamedTuple):
    """The fields of `Submit` as a tuple, which is created much faster."""

    job: str
    args: dict[str, JsonValue] | None = None
    key: str = ""
    delay: str | None = None
    expires: str | None = None


def read_run_request(body: bytes) -> RunRequest:
    """Read a JSON body or a line of NDJSON. Raises `RequestValidationError` or `Problem` with every reason."""
    return _read_plain(body) or RunRequest(**dict(read_body(Submit, body)))


def _read_plain(body: bytes) -> RunRequest | None:
    """Read a request that has only a job and arguments; return None for any other. Most requests have only these, and
    this function takes a third of the time."""
    try:
        read = from_json(body, allow_inf_nan=False)
    except ValueError:
        return None
    if type(read) is not dict or len(read) != 2 or is_too_deep(body):
        return None
    job, args = read.get("job"), read.get("args")
    if type(job) is not str or len(job) > MOST_NAME or "\0" in job or type(args) is not dict:
        return None
    return RunRequest(job, args)


def new_run(record: JobRecord, wanted: RunRequest, *, token: str, key: str, now: Micros) -> NewRun:
    """The run to store. Raises `DefinitionError` if the job does not allow it. The token is new for each request."""
    args = arguments(record, wanted.args)
    due_at = now if wanted.delay is None else now + micros(parse_duration(wanted.delay, what="delay"))
    expires_at = None
    if wanted.expires is not None:
        expires_at = due_at + micros(parse_duration(wanted.expires, what="expires"))
    return NewRun(record.id, submit_trigger(token), due_at, args, key, expires_at, is_new=True)


def arguments(record: JobRecord, args: dict[str, JsonValue] | None) -> str | None:
    """Encode the arguments of a run (None: the job's). Raises `DefinitionError` if the job does not accept them."""
    text = None if args is None else encode_arguments(args, subject=f"job {record.job.name!r}", from_json=True)
    check_arguments(record, text)
    return text


# ── idempotency keys ──────────────────────────────────────────────────────────────────────────────────────────

_PREFIX = "idempotency:"


def run_key(who: Principal, header: str | None, verb: str, own: str = "") -> str:
    """The key of a run: the caller's `own`, or one made from the header Idempotency-Key. A key from a header differs
    between callers and verbs.

    >>> from onthedot.access.permissions import LOCAL
    >>> run_key(LOCAL, None, "submit", "order-7"), run_key(LOCAL, "7", "submit") == run_key(LOCAL, "7", "trigger")
    ('order-7', False)
    """
    if header is None:
        return own_key(own)
    if own:
        raise DefinitionError("key: expected either a key in the body or the header Idempotency-Key, got both")
    parts = "\0".join((who.kind, who.id, verb, header))
    return _PREFIX + hashlib.sha256(parts.encode(errors="surrogateescape")).hexdigest()


def own_key(own: str) -> str:
    """Return a key that the caller chose. Raise `DefinitionError` if it looks like one made from a header."""
    if own.startswith(_PREFIX):
        raise DefinitionError(f"key: expected one that does not begin with {_PREFIX!r}; those are made here")
    return own


# ── the body ──────────────────────────────────────────────────────────────────────────────────────────────────

MOST_DEEP = 64
"""The deepest allowed nesting of lists and objects."""

B = TypeVar("B", bound=BaseModel)


def read_body(model: type[B], body: bytes) -> B:
    """Read a body by its model. Raises `RequestValidationError` with every reason."""
    try:
        read = model.model_validate_json(body)
    except ValidationError as error:
        told = error.errors(include_url=False)
        raise RequestValidationError([{**part, "loc": ("body", *part["loc"])} for part in told]) from None
    if is_too_deep(body):
        raise Problem(422, "invalid", f"body: expected at most {MOST_DEEP} lists and objects in one another, got more")
    return read


def is_too_deep(body: bytes) -> bool:
    """Return whether lists and objects are nested deeper than `MOST_DEEP`."""
    if len(body) <= 2 * MOST_DEEP:  # each level takes two bytes
        return False
    return body.count(b"[") + body.count(b"{") > MOST_DEEP and _depth(body) > MOST_DEEP


_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def _depth(body: bytes) -> int:
    """How deep JSON is nested.

    >>> _depth(b'{"a": [[], "[[[["]}')
    3
    """
    deepest = depth = 0
    for found in _BRACKETS.finditer(body):
        if found[0] in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return deepest


MOST_LINE = 64 * 1024
MOST_LINES = 100_000
MOST_BYTES = 64 * 1024 * 1024
TURN = 50
"""Lines that are read in one turn of the event loop."""

Line = tuple[int, bytes]
"""The number of a line, and its bytes."""


class BadLine(Exception):
    """A refused line: its number and the problem."""

    def __init__(self, number: int, problem: Problem) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem


async def lines_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[list[Line]]:
    """Yield numbered lines in groups, without empty ones. Raise `BadLine` at the first line over a limit."""
    number, size, rest = 0, 0, b""
    async for piece in pieces:
        size += len(piece)
        *lines, rest = (rest + piece).split(b"\n") if b"\n" in piece else (rest + piece,)
        some: list[Line] = []
        for line in lines:
            number += 1
            too_much = _too_much(number, line)
            if too_much is not None:
                yield some  # the lines before it are valid
                raise too_much
            if line and not line.isspace():
                some.append((number, line))
                if len(some) == TURN:
                    yield some
                    some = []
        if some:
            yield some
        if len(rest) > MOST_LINE and (too_much := _too_much(number + 1, rest)):
            raise too_much
        if size > MOST_BYTES:
            raise _too_large(number + 1, f"at most {MOST_BYTES} bytes in a request")
    if rest.strip():
        if too_much := _too_much(number + 1, rest):
            raise too_much
        yield [(number + 1, rest)]


def _too_much(number: int, line: bytes) -> BadLine | None:
    if len(line) > MOST_LINE:
        return _too_large(number, f"at most {MOST_LINE} bytes in a line")
    if number > MOST_LINES:
        return _too_large(number, f"at most {MOST_LINES} lines in a request")
    return None


def _too_large(number: int, what: str) -> BadLine:
    return BadLine(number, Problem(413, "too-large", f"expected {what}, got more; send the rest in another request"))


def read_line(number: int, line: bytes) -> RunRequest:
    """Read a line. Raises `BadLine` if it is not a valid request for a run."""
    try:
        return read_run_request(line)
    except RequestValidationError as error:
        raise BadLine(number, problem_of_request(error)) from None
    except Problem as problem:
        raise BadLine(number, problem) from None


NDJSON = "application/x-ndjson"

BATCH = 500
BATCH_BYTES = 1024 * 1024
"""A batch is stored when it has this many lines or bytes."""

FindJob = Callable[[str], Awaitable[JobRecord]]
"""Finds a job by name. Raises if the caller may not see it."""
MakeEntry = Callable[[int], Entry]
"""Makes the audit entry for this many runs. It is stored in the same write as they are."""


class Bulk:
    """Stores the runs of one request. `stored` has the id of each; it is negative if the run existed before."""

    def __init__(self, opened: OpenStore, find: FindJob, make_entry: MakeEntry, share: Share | None = None) -> None:
        self.stored = array("q")
        self.numbers = array("l")  # the line number of each stored run
        self.bad: BadLine | None = None
        self._opened = opened
        self._find = find
        self._make_entry = make_entry
        self._share = share  # of the quotas, if the settings have any
        self._token = opened.ids.token()  # unique together with the line number
        self._runs: list[NewRun] = []  # the batch
        self._numbers: list[int] = []
        self._owners: list[Owner] = []  # the owners of their jobs
        self._bytes = 0
        self._next = 1  # the number of the next line
        self._jobs: dict[str, JobRecord] = {}

    async def take(self, pieces: AsyncIterator[bytes]) -> None:
        """Store all lines before the first refused one. The lines after it are read and ignored."""
        try:
            await self._take(pieces)
        except BadLine as bad:
            self.bad = bad
            await self._read_rest(pieces)
        finally:
            if self._share is not None:
                self._share.land(Counter())  # an incomplete batch is not stored

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
        """Add lines to the batch. Raises `BadLine` at the first refused one."""
        now = self._opened.clock.now()
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
            await self._flush()  # runs that existed before free their room
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
        except (KeyConflict, UnknownJob):  # the store has stored nothing; store one by one, to find the line
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
        noting = noting_together([self._make_entry(len(runs))])
        stored = await insert_runs(self._opened.store, runs, noting=noting)
        self.stored.extend([run_id if created else -run_id for run_id, created in stored])
        self.numbers.extend(numbers)


def bulk_response(bulk: Bulk, request_id: str) -> Response:
    """The answer: a line for each run, in order, and one for the line that was refused."""
    status = 200 if bulk.bad is None else bulk.bad.problem.status
    headers = {} if bulk.bad is None else bulk.bad.problem.headers
    return StreamingResponse(_answer_lines(bulk, request_id), status, headers, NDJSON)


async def _answer_lines(bulk: Bulk, request_id: str) -> AsyncIterator[str]:
    for first in range(0, len(bulk.stored), BATCH):
        yield "".join(_lines(bulk, first))
    if bulk.bad is not None:
        yield to_json({"line": bulk.bad.number, "problem": shown(bulk.bad.problem, request_id)}) + "\n"


def _lines(bulk: Bulk, first: int) -> Iterator[str]:
    for number, run_id in zip(bulk.numbers[first : first + BATCH], bulk.stored[first : first + BATCH], strict=True):
        created = "true" if run_id > 0 else "false"
        yield f'{{"line":{number},"run_id":{abs(run_id)},"created":{created}}}\n'
