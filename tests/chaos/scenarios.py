"""What is done to a cluster of three, one function each. The tests judge it, and `make bench` measures it at full size.

Each returns when the cluster has gone on for long enough; the instants that matter are in the cluster's faults.
"""

from __future__ import annotations

from onthedot.clock import SECOND
from tests.chaos.cluster import Cluster
from tests.processes.kit import Fault, Process, now, wait_until


def kill_the_planner(nodes: Cluster, *, calm: float, after: float) -> int:
    """kill -9 to a leader that executes nothing; two others are there. When."""
    planner = nodes.boot("planner", roles=("planner",), errands=0)
    assert nodes.leader() is planner
    for name in ("a", "b"):
        nodes.boot(name)
    nodes.go_on(calm)
    at = planner.kill()
    nodes.go_on(after)
    nodes.leader(since=at, but=planner)
    return at


def kill_a_node(nodes: Cluster, *, calm: float, after: float) -> tuple[Process, int]:
    """kill -9 to the leader, which executes too. Who, and when."""
    for name in ("a", "b", "c"):
        nodes.boot(name)
    leader = nodes.leader()
    nodes.go_on(calm, on=leader)
    at = leader.kill()
    nodes.go_on(after)
    nodes.leader(since=at, but=leader)
    return leader, at


def freeze_a_node(nodes: Cluster, *, leads: bool, calm: float, after: float) -> tuple[Process, Fault]:
    """SIGSTOP to the leader, or to one that only works, until its lease is over and others have its runs; SIGCONT."""
    for name in ("a", "b", "c"):
        nodes.boot(name)
    leader = nodes.leader()
    sleeper = leader if leads else next(node for node in nodes.nodes if node is not leader)
    nodes.go_on(calm, on=sleeper)
    fault = sleeper.freeze()
    others = [node for node in nodes.nodes if node is not sleeper]
    lease = round(nodes.orders.lease * SECOND)
    wait_until(
        lambda: now() > fault.begin + lease and any(node.of("RunRecovered", since=fault.begin) for node in others),
        f"others to take over from {sleeper.name}",
        patience=nodes.orders.lease + 30,
    )
    if leads:
        nodes.leader(since=fault.begin, but=sleeper)
    at = sleeper.thaw(fault)
    sleeper.wait_for("NodeFenced", since=at)
    nodes.go_on(after, on=sleeper)
    return sleeper, fault
