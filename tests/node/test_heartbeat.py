"""A node joins the cluster, renews its lease, and stops trusting the lease in time."""

import asyncio
from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.clock import SECOND, Clock, to_micros
from onthedot.ids import RandomIds, SeededIds
from onthedot.model.events import Events
from onthedot.model.run import NewRun
from onthedot.node.heartbeat import Membership
from onthedot.node.leadership import Leadership
from onthedot.operations.cluster import cluster_snapshot
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql.store import SqlQueries
from onthedot.testing import Harness, VirtualClock, VirtualLoop, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def member(store: MemoryStore, *, node_id: str = "", ids=None) -> Membership:
    return Membership(store, store.clock, ids or RandomIds(), otd.Settings(node_id=node_id), Events())


def store() -> MemoryStore:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return MemoryStore(VirtualClock(loop, START))


def test_the_node_id_is_generated_or_taken_from_the_settings():
    async def scenario():
        memory = store()
        generated, again, given = member(memory), member(memory), member(memory, node_id="mail-1")
        assert given.node_id == "mail-1"
        assert generated.node_id
        assert generated.node_id != again.node_id

    run_virtual(scenario())


def test_a_node_registers_with_the_instant_of_its_registration():
    async def scenario():
        memory = store()
        await asyncio.sleep(5)
        joined = member(memory, node_id="a")
        await joined.join()
        [node] = await memory.queries.list_nodes()
        assert (node.id, node.incarnation) == ("a", joined.incarnation)
        assert node.registered_at == to_micros(START) + 5 * SECOND
        assert node.lease_until == node.registered_at + 15 * SECOND
        assert node.pid > 0

    run_virtual(scenario())


def test_every_boot_is_a_new_incarnation_of_the_same_node():
    async def scenario():
        memory = store()
        for _ in range(2):
            await member(memory, node_id="a").join()
        nodes = await memory.queries.list_nodes()
        assert [node.id for node in nodes] == ["a", "a"]
        assert len({node.incarnation for node in nodes}) == 2

    run_virtual(scenario())


def test_a_lease_is_trusted_until_its_margin_and_again_after_a_renewal():
    async def scenario():
        memory = store()
        joined = member(memory, ids=SeededIds(1))
        trusted = [joined.trusted]
        await joined.join()
        for seconds in (0, 11.9, 0.2):
            await asyncio.sleep(seconds)
            trusted.append(joined.trusted)
        await joined.tick(memory.clock.now())
        trusted.append(joined.trusted)
        await joined.leave()
        trusted.append(joined.trusted)
        assert trusted == [False, True, True, False, True, False]

    run_virtual(scenario())


def test_one_node_leads_and_the_next_takes_over_when_it_resigns():
    async def scenario():
        memory = store()
        nodes = []
        for name in ("a", "b"):
            joined = member(memory, node_id=name)
            await joined.join()
            nodes.append(Leadership(memory, joined, memory.clock, otd.Settings(), Events()))
        first, second = nodes
        for node in nodes:
            await node.tick(memory.clock.now())
        assert [node.term and node.term.number for node in nodes] == [1, None]
        await first.resign()
        await second.tick(memory.clock.now())
        assert [node.term and node.term.number for node in nodes] == [None, 2]

    run_virtual(scenario())


@pytest.mark.parametrize(("after", "leads"), [(9, False), (11, True)])
def test_a_silent_leader_is_replaced_when_its_term_ends(after, leads):
    async def scenario():
        memory = store()
        silent, heir = member(memory, node_id="silent"), member(memory, node_id="heir")
        await silent.join()
        await heir.join()
        await Leadership(memory, silent, memory.clock, otd.Settings(), Events()).tick(memory.clock.now())
        await asyncio.sleep(after)
        next_one = Leadership(memory, heir, memory.clock, otd.Settings(), Events())
        await next_one.tick(memory.clock.now())
        assert (next_one.term is not None) == leads

    run_virtual(scenario())


def test_a_node_looks_for_work_at_once_when_it_drains_no_longer():
    settings = otd.Settings(node_id="one", poll_every=60 * SECOND, seats=1)
    sched = otd.Scheduler("memory:", settings=settings)
    started: list[float] = []

    @sched.job
    async def work() -> None:
        started.append(asyncio.get_running_loop().time())

    async def scenario() -> float:
        harness = Harness(START)
        await harness.start(sched)
        await harness.store.drain("one")
        await harness.advance("1s")
        record = await harness.store.queries.get_job("work")
        assert record is not None
        await harness.store.submit([NewRun(record.id, "submit:1", harness.clock.now())])
        await harness.advance("3s")
        assert not started
        await harness.store.drain("one", draining=False)
        undone = asyncio.get_running_loop().time()
        await harness.advance("30s")
        await harness.stop()
        return undone

    undone = run_virtual(scenario())
    assert len(started) == 1
    assert started[0] - undone < 0.1


def test_every_renewal_reports_the_new_deadline():
    async def scenario():
        memory = store()
        joined = member(memory)
        told: list[int] = []
        joined.on_renewed(told.append)
        assert told == []
        await joined.join()
        await asyncio.sleep(4)
        await joined.tick(0)
        assert told[1] - told[0] == 4 * SECOND
        assert told[1] == joined.deadline
        late: list[int] = []
        joined.on_renewed(late.append)
        assert late == [joined.deadline]

    run_virtual(scenario())


class LivingOnly(SqlQueries):
    """Queries that fail if a caller also lists ended nodes: there may be many thousands."""

    asked = 0

    async def list_nodes(self, *, limit=None, living=False, now=None):
        assert living
        self.asked += 1
        return await super().list_nodes(limit=limit, living=living, now=now)


class WithLivingOnly(MemoryStore):
    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.queries = LivingOnly(self.database)


def test_an_engine_lists_living_nodes_only():
    async def scenario():
        harness = Harness(START, store=WithLivingOnly)
        sched = otd.Scheduler("memory:", settings=otd.Settings(node_id="one"))

        @sched.job(schedule=otd.every("10s"), assignment="leader")
        async def tick() -> None: ...

        await harness.start(sched)
        await harness.advance("1m")
        assert len([run for run in await harness.runs("tick") if run.state == "succeeded"]) >= 5
        assert isinstance(harness.store.queries, LivingOnly)
        assert harness.store.queries.asked > 5
        metrics = await cluster_snapshot(harness.store, harness.clock.now())
        assert [one.node.id for one in metrics.nodes] == ["one"]
        await harness.stop()

    run_virtual(scenario())
