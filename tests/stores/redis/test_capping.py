"""Redis keeps a limited number of finished runs in memory: the newest ones, and counts of the others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Call, Every, Job, JobRecord
from onthedot.model.run import Lease, NewRun, RunState, submit_trigger
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.model.window import Slot, Window
from onthedot.stores.redis import RedisStore
from onthedot.stores.redis.connections import MOST_FINISHED, read_url
from onthedot.stores.redis.server import STEP
from onthedot.stores.values import Node, ReserveRequest
from tests.servers.valkey import ValkeyServer

TTL = 1_000 * SECOND
SUCCESS = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)


async def begin(store: RedisStore) -> JobRecord:
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    return (await store.put_job(Job(name="job", task=Call(handler="work")))).record


async def take(store: RedisStore, record: JobRecord, count: int, seed: str) -> list[Lease]:
    ids = SeededIds(seed)
    runs = [NewRun(record.id, submit_trigger(ids.token()), 0, key=f"{seed} {number}") for number in range(count)]
    await store.submit(runs)
    return (await store.reserve(ReserveRequest("one", ids.leases(count), count, tasks=frozenset({"call:work"})))).armed


async def test_the_newest_runs_stay_and_the_others_are_counted(store: RedisStore, valkey: ValkeyServer):
    store.most_finished = 50
    record = await begin(store)
    leases = await take(store, record, 120, "a")
    for place, lease in enumerate(leases):
        assert await store.finish([Finish(lease, SUCCESS, 1, 10 + place)]) == [True]
    assert await store.queries.count_runs() == {RunState.SUCCEEDED: 50}
    kept = await store.queries.list_runs(limit=1_000)
    assert {run.id for run in kept} == {lease.run_id for lease in leases[70:]}
    [counted] = await store.queries.list_daily_counts()
    assert (counted.state, counted.count) == (RunState.SUCCEEDED, 70)
    with valkey.client() as db:  # everything about a removed run is removed
        sizes = {name: db.hlen(f"{{onthedot}}:{name}") for name in ("history", "keys", "submit_keys")}
        assert sizes == {"history": 50, "keys": 50, "submit_keys": 50}
        assert db.zcard("{onthedot}:ended") == db.zcard(f"{{onthedot}}:ended:{record.id}") == 50
    assert await store.finish([Finish(leases[-1], SUCCESS, 1, 129)]) == [True]  # recorded before, and still known
    assert await store.finish([Finish(leases[0], SUCCESS, 1, 10)]) == [False]  # no longer known


async def test_a_verdict_removes_at_most_two_old_runs(store: RedisStore):
    """However many there are too many, because a script must be short. Upkeep removes the rest in steps."""
    record = await begin(store)
    leases = await take(store, record, 3 * STEP, "a")
    await store.finish([Finish(lease, SUCCESS, 1, 2) for lease in leases[:-1]])
    store.most_finished = 5
    await store.finish([Finish(leases[-1], SUCCESS, 1, 2)])
    assert await store.queries.count_runs() == {RunState.SUCCEEDED: 3 * STEP - 2}
    calls = store.redis.calls
    await store.recount_gates()
    assert store.redis.calls - calls >= 3
    assert await store.queries.count_runs() == {RunState.SUCCEEDED: 5}


async def test_a_cancelled_future_slot_is_kept(store: RedisStore):
    """Its key prevents that a planner plans the slot again."""
    store.most_finished = 0
    now = await store.tell_time()
    job = Job(name="timed", task=Call(handler="work"), schedules=(Every(interval=timedelta(seconds=10), id="s"),))
    slot = now + 100 * SECOND
    window = Window("s", now, slot, slot + 10 * SECOND, slots=[Slot(slot, None)])
    await store.put_job(job, [window])
    [run] = await store.queries.list_runs()
    await store.cancel([run.id], why="test")
    await store.recount_gates()
    assert await store.queries.count_runs() == {RunState.CANCELLED: 1}
    assert await store.trim_history(now=slot + SECOND) == 1


async def test_the_number_of_kept_runs_is_an_option_of_the_url(valkey_url: str):
    store = await RedisStore.open(f"{valkey_url}?prefix=shop&history=7")
    assert (store.most_finished, store.redis.address.prefix) == (7, "shop")
    await store.close()
    assert read_url(valkey_url).history == MOST_FINISHED
    with pytest.raises(DefinitionError, match="option history: expected a whole number from 0 on, got 'all'"):
        await RedisStore.open(f"{valkey_url}?history=all")
