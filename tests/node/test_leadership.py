"""Nodes divide the shards among them, and shards move to other nodes in an orderly way."""

import asyncio
from datetime import UTC, datetime

import onthedot as otd
from onthedot.ids import SeededIds
from onthedot.model.events import Events
from onthedot.node.heartbeat import Membership
from onthedot.node.leadership import Leadership
from onthedot.rules.shards import Candidate, owners
from onthedot.stores.memory import MemoryStore
from onthedot.testing import VirtualClock, VirtualLoop, run_virtual


class Cluster:
    """Nodes whose heartbeat and leadership tick once a second, one node after the other."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.store = MemoryStore(VirtualClock(loop, datetime(2026, 6, 1, 12, tzinfo=UTC)))
        self.nodes: dict[str, tuple[Membership, Leadership]] = {}

    async def join(self, name: str, tzdata: str = "2025b") -> Leadership:
        settings = otd.Settings(node_id=name)
        membership = Membership(self.store, self.store.clock, SeededIds(name), settings, Events())
        membership.tzdata = tzdata
        await membership.join()
        leads = Leadership(self.store, membership, self.store.clock, settings, Events())
        self.nodes[name] = membership, leads
        return leads

    async def turn(self, seconds: int) -> list[int]:
        """Let `seconds` pass, and return for each second how many shards changed their leader."""
        changes = []
        for _ in range(seconds):
            before = self.held()
            for membership, leads in list(self.nodes.values()):
                await membership.tick(0)
                await leads.tick(self.store.clock.now())
            changes.append(sum(before.get(shard) != who for shard, who in self.held().items()))
            await asyncio.sleep(1)
        return changes

    def held(self) -> dict[int, str]:
        return {shard: name for name, (_, leads) in self.nodes.items() for shard in leads.terms}

    def wanted(self, shards: int) -> dict[int, str]:
        living = [Candidate(name, name, membership.tzdata) for name, (membership, _) in self.nodes.items()]
        return {shard: str(owner) for shard, owner in enumerate(owners(shards, living))}


def test_the_shards_of_a_new_layout_are_divided_by_hash():
    async def scenario():
        cluster = Cluster()
        for name in "abc":
            await cluster.join(name)
        await cluster.turn(2)
        assert cluster.held() == {0: "a"}
        await cluster.store.set_shards(12)
        await cluster.turn(8)
        assert cluster.held() == cluster.wanted(12)
        await cluster.store.set_shards(1)
        await cluster.turn(5)
        assert list(cluster.held()) == [0]

    run_virtual(scenario())


def test_a_node_that_joins_gets_its_shards_one_by_one():
    async def scenario():
        cluster = Cluster()
        await cluster.join("a")
        await cluster.store.set_shards(12)
        await cluster.turn(10)
        assert set(cluster.held().values()) == {"a"}
        await cluster.join("b")
        changes = await cluster.turn(60)
        assert cluster.held() == cluster.wanted(12)
        assert set(cluster.held().values()) == {"a", "b"}
        assert max(sum(changes[at : at + 3]) for at in range(60)) <= 2, "expected at most one move per renewal"

    run_virtual(scenario())


def test_the_shards_of_a_dead_node_are_taken_over_when_its_terms_end():
    async def scenario():
        cluster = Cluster()
        for name in "abc":
            await cluster.join(name)
        await cluster.store.set_shards(12)
        await cluster.turn(30)
        del cluster.nodes["b"]
        await cluster.turn(60)
        assert cluster.held() == cluster.wanted(12)

    run_virtual(scenario())


def test_a_shard_is_offered_less_often_to_an_owner_that_does_not_take_it():
    """A living node does not campaign. Other nodes lead its shards and resign them for it less and less often."""

    async def scenario():
        cluster = Cluster()
        await cluster.join("a")
        await cluster.join("b")
        _, idle = cluster.nodes["b"]
        idle.tick = lambda now: asyncio.sleep(0)  # type: ignore[method-assign,assignment,return-value]
        await cluster.store.set_shards(4)
        assert "b" in cluster.wanted(4).values()
        first, later = await cluster.turn(200), await cluster.turn(200)
        assert sum(later) < sum(first) / 2
        assert set(cluster.held().values()) == {"a"}

    run_virtual(scenario())


def test_newer_zone_data_takes_over_the_shards():
    async def scenario():
        cluster = Cluster()
        await cluster.join("old", "2024a")
        await cluster.store.set_shards(3)
        await cluster.turn(10)
        assert cluster.held() == {0: "old", 1: "old", 2: "old"}
        await cluster.join("new", "2025b")
        await cluster.turn(40)
        assert cluster.held() == {0: "new", 1: "new", 2: "new"}

    run_virtual(scenario())
