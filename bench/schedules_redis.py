"""Measures an idle node on Redis with a hundred thousand schedules, compared with one with a thousand.

As in `bench.schedules`, with a tenth of the schedules, because a job with a schedule takes about a kilobyte of the
server's memory. A script of this bench writes them like `put_job`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from bench import valkey
from bench.nodes import open_store, wall
from bench.results import Result
from bench.rounds import Plan, alternate
from bench.schedules import FEW, LEAST_SECONDS, NAME, SECONDS, YEARLY, lines, watch
from onthedot.clock import SECOND
from onthedot.model.job import Call, Job
from onthedot.schedules import schedule_id
from onthedot.stores.redis.connections import read_url
from onthedot.stores.redis.rows import job_fields

MANY = 100_000
ROUNDS = 2

_AT_ONCE = 1_000

_PUT = """
local ask, P = cjson.decode(ARGV[1]), KEYS[1] .. ':'
for number = ask.first, ask.last do
  local job = cjson.decode(ask.job)
  job.name = string.format('bulk-%07d', number)
  local definition = string.gsub(job.definition, ask.stands_for, job.name)
  local bucket, next_at = number * 7 % 1024, ask.far + number * 1000
  job.id, job.revision, job.state, job.created, job.updated, job.bucket = number, 1, 'active', ask.now, ask.now, bucket
  job.definition = nil
  redis.call('HSET', P .. 'definitions', number .. ':1', string.format('%.0f', ask.now) .. '\\n' .. definition)
  redis.call('HSET', P .. 'names', 'default\\t' .. job.name, number)
  redis.call('ZADD', P .. 'names_in_order', 0, 'default\\t' .. job.name)
  redis.call('ZADD', P .. 'named:default\\t' .. job.name, number, number)
  redis.call('HSET', P .. 'jobs', number, cmsgpack.pack(job))
  local state = {origin = ask.now, watermark = ask.now, next_at = next_at}
  redis.call('HSET', P .. 'schedules', number, cmsgpack.pack({[ask.schedule_id] = state}))
  redis.call('ZADD', P .. 'coming', next_at, string.format('%012d\\t%d\\t', number, bucket) .. ask.schedule_id)
end
redis.call('HSET', P .. 'sequences', 'job', ask.last)
"""


def run(plan: Plan) -> list[Result]:
    """Measure on Redis."""
    seconds = plan.seconds(SECONDS, LEAST_SECONDS)
    counts = {"few": plan.count(FEW), "many": plan.count(MANY)}
    with valkey.running() as server:
        urls = {name: server.create() for name in counts}
        for name, count in counts.items():
            _make(server, urls[name], count)
        assert asyncio.run(_count(urls["many"])) == min(counts["many"], 1_000)
        bounded = replace(plan, rounds=min(plan.rounds, ROUNDS))
        pairs = alternate(bounded, lambda _: watch(urls["few"], seconds), lambda _: watch(urls["many"], seconds))
    return lines("redis", pairs, counts)


def _make(server: valkey.Server, url: str, count: int) -> None:
    now = wall()
    asked = {
        "job": json.dumps(job_fields(Job(name=NAME, task=Call(handler="bulk"), schedules=(YEARLY,)))), "now": now,
        "far": now + 100 * 86_400 * SECOND, "schedule_id": schedule_id(YEARLY), "stands_for": NAME.replace("-", "%-"),
    }  # fmt: skip
    with server.client(url) as db:
        for first in range(1, count + 1, _AT_ONCE):
            last = min(first + _AT_ONCE - 1, count)
            db.eval(_PUT, 1, read_url(url).tag, json.dumps({**asked, "first": first, "last": last}))


async def _count(url: str) -> int:
    store = await open_store(url)
    found = await store.queries.list_jobs(limit=1_000)
    await store.close()
    return len(found)
