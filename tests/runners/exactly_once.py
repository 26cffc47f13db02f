"""Runs a job with the guarantee exactly_once on one node for a virtual minute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import onthedot as otd
from onthedot.model.events import CommittedBefore
from onthedot.model.events import LeaseLost as Refused
from onthedot.model.run import RunRecord
from onthedot.stores.memory import MemoryStore
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SOON = "2026-06-01T12:00:05Z"

Handler = Callable[[otd.Context], Any]


def job(handler: Handler, **options: Any) -> otd.Scheduler:
    sched = otd.Scheduler("memory:")
    sched.job(name="work", schedule=otd.at(SOON), guarantee="exactly_once", **options)(handler)
    return sched


class Result:
    """The state after the virtual minute."""

    def __init__(self, harness: Harness, run: RunRecord) -> None:
        self.run = run
        self.sql = [statement.sql for statement in harness.store.statements]  # type: ignore[attr-defined]
        self.fences = [statement.fence for statement in harness.store.statements]  # type: ignore[attr-defined]
        self.kept = [event.said for event in harness.events if isinstance(event, CommittedBefore)]
        self.refused = [event.finish for event in harness.events if isinstance(event, Refused)]

    @property
    def counts(self) -> tuple[str, int, int, int]:
        return self.run.state, self.run.attempts, self.run.failures, self.run.recoveries


def run_for_a_minute(
    handler: Handler, *, store: type[MemoryStore] = MemoryStore, crash: str = "", **options: Any
) -> Result:
    """Run the job in virtual time on one node. With `crash`, the node crashes after this time and another one
    starts."""

    async def scenario() -> Result:
        sched = job(handler, **options)
        harness = Harness(START, store=store)
        await harness.start(sched)
        if crash:
            await harness.advance(crash)
            await harness.crash()
            await harness.advance("30s")
            await harness.start(sched)
        await harness.advance("60s")
        [run] = await harness.runs("work")
        await harness.stop()
        return Result(harness, run)

    return run_virtual(scenario())
