"""However many runs a call affects, no Redis script keeps the server busy for more than some milliseconds.

Judged by the number of scripts, and by the processor time of the server's own thread for each. This time does not count
waits for other processes, but it counts what a host takes from a virtual machine. All steps are alike, so the median is
held to the limit, and the longest step to five times as much. If one script did all the work, it would take a hundred
times as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onthedot.clock import SECOND, Micros
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Every, Job, JobRecord, JobState
from onthedot.model.retention import Cut, Mark
from onthedot.model.run import TERMINAL, Gate, GateAsk, Gone, NewRun, OnBusy, RunState, submit_trigger
from onthedot.model.verdict import OutcomeKind, Verdict
from onthedot.model.window import Window
from onthedot.stores.redis import RedisStore
from onthedot.stores.redis.server import STEP
from onthedot.stores.redis.store import MAX_BATCH, MAX_SUBMIT
from onthedot.stores.values import Node, ReserveRequest
from tests.servers.valkey import ValkeyServer

MOST: Micros = 10_000  # the median script
AT_ALL: Micros = 50_000  # the longest script, with the time that the host takes
FEW, MANY = 1_500, 100_000
TTL = 100_000 * SECOND
TASKS = frozenset({"call:work"})
ALL = Cut(TERMINAL, Mark(2**53, 2**53))


@dataclass
class Watched:
    """The cost of one call for the server."""

    answer: Any
    calls: int
    scripts: list[Micros]  # processor time of each script, the longest last

    def check(self, runs: int) -> None:
        """Check that the call took the expected number of steps, and that none was long."""
        assert self.calls >= runs // STEP
        self.check_none_is_long()

    def check_none_is_long(self) -> None:
        usual, longest = self.scripts[len(self.scripts) // 2], self.scripts[-1]
        assert usual <= MOST, f"{self.calls} calls, median {usual} µs, the longest {longest} µs"
        assert longest <= AT_ALL, f"{self.calls} calls, median {usual} µs, the longest {longest} µs"


def busy(valkey: ValkeyServer) -> Micros:
    """Returns the processor time so far of the thread that executes scripts. The first field is in nanoseconds."""
    return int(Path(f"/proc/{valkey.pid}/schedstat").read_text().split()[0]) // 1000


async def watch(store: RedisStore, valkey: ValkeyServer, work: Callable[[], Awaitable[Any]]) -> Watched:
    scripts: list[Micros] = []
    evaluate, before = store.redis._evaluate, store.redis.calls

    async def measured(*asked: Any) -> Any:
        began = busy(valkey)
        try:
            return await evaluate(*asked)
        finally:
            scripts.append(busy(valkey) - began)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.redis, "_evaluate", measured)
        answer = await work()
    return Watched(answer, store.redis.calls - before, sorted(scripts))


def a_job(**options: Any) -> Job:
    return Job(name="job", task=Call(handler="work"), **options)


async def fill(store: RedisStore, record: JobRecord, count: int, *, due: Micros = 0) -> None:
    ids = SeededIds(1)
    for first in range(0, count, 500):
        some = min(500, count - first)
        await store.submit([NewRun(record.id, submit_trigger(ids.token()), due) for _ in range(some)])


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.soak, pytest.mark.timeout(240)])])
async def test_a_job_with_many_waiting_runs_is_changed_in_steps(store: RedisStore, valkey: ValkeyServer, count: int):
    """It is paused, edited while paused, resumed, edited, deleted and pruned: each in steps, and with the right
    answer."""
    record = (await store.put_job(a_job())).record
    await fill(store, record, count)
    paused = await watch(store, valkey, lambda: store.pause_job(record.id, reason="test"))
    paused.check(count)
    assert (paused.answer.skipped, paused.answer.held) == (0, count)
    assert (await store.resume_job(record.id, dry_run=True)).released == count
    resumed = await watch(store, valkey, lambda: store.resume_job(record.id))
    resumed.check(count)
    assert resumed.answer.released == count
    edited = await watch(store, valkey, lambda: store.put_job(a_job(queue="other")))
    edited.check(count)
    [queue] = [one for one in await store.queries.list_queues() if one.waiting]
    assert (queue.name, queue.waiting) == ("other", count)
    deleted = await watch(store, valkey, lambda: store.delete_job(record.id))
    deleted.check(count)
    assert deleted.answer == count
    assert await store.queries.count_runs() == {RunState.CANCELLED: count}
    pruned = await watch(store, valkey, lambda: prune_all(store))
    pruned.check(count)
    assert pruned.answer == count
    assert await store.queries.count_runs() == {}
    longest = {name: one.scripts[-1] for name, one in locals().items() if isinstance(one, Watched)}
    print(f"the longest script of each, in µs: {longest}")


async def prune_all(store: RedisStore) -> int:
    gone, after = 0, None
    while True:
        pruned = await store.prune_runs(ALL, after=after)
        gone, after = gone + pruned.runs, pruned.passed
        if not pruned.more:
            return gone


async def test_runs_that_ended_in_one_instant_are_pruned_in_steps(store: RedisStore):
    """All have the same mark except for their ids. None may be skipped or read twice."""
    record = (await store.put_job(a_job())).record
    await fill(store, record, FEW)
    await store.delete_job(record.id, now=5)
    gone, after, calls = 0, None, 0
    while True:
        pruned = await store.prune_runs(ALL, after=after, limit=100)
        gone, after, calls = gone + pruned.runs, pruned.passed, calls + 1
        if not pruned.more:
            break
    assert (gone, calls) == (FEW, FEW // 100 + 1)


async def test_a_dead_node_with_many_runs_is_reaped_in_steps(store: RedisStore, valkey: ValkeyServer):
    record = (await store.put_job(a_job())).record
    await fill(store, record, FEW)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    for number in range(FEW // 100):
        await store.reserve(ReserveRequest("one", SeededIds(number).leases(100), 100, tasks=TASKS))
    await store.leave("one")
    found = await watch(store, valkey, lambda: store.orphans(limit=FEW))
    found.check(FEW)
    orphans = found.answer
    assert len({lease.run_id for lease in orphans}) == FEW
    assert len(await store.orphans(limit=7)) == 7
    lost = Verdict(RunState.LOST, OutcomeKind.LOST)
    reaped = await watch(store, valkey, lambda: store.reap([(lease, lost) for lease in orphans]))
    reaped.check(FEW)
    assert reaped.answer == [True] * FEW


async def test_a_queue_with_many_runs_at_gates_is_paused_in_steps(store: RedisStore, valkey: ValkeyServer):
    record = (await store.put_job(a_job())).record
    now = await store.tell_time()
    await fill(store, record, FEW, due=now + 100 * SECOND)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    asked = GateAsk((Gate("limit", 1),), OnBusy("wait"))
    for number in range(FEW // 100):
        ids = SeededIds(number).leases(100)
        held = (await store.reserve(ReserveRequest("one", ids, 0, ahead=100, tasks=TASKS, horizon=TTL))).held
        await store.arm(held, gates={lease.lease_id: asked for lease in held})
    with valkey.client() as db:
        assert db.scard("{onthedot}:at_gates") == FEW
        paused = await watch(store, valkey, lambda: store.pause_queue("default", reason="test"))
        paused.check(FEW // 2)
        assert db.scard("{onthedot}:at_gates") == 1  # the running one


async def test_a_queue_with_many_turns_is_shared_again_in_steps(store: RedisStore, valkey: ValkeyServer):
    record = (await store.put_job(a_job())).record
    await store.share_queue("default", {})
    await fill(store, record, FEW)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    first = await store.reserve(
        ReserveRequest("one", SeededIds(0).leases(1), 1, tasks=TASKS)
    )  # this gives turns to the others, too
    assert len(first.armed) == 1
    shared = await watch(store, valkey, lambda: store.share_queue("default", {"a": 2}))
    shared.check(FEW - 1)
    ended = await watch(store, valkey, lambda: store.share_queue("default", None))
    assert ended.calls == 1  # no run has a turn now
    got = await store.reserve(ReserveRequest("one", SeededIds(1).leases(FEW), FEW, tasks=TASKS))
    assert len(got.armed) == FEW - 1


# ── between two steps ────────────────────────────────────────────────────────────────────────────────────────


class Died(Exception):
    """Raised in place of the process that would continue."""


async def decide_and_die(store: RedisStore, monkeypatch: pytest.MonkeyPatch, work: Awaitable[Any]) -> None:
    """Make the decision, but not the sweep that follows."""

    async def die(*_: Any) -> list[int]:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(store.redis, "finish_sweep", die)
        with pytest.raises(Died):
            await work


async def reserve(store: RedisStore, count: int, *, queues: tuple[str, ...] = ("default",)) -> list[Any]:
    ids = SeededIds(f"{queues} {count}").leases(count)
    got = await store.reserve(ReserveRequest("one", ids, count, tasks=TASKS, queues=queues))
    return got.armed + got.held


async def test_a_paused_job_gives_out_no_runs_from_the_first_step_on(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
):
    record = (await store.put_job(a_job())).record
    await fill(store, record, 3 * STEP)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    ahead = ReserveRequest("one", SeededIds(2).leases(1), 0, ahead=1, tasks=TASKS, horizon=SECOND)
    [held] = (await store.reserve(ahead, now=-1)).held
    await decide_and_die(store, monkeypatch, store.pause_job(record.id, reason="test"))
    assert await reserve(store, 10) == []
    [answer] = await store.arm([held])
    assert isinstance(answer, Gone)
    assert await store.expire(limit=100) == []
    [again] = await asyncio.gather(store.pause_job(record.id, reason="again"))  # it first finishes the earlier sweep
    assert (again.record.pause_reason, again.held) == ("again", 0)
    assert (await store.resume_job(record.id)).released == 3 * STEP


async def test_an_edited_job_gives_out_no_runs_in_its_old_queue(store: RedisStore, monkeypatch: pytest.MonkeyPatch):
    record = (await store.put_job(a_job())).record
    await fill(store, record, 3 * STEP)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    await decide_and_die(store, monkeypatch, store.put_job(a_job(queue="other")))
    assert await reserve(store, 10) == []
    assert len(await reserve(store, 10, queues=("other",))) == 10
    # A repeated put returns when the sweep is complete.
    assert (await store.put_job(a_job(queue="other"))).change == "unchanged"
    assert len(await reserve(store, 1_000, queues=("other",))) == 3 * STEP - 10


async def test_upkeep_finishes_the_sweep_of_a_dead_process(store: RedisStore, monkeypatch: pytest.MonkeyPatch):
    record = (await store.put_job(a_job())).record
    await fill(store, record, 3 * STEP)
    await decide_and_die(store, monkeypatch, store.delete_job(record.id))
    assert (await store.queries.count_runs())[RunState.SCHEDULED] == 2 * STEP
    now = await store.tell_time()
    await store.recount_gates(now=now)  # so soon its process may still be alive
    assert (await store.queries.count_runs())[RunState.SCHEDULED] == 2 * STEP
    await store.recount_gates(now=now + 3 * SECOND)
    assert await store.queries.count_runs() == {RunState.CANCELLED: 3 * STEP}


async def test_processes_that_share_a_sweep_count_every_run_once(stores: list[RedisStore]):
    record = (await stores[0].put_job(a_job())).record
    await fill(stores[0], record, 10 * STEP)
    paused = asyncio.create_task(stores[0].pause_job(record.id, reason="test"))
    others = [store.pause_job(record.id, reason="test") for store in stores[1:]]
    first, *rest = [await paused, *await asyncio.gather(*others)]
    counts = sorted(one.held for one in (first, *rest))
    assert counts == [0, 0, 0, 10 * STEP]


async def test_a_slot_of_a_job_with_many_runs_keeps_its_fate_through_an_edit(store: RedisStore):
    """The first step plans the slots ahead again, however many runs wait."""
    now = await store.tell_time()
    every = Every(interval=timedelta(seconds=10), id="s")
    window = Window("s", now, now, now + SECOND)
    record = (await store.put_job(a_job(schedules=(every,)), [window])).record
    await fill(store, record, 3 * STEP)
    edited = await store.put_job(a_job(schedules=(every,), queue="other"), [window], expected=1)
    assert (edited.change, edited.record.state) == ("changed", JobState.ACTIVE)
    [state] = await store.queries.schedules_of(record.id)
    assert state.next_at == now + SECOND


async def test_a_worker_gets_at_most_as_many_quick_runs_as_one_script_may_take(store: RedisStore):
    """The answer says that there are more, so the worker asks again."""
    record = (await store.put_job(a_job())).record
    await fill(store, record, 1_000)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    ask = ReserveRequest("one", SeededIds(1).leases(564), 64, extra=500, quick=frozenset({record.id}), tasks=TASKS)
    got = await store.reserve(ask)
    assert len(got.armed) == MAX_BATCH
    assert got.look_again_at == got.now


async def test_turns_are_given_in_steps(store: RedisStore, valkey: ValkeyServer):
    """The many runs of one share came first. Runs of the other share, behind them, get their turns at once."""
    job = Job(name="job", task=Call(handler="work"), share="tenant")
    record = (await store.put_job(job)).record
    ids, now = SeededIds(1), await store.tell_time()
    for first in range(0, FEW, 500):
        runs = [
            NewRun(record.id, submit_trigger(ids.token()), now - 10_000 + n, args='{"tenant":"a"}') for n in range(500)
        ]
        await store.submit(runs, now=first)
    late = [NewRun(record.id, submit_trigger(ids.token()), now, args='{"tenant":"b"}') for _ in range(5)]
    wanted = await store.submit(late, now=now - 1)
    await store.share_queue("default", {}, now=1)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    got = await watch(store, valkey, lambda: store.reserve(ReserveRequest("one", ids.leases(20), 20, tasks=TASKS)))
    assert got.calls == FEW // MAX_BATCH + 1
    assert {lease.run_id for lease in got.answer.armed} >= set(wanted)


async def test_a_worker_skips_many_runs_that_it_cannot_take_in_steps(store: RedisStore, valkey: ValkeyServer):
    """All of these are due at the same instant. The runs that it can take are behind them, at the same instant and
    later."""
    other = (await store.put_job(Job(name="other", task=Call(handler="else")))).record
    record = (await store.put_job(a_job())).record
    await fill(store, other, 3 * MAX_BATCH + 50)
    wanted = await store.submit([NewRun(record.id, submit_trigger(str(n)), n // 5) for n in range(10)])
    await fill(store, other, FEW, due=1)
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    ask = ReserveRequest("one", SeededIds(1).leases(20), 20, tasks=TASKS)
    got = await watch(store, valkey, lambda: store.reserve(ask))
    assert sorted(lease.run_id for lease in got.answer.armed) == wanted
    assert len({lease.lease_id for lease in got.answer.armed}) == 10
    assert got.calls == (3 * MAX_BATCH + 50 + FEW) // MAX_BATCH + 1
    got.check_none_is_long()


async def test_a_reserve_in_steps_gives_out_no_more_than_requested(store: RedisStore, valkey: ValkeyServer):
    """Runs that it can take, now and later, are between those that it cannot take. Seats and runs ahead are counted
    over all steps."""
    now = await store.tell_time()
    other = (await store.put_job(Job(name="other", task=Call(handler="else")))).record
    record = (await store.put_job(a_job())).record
    ids = SeededIds(2)
    due = []
    for n in range(8):
        await fill(store, other, MAX_BATCH - 30, due=now - 10_000 + n)
        due += await store.submit([NewRun(record.id, submit_trigger(ids.token()), now - 10_000 + n)])
    await fill(store, other, MAX_BATCH, due=now + SECOND)
    later = await store.submit([NewRun(record.id, submit_trigger(ids.token()), now + 2 * SECOND) for _ in range(5)])
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    ask = ReserveRequest("one", ids.leases(9), 6, ahead=3, tasks=TASKS, horizon=100 * SECOND)
    got = (await watch(store, valkey, lambda: store.reserve(ask, now=now))).answer
    assert [lease.run_id for lease in got.armed] == due[:6]
    assert got.look_again_at == now  # two more runs are due
    assert [lease.run_id for lease in got.held] == []  # so it does not look for later runs
    await store.release(got.held)
    roomy = ReserveRequest("one", ids.leases(13), 10, ahead=3, tasks=TASKS, horizon=100 * SECOND)
    more = await store.reserve(roomy, now=now)
    assert [lease.run_id for lease in more.armed] == due[6:]
    assert [lease.run_id for lease in more.held] == later[:3]
    assert more.look_again_at == now + 2 * SECOND


@pytest.mark.parametrize("with_keys", [False, True])
async def test_many_runs_are_submitted_in_steps(store: RedisStore, valkey: ValkeyServer, with_keys: bool):
    record = (await store.put_job(a_job())).record
    runs = [NewRun(record.id, submit_trigger(f"{n}"), 0, "{}", f"key-{n}" if with_keys else "") for n in range(FEW)]
    submitted = await watch(store, valkey, lambda: store.submit(runs))
    submitted.check_none_is_long()
    checks = FEW // MAX_SUBMIT if with_keys else 1
    assert submitted.calls == checks + FEW // MAX_SUBMIT
    assert len(set(submitted.answer)) == FEW
    assert await store.queries.count_runs() == {RunState.SCHEDULED: FEW}


async def test_the_runs_of_a_dead_node_are_found_behind_many_nodes_without_runs(
    store: RedisStore, valkey: ValkeyServer
):
    record = (await store.put_job(a_job())).record
    await fill(store, record, 3)
    for number in range(2 * STEP + 50):
        await store.register(Node(id=f"node-{number}", incarnation=f"{number}"), ttl=TTL)
        if number != 230:
            await store.leave(f"{number}")
    taken = await store.reserve(ReserveRequest("230", SeededIds(1).leases(3), 3, tasks=TASKS))
    assert await store.orphans(limit=500) == []
    await store.leave("230")
    found = await watch(store, valkey, lambda: store.orphans(limit=500))
    assert sorted(lease.run_id for lease in found.answer) == sorted(lease.run_id for lease in taken.armed)
    assert found.calls == 3
    found.check_none_is_long()
