"""A gate that was left closed by mistake is found, opened and reported."""

from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.model.events import GatesRecounted
from onthedot.model.run import NewRun
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual
from tests.behind import behind


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_run_that_waits_at_a_forgotten_gate_starts_within_seconds(kind, tmp_path):
    sched = otd.Scheduler("memory:")

    @sched.job(name="job", overlap="wait")
    async def job() -> None: ...

    async def break_it(store) -> None:
        """Add a gate holder that does not exist, as if a run had ended without releasing its gate."""
        if isinstance(store, MemoryStore):
            behind(store, "INSERT INTO gate_holders VALUES ('overlap:1:', 999, 1)")
        else:
            await store.database.writer.run(
                lambda tx: tx.db.execute("INSERT INTO gate_holders VALUES ('overlap:1:', 999, 1)"), writes=True
            )

    def open_store(clock):
        if kind == "memory":
            return MemoryStore(clock)
        return SqliteStore.open(tmp_path / "gates.db", clock=clock, inline=True)

    async def scenario():
        harness = Harness(datetime(2026, 6, 1, tzinfo=UTC), store=open_store)
        await harness.start(sched)
        await harness.advance("1s")  # right after a recount
        await break_it(harness.store)
        [run_id] = await harness.store.submit([NewRun(1, "submit:x", harness.clock.now())])
        await harness.advance("1s")
        before = await harness.store.queries.get_run(run_id)
        await harness.advance("10s")
        after = await harness.store.queries.get_run(run_id)
        await harness.stop()
        await harness.store.close()
        return before, after, harness.events

    before, after, events = run_virtual(scenario())
    assert (before.state, before.reason) == ("scheduled", "waits for run 999")
    assert after.state == "succeeded"
    assert [event.freed for event in events if isinstance(event, GatesRecounted)] == [1]
