"""Faults for a cluster of three nodes, one function each. The tests check the result; `make bench` measures it.

Each function returns when the cluster has worked on for long enough. The instants of the fault are in `Cluster.faults`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from onthedot.clock import SECOND
from tests.chaos.cluster import Cluster
from tests.chaos.proxy import Proxy
from tests.processes.kit import PATIENCE, Fault, Process, now, wait_until
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

Server = PostgresServer | ValkeyServer


def kill_the_planner(nodes: Cluster, *, calm: float, after: float) -> int:
    """Kill a leader that executes nothing, beside two workers. Return the instant."""
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
    """Kill a leader that also executes runs. Return the node and the instant."""
    for name in ("a", "b", "c"):
        nodes.boot(name)
    leader = nodes.leader()
    nodes.go_on(calm, on=leader)
    nodes.wait_executing(leader)
    at = leader.kill()
    nodes.go_on(after)
    nodes.leader(since=at, but=leader)
    return leader, at


def freeze_a_node(nodes: Cluster, *, leads: bool, calm: float, after: float) -> tuple[Process, Fault]:
    """Freeze the leader, or a worker, until its lease has ended and others have its runs. Then let it continue."""
    for name in ("a", "b", "c"):
        nodes.boot(name)
    leader = nodes.leader()
    sleeper = leader if leads else next(node for node in nodes.nodes if node is not leader)
    nodes.go_on(calm, on=sleeper)
    nodes.wait_executing(sleeper)
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


def restart_the_server(nodes: Cluster, server: Server, *, calm: float, times: int) -> None:
    """Restart the server several times without a clean shutdown. All three nodes must reconnect by themselves."""
    for name in ("a", "b", "c"):
        nodes.boot(name)
    for _ in range(times):
        nodes.go_on(calm)
        begin = now()
        server.restart_immediately()
        nodes.note("server", "restart", begin, now())
        for node in nodes.nodes:
            nodes.go_on(1, on=node)


def pause_the_server(nodes: Cluster, server: Server, *, calm: float, seconds: float) -> None:
    """Stop the server for a while, so that it does not answer but keeps its connections."""
    for name in ("a", "b", "c"):
        nodes.boot(name)
    nodes.go_on(calm)
    begin = now()
    server.pause()
    time.sleep(seconds)  # the fault itself
    server.resume()
    nodes.note("server", "pause", begin, now())
    for node in nodes.nodes:
        nodes.go_on(1, on=node)


def break_a_cable(
    nodes: Cluster, proxy: Proxy, url: str, *, fault: Callable[[Proxy], None], name: str, calm: float, lasts: float
) -> Process:
    """Apply a fault to the connection of one node for a while. Return the node; it must recover by itself."""
    cabled = nodes.boot("cabled", url=url)
    for other in ("b", "c"):
        nodes.boot(other)
    nodes.go_on(calm, on=cabled)
    begin = now()
    fault(proxy)
    nodes.go_on(lasts)
    proxy.heal()
    nodes.note(cabled.name, name, begin, now())
    nodes.go_on(1, on=cabled)
    return cabled


def freeze_inside_a_statement(
    nodes: Cluster, proxy: Proxy, url: str, *, word: str, calm: float, lasts: float
) -> tuple[Process, Fault]:
    """Freeze a node inside a transaction, between the Parse of a statement and its execution, for a while."""
    cabled = nodes.boot("cabled", url=url)
    for other in ("b", "c"):
        nodes.boot(other)
    nodes.go_on(calm, on=cabled)
    proxy.freeze_at(word)
    proxy.reset()  # new connections parse all statements again
    assert proxy.frozen.wait(PATIENCE), f"expected the node to send a statement with {word}"
    begin = now()
    nodes.go_on(lasts)
    fault = nodes.note(cabled.name, "freeze", begin, now())
    proxy.heal()
    nodes.go_on(1, on=cabled)
    return cabled, fault


def set_clocks_wrong(nodes: Cluster, *, minutes: float, seconds: float) -> None:
    """Boot a leader whose clock is ahead, a node whose clock is behind, and one whose clock is right."""
    nodes.boot("ahead", clock_ahead=60 * minutes)
    nodes.boot("behind", clock_ahead=-60 * minutes)
    nodes.boot("right")
    nodes.note("ahead", f"+{minutes:g} min", nodes.began, nodes.began)
    nodes.note("behind", f"-{minutes:g} min", nodes.began, nodes.began)
    for node in nodes.nodes:
        nodes.go_on(seconds / 3, on=node)
