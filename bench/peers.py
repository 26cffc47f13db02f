"""Compares our drain with that of the fastest other library on the same store: `python -m bench.peers`.

The peers are PgQueuer on PostgreSQL and dramatiq on Redis (`bench.peers_redis`). Rounds alternate. Both sides have
their own database on the same server, a full queue of no-op jobs, and one or two worker processes. Every handler notes
its calls. Ours stores a lease, a fence, an attempt and a row of history for each run; PgQueuer stores a row of its log.
`make bench-peers` installs the peers into `.venv-peers`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from bench import crew, peers_redis, server
from bench.crew import CrewResult
from bench.drain_crews import RUNS, cpu, drain, name_of
from bench.drain_postgres import POSTGRES, filled
from bench.nodes import check_executions
from bench.peer_call import call
from bench.results import BenchFailed, Result, exit_code, missed, ratio, table
from bench.rounds import Plan, alternate

FLOOR, AIM = 1.0, 2.0
NODE = "bench.pgqueuer_node"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Returns 1 if a bench failed or a floor was missed at full size, else 0."""
    asked = _parser().parse_args(arguments)
    python = str(Path(asked.python).absolute())  # not resolved: Python finds its environment by the path of the link
    print(
        f"onthedot bench-peers: size {asked.size:g}, rounds {asked.rounds}, load {os.getloadavg()[0]:.1f}", flush=True
    )
    results: list[Result] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="onthedot-bench-", dir=asked.dir) as folder:
        plan = Plan(folder=Path(folder), size=asked.size, rounds=asked.rounds, seed=asked.seed)
        for peer, processes in product(asked.only, (1, 2)):
            try:
                results.append(PEERS[peer](plan, python, processes))
            except BenchFailed as failure:
                failures.append(str(failure))
    print(table(results))
    for line in [f"failed: {failure}" for failure in failures] + [f"floor missed: {one}" for one in missed(results)]:
        print(line, file=sys.stderr)
    return exit_code(results, failures, size=plan.size)


def run(plan: Plan, python: str, processes: int) -> Result:
    """Compare with PgQueuer on a new server."""
    with server.running() as postgres:
        return compare(plan, postgres, python, processes)


PEERS = {"pgqueuer": run, "dramatiq": peers_redis.run}


def compare(plan: Plan, postgres: server.Server, python: str, processes: int) -> Result:
    """Return our rate as a multiple of the peer's rate."""
    what = name_of(POSTGRES, processes)
    count = plan.count(RUNS) * processes
    full, full_peer = postgres.create(), postgres.create()
    run_ids = asyncio.run(filled(full, count, plan.seed))
    job_ids = call(python, NODE, "fill", full_peer, count)
    pairs = alternate(
        plan,
        lambda _: drain_peer(f"{what}, PgQueuer", postgres, python, full_peer, job_ids, processes),
        lambda number: drain(what, postgres, POSTGRES, full, run_ids, processes, plan.seed + number),
    )
    ours, peers = [one for _, one in pairs], [one for one, _ in pairs]
    note = f"bare = PgQueuer; CPU µs per run, workers + server: ours {cpu(ours)}, bare {cpu(peers)}"
    rates = [(peer.rate, our.rate) for peer, our in pairs]
    return ratio(f"{what}, with PgQueuer", rates, unit="runs/s", floor=FLOOR, aim=AIM, note=note)


def drain_peer(
    what: str, postgres: server.Server, python: str, full: str, job_ids: list[int], processes: int
) -> CrewResult:
    """Let the peer drain a copy, and check that each job was executed once and is in its log."""
    url = postgres.create(full)
    done = crew.drain(what, postgres, [python, "-m", NODE, "work", url], processes, len(job_ids))
    check_executions(what, job_ids, done.executed)
    succeeded, left = call(python, NODE, "count", url, 0)
    if (succeeded, left) != (len(job_ids), 0):
        raise BenchFailed(f"{what}: expected {len(job_ids)} in its log, found {succeeded}, and {left} left")
    postgres.drop(url)
    return done


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Compare onthedot with other libraries.")
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS), help="compare only with these")
    parser.add_argument("--python", default=".venv-peers/bin/python", help="Python of the peers' environment")
    parser.add_argument("--size", type=float, default=1.0, help="scales counts; floors count only at 1")
    parser.add_argument("--rounds", type=int, default=5, help="number of alternating rounds; results are medians")
    parser.add_argument("--seed", type=int, default=1, help="seed for all random choices")
    parser.add_argument("--dir", default=None, help="folder for temporary files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
