"""A node plans, works, or does both, as its roles say; together the nodes run every slot on time."""

import asyncio

import pytest

import onthedot as otd
from onthedot.clock import to_micros
from onthedot.model.errors import DefinitionError
from onthedot.model.events import AttemptEnded, TermWon
from onthedot.testing import run_virtual
from tests.node.nodes import START, Nodes


def program() -> tuple[otd.Scheduler, list[float]]:
    sched, ran = otd.Scheduler("memory:"), []

    @sched.job(schedule=otd.every("10s"))
    async def tick(ctx: otd.Context) -> None:
        ran.append((ctx.scheduled_at - START).total_seconds())

    @sched.job(schedule=otd.every("20s"), on="all")
    async def everywhere() -> None: ...

    return sched, ran


def test_a_planner_only_plans_and_a_worker_only_works():
    sched, ran = program()

    async def scenario() -> None:
        nodes = Nodes(sched)
        worker = await nodes.boot("worker", roles=("worker",))
        await asyncio.sleep(20)
        planner = await nodes.boot("planner", roles=("planner",))
        await asyncio.sleep(60)
        assert [len(worker.of(TermWon)), len(planner.of(TermWon))] == [0, 1]
        assert worker.of(AttemptEnded)
        assert not planner.of(AttemptEnded)
        shown = {node.id: node for node in await nodes.store.queries.list_nodes()}
        assert (shown["planner"].roles, shown["planner"].seats, shown["planner"].queues) == (("planner",), 0, ())
        assert (shown["worker"].roles, shown["worker"].queues) == (("worker",), ("default",))
        targets = {run.target for run in await nodes.store.queries.list_runs(job="everywhere", limit=100)}
        assert targets == {"worker"}
        await nodes.stop()

    run_virtual(scenario())
    assert ran == [float(second) for second in range(10, 81, 10)]


def test_runs_wait_for_a_worker_if_there_are_only_planners():
    sched, ran = program()

    async def scenario() -> None:
        nodes = Nodes(sched)
        await nodes.boot("planner", roles=("planner",))
        await asyncio.sleep(25)
        assert ran == []
        [waiting, *_] = await nodes.store.queries.list_runs(job="tick", limit=10)
        assert waiting.slot_at <= to_micros(START) + 25_000_000
        await nodes.boot("worker", roles=("worker",))
        await asyncio.sleep(1)
        assert ran
        await nodes.stop()

    run_virtual(scenario())


@pytest.mark.parametrize("roles", [(), ("leader",), ("planner", "boss")])
def test_unknown_roles_are_refused(roles):
    with pytest.raises(DefinitionError, match="roles: expected 'planner', 'worker' or both"):
        otd.Settings(roles=roles)
