"""A restarted or replaced server may have lost acknowledged writes: the store reports it and reuses no number."""

from __future__ import annotations

import asyncio

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.errors import StoreUnavailable
from onthedot.model.events import AttemptEnded, Event, StoreLost
from onthedot.model.job import Call, Job
from onthedot.model.run import Lease, NewRun, RunState, submit_trigger
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.stores.hints import Loss
from onthedot.stores.redis import RedisStore
from onthedot.stores.values import Node, ReserveRequest
from tests.servers import running
from tests.servers.valkey import ValkeyServer

TTL = 1_000 * SECOND
SUCCESS = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)
LOST = "has lost acknowledged writes"


async def begin(store: RedisStore, ids: SeededIds) -> None:
    record = (await store.put_job(Job(name="job", task=Call(handler="work")))).record
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    await store.submit([NewRun(record.id, submit_trigger(ids.token()), 0) for _ in range(10)])


async def reserve_one(store: RedisStore, ids: SeededIds) -> Lease:
    """Reserve one run. Asks until the server is available."""
    for _ in range(200):
        try:
            got = await store.reserve(ReserveRequest("one", ids.leases(1), 1, tasks=frozenset({"call:work"})))
        except StoreUnavailable:
            continue
        [lease] = got.armed
        return lease
    raise AssertionError("the store did not come back")


@pytest.mark.slow
async def test_a_kill_with_synchronous_writes_loses_nothing(caplog: pytest.LogCaptureFixture):
    with ValkeyServer(appendfsync="always") as server:
        store, ids = await RedisStore.open(server.url()), SeededIds(1)
        await begin(store, ids)
        before = await reserve_one(store, ids)
        epoch = store.redis.epoch
        server.restart_immediately()
        after = await reserve_one(store, ids)
        assert (store.redis.epoch, after.fence > before.fence) == (epoch + 1, True)
        assert LOST not in caplog.text
        assert await store.finish([Finish(before, SUCCESS, 1, 2)]) == [True]
        await store.close()


async def test_lost_last_writes_are_reported_and_no_fence_is_given_twice(
    valkey_server: ValkeyServer, caplog: pytest.LogCaptureFixture
):
    store, ids = await RedisStore.open(valkey_server.url()), SeededIds(1)
    await begin(store, ids)
    kept = await reserve_one(store, ids)
    with valkey_server.client() as db:
        size = int(db.info("persistence")["aof_current_size"])
    lost = [await reserve_one(store, ids) for _ in range(4)]
    valkey_server.kill()
    aof = valkey_server.aof
    assert aof.stat().st_size > size
    with aof.open("r+b") as file:
        file.truncate(size)
    valkey_server.start()
    after = [await reserve_one(store, ids) for _ in range(4)]
    assert LOST in caplog.text
    assert min(lease.fence for lease in after) > max(lease.fence for lease in [kept, *lost])
    assert {lease.run_id for lease in lost} & {lease.run_id for lease in after}  # a lost attempt is executed again
    assert await store.finish([Finish(lost[0], SUCCESS, 1, 2)]) == [False]  # only the new lease can finish it
    assert await store.finish([Finish(kept, SUCCESS, 1, 2), Finish(after[0], SUCCESS, 1, 2)]) == [True, True]
    await store.close()


async def test_a_store_reports_its_lost_writes_although_others_have_written_since(
    valkey_server: ValkeyServer, caplog: pytest.LogCaptureFixture
):
    """The server has as many writes again as this store has seen, and more, but not the same ones."""
    late, early, ids = *[await RedisStore.open(valkey_server.url()) for _ in range(2)], SeededIds(1)
    losses: list[Loss] = []
    late.hints.listen_for_loss(losses.append)
    await begin(late, ids)
    with valkey_server.client() as db:
        size = int(db.info("persistence")["aof_current_size"])
    lost = await reserve_one(late, ids)
    valkey_server.kill()
    with valkey_server.aof.open("r+b") as file:
        file.truncate(size)
    valkey_server.start()
    for _ in range(5):
        await reserve_one(early, ids)
    assert LOST not in caplog.text  # the other store had seen none of the lost writes
    assert (await reserve_one(late, ids)).fence > lost.fence
    [loss] = losses
    assert (loss.acknowledged - loss.kept, loss.epoch) == (1, 2)
    for _ in range(2):
        await late.queries.list_runs()
    valkey_server.restart_immediately()
    await reserve_one(late, ids)
    assert len(losses) == 1  # reported once; the second restart lost nothing
    await late.close()
    await early.close()


@pytest.mark.slow
async def test_a_server_that_lost_everything_is_reported_and_reuses_no_number(
    caplog: pytest.LogCaptureFixture,
):
    """A server in memory only does not know that it restarted. The store does."""
    with ValkeyServer(appendonly="no") as server:
        store, ids = await RedisStore.open(server.url()), SeededIds(1)
        await begin(store, ids)
        lost = await reserve_one(store, ids)
        server.restart_immediately()
        for _ in range(200):
            try:
                assert await store.queries.list_runs() == []
                break
            except StoreUnavailable:
                continue
        assert LOST in caplog.text
        await begin(store, ids)
        after = await reserve_one(store, ids)
        assert after.fence > lost.fence
        assert after.run_id > lost.run_id
        await store.close()


async def test_a_node_reports_lost_writes_that_it_had_seen_as_an_event(valkey_server: ValkeyServer):
    losses: asyncio.Queue[StoreLost] = asyncio.Queue()
    here = asyncio.get_running_loop()
    sched = otd.Scheduler(valkey_server.url())

    @sched.subscribe
    def note(event: Event) -> None:
        if isinstance(event, StoreLost):
            here.call_soon_threadsafe(losses.put_nowait, event)

    @sched.job
    async def work() -> None: ...

    async with sched:
        with valkey_server.client() as db:
            size = int(db.info("persistence")["aof_current_size"])
        for _ in range(5):
            await (await sched.submit("work")).result(timeout="20s")
        valkey_server.kill()
        with valkey_server.aof.open("r+b") as file:
            file.truncate(size)
        valkey_server.start()
        loss = await asyncio.wait_for(losses.get(), 30)
    assert 0 < loss.kept < loss.acknowledged
    assert loss.epoch == 2


@pytest.mark.parametrize(("guarantee", "times"), [("at_least_once", 2), ("at_most_once", 1)])
async def test_an_attempt_whose_verdict_is_lost_does_not_start_again_with_its_fence(
    valkey_server: ValkeyServer, guarantee: str, times: int
):
    """The server knows that the attempt was armed, but not that it ended. Its node is alive and knows."""
    sched = otd.Scheduler(valkey_server.url())
    fences: list[int] = []
    sizes: list[int] = []
    ended: asyncio.Queue[RunState] = asyncio.Queue()
    here = asyncio.get_running_loop()

    @sched.subscribe
    def note(event: Event) -> None:
        if isinstance(event, AttemptEnded):
            here.call_soon_threadsafe(ended.put_nowait, event.finish.verdict.state)

    @sched.job(name="work", guarantee=otd.Guarantee(guarantee))
    async def work(ctx: otd.Context) -> None:
        fences.append(ctx.fence)
        with valkey_server.client() as db:
            sizes.append(int(db.info("persistence")["aof_current_size"]))

    async with sched:
        await sched.submit("work")
        async with asyncio.timeout(30):
            states = [await ended.get()]  # the verdict was acknowledged, so the node does not repeat it
        valkey_server.kill()
        with valkey_server.aof.open("r+b") as file:
            file.truncate(sizes[0])
        valkey_server.start()
        async with asyncio.timeout(30):
            states += [await ended.get() for _ in range(times)]
    assert len(fences) == len(set(fences)) == times
    again = [RunState.SCHEDULED, RunState.SUCCEEDED] if times == 2 else [RunState.LOST]
    assert states == [RunState.SUCCEEDED, *again]


async def test_the_promotion_of_a_replica_without_the_last_writes_is_reported(
    valkey_server: ValkeyServer, caplog: pytest.LogCaptureFixture
):
    """The replica takes the primary's place and port, without the last writes."""
    store, ids = await RedisStore.open(valkey_server.url()), SeededIds(1)
    await begin(store, ids)
    kept = await reserve_one(store, ids)
    with valkey_server.client() as db:
        db.config_set("repl-diskless-sync-delay", 0)
    follows = {"replicaof": f"127.0.0.1 {valkey_server.port}", "masterauth": valkey_server.password}
    with ValkeyServer(requirepass=valkey_server.password, **follows) as replica, replica.client() as db:
        running.wait_until(lambda: db.info("replication")["master_link_status"] == "up", "the replica to follow")
        db.replicaof("NO", "ONE")
        lost = [await reserve_one(store, ids) for _ in range(3)]
        valkey_server.kill()
        db.config_set("port", valkey_server.port)
        after = [await reserve_one(store, ids) for _ in range(3)]
        assert LOST in caplog.text
        assert min(lease.fence for lease in after) > max(lease.fence for lease in [kept, *lost])
        finishes = [Finish(lease, SUCCESS, 1, 2) for lease in (lost[0], kept, after[0])]
        assert await store.finish(finishes) == [False, True, True]
    await store.close()


async def test_a_lost_document_version_is_not_given_again(valkey_server: ValkeyServer):
    """A caller that has read a lost version cannot overwrite the version that came after."""
    store = await RedisStore.open(valkey_server.url())
    kept = await store.documents.put_document("note", "a", "1", version=0)
    [first] = await store.documents.append_documents("audit", ["1"])
    with valkey_server.client() as db:
        size = int(db.info("persistence")["aof_current_size"])
    lost = await store.documents.put_document("note", "a", "2", version=kept.version)
    [lost_entry] = await store.documents.append_documents("audit", ["2"])
    valkey_server.kill()
    with valkey_server.aof.open("r+b") as file:
        file.truncate(size)
    valkey_server.start()
    await store.close()
    store = await RedisStore.open(valkey_server.url())
    new = await store.documents.put_document("note", "a", "3", version=kept.version)
    assert new.accepted
    assert new.version > lost.version
    assert not (await store.documents.put_document("note", "a", "4", version=lost.version)).accepted
    assert (await store.documents.append_documents("audit", ["3"]))[0] > lost_entry
    assert [entry.body for entry in await store.documents.list_appended("audit", after=first)] == ["3"]
    await store.close()
