"""Several nodes at once on real connections: everything is counted, nothing is done twice, and no call fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable
from typing import TypeVar

import pytest

from onthedot.clock import SECOND
from onthedot.ids import LeaseIds
from onthedot.model.after import After
from onthedot.model.job import Call, Job, JobRecord, Limit, Overlap
from onthedot.model.run import Armed, Blocked, GateAsk, Lease, NewRun, OnBusy, RunState, submit_trigger
from onthedot.model.verdict import Finish
from onthedot.model.window import Slot, Window
from onthedot.rules.gates import gates_of
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.values import Node, ReserveRequest
from onthedot_verify.contract.workbench import SUCCESS, every, recover

T = TypeVar("T")
TTL = 600 * SECOND
TASKS = frozenset({"call:work"})

Stores = list[PostgresStore]


async def all_at_once(calls: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*calls))


async def define(store: PostgresStore, name: str = "job", **options: object) -> JobRecord:
    fields = {"task": Call(handler="work"), "overlap": Overlap("allow"), **options}
    return (await store.put_job(Job(name=name, **fields))).record  # type: ignore[arg-type]


async def clock(store: PostgresStore) -> int:
    return await store.database.look(lambda tx: tx.clock(None))


async def join(store: PostgresStore, name: str, ttl: int = TTL) -> str:
    incarnation = f"{name}-1"
    await store.register(Node(id=name, incarnation=incarnation), ttl=ttl)
    return incarnation


async def submit(store: PostgresStore, record: JobRecord, count: int) -> list[int]:
    now = await clock(store)
    return await store.submit([NewRun(record.id, submit_trigger(str(n)), now + n % 7) for n in range(count)])


def ask(incarnation: str, number: int, seats: int) -> ReserveRequest:
    ids = LeaseIds(f"{incarnation}/{number}", seats)
    return ReserveRequest(incarnation, ids, seats, tasks=TASKS)


def gates(leases: list[Lease]) -> dict[str, GateAsk]:
    return {
        lease.lease_id: GateAsk(gates_of(lease.record, target="", arguments={}), OnBusy("wait")) for lease in leases
    }


def finished(lease: Lease) -> Finish:
    return Finish(lease, SUCCESS, lease.armed_at, lease.armed_at + 1)


async def test_a_lowered_limit_admits_no_run_before_there_is_room(store: PostgresStore):
    who = await join(store, "one")
    record = await define(store, concurrency=Limit(3))
    await submit(store, record, 4)
    held = (await store.reserve(ask(who, 1, 4))).held
    running = [
        lease
        for lease, answer in zip(held, await store.arm(held, gates=gates(held)), strict=True)
        if isinstance(answer, Armed)
    ]
    await define(store, concurrency=Limit(1))
    [waiting] = (await store.reserve(ask(who, 2, 4))).held
    [answer] = await store.arm([waiting], gates=gates([waiting]))
    assert isinstance(answer, Blocked)
    for place, lease in enumerate(running, 1):
        assert await store.finish([finished(lease)]) == [True]
        got = await store.reserve(ask(who, 2 + place, 4))
        assert len(got.held) == (place == len(running))


async def drain(store: PostgresStore, who: str, seats: int) -> list[Lease]:
    """Reserve and finish runs until there are no more. Returns their leases."""
    taken: list[Lease] = []
    for number in range(400):
        got = await store.reserve(ask(who, number, seats))
        taken += got.armed
        if got.armed:
            assert all(await store.finish([finished(lease) for lease in got.armed]))
        else:
            return taken
        await asyncio.sleep(0)
    raise AssertionError("the queue was not drained")


async def test_every_run_is_taken_once(stores: Stores):
    record = await define(stores[0])
    ids = await submit(stores[0], record, 300)
    nodes = [await join(store, f"node{n}") for n, store in enumerate(stores)]
    done: list[Lease] = []

    async def work(store: PostgresStore, who: str) -> None:
        done.extend(await drain(store, who, 7))

    await all_at_once(work(store, who) for store, who in zip(stores, nodes, strict=True))
    done += await drain(stores[0], "node0-1", 50)  # runs that another node had locked
    assert sorted(lease.run_id for lease in done) == sorted(ids)
    assert len({lease.fence for lease in done}) == len(ids)
    assert await stores[0].queries.count_runs() == {RunState.SUCCEEDED: 300}
    assert all([len(await stores[0].queries.list_attempts(run_id)) == 1 for run_id in ids[::30]])


async def test_runs_of_several_levels_and_shares_are_taken_once(stores: Stores):
    """In a fair queue, a node that takes turns waits for the others."""
    await stores[0].share_queue("default", {"a": 3})
    jobs = [await define(stores[0], f"job-{level}", priority=level, share="who") for level in ("low", "high")]
    now = await clock(stores[0])
    args = ['{"who": "a"}', '{"who": "b"}']
    runs = [NewRun(job.id, submit_trigger(str(n)), now, args[n % 2]) for job in jobs for n in range(60)]
    ids = await stores[0].submit(runs)
    nodes = [await join(store, f"node{n}") for n, store in enumerate(stores)]
    done = await all_at_once(drain(store, who, 4) for store, who in zip(stores, nodes, strict=True))
    done.append(await drain(stores[0], "node0-1", 50))
    assert sorted(lease.run_id for taken in done for lease in taken) == sorted(ids)


async def test_a_slot_is_planned_once(stores: Stores):
    now = await clock(stores[0])
    start = Window("s", now, now, now + SECOND)
    job = Job(name="job", task=Call(handler="work"), schedules=(every(1),))
    record = (await stores[0].put_job(job, [start])).record
    term = await stores[0].campaign(await join(stores[0], "planner"), ttl=TTL)
    assert term is not None
    for number in range(10):
        [state] = await stores[0].queries.schedules_of(record.id)
        at = now + (number + 1) * SECOND
        window = Window("s", state.watermark, at, at + SECOND, [Slot(at, None)])
        answers = await all_at_once(store.plan(term, [(state, window)]) for store in stores)
        assert sum(one for [one] in answers) == 1
    assert len(await stores[0].queries.list_runs(job="job")) == 10


async def test_one_node_leads(stores: Stores):
    nodes = [await join(store, f"node{n}") for n, store in enumerate(stores)]
    terms = await all_at_once(store.campaign(who, ttl=TTL) for store, who in zip(stores, nodes, strict=True))
    assert [term.number for term in terms if term is not None] == [1]


async def test_one_key_gives_one_run(stores: Stores):
    record = await define(stores[0])
    now = await clock(stores[0])
    keyed = [NewRun(record.id, submit_trigger(f"k{n}"), now, key=f"order:{n % 5}") for n in range(20)]
    answers = await all_at_once(store.submit(keyed) for store in stores)
    assert len({tuple(ids) for ids in answers}) == 1
    assert len(set(answers[0])) == 5
    plain = [NewRun(record.id, submit_trigger(f"p{n}"), now) for n in range(20)]
    answers = await all_at_once(stores[n % 4].submit(plain if n % 2 else plain[::-1]) for n in range(8))
    assert {tuple(sorted(ids)) for ids in answers} == {tuple(sorted(answers[0]))}
    assert len(await stores[0].queries.list_runs(job="job")) == 25


async def test_a_run_that_ends_during_a_repeated_submit_stays_the_same_run(stores: Stores):
    """The run moves to the history between two queries of the submit."""
    record = await define(stores[0])
    who = await join(stores[0], "node")
    now = await clock(stores[0])
    for number in range(25):
        new = NewRun(record.id, submit_trigger(str(number)), now)
        [first] = await stores[0].submit([new])
        [lease] = (await stores[0].reserve(ask(who, number, 1))).armed
        again = [store.submit([new]) for store in stores[1:]]
        results = await asyncio.gather(again[0], stores[0].finish([finished(lease)]), *again[1:])
        assert results == [[first], [True], [first], [first]]
    assert await stores[0].queries.count_runs() == {RunState.SUCCEEDED: 25}


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_limit_is_never_exceeded(stores: Stores, limit: int):
    record = await define(stores[0], concurrency=Limit(limit))
    ids = await submit(stores[0], record, 60)
    nodes = [await join(store, f"node{n}") for n, store in enumerate(stores)]
    running: set[int] = set()
    most = 0
    done: list[int] = []

    async def work(store: PostgresStore, who: str) -> None:
        nonlocal most
        for number in range(600):
            if len(done) == len(ids):
                return
            got = await store.reserve(ask(who, number, 4))
            answers = await store.arm(got.held, gates=gates(got.held))
            assert all(isinstance(answer, Armed | Blocked) for answer in answers), answers
            armed = [lease for lease, answer in zip(got.held, answers, strict=True) if isinstance(answer, Armed)]
            running.update(lease.run_id for lease in armed)
            most = max(most, len(running))
            await asyncio.sleep(0.001)
            running.difference_update(lease.run_id for lease in armed)  # before the store knows that they end
            if armed:
                assert all(await store.finish([finished(lease) for lease in armed]))
                done.extend(lease.run_id for lease in armed)

    await all_at_once(work(store, who) for store, who in zip(stores, nodes, strict=True))
    assert sorted(done) == sorted(ids)
    assert most <= limit
    assert await stores[0].recount_gates() == 0  # no gate stayed closed


async def test_a_pause_ends_all_starts(stores: Stores):
    for round_number in range(8):
        record = await define(stores[0], f"job{round_number}")
        await submit(stores[0], record, 40)
        who = await join(stores[1], f"node{round_number}")
        taken: list[Lease] = []

        async def take(who: str = who, taken: list[Lease] = taken) -> None:
            for number in range(10):
                taken += (await stores[1].reserve(ask(who, number, 3))).armed

        async def pause(record: JobRecord = record) -> tuple[int, int]:
            paused = await stores[0].pause_job(record.id, reason="test")
            return paused.held, sum(run.attempts for run in await stores[0].queries.list_runs(job=record.job.name))

        (held, armed_then), _ = await asyncio.gather(pause(), take())
        assert armed_then == len(taken), "a run was armed after the pause was acknowledged"
        assert held + len(taken) == 40


async def test_two_parents_that_end_at_once_start_one_child(stores: Stores):
    parents = [await define(stores[0], name) for name in ("left", "right")]
    await define(stores[0], "child", after=After("left", "right"))
    who = await join(stores[0], "node")
    now = await clock(stores[0])
    for number in range(20):
        await stores[0].submit([NewRun(one.id, submit_trigger(str(number)), now) for one in parents])
        leases = (await stores[0].reserve(ask(who, number, 10))).armed
        ending = [lease for lease in leases if lease.record.job.name != "child"]
        assert len(ending) == 2
        answers = await asyncio.gather(*(stores[n].finish([finished(one)]) for n, one in enumerate(ending)))
        assert answers == [[True], [True]]
        rest = [lease for lease in leases if lease.record.job.name == "child"]
        assert all(await stores[0].finish([finished(lease) for lease in rest]))
    assert len(await stores[0].queries.list_runs(job="child")) == 20


async def test_a_cancel_and_a_start_agree(stores: Stores):
    record = await define(stores[0])
    who = await join(stores[0], "node")
    kinds: Counter[str] = Counter()
    for number in range(30):
        [run_id] = await stores[0].submit([NewRun(record.id, submit_trigger(str(number)), await clock(stores[0]))])
        [answer], got = await asyncio.gather(
            stores[1].cancel([run_id], why="no"), stores[0].reserve(ask(who, number, 1))
        )
        run = await stores[0].queries.get_run(run_id)
        assert run is not None
        kinds[answer.kind] += 1
        assert (answer.kind, bool(got.armed), run.state) in (
            ("cancelled", False, RunState.CANCELLED),
            ("asked", True, RunState.RUNNING),
        )
        await stores[0].finish([finished(lease) for lease in got.armed])
    assert sum(kinds.values()) == 30


async def test_orphans_are_taken_once(stores: Stores):
    record = await define(stores[0])
    await submit(stores[0], record, 40)
    now = await clock(stores[0])
    dead = await join(stores[0], "dead", ttl=SECOND)
    taken = (await stores[0].reserve(ask(dead, 1, 40))).armed
    assert len(taken) == 40
    later = now + 10 * SECOND

    async def reap(store: PostgresStore) -> int:
        found = await store.orphans(limit=100, now=later)
        return sum(await store.reap([(lease, recover(0)) for lease in found], now=later))

    assert sum(await all_at_once(reap(store) for store in stores)) == 40
    assert not any(await stores[0].finish([finished(lease) for lease in taken]))
    assert (await stores[0].queries.count_runs()) == {RunState.SCHEDULED: 40}
    assert await stores[0].orphans(limit=10, now=later) == []


async def test_edits_and_workers_do_not_deadlock(stores: Stores):
    """A job is edited again and again while its runs are reserved, armed and finished."""
    record = await define(stores[0], concurrency=Limit(5))
    ids = await submit(stores[0], record, 60)
    nodes = [await join(store, f"node{n}") for n, store in enumerate(stores)]
    done: list[int] = []

    async def edit() -> None:
        for number in range(12):
            await define(stores[0], owner=f"owner{number}", concurrency=Limit(3 + number % 3))
            await asyncio.sleep(0.01)

    async def work(store: PostgresStore, who: str) -> None:
        for number in range(900):
            if len(done) == len(ids):
                return
            got = await store.reserve(ask(who, number, 5))
            answers = await store.arm(got.held, gates=gates(got.held))
            armed = [lease for lease, answer in zip(got.held, answers, strict=True) if isinstance(answer, Armed)]
            await store.release([lease for lease in got.held if lease not in armed])
            if armed:
                assert all(await store.finish([finished(lease) for lease in armed]))
                done.extend(lease.run_id for lease in armed)
            else:
                await asyncio.sleep(0.01)

    await asyncio.gather(edit(), *(work(store, who) for store, who in zip(stores[1:], nodes[1:], strict=True)))
    assert sorted(done) == sorted(ids)
