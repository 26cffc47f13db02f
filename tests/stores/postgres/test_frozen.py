"""A client that freezes in the middle of a transaction: how long its locks keep others waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from onthedot.clock import SECOND
from onthedot.model.errors import NodeExpired, StoreUnavailable
from onthedot.model.job import Call, Job, JobRecord, Limit, Overlap
from onthedot.model.run import ArmAnswer, Armed, Blocked, Busy, GateAsk, Lease, NewRun, OnBusy, submit_trigger
from onthedot.rules.gates import gates_of, on_busy
from onthedot.stores.hints import Hint
from onthedot.stores.postgres import PostgresStore, connections
from onthedot.stores.postgres.connections import _in_pieces
from onthedot.stores.postgres.transaction import LOCK_KEYS, Transaction
from onthedot.stores.sql.port import sql
from onthedot.stores.sql.queues import QUEUES
from onthedot.stores.values import Node, ReserveRequest
from onthedot_verify import contract
from onthedot_verify.contract.workbench import recover
from tests.chaos.proxy import Proxy
from tests.servers.postgres import name_of, url
from tests.servers.shared import SharedPostgres
from tests.stores.postgres.texts import TableOfTexts

TTL = 60 * SECOND
PROMPT = 1.0  # seconds; a call that waits for nobody takes milliseconds
PATIENCE = 10.0
ONE_OF_EACH = list({check.slice: check for check in contract.checks()}.values())


@pytest.fixture
def proxy(postgres: SharedPostgres) -> Iterator[Proxy]:
    with Proxy(postgres.port) as cable:
        yield cable


@pytest.fixture
def through(proxy: Proxy, postgres: SharedPostgres, empty_url: str) -> str:
    return url(proxy.port, postgres.password, name_of(empty_url))


@pytest.fixture
async def freezing(through: str) -> AsyncIterator[PostgresStore]:
    """The store as the client that freezes has it."""
    store = await PostgresStore.open(through + "?timeout=30")
    yield store
    await store.close()


@pytest.fixture
async def db(empty_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of somebody else, which holds what it is told to hold."""
    connection = await asyncpg.connect(empty_url, server_settings={"search_path": "onthedot"})
    yield connection
    connection.terminate()


async def define(store: PostgresStore, name: str = "gated") -> JobRecord:
    return (await store.put_job(Job(name=name, task=Call(handler="work"), concurrency=Limit(5)))).record


async def join(store: PostgresStore, name: str, ttl: int = TTL) -> str:
    await store.register(Node(id=name, incarnation=name), ttl=ttl)
    return name


async def submit(store: PostgresStore, job: JobRecord, name: str) -> None:
    await store.submit([NewRun(job.id, submit_trigger(name), await store.tell_time())])


async def reserve(store: PostgresStore, who: str, seats: int = 1) -> list[Lease]:
    """Runs of gated jobs, which are armed in a second write."""
    ids = [f"{who}/{place}" for place in range(seats)]
    return (
        await store.reserve(ReserveRequest(who, ids, seats, tasks=frozenset({"call:work"}), lapse=60 * SECOND))
    ).held


async def arm(store: PostgresStore, leases: list[Lease]) -> list[ArmAnswer]:
    asks = {one.lease_id: GateAsk(gates_of(one.record, target="", arguments={}), OnBusy("wait")) for one in leases}
    return await store.arm(leases, gates=asks)


async def freeze(proxy: Proxy) -> None:
    """Wait until it has."""
    assert await asyncio.to_thread(proxy.frozen.wait, PATIENCE), "the client did not come to where it was to freeze"


async def test_a_client_that_freezes_after_flush_holds_its_gate_for_2_s(
    store: PostgresStore, freezing: PostgresStore, proxy: Proxy
):
    """It has locked node, job and gate, and has the next statement parsed; the server waits for what follows."""
    job = await define(store)
    for name in ("first", "second"):
        await submit(store, job, name)
    sleeper, healthy = await join(freezing, "sleeper"), await join(store, "healthy")
    [slept], [other] = await reserve(freezing, sleeper), await reserve(store, healthy)
    proxy.freeze_at("'earlier'")
    asleep = asyncio.create_task(arm(freezing, [slept]))
    await freeze(proxy)
    began = time.monotonic()
    waiting = asyncio.create_task(arm(store, [other]))
    async with asyncio.timeout(4):
        while not waiting.done():
            beats = time.monotonic()
            await store.beat(healthy, ttl=TTL)
            assert time.monotonic() - beats < PROMPT, "a beat had to wait for the arm of its own node"
            await asyncio.sleep(0.05)
    [answer] = await waiting
    assert isinstance(answer, Armed)
    assert time.monotonic() - began > 0.5, "it did not wait: the frozen one had no lock"
    proxy.heal()
    with pytest.raises(StoreUnavailable):
        await asleep
    [answer] = await arm(freezing, [slept])  # on a new connection, and the run is still its own
    assert isinstance(answer, Armed)


async def test_a_beat_passes_an_arm_that_waits(store: PostgresStore, db: asyncpg.Connection):
    job, who = await define(store), await join(store, "node")
    await submit(store, job, "first")
    leases = await reserve(store, who)
    async with db.transaction():
        await db.execute("SELECT 1 FROM jobs FOR UPDATE")  # as an edit has it
        waiting = asyncio.create_task(arm(store, leases))
        await until_somebody_waits(db)
        async with asyncio.timeout(PROMPT):
            await store.beat(who, ttl=TTL)
        assert not waiting.done()
    await waiting


async def until_somebody_waits(db: asyncpg.Connection) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await db.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass


@pytest.mark.parametrize("change", ["drain", "void", "leave", "reap"])
async def test_what_is_decided_about_a_node_is_seen_by_who_asks_at_that_moment(
    store: PostgresStore, db: asyncpg.Connection, change: str
):
    """The asking statement has taken its snapshot, and waits for a lock: then the node is ended, drained or voided."""
    job, who = await define(store), await join(store, "node", ttl=SECOND if change == "reap" else TTL)
    for name in ("first", "second"):
        await submit(store, job, name)
    leases = await reserve(store, who)
    if change == "reap":
        await arm(store, leases)
    async with db.transaction():
        await db.fetch(LOCK_KEYS.postgres, [QUEUES])  # as who pauses a queue has it
        asking = asyncio.create_task(reserve(store, who))
        await until_somebody_waits(db)
        if change == "drain":
            assert await store.drain("node") == 1
        elif change == "void":
            await store.recover(who, void_below=100)
        elif change == "leave":
            await store.leave(who)
        else:
            later = await store.tell_time() + TTL
            [lease] = await store.orphans(limit=9, now=later)
            assert await store.reap([(lease, recover(0))], now=later) == [True]
    if change in ("leave", "reap"):
        with pytest.raises(NodeExpired):
            await asking
    else:
        assert await asking == []


async def test_an_ended_lease_gets_nothing_once_it_was_noted_as_empty(store: PostgresStore, db: asyncpg.Connection):
    """Else its run would never be found: whoever looks for orphans looks once at each end of a lease."""
    job, who = await define(store), await join(store, "node", ttl=SECOND // 2)
    await submit(store, job, "first")
    async with db.transaction():
        await db.fetch(LOCK_KEYS.postgres, [QUEUES])
        asking = asyncio.create_task(reserve(store, who))
        await until_somebody_waits(db)
        async with asyncio.timeout(PATIENCE):
            while not await db.fetchval("SELECT count(*) FROM nodes WHERE empty_at = lease_until"):
                assert await store.orphans(limit=9) == []
    with pytest.raises(NodeExpired):
        await asking


async def test_a_dead_node_that_is_locked_does_not_hold_up_the_recovery_of_others(
    store: PostgresStore, db: asyncpg.Connection
):
    job = await define(store)
    leases = {}
    for name in ("frozen", "dead"):
        await submit(store, job, name)
        who = await join(store, name)
        leases[name] = await reserve(store, who)
        await arm(store, leases[name])
    later = await store.tell_time() + 2 * TTL
    async with db.transaction():
        await db.execute("SELECT 1 FROM nodes WHERE incarnation = 'frozen' FOR KEY SHARE")
        async with asyncio.timeout(PROMPT):
            found = await store.orphans(limit=9, now=later)
            assert [lease.incarnation for lease in found] == ["dead"]
            both = [(leases[name][0], recover(0)) for name in ("frozen", "dead")]
            assert await store.reap(both, now=later) == [False, True]
    assert [lease.incarnation for lease in await store.orphans(limit=9, now=later)] == ["frozen"]
    assert await store.reap(both[:1], now=later) == [True]


async def test_a_transaction_beyond_its_limit_is_undone_and_told_and_the_next_gets_longer(store: PostgresStore):
    """What is too slow once is not too slow for ever. The connection, which the server has ended, is replaced."""
    slept = 0.0

    async def work(tx: Transaction) -> None:
        nonlocal slept
        began = time.monotonic()
        await tx.do(sql("INSERT INTO queues (name) VALUES ($1)"), "slow")
        try:
            await tx.rows(sql("SELECT pg_sleep(3)"))
        finally:
            slept = time.monotonic() - began

    with pytest.raises(StoreUnavailable, match="ask again"):
        await store.database.write(work)
    assert 1.5 < slept < 2.9
    assert await store.queries.list_queues() == []
    await store.database.write(work)
    assert slept > 2.9
    assert [queue.name for queue in await store.queries.list_queues()] == ["slow"]


async def test_a_single_statement_beyond_its_limit_gets_longer_the_next_time(store: PostgresStore):
    """It is a transaction of its own, as a batch of verdicts is; the second time it needs a BEGIN for that."""
    slow = sql("INSERT INTO queues (name) SELECT 'slow' FROM pg_sleep(3) RETURNING name")
    with pytest.raises(StoreUnavailable, match="ask again"):
        await store.database.at_once(slow, hint=Hint("runs", 0))
    assert await store.queries.list_queues() == []
    assert len(await store.database.at_once(slow, hint=Hint("runs", 0))) == 1
    assert [queue.name for queue in await store.queries.list_queues()] == ["slow"]


async def test_an_idle_transaction_beyond_its_limit_is_undone_too(store: PostgresStore):
    async def work(tx: Transaction) -> None:
        await tx.do(sql("INSERT INTO queues (name) VALUES ($1)"), "idle")
        await asyncio.sleep(2.5)

    with pytest.raises(StoreUnavailable, match="ask again"):
        await store.database.write(work)
    assert await store.queries.list_queues() == []


# ── servers that do not end a transaction in time ────────────────────────────────────────────────────────────────


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is taken for one that knows no limit for transactions."""
    monkeypatch.setattr(connections, "LIMITED_FROM", 99)


def parsed_in_writes(proxy: Proxy) -> set[str]:
    """What was parsed inside of a transaction that may hold locks, with a wait for the answer."""
    return {statement for begun_by, statement in proxy.waited_for if "READ ONLY" not in begun_by}


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("check", ONE_OF_EACH, ids=str)
async def test_an_older_server_parses_nothing_inside_of_a_transaction(
    check: contract.Check, freezing: PostgresStore, proxy: Proxy, empty_url: str
):
    await check(contract.Workbench(freezing, contract.Capabilities(effects=TableOfTexts(empty_url))))
    if check.slice != "transactions":  # in a handler's own transaction statements are the handler's affair
        assert parsed_in_writes(proxy) == set()


async def test_the_proxy_sees_what_is_parsed_inside_of_a_transaction(freezing: PostgresStore, proxy: Proxy):
    await join(freezing, "node")
    assert any("INSERT INTO nodes" in statement for statement in parsed_in_writes(proxy))


@pytest.mark.usefixtures("older")
async def test_on_an_older_server_a_frozen_client_holds_its_gate_for_its_lease(
    store: PostgresStore, freezing: PostgresStore, proxy: Proxy
):
    job = await define(store)
    for name in ("first", "second"):
        await submit(store, job, name)
    sleeper, healthy = await join(freezing, "sleeper", ttl=2 * SECOND), await join(store, "healthy")
    [slept], [other] = await reserve(freezing, sleeper), await reserve(store, healthy)
    proxy.freeze_at("'earlier'", "sync")
    asleep = asyncio.create_task(arm(freezing, [slept]))
    await freeze(proxy)
    began = time.monotonic()
    [answer] = await arm(store, [other])
    assert isinstance(answer, Armed)
    assert 1 < time.monotonic() - began < 4
    proxy.heal()
    with pytest.raises((StoreUnavailable, NodeExpired)):
        await asleep


def test_rows_are_sent_in_pieces_that_need_no_wait():
    assert [len(piece) for piece in _in_pieces([("x" * 1000, 1)] * 40)] == [16, 16, 8]
    assert [len(piece) for piece in _in_pieces([("x" * 100_000,), ("y",), ("z" * 100_000,)])] == [1, 1, 1]
    assert list(_in_pieces([])) == []


async def test_an_older_slot_that_somebody_is_at_holds_up_no_other_run(store: PostgresStore, db: asyncpg.Connection):
    """The newer slot asks again in a moment. A run of another job, armed together with it, starts at once."""
    bench = contract.Workbench(store)
    await bench.define("late", (10, 20), overlap=Overlap("wait"))
    other, node = await bench.define("other", (20,), overlap=Overlap("wait")), await bench.node("node")
    slow = await bench.node("slow")
    bench.turn(22)
    [older] = (await bench.reserve(slow, seats=1, lapse=1000)).held
    newer = (await bench.reserve(node, seats=9, lapse=1000)).held
    asks = {
        one.lease_id: GateAsk(gates_of(one.record, target="", arguments={}), on_busy(one, now=bench.now))
        for one in newer
    }
    async with db.transaction():
        await db.execute("SELECT 1 FROM runs WHERE id = $1 FOR UPDATE", older.run_id)
        answers = await store.arm(newer, gates=asks, now=bench.now)
    kinds = {one.record.job.name: type(answer) for one, answer in zip(newer, answers, strict=True)}
    assert kinds == {"late": Busy, other.job.name: Armed}
    [late] = [one for one in newer if one.record.job.name == "late"]
    assert [type(one) for one in await store.arm([late], gates=asks, now=bench.now)] == [Blocked]
