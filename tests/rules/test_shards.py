"""Every bucket belongs to one shard, and every shard to one living node."""

from __future__ import annotations

import asyncio
import doctest
from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.model.errors import DefinitionError
from onthedot.rules import shards
from onthedot.rules.shards import Candidate, Held, electable, open_to, owners
from onthedot.simulate.virtual_loop import run_virtual
from onthedot.testing.harness import Harness


def test_the_examples_are_correct():
    found = doctest.testmod(shards)
    assert found.attempted
    assert not found.failed


async def test_the_number_of_shards_is_from_1_to_64():
    async with otd.Scheduler("memory:") as sched:
        for nonsense in (0, 65):
            with pytest.raises(DefinitionError, match="from 1 to 64"):
                await sched.set_shards(nonsense)
        assert (await sched.set_shards(4)).shards == 4
        assert (await sched.set_shards(4)).version == 2


def test_every_slot_runs_on_time_while_the_number_of_shards_changes():
    sched = otd.Scheduler("memory:")
    ran: list[tuple[str, int]] = []
    running: list[Harness] = []

    for number in range(8):

        @sched.job(name=f"job{number}", schedule=otd.every("10s"))
        async def tick(ctx: otd.Context) -> None:
            ran.append((ctx.job, running[0].clock.now() % 10_000_000))

    async def scenario() -> None:
        harness = Harness(datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC))
        running.append(harness)
        await harness.start(sched)
        for number in (4, 7, 1, 64, 2):
            await asyncio.sleep(60)
            await harness.store.set_shards(number)
        await asyncio.sleep(60)
        await harness.stop()

    run_virtual(scenario())
    assert len(ran) == 8 * 36
    assert max(late for _, late in ran) < 1_000


NODES = [Candidate(f"node{number}", f"inc{number}", "2025a") for number in range(8)]


def test_a_death_moves_only_the_shards_of_the_dead_node():
    before, after = owners(64, NODES), owners(64, NODES[1:])
    moved = [shard for shard in range(64) if before[shard] != after[shard]]
    assert moved == [shard for shard in range(64) if before[shard] == "inc0"]
    assert moved


def test_every_node_gets_shards_whatever_the_order_of_nodes():
    assert set(owners(64, NODES)) == {node.incarnation for node in NODES}
    assert owners(64, NODES) == owners(64, NODES[::-1])
    assert owners(3, []) == [None, None, None]


def test_a_restart_moves_nothing():
    again = [Candidate("node0", "reborn", "2025a"), *NODES]
    assert owners(64, again) == [owner if owner != "inc0" else "reborn" for owner in owners(64, NODES)]


def test_only_nodes_with_the_newest_zone_data_get_shards():
    newer = Candidate("newer", "n", "2025b")
    assert electable([*NODES, newer, Candidate("unknown", "u", "unknown")]) == [newer]
    assert set(owners(9, [*NODES, newer])) == {"n"}


def test_a_node_takes_foreign_shards_only_when_they_stay_free():
    owned_by = ["me", "you", "you", "you"]
    terms = {0: Held("you", 100), 1: Held("you", 100), 2: Held("", 8), 3: Held("", 7)}
    assert open_to("me", owned_by, terms, now=10, patience=3) == [0, 3]
