"""`exactly_once` on PostgreSQL: one effect per run, when workers are killed and when the answer of a commit is lost.

Workers are killed at every crash point around the transaction. The test counts the effects in a table without a unique
constraint.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field

import psycopg
import pytest

import onthedot as otd
from onthedot.fault_points import TRANSACTIONAL, VARIABLE
from onthedot.model.job import canonical
from onthedot.model.run import TERMINAL
from tests.chaos.proxy import Proxy
from tests.crash import payee
from tests.crash.kit import ROOT
from tests.lanes import SOAK
from tests.servers.postgres import PostgresServer, name_of

RUNS = 1_000 if SOAK else 120
SEED = int(os.environ.get("ONTHEDOT_SEED", "20261115"))

CRASH_POINTS = (
    "reserve.in_transaction", "reserve.after_write", "arm.before_write", "arm.after_write", "attempt.before_call",
    *TRANSACTIONAL, "finish.in_transaction", "attempt.after_call", "finish.before_write", "finish.after_write",
)  # fmt: skip
"""From the reservation of a run to its recorded verdict. The second line has the points inside the commit."""


@dataclass
class DoomedWorkers:
    """Workers on one store. Each dies at a crash point, and another worker replaces it."""

    url: str
    chance: random.Random
    alive: dict[subprocess.Popen[bytes], str] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def keep_running(self, count: int) -> None:
        """Note which workers died at their crash points, and start others at the points with the fewest deaths so
        far."""
        for worker, point in list(self.alive.items()):
            if worker.poll() is not None:
                assert worker.returncode == -signal.SIGKILL, f"{point}: ended with {worker.returncode}"
                self.kills[point] += 1
                del self.alive[worker]
        while len(self.alive) < count:
            asked = Counter(self.kills) + Counter(self.alive.values())
            fewest = min(asked[point] for point in CRASH_POINTS)
            point = self.chance.choice([point for point in CRASH_POINTS if asked[point] == fewest])
            environment = {**os.environ, VARIABLE: f"{point}:{self.chance.randint(1, 9)}"}
            command = [sys.executable, "-m", "tests.crash.payee", self.url]
            self.alive[subprocess.Popen(command, cwd=ROOT, env=environment)] = point

    def kill_all(self) -> None:
        for worker in self.alive:
            worker.kill()
            worker.wait()


def create_effects(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(payee.CREATE)


async def submit(sched: otd.Scheduler, count: int) -> dict[int, int]:
    """Submit this many runs. Returns the amount of each."""
    calls = [otd.BoundCall(("pay", "pay_in_turn")[n % 2], canonical({"amount": n})) for n in range(count)]
    return {run.id: n for n, run in enumerate(await sched.submit_many(calls))}


async def check(sched: otd.Scheduler, url: str, amounts: dict[int, int]) -> int:
    """Check that every run succeeded and has one effect, that of its successful attempt. Returns how many attempts were
    lost."""
    lost = 0
    with psycopg.connect(url, autocommit=True) as db:
        found = db.execute("SELECT run_id, attempt, amount FROM effects").fetchall()
    times = Counter(run_id for run_id, _, _ in found)
    assert not {run_id for run_id, count in times.items() if count > 1}, "these runs have several effects"
    effects = {run_id: (attempt, amount) for run_id, attempt, amount in found}
    for run_id, amount in amounts.items():
        run, attempts = await sched.get_run(run_id), await sched.history(run_id)
        assert run is not None
        assert run.state is otd.RunState.SUCCEEDED, f"run {run_id} is {run.state}: {run.reason} {run.error}"
        assert effects.get(run_id) == (attempts[-1].attempt, amount), (
            f"run {run_id}: its effect is missing or of another attempt"
        )
        outcomes = [attempt.outcome for attempt in attempts]
        assert outcomes.count("succeeded") == 1
        lost += outcomes.count("lost")
    assert effects.keys() == amounts.keys()
    return lost


async def count_ended(sched: otd.Scheduler) -> int:
    counts = await sched._running().on_store(lambda store: store.queries.count_runs())
    return sum(count for state, count in counts.items() if state in TERMINAL)


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 600)
async def test_each_succeeded_run_has_one_effect_wherever_workers_are_killed(postgres_url: str):
    create_effects(postgres_url)
    workers = DoomedWorkers(postgres_url, random.Random(SEED))
    async with payee.program(postgres_url, "planner") as sched:
        amounts = await submit(sched, RUNS)
        try:
            while await count_ended(sched) < RUNS:
                workers.keep_running(3)
                await asyncio.sleep(0.05)
        finally:
            workers.kill_all()
        lost = await check(sched, postgres_url, amounts)
    print(f"{RUNS} runs, {sum(workers.kills.values())} kills, {lost} attempts lost: {dict(workers.kills)}")
    assert workers.kills.keys() == set(CRASH_POINTS), f"no worker died at {set(CRASH_POINTS) - workers.kills.keys()}"
    assert lost > 10, "too few attempts were lost for a meaningful test"


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("then", ["reset", "silence"])
async def test_a_commit_whose_answer_is_lost_has_one_effect(then: str, postgres_server: PostgresServer):
    """The server commits, but the worker gets no answer. The worker looks it up and does not execute the run again."""
    url = postgres_server.create_database()
    create_effects(url)
    with Proxy(postgres_server.port) as proxy:
        through = postgres_server.url(name_of(url), port=proxy.port) + "?timeout=1"
        async with payee.program(through, "planner", "worker") as sched:
            # The handlers' transactions send this form. The store's own commits have no semicolon.
            proxy.drop_reply("COMMIT;", times=12, then="reset" if then == "reset" else "silence")
            amounts = await submit(sched, 40)
            await asyncio.gather(*(sched.result(run, timeout="100s") for run in amounts))
            await check(sched, url, amounts)
        assert len(proxy.dropped) == 12
        assert {reply.tags for reply in proxy.dropped} == {("COMMIT",)}
