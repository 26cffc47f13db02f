"""A process that uses a store: `python -m tests.stores.sqlite.writer FILE WHAT …`.

drain NODE          reserve and finish runs until there are none, print each reserved run
one VERB            set up the state for the verb, do it once, print the result
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from onthedot.clock import SECOND
from onthedot.model.job import Every, Job
from onthedot.model.run import RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.model.window import Slot, Window
from onthedot.stores.sqlite import SqliteStore
from tests.stores.sqlite.working import IDS, ask, define, finished, job, register, reserve, submit

LOST = Verdict(RunState.SCHEDULED, OutcomeKind.LOST, "recovered", recovered=True)
EVERY = Every(interval=timedelta(seconds=10), id="s")


async def drain(store: SqliteStore, name: str) -> None:
    node = await register(store, name)
    done: list[Finish] = []
    while True:
        got, _ = await asyncio.gather(store.reserve(ask(node, 7)), store.finish(done))
        if not got.armed:
            break
        print(*(lease.run_id for lease in got.armed), sep="\n", flush=True)
        done = [finished(store, lease) for lease in got.armed]


def scheduled_job() -> Job:
    return job("scheduled", EVERY)


def window(start: int, end: int, *slots: int) -> Window:
    return Window("s", start, end, end + 1, [Slot(slot, None) for slot in slots])


async def plan(store: SqliteStore) -> None:
    put = await store.put_job(scheduled_job(), [window(0, 0)])
    term = await store.campaign(await register(store), ttl=60 * SECOND)
    assert term is not None
    print("ready", flush=True)
    [state] = await store.queries.schedules_of(put.record.id)
    await store.plan(term, [(state, window(0, 100, 10, 20, 30))])


async def put_job(store: SqliteStore) -> None:
    print("ready", flush=True)
    await store.put_job(scheduled_job(), [window(0, 100, 10, 20)])


async def take(store: SqliteStore) -> None:
    record, node = await define(store), await register(store)
    await submit(store, record, 5)
    print("ready", flush=True)
    await reserve(store, node, 5)


async def finish(store: SqliteStore) -> None:
    record, node = await define(store), await register(store)
    await submit(store, record, 5)
    armed = (await reserve(store, node, 5)).armed
    print("ready", flush=True)
    await store.finish([finished(store, lease) for lease in armed])


async def reap(store: SqliteStore) -> None:
    record, node = await define(store), await register(store, ttl=SECOND)
    await submit(store, record)
    await reserve(store, node)
    later = store.clock.now() + 2 * SECOND
    [orphan] = await store.orphans(limit=5, now=later)
    print("ready", flush=True)
    await store.reap([(orphan, LOST)], now=later)


VERBS = {"plan": plan, "put_job": put_job, "reserve": take, "finish": finish, "reap": reap}


async def main() -> None:
    path, what, which = sys.argv[1:]
    store = await SqliteStore.open(path)
    if what == "drain":
        await drain(store, which)
    else:
        await VERBS[which](store)
    await store.close()
    print("done", IDS.token(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
