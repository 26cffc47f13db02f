"""Several nodes at once, each with its own connections: each run goes to one of them, and each gate is respected."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Every, Job, JobRecord
from onthedot.model.policies import Limit
from onthedot.model.run import Armed, Gate, GateAsk, Lease, NewRun, OnBusy, RunState, submit_trigger
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.model.window import Slot, Window
from onthedot.stores.redis import RedisStore
from onthedot.stores.values import Node, ReserveRequest
from tests.servers.valkey import ValkeyServer

TTL = 1_000 * SECOND
SUCCESS = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)


async def put(store: RedisStore, **options: object) -> JobRecord:
    return (await store.put_job(Job(name="job", task=Call(handler="work"), **options))).record  # type: ignore[arg-type]


async def work(store: RedisStore, number: int, took: Counter[int]) -> None:
    """Reserve and finish runs until none is left."""
    ids, name = SeededIds(number), f"node{number}"
    await store.register(Node(id=name, incarnation=name), ttl=TTL)
    while True:
        got = await store.reserve(ReserveRequest(name, ids.leases(7), 7, tasks=frozenset({"call:work"})))
        if not got.armed:
            return
        took.update(lease.run_id for lease in got.armed)
        assert all(await store.finish([Finish(lease, SUCCESS, 1, 2) for lease in got.armed]))


async def test_every_run_is_taken_once(stores: list[RedisStore]):
    record, ids, took = await put(stores[0]), SeededIds(1), Counter[int]()
    runs = await stores[0].submit([NewRun(record.id, submit_trigger(ids.token()), 0) for _ in range(300)])
    await asyncio.gather(*(work(store, number, took) for number, store in enumerate(stores)))
    assert took == Counter(runs)


async def test_one_key_gives_one_run_from_any_node(stores: list[RedisStore]):
    record = await put(stores[0])
    asked = [
        store.submit([NewRun(record.id, submit_trigger(f"{number}-{place}"), 0, key="order 1")])
        for number in range(10)
        for place, store in enumerate(stores)
    ]
    assert len({run_id for [run_id] in await asyncio.gather(*asked)}) == 1


async def test_only_one_of_several_edits_of_a_revision_is_accepted(stores: list[RedisStore]):
    record = await put(stores[0])
    edits = [
        store.put_job(Job(name="job", task=Call(handler=f"work{number}")), expected=record.revision)
        for number, store in enumerate(stores)
    ]
    done = await asyncio.gather(*edits, return_exceptions=True)
    assert sorted(type(one).__name__ for one in done) == ["PutJob", *["RevisionConflict"] * 3]


async def test_a_slot_is_planned_once_by_any_node(stores: list[RedisStore]):
    """Several nodes have read the same watermark under one term. Only one plan is accepted."""
    now = await stores[0].tell_time()
    job = Job(name="job", task=Call(handler="work"), schedules=(Every(interval=timedelta(seconds=10), id="s"),))
    record = (await stores[0].put_job(job, [Window("s", now, now, now + SECOND)])).record
    await stores[0].register(Node(id="node", incarnation="one"), ttl=TTL)
    term = await stores[0].campaign("one", ttl=TTL)
    assert term is not None
    [seen] = await stores[0].queries.schedules_of(record.id)
    window = Window("s", now, now + SECOND, now + 11 * SECOND, slots=[Slot(now + SECOND, None)])
    answers = await asyncio.gather(*(store.plan(term, [(seen, window)]) for store in stores for _ in range(3)))
    assert Counter(one for [one] in answers) == {True: 1, False: 11}
    assert len(await stores[0].queries.list_runs()) == 1


async def reserve_all(store: RedisStore, count: int) -> list[Lease]:
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    return (
        await store.reserve(ReserveRequest("one", SeededIds(9).leases(count), count, tasks=frozenset({"call:work"})))
    ).held


async def test_a_limit_admits_no_more_runs_than_it_allows(stores: list[RedisStore]):
    record, ids = await put(stores[0], concurrency=Limit(3)), SeededIds(1)
    await stores[0].submit([NewRun(record.id, submit_trigger(ids.token()), 0) for _ in range(40)])
    leases = await reserve_all(stores[0], 40)
    asked = GateAsk((Gate("limit", 3),), OnBusy("wait"))
    answers = await asyncio.gather(
        *(stores[place % 4].arm([lease], gates={lease.lease_id: asked}) for place, lease in enumerate(leases))
    )
    assert Counter(type(one).__name__ for [one] in answers) == {"Armed": 3, "Blocked": 37}
    running = [lease for lease, [one] in zip(leases, answers, strict=True) if isinstance(one, Armed)]
    assert await stores[1].finish([Finish(running[0], SUCCESS, 1, 2)]) == [True]
    ready = await stores[2].reserve(ReserveRequest("one", SeededIds(8).leases(40), 40, tasks=frozenset({"call:work"})))
    assert len(ready.held) == 1  # the gate passed to one of the waiting runs


async def test_leaving_a_gate_does_not_read_all_waiting_runs(store: RedisStore, valkey: ValkeyServer):
    record, ids = await put(store, concurrency=Limit(1)), SeededIds(1)
    await store.submit([NewRun(record.id, submit_trigger(ids.token()), 0) for _ in range(500)])
    leases = await reserve_all(store, 500)
    asked = GateAsk((Gate("limit", 1),), OnBusy("wait"))
    await store.arm(leases, gates={lease.lease_id: asked for lease in leases})
    with valkey.client() as db:
        db.config_resetstat()
        assert await store.finish([Finish(leases[0], SUCCESS, 1, 2)]) == [True]
        commands = db.info("commandstats")
    assert sum(command["calls"] for command in commands.values()) < 60


async def test_the_note_of_a_passed_gate_is_removed_when_its_run_starts(store: RedisStore, valkey: ValkeyServer):
    """A note that stays would use memory for ever."""
    record, ids = await put(store, concurrency=Limit(1)), SeededIds(1)
    await store.submit([NewRun(record.id, submit_trigger(ids.token()), 0) for _ in range(2)])
    leases = await reserve_all(store, 2)
    asked = GateAsk((Gate("limit", 1),), OnBusy("wait"))
    await store.arm(leases, gates={lease.lease_id: asked for lease in leases})
    assert await store.finish([Finish(leases[0], SUCCESS, 1, 2)]) == [True]
    with valkey.client() as db:
        assert db.smembers("{onthedot}:idle:limit") == {str(leases[1].run_id)}
        ask = ReserveRequest("one", SeededIds(8).leases(1), 1, tasks=frozenset({"call:work"}))
        [again] = (await store.reserve(ask)).held
        [answer] = await store.arm([again], gates={again.lease_id: asked})
        assert isinstance(answer, Armed)
        assert db.keys("{onthedot}:idle:*") == []
