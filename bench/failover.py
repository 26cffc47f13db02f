"""Measures how late starts are when one node of three is killed, on PostgreSQL, with the leases of production.

Two hundred jobs have a slot each second and note their own starts. First a leader is killed that executes nothing. Its
runs are planned ahead, so no start should be late. Then a leader is killed that also executes runs: its reservations
lapse half a second after their instants, and its running attempts are repeated when its lease has ended. `bare` is the
latest start before the kill, in the same minute. A lost, duplicated or early start fails the bench. There is one round
of three minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.results import BenchFailed, Result
from bench.rounds import Plan
from onthedot.clock import SECOND, Micros
from tests.chaos import scenarios, verdicts
from tests.chaos.cluster import Cluster, cluster, unnamed
from tests.chaos.evidence import Evidence
from tests.chaos.node import Orders
from tests.servers.postgres import PostgresServer

JOBS, LEASE = 200, 15.0
CALM, AFTER = 20.0, 40.0  # seconds before and after the kill
WATCHED: Micros = 15 * SECOND  # after the kill of a planner no start may be late
HORIZON: Micros = 2 * SECOND  # how far ahead a killed node may have reserved runs
FLOOR_MS, AIM_MS = 250.0, 50.0
RESERVED_FLOOR_MS, RESERVED_AIM_MS = 1_000.0, 600.0
RESUMED_LATE, RESUMED_AIM = 3.0, 2.0  # seconds after the lease

T = TypeVar("T")


def run(plan: Plan) -> list[Result]:
    """Kill a planner, and then a node that plans and works."""
    orders = unnamed(lease=plan.seconds(LEASE, 2.0), ticks=plan.count(JOBS, 5), deep=3, deep_seconds=2.0)
    calm, after = plan.seconds(CALM, 2.0), plan.seconds(AFTER, orders.lease + 3)
    evidence, at = _see(
        plan.folder / "planner", orders, lambda nodes: scenarios.kill_the_planner(nodes, calm=calm, after=after)
    )
    started = _checked(verdicts.every_slot_started_exactly_once, evidence)
    results = [
        _line(
            "failover planner killed", evidence, at, (at, at + WATCHED), FLOOR_MS, AIM_MS, f"{started} starts, 1 each"
        )
    ]
    evidence, (killed, at) = _see(
        plan.folder / "node", orders, lambda nodes: scenarios.kill_a_node(nodes, calm=calm, after=after)
    )
    taken = (at, at + HORIZON)
    later = (at + HORIZON + SECOND, evidence.until)
    again = _checked(lambda found: verdicts.taken_up_again(found, killed.name, at), evidence)
    resumed = max(again, default=0.0)
    results += [
        _line("failover node killed, reserved", evidence, at, taken, RESERVED_FLOOR_MS, RESERVED_AIM_MS, ""),
        _line("failover node killed, others", evidence, at, later, FLOOR_MS, AIM_MS, ""),
        Result(
            name="failover node killed, resumed", ours=resumed, bare=orders.lease, measured=resumed - orders.lease,
            spread=(min(again, default=0.0) - orders.lease, resumed - orders.lease), unit="s",
            measure="after the lease, s", floor=RESUMED_LATE, aim=RESUMED_AIM, note=f"{len(again)} runs",
        ),
    ]  # fmt: skip
    return results


def _see(folder: Path, orders: Orders, scenario: Callable[[Cluster], T]) -> tuple[Evidence, T]:
    """Run a scenario on a new server, and return the evidence and the answer of the scenario."""
    folder.mkdir()
    with PostgresServer(fsync=True) as server, cluster(server.create_database(), folder, orders) as nodes:
        seen = _checked(scenario, nodes)
        evidence = asyncio.run(nodes.evidence(_checked(lambda found: found.settle(), nodes)))
    _checked(verdicts.check_all, evidence)
    return evidence, seen


A = TypeVar("A")


def _checked(judge: Callable[[A], T], of: A) -> T:
    try:
        return judge(of)
    except AssertionError as error:
        raise BenchFailed(f"failover: {error}") from error


def _line(
    name: str, evidence: Evidence, at: Micros, window: tuple[Micros, Micros], floor: float, aim: float, note: str
) -> Result:
    """Compare the latest start of the slots in a window with the latest start before the kill."""
    before = _checked(lambda e: verdicts.lateness(verdicts.ticks(e, e.began + SECOND, at - SECOND)), evidence)
    after = _checked(lambda e: verdicts.lateness(verdicts.ticks(e, *window)), evidence)
    middle = (1000 * before[len(before) // 2], 1000 * after[len(after) // 2])
    return Result(
        name=name, ours=1000 * after[-1], bare=1000 * before[-1], measured=1000 * after[-1],
        spread=(1000 * after[0], 1000 * after[-1]), unit="ms", measure="latest, ms", floor=floor, aim=aim,
        note=", ".join(part for part in (note, f"median {middle[0]:.1f} ms before, {middle[1]:.1f} after") if part),
    )  # fmt: skip
