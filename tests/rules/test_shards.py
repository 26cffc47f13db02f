"""The planning of one program's jobs, divided and put together again while it runs."""

import asyncio
import doctest
from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.model.errors import DefinitionError
from onthedot.rules import shard_owners as policy
from onthedot.rules import shards as stores
from onthedot.simulate.virtual_loop import run_virtual
from onthedot.testing.harness import Harness


@pytest.mark.parametrize("module", [policy, stores])
def test_what_the_docstrings_show_is_true(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


async def test_there_cannot_be_any_number_of_shards():
    async with otd.Scheduler("memory:") as sched:
        for nonsense in (0, 65):
            with pytest.raises(DefinitionError, match="from 1 to 64"):
                await sched.set_shards(nonsense)
        assert (await sched.set_shards(4)).shards == 4
        assert (await sched.set_shards(4)).version == 2


def test_slots_stay_whole_and_on_time_while_the_number_of_shards_changes():
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
        for shards in (4, 7, 1, 64, 2):
            await asyncio.sleep(60)
            await harness.store.set_shards(shards)
        await asyncio.sleep(60)
        await harness.stop()

    run_virtual(scenario())
    assert len(ran) == 8 * 36
    assert max(late for _, late in ran) < 1_000
