"""What a run waits for, over HTTP: what one may not see is not named."""

from __future__ import annotations

from typing import Any

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.clock import SECOND
from onthedot.model.run import Gate, GateAsk, OnBusy
from onthedot.model.task import Call
from onthedot.stores.values import Node, ReserveRequest
from tests.server.kit import Served

OWNERS = {"mine": ("default", "bob"), "own": ("default", "bob"), "theirs": ("default", "ann"), "far": ("team", "ann")}


async def waiting_at(server: Served, *holders: str) -> tuple[int, list[int]]:
    """A run of bob's that waits at a gate, and the runs that hold it."""
    store = server.there.store
    await store.register(Node(id="worker-1", incarnation="i"), ttl=600 * SECOND)
    runs: list[int] = []
    for number, name in enumerate([*holders, "mine"], start=1):
        namespace, owner = OWNERS[name]
        limit = otd.Limit(len(holders), name="printer")
        job = otd.Job(name=name, namespace=namespace, owner=owner, task=Call(handler="print"), concurrency=limit)
        await server.there.verbs(namespace).put(job)
        runs.append((await server.there.verbs(namespace).submit(name)).id)
        ask = ReserveRequest("i", [f"l{number}"], 1, tasks=frozenset({"call:print"}), number=number)
        [lease] = (await store.reserve(ask)).held
        gates = GateAsk((Gate("limit:printer", len(holders)),), OnBusy("wait"))
        await store.arm([lease], gates={lease.lease_id: gates})
    return runs[-1], runs[:-1]


async def told(server: Served, run_id: int, **who: Any) -> tuple[list[int], str]:
    headers = server.keys.add(Role.VIEWER, **who)
    answer = await server.client.get(f"/api/v1/runs/{run_id}/standing", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["standing"]["holders"], answer.json()["waits_for"][0]


GATE = "the gate limit:printer, which is held by"
BOB: dict[str, Any] = {"owner": "bob", "only_own": True}


async def test_who_sees_everything_is_told_who_holds_a_gate(server: Served):
    run, [own, theirs, far] = await waiting_at(server, "own", "theirs", "far")
    assert await told(server, run) == ([own, theirs, far], f"{GATE} run {own}, {theirs}, {far}")


async def test_runs_of_others_are_not_named(server: Served):
    run, [own, theirs, _] = await waiting_at(server, "own", "theirs", "far")
    assert await told(server, run, **BOB) == ([own], f"{GATE} run {own} and 2 other runs")
    here = await told(server, run, namespaces=("default",))
    assert here == ([own, theirs], f"{GATE} run {own}, {theirs} and another run")


async def test_one_that_is_anothers_is_another(server: Served):
    run, [_] = await waiting_at(server, "far")
    assert await told(server, run, namespaces=("default",)) == ([], f"{GATE} another run")
