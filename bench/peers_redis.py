"""Compares our drain with that of dramatiq on one Valkey server, for `bench.peers`.

Both sides have their own database on the same server, a full queue of no-op jobs, and one or two worker processes.
Every handler notes its calls. Ours stores a lease, a fence, an attempt and a record for each run; dramatiq deletes a
message when it is acknowledged.
"""

from __future__ import annotations

import asyncio

from bench import crew, valkey
from bench.crew import CrewResult
from bench.drain_crews import RUNS, cpu, drain, name_of
from bench.drain_redis import REDIS, filled
from bench.nodes import check_executions
from bench.peer_call import call
from bench.results import BenchFailed, Result, ratio
from bench.rounds import Plan, alternate

FLOOR, AIM = 1.0, 4.0
NODE = "bench.dramatiq_node"


def run(plan: Plan, python: str, processes: int) -> Result:
    """Return our rate as a multiple of the peer's rate."""
    what = name_of(REDIS, processes)
    count = plan.count(RUNS) * processes
    with valkey.running() as server:
        full, full_peer = server.create(), server.create()
        run_ids = asyncio.run(filled(full, count, plan.seed))
        numbers = call(python, NODE, "fill", full_peer, count)
        pairs = alternate(
            plan,
            lambda _: drain_peer(f"{what}, dramatiq", server, python, full_peer, numbers, processes),
            lambda number: drain(what, server, REDIS, full, run_ids, processes, plan.seed + number),
        )
    ours, peers = [one for _, one in pairs], [one for one, _ in pairs]
    note = f"bare = dramatiq; CPU µs per run, workers + server: ours {cpu(ours)}, bare {cpu(peers)}"
    rates = [(peer.rate, our.rate) for peer, our in pairs]
    return ratio(f"{what}, with dramatiq", rates, unit="runs/s", floor=FLOOR, aim=AIM, note=note)


def drain_peer(
    what: str, server: valkey.Server, python: str, full: str, numbers: list[int], processes: int
) -> CrewResult:
    """Let the peer drain a copy, and check that each message was executed once and is deleted."""
    url = server.create(full)
    done = crew.drain(what, server, [python, "-m", NODE, "work", url], processes, len(numbers))
    check_executions(what, numbers, done.executed)
    [left] = call(python, NODE, "count", url, 0)
    if left:
        raise BenchFailed(f"{what}: expected no message to be left, found {left}")
    server.drop(url)
    return done
