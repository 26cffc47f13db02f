"""Our drain beside that of dramatiq, on one Valkey: what `bench.peers` measures there.

Both have a full queue of no-op jobs in databases of their own on the same server, and one and two worker processes;
every handler notes what it was called for. Ours keeps a lease, a fence, an attempt and a record of each run; dramatiq
forgets a message when it is acknowledged.
"""

from __future__ import annotations

import asyncio

from bench import crew, valkey
from bench.asking import ask
from bench.crew import Done
from bench.drain_crews import RUNS, cpu, drain, name_of
from bench.drain_redis import REDIS, filled
from bench.nodes import check_executions
from bench.results import BenchFailed, Result, ratio
from bench.rounds import Plan, alternate

FLOOR, AIM = 1.0, 4.0
NODE = "bench.dramatiq_node"


def run(plan: Plan, python: str, processes: int) -> Result:
    """Ours as a multiple of the peer's rate."""
    what = name_of(REDIS, processes)
    count = plan.count(RUNS) * processes
    with valkey.running() as server:
        full, full_peer = server.create(), server.create()
        run_ids = asyncio.run(filled(full, count, plan.seed))
        numbers = ask(python, NODE, "fill", full_peer, count)
        pairs = alternate(
            plan,
            lambda _: drain_peer(f"{what}, dramatiq", server, python, full_peer, numbers, processes),
            lambda number: drain(what, server, REDIS, full, run_ids, processes, plan.seed + number),
        )
    ours, peers = [one for _, one in pairs], [one for one, _ in pairs]
    note = f"bare = dramatiq; CPU µs a run, workers + server: {cpu(ours)}, {cpu(peers)}"
    rates = [(peer.rate, our.rate) for peer, our in pairs]
    return ratio(f"{what}, beside dramatiq", rates, unit="runs/s", floor=FLOOR, aim=AIM, note=note)


def drain_peer(what: str, server: valkey.Server, python: str, full: str, numbers: list[int], processes: int) -> Done:
    """Let the peer drain a copy, and see that each message was executed once and is gone."""
    url = server.create(full)
    done = crew.drain(what, server, [python, "-m", NODE, "work", url], processes, len(numbers))
    check_executions(what, numbers, done.executed)
    [left] = ask(python, NODE, "count", url, 0)
    if left:
        raise BenchFailed(f"{what}: expected no message to be left, found {left}")
    server.drop(url)
    return done
