"""Measures an idle node on PostgreSQL with a million schedules, compared with one with a thousand.

As in `bench.schedules`, but at most two rounds, because the server needs a minute to insert a million schedules.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bench import server
from bench.nodes import wall
from bench.results import Result
from bench.rounds import Plan, alternate
from bench.schedules import FEW, LEAST_SECONDS, MANY, NAME, SECONDS, YEARLY, lines, watch
from onthedot.clock import SECOND
from onthedot.model.job import Call, Job
from onthedot.model.job_json import encode
from onthedot.schedules import schedule_id
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.sql.port import sql

ROUNDS = 2

INSERT_JOBS = """
INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                  definition_hash, created_at, updated_at)
SELECT n, 'default', 'bulk-' || to_char(n, 'FM0000000'), 'team-' || n % 50, 'active', 1, 'call:bulk',
       'default', 'default', 1, '', false, md5(n::text) || md5(n::text), $2::bigint, $2::bigint
FROM generate_series(1, $1::bigint) n
"""

INSERT_REVISIONS = f"""
INSERT INTO job_revisions (job_id, revision, definition, created_at)
SELECT n, 1, replace($3::text, '{NAME}', 'bulk-' || to_char(n, 'FM0000000')), $2::bigint
FROM generate_series(1, $1::bigint) n
"""  # noqa: S608 - constants

INSERT_SCHEDULES = """
INSERT INTO schedules (job_id, schedule_id, bucket, origin, watermark, next_at)
SELECT n, $3::text, n * 2654435761 % 1024, $2::bigint, $2::bigint, $4::bigint + n * 1000
FROM generate_series(1, $1::bigint) n
"""


def run(plan: Plan) -> list[Result]:
    """Measure on PostgreSQL."""
    seconds = plan.seconds(SECONDS, LEAST_SECONDS)
    counts = {"few": plan.count(FEW), "many": plan.count(MANY)}
    with server.running() as postgres:
        urls = {name: postgres.create() for name in counts}
        for name, count in counts.items():
            asyncio.run(_make(urls[name], count))
        bounded = replace(plan, rounds=min(plan.rounds, ROUNDS))
        pairs = alternate(bounded, lambda _: watch(urls["few"], seconds), lambda _: watch(urls["many"], seconds))
    return lines("postgres", pairs, counts)


async def _make(url: str, count: int) -> None:
    store = await PostgresStore.open(f"{url}?timeout=1000")
    now = wall()
    definition = encode(Job(name=NAME, task=Call(handler="bulk"), schedules=(YEARLY,)))

    async def work(tx: Transaction) -> None:
        await tx.do(sql(INSERT_JOBS), count, now)
        await tx.do(sql(INSERT_REVISIONS), count, now, definition)
        await tx.do(sql(INSERT_SCHEDULES), count, now, schedule_id(YEARLY), now + 100 * 86_400 * SECOND)
        await tx.rows(sql("SELECT setval('job_ids', $1)"), count)
        await tx.rows(sql("ANALYZE jobs, job_revisions, schedules"))

    await store.database.write(work)
    await store.close()
