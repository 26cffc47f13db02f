"""A client in another process than the nodes: it submits runs and waits for their starts and ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from onthedot.ids import RandomIds
from onthedot.model.run import NewRun, RunRecord, submit_trigger
from onthedot.stores.sqlite import SqliteStore
from tests.processes.kit import Cluster, now, wait_until


class Client:
    """Its own connection to the file of the nodes."""

    def __init__(self, nodes: Cluster, store: SqliteStore) -> None:
        self.nodes = nodes
        self.store = store

    async def job_id(self, name: str) -> int:
        record = await self.store.queries.get_job(name)
        assert record is not None
        return record.id

    async def submit(self, job: str, **arguments: object) -> int:
        new = NewRun(await self.job_id(job), submit_trigger(RandomIds().token()), now(), json.dumps(arguments))
        [run] = await self.store.submit([new])
        return run

    async def run(self, run: int) -> RunRecord:
        found = await self.store.queries.get_run(run)
        assert found is not None
        return found

    def wait_started(self, run: int) -> None:
        self.nodes.wait_for_entry("start", lambda entry: entry["run"] == run, f"run {run} to start")

    def wait_ended(self, runs: list[int]) -> None:
        """Wait until all these runs are in the history."""
        listed = ",".join(map(str, runs))

        def ended() -> bool:
            [[count]] = self.nodes.look(f"SELECT count(*) FROM history WHERE id IN ({listed})")  # noqa: S608
            return bool(count == len(runs))

        wait_until(ended, f"{len(runs)} runs to end")


@asynccontextmanager
async def client(nodes: Cluster) -> AsyncIterator[Client]:
    """Open a client and close it afterwards."""
    store = await SqliteStore.open(nodes.database)
    try:
        yield Client(nodes, store)
    finally:
        await store.close()
