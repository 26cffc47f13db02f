"""Runs go to the right nodes: to every node, to those that the leader assigns, never to one that drains.

Critical runs come first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.events import NodeBack, NodeDraining, NodeLate, RunsPlaced, TermEnded
from onthedot.model.run import NewRun, RunState, submit_trigger
from onthedot.operations.put_job import put_job, resume_job
from onthedot.testing import run_virtual
from tests.node.nodes import Nodes


def program(**options: Any) -> otd.Scheduler:
    sched = otd.Scheduler("memory:")
    takes = options.pop("takes", 0.1)

    @sched.job(name="work", **options)
    async def work() -> None:
        await asyncio.sleep(takes)

    return sched


# ── on every node ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_slot_runs_once_on_every_worker_that_serves_the_queue():
    async def scenario():
        nodes = Nodes(program(schedule=otd.every("10s"), on="all"))
        await nodes.boot("a")
        await nodes.boot("b")
        await nodes.boot("other", queues=("mail",))
        await asyncio.sleep(65)
        await nodes.stop()
        return await nodes.ran_on("work")

    ran = run_virtual(scenario())
    late = [(slot, node) for slot, node, _ in ran if slot >= 40]  # planned after both had joined
    assert Counter(late) == {(slot, node): 1 for slot in (40, 50, 60) for node in ("a", "b")}
    assert all(node != "other" for _, node, _ in ran)


def test_a_slot_that_no_node_can_run_is_skipped_with_that_reason():
    async def scenario():
        nodes = Nodes(program(schedule=otd.every("10s"), on="all", labels=["gpu"]))
        await nodes.boot("a")
        await asyncio.sleep(35)
        skips = await nodes.store.queries.list_skips(job="work")
        await nodes.stop()
        return skips, await nodes.ran_on("work")

    skips, ran = run_virtual(scenario())
    assert {skip.reason for skip in skips} == {"no_node"}
    assert ran == []


def test_a_slot_that_no_node_can_run_has_one_fate_despite_pauses_and_edits():
    async def scenario():
        nodes = Nodes(program(schedule=otd.every("10s"), on="all", labels=["gpu"]))
        await nodes.boot("a")
        job, settings = await nodes.job("work"), otd.Settings()
        for number in range(8):  # each change falls between slots that were skipped ahead
            await asyncio.sleep(7)
            await nodes.store.pause_job(job, reason="lunch")
            await asyncio.sleep(2)
            await resume_job(nodes.store, job, missed="none", clock=nodes.clock, settings=settings)
            record = await nodes.store.queries.get_job("work")
            assert record is not None
            edited = replace(record.job, owner=f"owner {number}")
            await put_job(nodes.store, edited, clock=nodes.clock, settings=settings)
        skips = await nodes.store.queries.list_skips(job="work")
        await nodes.stop()
        return skips

    skips = run_virtual(scenario())
    fates = Counter(at for skip in skips for at in range(skip.first, skip.last + 1, 10 * SECOND))
    assert set(fates.values()) == {1}
    assert sum(skip.count for skip in skips) == len(fates)


def test_a_dead_node_misses_only_its_own_runs():
    async def scenario():
        nodes = Nodes(program(schedule=otd.every("10s"), on="all", catch_up="none"))
        await nodes.boot("a")
        await nodes.boot("b")
        await asyncio.sleep(45)
        await nodes.kill("b")
        await asyncio.sleep(95)
        runs = await nodes.store.queries.list_runs(job="work", limit=1000)
        await nodes.stop()
        return runs, await nodes.ran_on("work")

    runs, ran = run_virtual(scenario())
    gone = [run for run in runs if run.target == "b" and run.state is RunState.SKIPPED]
    assert gone
    assert {run.reason for run in gone} == {"node_gone"}
    on_a = [slot for slot, node, _ in ran if node == "a" and slot >= 40]
    assert on_a == sorted(set(on_a)) == [float(slot) for slot in range(40, 141, 10)]


# ── assigned by the leader ───────────────────────────────────────────────────────────────────────────────────


def test_the_leader_spreads_runs_over_the_workers():
    async def scenario():
        nodes = Nodes(program(assignment="leader", takes=5.0, overlap="allow"))
        for name in "abc":
            await nodes.boot(name, seats=10)
        job = await nodes.job("work")
        due = nodes.clock.now() + 3 * SECOND
        await nodes.store.submit([NewRun(job, submit_trigger(str(number)), due) for number in range(15)])
        await asyncio.sleep(20)
        leader = nodes.living["a"]
        await nodes.stop()
        return await nodes.ran_on("work"), leader.of(RunsPlaced)

    ran, placed = run_virtual(scenario())
    assert Counter(node for _, node, _ in ran) == {"a": 5, "b": 5, "c": 5}
    assert sum(event.placed for event in placed) == 15


def test_the_leader_assigns_at_most_k_runs_to_a_node():
    async def scenario():
        nodes = Nodes(program(assignment="leader", takes=100.0, overlap="allow"))
        for name in "ab":
            await nodes.boot(name, seats=10, assign_most=3)
        job = await nodes.job("work")
        await nodes.store.submit([NewRun(job, submit_trigger(str(n)), nodes.clock.now()) for n in range(20)])
        await asyncio.sleep(20)
        held = [await nodes.store.recover(node.incarnation) for node in await nodes.store.queries.list_nodes()]
        await nodes.stop()
        return held

    assert [len(leases) for leases in run_virtual(scenario())] == [3, 3]


def test_runs_of_a_dead_worker_are_assigned_again():
    async def scenario():
        nodes = Nodes(program(assignment="leader", takes=0.1, overlap="allow"))
        await nodes.boot("leader", queues=("none",))
        for name in "ab":
            await nodes.boot(name)
        job = await nodes.job("work")
        due = nodes.clock.now() + 10 * SECOND
        await nodes.store.submit([NewRun(job, submit_trigger(str(number)), due) for number in range(8)])
        await asyncio.sleep(9)  # by now all runs are assigned and reserved
        await nodes.kill("b")
        await asyncio.sleep(30)
        runs = await nodes.store.queries.list_runs(job="work")
        await nodes.stop()
        return runs, await nodes.ran_on("work"), due

    runs, ran, due = run_virtual(scenario())
    assert [run.state for run in runs] == [RunState.SUCCEEDED] * 8
    assert {node for _, node, _ in ran} == {"a"}
    latest = max(run.started_at or 0 for run in runs) - due
    assert latest <= 3 * SECOND, "expected at most a second to notice the death, plus the leader's round"


# ── draining and silence ─────────────────────────────────────────────────────────────────────────────────────


def test_a_draining_node_takes_no_work_and_does_not_lead():
    async def scenario():
        nodes = Nodes(program(schedule=otd.every("1s"), overlap="allow"))
        a = await nodes.boot("a")
        await nodes.boot("b")
        await asyncio.sleep(10.5)
        assert await nodes.store.drain("a") == 1
        await asyncio.sleep(20)
        ran = await nodes.ran_on("work")
        await nodes.store.drain("a", draining=False)
        await nodes.kill("b")
        await asyncio.sleep(30)
        after = await nodes.ran_on("work")
        await nodes.stop()
        return a, ran, after

    a, ran, after = run_virtual(scenario())
    assert {node for slot, node, _ in ran if slot > 13} == {"b"}
    assert [event.draining for event in a.of(NodeDraining)] == [True, False]
    assert a.of(TermEnded)
    assert {node for slot, node, _ in after if slot > 34} == {"a"}


def test_the_leader_reports_a_silent_node():
    async def scenario():
        nodes = Nodes(program())
        leader = await nodes.boot("leader")
        await nodes.boot("silent")
        await asyncio.sleep(5)
        await nodes.kill("silent")
        await asyncio.sleep(30)
        await nodes.stop()
        return leader

    leader = run_virtual(scenario())
    assert [event.node_id for event in leader.of(NodeLate)] == ["silent"]
    assert leader.of(NodeBack) == []


# ── priorities and paused queues ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_critical_run_starts_before_thousands_of_low_ones():
    """100,000 low runs wait and all seats are taken. The critical run starts within the time of one attempt."""

    async def scenario():
        sched = otd.Scheduler("memory:")
        order: list[str] = []

        @sched.job(priority="low")
        async def low() -> None:
            order.append("low")
            await asyncio.sleep(1)

        @sched.job(priority="critical")
        async def critical() -> None:
            order.append("critical")

        nodes = Nodes(sched)
        await nodes.boot("a", seats=4)
        now = nodes.clock.now()
        low_id, critical_id = await nodes.job("low"), await nodes.job("critical")
        await nodes.store.submit([NewRun(low_id, submit_trigger(str(number)), now) for number in range(100_000)])
        await asyncio.sleep(10.5)
        before = len(order)
        asked = nodes.clock.now()
        [run_id] = await nodes.store.submit([NewRun(critical_id, submit_trigger("now"), asked)])
        await asyncio.sleep(2)
        run = await nodes.store.queries.get_run(run_id)
        await nodes.living["a"].engine.crash()
        return order, before, run, asked

    order, before, run, asked = run_virtual(scenario())
    assert run is not None
    assert run.started_at is not None
    assert run.started_at - asked <= SECOND
    assert order.index("critical") - before <= 4, "expected only the runs that already had a seat before it"


def test_a_paused_queue_starts_no_run_until_it_is_resumed():
    async def scenario():
        nodes = Nodes(program(schedule=otd.every("1s"), overlap="allow", catch_up="all"))
        await nodes.boot("a")
        await asyncio.sleep(5.5)
        await nodes.store.pause_queue("default", reason="lunch")
        await asyncio.sleep(10)
        during = await nodes.ran_on("work")
        await nodes.store.resume_queue("default")
        await asyncio.sleep(5)
        await nodes.stop()
        return during, await nodes.ran_on("work")

    during, after = run_virtual(scenario())
    assert max(slot for slot, _, _ in during) <= 7, "expected only armed runs to start during the pause"
    assert [slot for slot, _, _ in after] == [float(second) for second in range(1, 21)][: len(after)]
    assert len(after) >= 19
