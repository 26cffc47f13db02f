"""Submits of one run or many: read line by line, in bounded memory, and stored up to the first refused line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import example, given
from hypothesis import strategies as st

import onthedot as otd
from onthedot.access import audit
from onthedot.access.permissions import Role
from onthedot.model.errors import StoreUnavailable
from onthedot.model.run import NewRun
from onthedot.model.task import Call
from onthedot.server import connections, submissions
from onthedot.server.problems import Problem
from onthedot.server.submissions import (
    BATCH,
    MOST_DEEP,
    MOST_LINE,
    NDJSON,
    BadLine,
    RunRequest,
    Submit,
    lines_of,
    read_body,
    read_run_request,
)
from tests.server.kit import Served, served

TEXTS = st.text(st.characters(blacklist_categories=[]), max_size=110)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "job": TEXTS | VALUES, "args": st.dictionaries(TEXTS, VALUES, max_size=4) | VALUES,
    "key": TEXTS | VALUES, "delay": st.just("5s") | VALUES, "more": VALUES,
}  # fmt: skip
BODIES = st.fixed_dictionaries({}, optional=FIELDS) | VALUES


def by_model(body: bytes) -> RunRequest | str:
    try:
        return RunRequest(**dict(read_body(Submit, body)))
    except (RequestValidationError, Problem) as error:
        return str(error)


def read(body: bytes) -> RunRequest | str:
    try:
        return read_run_request(body)
    except (RequestValidationError, Problem) as error:
        return str(error)


@given(BODIES.map(lambda value: json.dumps(value).encode()))
@example(b'{"job":"a","args":{"x":NaN}}')
@example(b'{"job":"a","args":{"x":1e400}}')
@example(b'{"job":"a","args":{"x":"\\ud800"}}')
@example(b'{"job":"a","args":{"x":"\xff"}}')
@example(b'{"job":"a","args":{"x":1},"args":{"y":2}}')
@example(b'{"job":"a\\u0000","args":{}}')
@example(b'{"job":"a","args":{}} {}')
@example(b'{"job":"a","args":{"x":' + b"9" * 5000 + b"}}")
@example(b'{"job":"a","args":{"x":' + b"[" * MOST_DEEP + b"]" * MOST_DEEP + b"}}")
def test_the_fast_parser_reads_the_same_as_the_model(body: bytes):
    assert repr(read(body)) == repr(by_model(body))


@pytest.mark.parametrize("deep", [MOST_DEEP - 2, MOST_DEEP - 1])
def test_the_depth_of_a_body_is_limited(deep: int):
    body = b'{"job":"a","args":{"x":' + b"[" * deep + b"]" * deep + b"}}"
    assert isinstance(read(body), RunRequest) is (deep + 2 <= MOST_DEEP)


@pytest.fixture
async def server() -> AsyncGenerator[Served]:
    async with served() as one:
        for name in ("mail", "post"):
            await one.there.verbs().put(otd.Job(name=name, task=Call(handler=name), owner="ann"))
        yield one


async def pieces(*parts: bytes) -> AsyncGenerator[bytes]:
    for part in parts:
        yield part


async def sent(server: Served, content: Any, *, role: Role = Role.OPERATOR, **who: Any) -> tuple[int, list[Any]]:
    headers = {**server.keys.add(role, **who), "Content-Type": NDJSON}
    answer = await server.client.post("/api/v1/runs", content=content, headers=headers)
    if answer.headers["content-type"] != NDJSON:
        return answer.status_code, [answer.json()]
    return answer.status_code, [json.loads(line) for line in answer.text.splitlines()]


def lines(*asked: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in asked)


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_lines_are_the_same_wherever_the_stream_is_cut(size: int):
    text = b"one\ntwo\r\n\n  \nfive\n\nlast"
    parts = [text[first : first + size] for first in range(0, len(text), size)]
    found = [(number, line.strip()) async for some in lines_of(pieces(*parts)) for number, line in some]
    assert found == [(1, b"one"), (2, b"two"), (5, b"five"), (7, b"last")]


async def test_an_endless_line_is_refused():
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1000
            yield b"x" * 1000

    with pytest.raises(BadLine) as refused:
        _ = [some async for some in lines_of(endless())]
    assert refused.value.problem.status == 413
    assert taken <= MOST_LINE + 2000


@pytest.mark.parametrize(("bound", "most"), [("MOST_LINES", 3), ("MOST_BYTES", 30)])
async def test_the_lines_and_bytes_of_a_request_are_limited(
    server: Served, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
):
    monkeypatch.setattr(submissions, bound, most)
    status, told = await sent(server, pieces(*[lines({"job": "mail"})] * 5))
    assert status == 413
    assert told[-1]["problem"]["status"] == 413
    assert [one["line"] for one in told] == list(range(1, len(told) + 1))
    assert len(await server.there.verbs().list_runs()) == len(told) - 1 > 0


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_line_is_answered_in_order(server: Served):
    asked = [{"job": "mail" if number % 3 else "post", "args": {"n": number}} for number in range(2 * BATCH + 7)]
    status, told = await sent(server, lines(*asked))
    assert status == 200
    assert [one["line"] for one in told] == list(range(1, len(asked) + 1))
    assert all(one["created"] for one in told)
    stored = {run.id: run for run in await server.there.verbs().list_runs(limit=5000)}
    shown = [(stored[one["run_id"]].job, json.loads(stored[one["run_id"]].args or "")) for one in told]
    assert shown == [(one["job"], one["args"]) for one in asked]


async def test_a_request_with_keys_can_be_repeated(server: Served):
    body = lines(*[{"job": "mail", "key": f"k{number % 7}"} for number in range(10)])
    status, first = await sent(server, body)
    assert status == 200
    assert [one["created"] for one in first] == [True] * 7 + [False] * 3
    status, again = await sent(server, body)
    assert status == 200
    assert [one["run_id"] for one in again] == [one["run_id"] for one in first]
    assert not any(one["created"] for one in again)


BAD_LINES: list[tuple[bytes, int]] = [
    (b"nonsense", 422),
    (b"[]", 422),
    (b'{"job":"mail","more":1}', 422),
    (b'{"job":"mail","delay":"soon"}', 422),
    (b'{"job":"mail","key":"idempotency:x"}', 422),
    (b'{"job":"none"}', 404),
    (b'{"job":"mail","key":"taken","args":{"other":1}}', 409),
    (b'{"job":"mail","args":{"a":"' + b"x" * MOST_LINE + b'"}}', 413),
    (b'{"job":"mail"', 422),
]


@pytest.mark.parametrize(("bad", "expected"), BAD_LINES)
@pytest.mark.parametrize("before", [0, 3, BATCH])
async def test_a_request_ends_at_the_first_refused_line(server: Served, bad: bytes, expected: int, before: int):
    await server.there.verbs().submit("mail", key="taken")
    good = lines({"job": "mail"})
    status, told = await sent(server, good * before + bad + b"\n" + good * 3)
    assert status == expected
    *stored, last = told
    assert [one["line"] for one in stored] == list(range(1, before + 1))
    assert (last["line"], last["problem"]["status"]) == (before + 1, expected)
    assert last["problem"]["detail"]
    assert len(await server.there.verbs().list_runs(limit=2000)) == before + 1


@pytest.mark.parametrize("whose", [{"namespaces": ("other",)}, {"owner": "bob", "only_own": True}])
async def test_jobs_of_others_are_answered_as_missing(server: Served, whose: dict[str, Any]):
    status, told = await sent(server, lines({"job": "mail"}), **whose)
    assert status == 404
    assert len(told) == 1
    assert await server.there.verbs().list_runs() == []


async def test_a_viewer_cannot_submit(server: Served):
    status, _ = await sent(server, lines({"job": "mail"}), role=Role.VIEWER)
    assert status == 403


async def test_a_bulk_submit_takes_no_idempotency_key(server: Served):
    headers = {**server.keys.add(Role.OPERATOR), "Content-Type": NDJSON, "Idempotency-Key": "7"}
    answer = await server.client.post("/api/v1/runs", content=lines({"job": "mail"}), headers=headers)
    assert answer.status_code == 422


async def test_a_store_that_becomes_unavailable_is_reported_at_the_line(
    server: Served, monkeypatch: pytest.MonkeyPatch
):
    submit, calls = server.there.store.submit, 0

    async def away(runs: list[NewRun], **_: Any) -> list[int]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise StoreUnavailable("the store is away")
        return await submit(runs)

    monkeypatch.setattr(server.there.store, "submit", away)
    status, told = await sent(server, lines(*[{"job": "mail"}] * (BATCH + 1)))
    assert status == 503
    assert len(told) == BATCH + 1
    assert (told[-1]["line"], told[-1]["problem"]["status"]) == (BATCH + 1, 503)


async def test_a_request_is_read_only_as_fast_as_it_is_stored(server: Served, monkeypatch: pytest.MonkeyPatch):
    """At most one batch and one piece are read and not stored yet."""
    submit, read, stored, most = server.there.store.submit, 0, 0, 0

    async def slow(runs: list[NewRun], **_: Any) -> list[int]:
        nonlocal stored
        await asyncio.sleep(0)
        stored += len(runs)
        return await submit(runs)

    monkeypatch.setattr(server.there.store, "submit", slow)
    piece = lines(*[{"job": "mail"}] * 100)

    async def many() -> AsyncIterator[bytes]:
        nonlocal read, most
        for _ in range(50):
            read += 100
            most = max(most, read - stored)
            yield piece

    status, told = await sent(server, many())
    assert (status, len(told)) == (200, 5000)
    assert most <= BATCH + 100


async def ask_in_part(server: Served, then: Callable[[], Awaitable[dict[str, Any]]]) -> list[Any]:
    """Send a batch and a few lines more, then what `then` returns. Return the answer's messages."""
    server.keys.add(Role.OPERATOR)
    first: list[dict[str, Any]] = [
        {"type": "http.request", "body": lines(*[{"job": "mail"}] * (BATCH + 3)), "more_body": True}
    ]
    answered: list[Any] = []

    async def receive() -> dict[str, Any]:
        return first.pop() if first else await then()

    async def send(message: Any) -> None:
        answered.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/api/v1/runs", "raw_path": b"/api/v1/runs", "query_string": b"", "root_path": "",
        "headers": [(b"host", b"server"), (b"content-type", NDJSON.encode()), (b"authorization", b"Bearer key0")],
        "state": {}, "client": ("127.0.0.1", 1), "server": ("server", 80),
    }  # fmt: skip
    await server.app(scope, receive, send)
    return answered


async def audited(server: Served) -> list[Any]:
    return [entry.after for entry in await audit.read(server.there.store) if entry.verb == "runs.submit"]


async def gone() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def stalled() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def broken() -> dict[str, Any]:
    raise RuntimeError("a bug")


@pytest.mark.parametrize(("then", "status"), [(gone, 422), (stalled, 408), (broken, 500)])
async def test_stored_runs_stay_and_are_audited_however_the_request_ends(
    server: Served, monkeypatch: pytest.MonkeyPatch, then: Callable[[], Awaitable[dict[str, Any]]], status: int
):
    monkeypatch.setattr(connections, "BODY", 0.05)
    answered = await ask_in_part(server, then)
    assert len(await server.there.verbs().list_runs(limit=2000)) == BATCH
    assert answered[0]["status"] == status
    assert await audited(server) == [{"runs": BATCH}]


async def test_stored_runs_of_a_cancelled_request_are_audited(server: Served):
    waits = asyncio.Event()

    async def then() -> dict[str, Any]:
        waits.set()
        return await stalled()

    task = asyncio.ensure_future(ask_in_part(server, then))
    await waits.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await audited(server) == [{"runs": BATCH}]


async def test_each_write_is_audited_and_refused_lines_are_not(server: Served):
    status, _ = await sent(server, lines({"job": "nobody's"}))
    assert (status, await audited(server)) == (404, [])
    await sent(server, lines(*[{"job": "mail"}] * (BATCH + 2), {"job": "nobody's"}))
    assert await audited(server) == [{"runs": BATCH}, {"runs": 2}]
