"""A bare loop on PostgreSQL: the driver's statements on one plain connection, and one no-op task per run.

One transaction takes and arms a batch, then each run has a no-op task, and one statement finishes the batch. There is
no engine and no lease renewal, and it reads no nodes, queues or future work.
"""

from __future__ import annotations

import asyncpg

from bench.bare import BATCH, TASKS, perform
from bench.nodes import wall
from onthedot.ids import SeededIds
from onthedot.stores.postgres.connections import SHORT, Kind, begin_statement, read_url, settings_of
from onthedot.stores.postgres.fast_finish import FINISH
from onthedot.stores.sql.fragments import numbers, words
from onthedot.stores.sql.reserve import ARM_NOW, LIST_DUE

_SUCCEEDED = (["succeeded"], ["succeeded"], [""], [0], [0], [None], [None])


async def connect(url: str) -> asyncpg.Connection:
    """Open a connection with the driver's settings."""
    address = read_url(url)
    return await asyncpg.connect(
        address.dsn, server_settings=settings_of(address, limited=False), max_cached_statement_lifetime=0
    )


async def drain(db: asyncpg.Connection, executed: list[int], seed: int, name: str) -> None:
    """Take, execute and finish batches until no run is free. The ids are added to `executed`."""
    ids = SeededIds(f"{name} {seed}")
    begin = begin_statement(read_url("postgresql://"), Kind("drain", SHORT), limited=False)
    while True:
        now = wall()
        await db.execute(begin)
        rows = await db.fetch(LIST_DUE.postgres, now, sorted(TASKS), [], BATCH, ["default"], [1], [0])
        run_ids, lease_ids = [row[1] for row in rows], ids.leases(len(rows))
        these = numbers(run_ids), words(lease_ids)
        await db.fetch(ARM_NOW.postgres, *these, numbers(row[3] for row in rows), name, now)
        await db.execute("COMMIT")
        if not rows:
            return
        started_at, ended_at = await perform(run_ids, executed)
        instants = [numbers([instant] * len(rows)) for instant in (started_at, ended_at)]
        ended = await db.fetch(FINISH.postgres, *these, *instants, numbers([1] * len(rows)), *_SUCCEEDED)
        assert len(ended) == len(rows), "expected to finish every run: these leases belong to this loop"
