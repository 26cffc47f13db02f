"""Measures the HTTP API: single submits, bulk submits, and submits while a hundred clients follow a log.

Single submits are compared with a bare endpoint of the same framework, bulk submits with those of the store itself.
Server, followers and client are separate processes. This process is the client. It sends prepared bytes and reads only
the length of the answers, so that its own work counts little.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from bench.crew import ROOT
from bench.nodes import JOB, Where, open_store, wall
from bench.results import BenchFailed, Result, ratio
from bench.rounds import Plan, alternate, percentile
from bench.server import running
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Job, ability_of
from onthedot.model.run import Lease, NewRun, submit_trigger
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node, Note, ReserveRequest

CONNECTIONS = 16
SUBMITS = 4_000
LINES = 20_000
BATCH = 500
FOLLOWERS = 100
TIMED = 500
PATIENCE = 60.0

New = Callable[[], Path | str]
"""Returns the place of the next store: a file, or the URL of an empty database."""

_BODY = json.dumps({"job": JOB, "args": {"region": "eu", "number": 7}}).encode()


@dataclass(frozen=True, slots=True)
class Child:
    """A process of `bench.api_node` that is ready, and the JSON object that it printed."""

    said: dict[str, Any]

    @property
    def port(self) -> int:
        return int(self.said["port"])

    def request(self, body: bytes, kind: str = "application/json") -> bytes:
        """Return the bytes of a request to submit."""
        head = (
            f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.said['key']}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def run(plan: Plan) -> list[Result]:
    """Measure on SQLite and PostgreSQL; with followers on SQLite only. A store in memory cannot be served."""
    files = (plan.folder / f"api-{number}.db" for number in count())
    lines = [_singles(plan, "sqlite", lambda: next(files)), _bulk(plan, "sqlite", lambda: next(files))]
    with running() as postgres:
        lines += [_singles(plan, "postgres", postgres.create), _bulk(plan, "postgres", postgres.create)]
    return [*lines, *_followed(plan)]


@contextmanager
def child(*arguments: str) -> Iterator[Child]:
    """Start a process of `bench.api_node`, wait until it is ready, and end it after the block."""
    command = [sys.executable, "-m", "bench.api_node", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        if not ready:
            raise BenchFailed(f"api: {' '.join(arguments[:1])} ended before it was ready")
        yield Child(json.loads(ready))
    finally:
        process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _url(new: Path | str) -> str:
    return new if isinstance(new, str) else f"sqlite:///{new}"


# ── single submits ───────────────────────────────────────────────────────────────────────────────────────────


def _singles(plan: Plan, store: str, new: New) -> Result:
    many = plan.count(SUBMITS, CONNECTIONS)

    def bare(_: int) -> float:
        with child("bare", "-") as server:
            return asyncio.run(_rate(server, many))

    def ours(_: int) -> float:
        with child("ours", _url(new())) as server:
            return asyncio.run(_rate(server, many))

    rounds = alternate(plan, bare, ours)
    note = f"{CONNECTIONS} connections, with a key, audited"
    # On PostgreSQL three processes share two cores, so that line has no aim.
    aim = 0.5 if store == "sqlite" else None
    return ratio(f"api submit {store}", rounds, unit="/s", aim=aim, note=note)


async def _rate(server: Child, count: int) -> float:
    """Return the requests per second over all connections."""
    asked = server.request(_BODY)
    each = max(1, count // CONNECTIONS)
    await asyncio.gather(*(_ask(server, asked, max(1, each // 10)) for _ in range(CONNECTIONS)))  # to warm up
    began = time.perf_counter()
    await asyncio.gather(*(_ask(server, asked, each) for _ in range(CONNECTIONS)))
    return each * CONNECTIONS / (time.perf_counter() - began)


async def _ask(server: Child, asked: bytes, count: int) -> list[float]:
    """Send requests one after the other on one connection, and return the milliseconds of each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    took = []
    try:
        for _ in range(count):
            began = time.perf_counter()
            writer.write(asked)
            await _answer(reader)
            took.append((time.perf_counter() - began) * 1_000)
    finally:
        writer.close()
        await writer.wait_closed()
    return took


async def _answer(reader: asyncio.StreamReader, status: bytes = b" 201 ") -> None:
    """Read one answer that has a Content-Length."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    if status not in head[:16]:
        raise BenchFailed(f"api: expected{status.decode()}, got {head[:200]!r}")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.split(b":")[1]))


# ── bulk submits ─────────────────────────────────────────────────────────────────────────────────────────────


def _bulk(plan: Plan, store: str, new: New) -> Result:
    many = plan.count(LINES, BATCH)

    def bare(_: int) -> float:
        return asyncio.run(_own_bulk(new(), many, plan.seed))

    def ours(_: int) -> float:
        with child("ours", _url(new())) as server:
            return asyncio.run(_send_lines(server, many))

    return ratio(f"api bulk {store}", alternate(plan, bare, ours), unit="/s", aim=0.8, note="lines of JSON")


async def _own_bulk(where: Where, count: int, seed: int) -> float:
    """Return the runs per second of the store itself, in batches as large as those of the API."""
    ids = SeededIds(seed)
    store = await open_store(where)
    put = await store.put_job(Job(name=JOB, task=Call(handler=JOB)))
    args = json.dumps({"region": "eu", "number": 7})
    began = time.perf_counter()
    for _ in range(0, count, BATCH):
        now = wall()
        await store.submit([NewRun(put.record.id, submit_trigger(ids.token()), now, args) for _ in range(BATCH)])
    took = time.perf_counter() - began
    await store.close()
    return count / took


async def _send_lines(server: Child, count: int) -> float:
    asked = server.request((_BODY + b"\n") * count, "application/x-ndjson")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 20)
    began = time.perf_counter()
    writer.write(asked)
    answer = b""
    while not answer.endswith(b"\r\n0\r\n\r\n"):
        piece = await asyncio.wait_for(reader.read(1 << 20), PATIENCE)
        if not piece:
            raise BenchFailed(f"api: the answer to a bulk submit ended early: {answer[-200:]!r}")
        answer += piece
    took = time.perf_counter() - began
    writer.close()
    await writer.wait_closed()
    if answer.count(b'"created":true') != count:
        raise BenchFailed(f"api: expected {count} new runs, got {answer[:300]!r}")
    return count / took


# ── with followers ───────────────────────────────────────────────────────────────────────────────────────────


def _followed(plan: Plan) -> list[Result]:
    count, crowd = plan.count(TIMED, 20), plan.count(FOLLOWERS, 5)
    pairs = [asyncio.run(_with_and_without(plan.folder / f"follow-{n}.db", count, crowd)) for n in range(plan.rounds)]
    note = f"{crowd} clients follow a growing log, one of them never reads"
    return [
        _slower(name, pairs, share, floor, note) for name, share, floor in (("median", 0.5, 1.2), ("p99", 0.99, 2.0))
    ]


def _slower(name: str, pairs: list[tuple[list[float], list[float]]], share: float, floor: float, note: str) -> Result:
    times = [(percentile(without, share), percentile(followed, share)) for without, followed in pairs]
    ratios = [ours / bare for bare, ours in times]
    return Result(
        name=f"api with followers {name}", ours=median(o for _, o in times), bare=median(b for b, _ in times),
        unit="ms", measured=median(ratios), spread=(min(ratios), max(ratios)), measure="times as long",
        floor=floor, note=note,
    )  # fmt: skip


async def _with_and_without(path: Path, count: int, crowd: int) -> tuple[list[float], list[float]]:
    """Return the times of submits without followers and with many. The log grows all the time."""
    with child("ours", f"sqlite:///{path}") as server:
        asked = server.request(_BODY)
        store = await open_store(path)
        writing = asyncio.create_task(_write_log(store, await _take(store)))
        try:
            await _ask(server, asked, max(5, count // 5))
            without = await _ask(server, asked, count)
            said = server.said
            with child("follow", str(server.port), said["key"], str(said["run"]), str(crowd)) as followers:
                if followers.said["following"] != crowd:
                    raise BenchFailed(f"api: expected {crowd} followers, got {followers.said}")
                return without, await _ask(server, asked, count)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await store.close()


async def _take(store: Store) -> Lease:
    node = Node("bench", "bench")
    await store.register(node, ttl=3_600_000_000)
    tasks = frozenset({ability_of(Job(name=JOB, task=Call(handler=JOB)))})
    [lease] = (await store.reserve(ReserveRequest(node.incarnation, SeededIds(1).leases(1), 1, tasks=tasks))).armed
    return lease


async def _write_log(store: Store, lease: Lease) -> None:
    """Add a line to the log of the run twice a second. A worker would do it once a second."""
    text = ""
    for number in range(1, 10_000):
        text = (text + f"line {number}: something was done, and here is a word about it\n")[-8_000:]
        await store.note([Note(lease, number, log=text)])
        await asyncio.sleep(0.5)
