"""A list of dead letters reads only the dead letters, however long the history is."""

from __future__ import annotations

import psycopg

from onthedot.clock import SECOND
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.sql.history import LIST_DEAD
from onthedot_verify.contract import Workbench
from onthedot_verify.contract.workbench import DEAD, START

BESIDE = """
INSERT INTO onthedot.history (id, job_id, slot_at, due_at, created_at, ended_at, attempts, failures, recoveries,
                              priority, state, queue, trigger, target, reason)
SELECT 1000 + n, 1, n, n, 0, %s + n, 1, 0, 0, 1, CASE WHEN n %% 100 = 0 THEN 'dead' ELSE 'succeeded' END, 'default',
       'submit:' || n, '', ''
FROM generate_series(1, 20000) n
"""
SETTLED = "UPDATE onthedot.history SET settled = 'discarded:' WHERE state = 'dead' AND id > 1000"


async def test_a_list_of_dead_letters_reads_no_other_history(postgres_url: str):
    store = await PostgresStore.open(postgres_url)
    try:
        bench = Workbench(store)
        record, node = await bench.define(), await bench.node()
        dead = []
        for number in range(5):
            bench.turn(number)
            dead.append(await bench.submit(record))
            [lease] = await bench.take(node)
            assert await bench.finish(lease, DEAD)
        with psycopg.connect(postgres_url, autocommit=True) as db:
            db.execute(BESIDE, (START + 60 * SECOND,))
            db.execute(SETTLED)
            db.execute("ANALYZE onthedot.history")
            db.execute("SET search_path = onthedot")
            db.execute(f"PREPARE list_dead (bigint, bigint, bigint, text, text, int) AS {LIST_DEAD.postgres}".encode())
            values = f"(0, {1 << 53}, 0, 'default', NULL, 100)"
            plan = [line for (line,) in db.execute(f"EXPLAIN (ANALYZE, BUFFERS) EXECUTE list_dead {values}".encode())]
        assert [run.id for run in await store.queries.list_dead()] == dead[::-1]
        assert not [line for line in plan if "Seq Scan on history_2026_01" in line], plan  # the month that has rows
        assert not [line for line in plan if "Rows Removed" in line], plan
    finally:
        await store.close()
