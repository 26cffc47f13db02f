"""The value of a secret is in no definition, event, log line, error, history row or file of any store."""

from __future__ import annotations

import base64
import logging
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.ids import RandomIds
from onthedot.model.errors import OnTheDotError
from onthedot.model.job import Job
from onthedot.model.run import Lease, RunState
from onthedot.model.task import Command, Http, Param
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.runners.secrets import DIRECTORY, KEY, KIND, Keys, StoredSecrets
from onthedot.runners.task_filler import TaskFiller, secrets_of
from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node, Note, ReserveRequest

VALUE = "c4nary/sings+in the=mine"
BROKEN = "c4nary/sings\n+in the=mine"
SEALING_KEY = base64.b64encode(bytes(range(32))).decode()
FORMS = [
    *(value.encode() for value in (VALUE, BROKEN, SEALING_KEY)),
    *(base64.b64encode(value.encode()).rstrip(b"=")[:20] for value in (VALUE, BROKEN)),
    urllib.parse.quote(VALUE, safe="").encode(),
    VALUE.encode().hex().encode(),
    b"c4nary",
]
TASK = Command(
    argv=("backup", "--to", "${{ params.where }}"),
    env={"FROM_STORE": "x ${{ secrets.STORED }}", "FROM_ENV": "${{ secrets.ENV }}", "FROM_FILE": "${{ secrets.FILE }}"},
)
JOBS = (
    Job(name="backup", task=TASK, params=(Param(name="where", default="there"),)),
    Job(name="call", task=Http(url="https://example.org", headers={"Authorization": "Bearer ${{ secrets.STORED }}"})),
    Job(name="broken", task=Command(argv=("ls",), env={"A": "${{ secrets.BROKEN }}"})),
    Job(name="moved", task=Command(argv=("ls",), env={"A": "${{ secrets.MOVED }}"})),
    Job(name="short", task=Command(argv=("ls",), env={"A": "${{ secrets.SHORT }}"})),
    Job(name="open", task=Command(argv=("ls",), env={"A": "${{ secrets.OPEN }}"})),
)


def check(where: str, content: bytes) -> None:
    for form in FORMS:
        assert form not in content, f"{where}: found {form!r}"


class SearchedStore:
    """A store of one kind, and everything that it keeps, as bytes."""

    def __init__(self, kind: str, url: str) -> None:
        self.url = url
        self._kind = kind
        self._memory = MemoryStore()

    @property
    def for_scheduler(self) -> Any:
        return self._memory if self._kind == "memory" else self.url

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        if self._kind == "memory":
            yield self._memory
            return
        store = await open_store(self.url)
        try:
            yield store
        finally:
            await store.close()

    def content(self) -> Iterator[tuple[str, bytes]]:
        match self._kind:
            case "memory":
                yield from ((f"line {n}", row.encode()) for n, row in enumerate(self._memory.database.db.iterdump()))
            case "sqlite":
                folder = Path(self.url.removeprefix("sqlite:///")).parent
                yield from ((path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file())
            case "postgres":
                yield from _rows(self.url)
            case "redis":
                yield from _keys(self.url)


def _rows(url: str) -> Iterator[tuple[str, bytes]]:
    with psycopg.connect(url) as db:
        tables = db.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'onthedot' AND c.relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            for (row,) in db.execute(f"SELECT one::text FROM {table} one").fetchall():  # noqa: S608 - names from the catalogue
                yield table, row.encode()


def _keys(url: str) -> Iterator[tuple[str, bytes]]:
    with redis.Redis.from_url(url) as db:
        for key in db.scan_iter():
            kind = db.type(key)
            if kind == b"hash":
                values = [part for pair in db.hgetall(key).items() for part in pair]
            elif kind == b"zset":
                values = db.zrange(key, 0, -1)
            elif kind == b"set":
                values = list(db.smembers(key))
            else:
                assert kind == b"string", kind
                values = [db.get(key)]
            yield key.decode(), b"\n".join(values)


def check_content(searched: SearchedStore) -> None:
    for where, content in searched.content():
        check(where, content)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def searched(request: pytest.FixtureRequest, tmp_path: Path) -> SearchedStore:
    match request.param:
        case "postgres":
            return SearchedStore("postgres", request.getfixturevalue("postgres_url"))
        case "redis":
            return SearchedStore("redis", request.getfixturevalue("valkey_url"))
    (tmp_path / "store").mkdir()
    return SearchedStore(request.param, f"sqlite:///{tmp_path / 'store' / 'shop.db'}")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "secrets"
    folder.mkdir()
    for name, mode in (("FILE", 0o600), ("OPEN", 0o644)):
        (folder / name).write_text(f"{VALUE}\n")
        (folder / name).chmod(mode)
    return {KEY: SEALING_KEY, DIRECTORY: str(folder), "OTD_SECRET_ENV": VALUE, "OTD_SECRET_SHORT": "c4n"}


async def keep(store: Store, environment: dict[str, str]) -> None:
    """Put the value into the store, sealed. Copy it to another name, too, as an attacker could."""
    stored = StoredSecrets(store.documents, Keys.of(environment))
    await stored.set("default", "STORED", VALUE)
    await stored.set("default", "BROKEN", BROKEN)
    found = await store.documents.get_document(KIND, "default/STORED")
    assert found is not None
    await store.documents.put_document(KIND, "default/MOVED", found.body, version=0)


async def reserve_all(store: Store) -> list[Lease]:
    await store.register(Node(id="node", incarnation="one"), ttl=1_000 * SECOND)
    return (
        await store.reserve(ReserveRequest("one", RandomIds().leases(9), 9, tasks=frozenset({"command", "http"})))
    ).armed


async def run_carelessly(store: Store, lease: Lease, filling: TaskFiller) -> str:
    """Record everything about a task and its errors, as a careless runner would."""
    try:
        filled = await filling(lease)
        assert VALUE in filled.secrets
        records = f"{filled!r} {filled} {filled.task!r}"
    except OnTheDotError as error:
        records = f"{type(error).__name__}: {error} {error!r} {error.__cause__!r}"
    await store.note([Note(lease, 1, log=records)])
    verdict = Verdict(RunState.DEAD, OutcomeKind.FAILED, "failed", failed=True, error=records)
    assert await store.finish([Finish(lease, verdict, 1, 2)]) == [True]
    return records


async def test_the_value_of_a_secret_is_stored_and_reported_nowhere(
    searched: SearchedStore, environment: dict[str, str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    events: list[object] = []
    async with searched.opened() as store:
        await keep(store, environment)
    sched = otd.Scheduler(
        searched.for_scheduler, settings=otd.Settings(roles=("planner",))
    )  # no run starts in this test
    sched.subscribe(events.append)
    async with sched:
        for job in JOBS:
            await sched.put(job)
            await sched.submit(job.name)
        shown = repr([await sched.list_jobs(), await sched.list_runs()])
    records = []
    async with searched.opened() as store:
        filling = TaskFiller(secrets_of(store.documents, environment=environment))
        leases = await reserve_all(store)
        assert len(leases) == len(JOBS)
        records = [await run_carelessly(store, lease, filling) for lease in leases]
        for lease in leases:
            shown += repr([await store.queries.get_run(lease.run_id), await store.queries.list_attempts(lease.run_id)])
            shown += repr(
                [await store.queries.list_logs(lease.run_id), lease, await store.documents.list_documents(KIND)]
            )
    assert [text.partition(":")[0] for text in records[2:]] == ["ArgumentsError", *["UnknownSecret"] * 3]
    assert events
    for where, text in (("events", repr(events)), ("said", repr(records)), ("shown", shown), ("log", caplog.text)):
        check(where, text.encode())
    check_content(searched)


async def test_the_search_finds_a_value_that_is_stored(searched: SearchedStore):
    """Proves that the test above can fail."""
    async with searched.opened() as store:
        await store.documents.put_document("note", "a", f'"{VALUE}"', version=0)
    with pytest.raises(AssertionError, match="found b'c4nary"):
        check_content(searched)
