"""A client that freezes in the middle of a transaction: how long its locks delay others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from onthedot.clock import SECOND
from onthedot.ids import LeaseIds
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
PROMPT = 1.0  # seconds; a call that does not wait takes milliseconds
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
    """The store of the client that freezes."""
    store = await PostgresStore.open(through + "?timeout=30")
    yield store
    await store.close()


@pytest.fixture
async def db(empty_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of another program, which holds locks for the test."""
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
    """Reserve runs of jobs with gates, which a second write arms."""
    ids = LeaseIds(who, seats)
    return (
        await store.reserve(ReserveRequest(who, ids, seats, tasks=frozenset({"call:work"}), lapse=60 * SECOND))
    ).held


async def arm(store: PostgresStore, leases: list[Lease]) -> list[ArmAnswer]:
    asks = {one.lease_id: GateAsk(gates_of(one.record, target="", arguments={}), OnBusy("wait")) for one in leases}
    return await store.arm(leases, gates=asks)


async def wait_frozen(proxy: Proxy) -> None:
    """Wait until the client is frozen."""
    assert await asyncio.to_thread(proxy.frozen.wait, PATIENCE), (
        "the client did not reach the point at which it freezes"
    )


async def test_a_client_that_freezes_after_flush_holds_its_gate_for_2_s(
    store: PostgresStore, freezing: PostgresStore, proxy: Proxy
):
    """It has locked node, job and gate, and has its next statement parsed. The server waits for the rest."""
    job = await define(store)
    for name in ("first", "second"):
        await submit(store, job, name)
    sleeper, healthy = await join(freezing, "sleeper"), await join(store, "healthy")
    [slept], [other] = await reserve(freezing, sleeper), await reserve(store, healthy)
    proxy.freeze_at("'earlier'")
    asleep = asyncio.create_task(arm(freezing, [slept]))
    await wait_frozen(proxy)
    began = time.monotonic()
    waiting = asyncio.create_task(arm(store, [other]))
    async with asyncio.timeout(4):
        while not waiting.done():
            beats = time.monotonic()
            await store.beat(healthy, ttl=TTL)
            assert time.monotonic() - beats < PROMPT, "a heartbeat waited for the arm of its own node"
            await asyncio.sleep(0.05)
    [answer] = await waiting
    assert isinstance(answer, Armed)
    assert time.monotonic() - began > 0.5, "the arm did not wait, so the frozen client had no lock"
    proxy.heal()
    with pytest.raises(StoreUnavailable):
        await asleep
    [answer] = await arm(freezing, [slept])  # on a new connection; the run still belongs to it
    assert isinstance(answer, Armed)


async def test_a_heartbeat_does_not_wait_for_an_arm_that_waits(store: PostgresStore, db: asyncpg.Connection):
    job, who = await define(store), await join(store, "node")
    await submit(store, job, "first")
    leases = await reserve(store, who)
    async with db.transaction():
        await db.execute("SELECT 1 FROM jobs FOR UPDATE")  # as an edit locks them
        waiting = asyncio.create_task(arm(store, leases))
        await wait_for_a_blocked_call(db)
        async with asyncio.timeout(PROMPT):
            await store.beat(who, ttl=TTL)
        assert not waiting.done()
    await waiting


async def wait_for_a_blocked_call(db: asyncpg.Connection) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await db.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass


@pytest.mark.parametrize("change", ["drain", "void", "leave", "reap"])
async def test_a_reserve_that_waits_for_a_lock_sees_changes_of_its_node(
    store: PostgresStore, db: asyncpg.Connection, change: str
):
    """The reserve has taken its snapshot and waits for a lock. Then its node leaves, is reaped, drained or voided."""
    job, who = await define(store), await join(store, "node", ttl=SECOND if change == "reap" else TTL)
    for name in ("first", "second"):
        await submit(store, job, name)
    leases = await reserve(store, who)
    if change == "reap":
        await arm(store, leases)
    async with db.transaction():
        await db.fetch(LOCK_KEYS.postgres, [QUEUES])  # as a pause of a queue locks them
        asking = asyncio.create_task(reserve(store, who))
        await wait_for_a_blocked_call(db)
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


async def test_a_node_whose_ended_lease_was_found_empty_gets_no_runs(store: PostgresStore, db: asyncpg.Connection):
    """The search for orphans looks once at each ended lease, so it would never find a later run."""
    job, who = await define(store), await join(store, "node", ttl=SECOND // 2)
    await submit(store, job, "first")
    async with db.transaction():
        await db.fetch(LOCK_KEYS.postgres, [QUEUES])
        asking = asyncio.create_task(reserve(store, who))
        await wait_for_a_blocked_call(db)
        async with asyncio.timeout(PATIENCE):
            while not await db.fetchval("SELECT count(*) FROM nodes WHERE empty_at = lease_until"):
                assert await store.orphans(limit=9) == []
    with pytest.raises(NodeExpired):
        await asking


async def test_a_locked_dead_node_does_not_delay_the_recovery_of_others(store: PostgresStore, db: asyncpg.Connection):
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


async def test_a_transaction_over_its_time_limit_is_undone_and_the_next_one_gets_longer(store: PostgresStore):
    """A repeated call must not fail for ever. The server has ended the connection, so it is replaced."""
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


async def test_a_single_statement_over_its_time_limit_gets_longer_the_next_time(store: PostgresStore):
    """A batch of verdicts is one statement without BEGIN. The second time it needs a BEGIN for the longer limit."""
    slow = sql("INSERT INTO queues (name) SELECT 'slow' FROM pg_sleep(3) RETURNING name")
    with pytest.raises(StoreUnavailable, match="ask again"):
        await store.database.at_once(slow, hint=Hint("runs", 0))
    assert await store.queries.list_queues() == []
    assert len(await store.database.at_once(slow, hint=Hint("runs", 0))) == 1
    assert [queue.name for queue in await store.queries.list_queues()] == ["slow"]


async def test_an_idle_transaction_over_its_time_limit_is_undone(store: PostgresStore):
    async def work(tx: Transaction) -> None:
        await tx.do(sql("INSERT INTO queues (name) VALUES ($1)"), "idle")
        await asyncio.sleep(2.5)

    with pytest.raises(StoreUnavailable, match="ask again"):
        await store.database.write(work)
    assert await store.queries.list_queues() == []


# ── servers without a time limit for transactions ────────────────────────────────────────────────────────────────


@pytest.fixture
def no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store takes the server for an older one, which has no time limit for transactions."""
    monkeypatch.setattr(connections, "LIMITED_FROM", 99)


def parsed_in_writes(proxy: Proxy) -> set[str]:
    """Returns the statements that were parsed inside a transaction that may hold locks, with a wait for the answer."""
    return {statement for begun_by, statement in proxy.waited_for if "READ ONLY" not in begun_by}


@pytest.mark.usefixtures("no_time_limit")
@pytest.mark.parametrize("check", ONE_OF_EACH, ids=str)
async def test_on_an_older_server_nothing_is_parsed_inside_a_transaction(
    check: contract.Check, freezing: PostgresStore, proxy: Proxy, empty_url: str
):
    await check(contract.Workbench(freezing, contract.Capabilities(effects=TableOfTexts(empty_url))))
    if check.slice != "transactions":  # the statements in a handler's transaction are those of the handler
        assert parsed_in_writes(proxy) == set()


async def test_the_proxy_sees_statements_that_are_parsed_inside_a_transaction(freezing: PostgresStore, proxy: Proxy):
    await join(freezing, "node")
    assert any("INSERT INTO nodes" in statement for statement in parsed_in_writes(proxy))


@pytest.mark.usefixtures("no_time_limit")
async def test_on_an_older_server_a_frozen_client_holds_its_gate_until_its_lease_ends(
    store: PostgresStore, freezing: PostgresStore, proxy: Proxy
):
    job = await define(store)
    for name in ("first", "second"):
        await submit(store, job, name)
    sleeper, healthy = await join(freezing, "sleeper", ttl=2 * SECOND), await join(store, "healthy")
    [slept], [other] = await reserve(freezing, sleeper), await reserve(store, healthy)
    proxy.freeze_at("'earlier'", "sync")
    asleep = asyncio.create_task(arm(freezing, [slept]))
    await wait_frozen(proxy)
    began = time.monotonic()
    [answer] = await arm(store, [other])
    assert isinstance(answer, Armed)
    assert 1 < time.monotonic() - began < 4
    proxy.heal()
    with pytest.raises((StoreUnavailable, NodeExpired)):
        await asleep


def test_rows_are_sent_in_pieces_small_enough_not_to_block():
    assert [len(piece) for piece in _in_pieces([("x" * 1000, 1)] * 40)] == [16, 16, 8]
    assert [len(piece) for piece in _in_pieces([("x" * 100_000,), ("y",), ("z" * 100_000,)])] == [1, 1, 1]
    assert list(_in_pieces([])) == []


async def test_a_locked_older_slot_does_not_delay_other_runs(store: PostgresStore, db: asyncpg.Connection):
    """The newer slot is asked again after a moment. A run of another job that is armed with it starts at once."""
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
