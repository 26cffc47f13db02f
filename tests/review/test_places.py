"""With full limits and workers that come and go, SQL and Redis behave the same, and every run completes.

The test makes seeded random walks. After each step both stores are equal, no limit is exceeded, no run waits at an
open gate, and no waiting run holds a limit. At the end a worker for all tasks joins, and every run must complete.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from onthedot.clock import SECOND
from onthedot.model.job import Call, JobRecord, Limit, Overlap
from onthedot.model.run import Armed, Gate, GateAsk, Lease, NewRun, submit_trigger
from onthedot.model.verdict import Finish
from onthedot.rules import gates as policy
from onthedot.runners.params import arguments_of
from onthedot.stores.values import Node
from onthedot_verify.contract.workbench import SUCCESS, TASK
from tests.review.test_differential import THOROUGH
from tests.review.twins import Twin, Twins
from tests.servers.valkey import ValkeyServer

OTHER_TASK = "call:other"
ALL = frozenset({TASK, OTHER_TASK})
JOBS: dict[str, dict[str, Any]] = {
    "tenants": {"overlap": Overlap("allow", max_running=2), "concurrency": Limit(1, key="t")},
    "shared": {"concurrency": Limit(1, name="x"), "task": Call(handler="other")},
    "wider": {"overlap": Overlap("allow", max_running=1), "concurrency": Limit(2, name="x")},
    "alone": {"overlap": Overlap("wait"), "concurrency": Limit(1, name="x")},
}
Pair = tuple[Lease, Lease]


class Crowd:
    """One random walk."""

    def __init__(self, twins: Twins, seed: int) -> None:
        self.twins = twins
        self.chance = random.Random(seed)
        self.workers: list[str] = []
        self.held: list[Pair] = []
        self.running: list[Pair] = []
        self.count = 0
        self.gates: dict[str, tuple[Gate, ...]] = {}  # the gates of each run, by its name
        for name, options in JOBS.items():
            self.both(partial(_define, name=name, options=options))
        self.join(frozenset({TASK}))
        self.join()

    @property
    def now(self) -> int:
        return self.twins.sql.bench.now

    def both(self, call: Callable[[Twin], Any]) -> Any:
        return self.twins.both(call)[0]

    def of(self, twin: Twin, pair: Pair) -> Lease:
        return replace(pair[self.twins.pair.index(twin)])

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, tasks: frozenset[str] | None = None) -> None:
        self.count += 1
        can, lasts = self.chance.choice([(ALL, 3), ({TASK}, 3)]) if tasks is None else (tasks, 10_000)
        node = Node(id="w", incarnation=f"w{self.count}", queues=("default",), tasks=tuple(sorted(can)))
        ttl = lasts * SECOND
        self.both(lambda twin: twin.store.register(replace(node), ttl=ttl, now=self.now))
        self.workers.append(node.incarnation)

    def leave(self) -> None:
        """Remove a random worker, but never the first one."""
        if len(self.workers) > 1:
            gone = self.workers.pop(self.chance.randrange(1, len(self.workers)))
            self.both(partial(self._leave, worker=gone))

    async def _leave(self, twin: Twin, worker: str) -> None:
        await twin.store.leave(worker, now=self.now)

    def living(self) -> str:
        return self.chance.choice([one for one in self.workers if one in self.nodes()])

    def nodes(self) -> dict[str, Node]:
        """Return the living nodes by incarnation."""
        nodes = self.twins.do(self.twins.sql.store.queries.list_nodes(living=True, now=self.now))
        return {node.incarnation: node for node in nodes}

    def submit(self) -> None:
        self.count += 1
        name, due = self.chance.choice([*JOBS, "shared"]), self.now - self.chance.choice([0, 1, 2]) * SECOND
        job_id = self.both(lambda twin: twin.store.queries.get_job(name)).id
        new = NewRun(job_id, submit_trigger(str(self.count)), due, f'{{"t":{self.chance.choice([1, 2])}}}')

        async def work(twin: Twin) -> Any:
            await twin.store.submit([new], now=self.now)

        self.both(work)

    def reserve(self) -> str:
        """Let a random worker reserve runs, and return it."""
        self.count += 1
        worker, seats = self.living(), self.chance.choice([1, 2, 4])
        tasks = frozenset(self.nodes()[worker].tasks)

        async def work(twin: Twin) -> Any:
            got = await twin.bench.reserve(worker, seats=seats, extra=50, lapse=2, tasks=tasks)  # see test_differential
            for lease in got.held:
                twin.lease_names[lease.lease_id] = f"{twin.names[lease.run_id]}#{self.count}"
            return got

        got = self.twins.both(work)
        if not isinstance(got[0], Exception):
            self.held += zip(got[0].held, got[1].held, strict=True)
        return worker

    def arm(self, worker: str = "") -> int:
        """Arm some runs that a worker has reserved in one call, and return how many start."""
        mine = [pair for pair in self.held if pair[0].incarnation == (worker or self.living())]
        pairs = mine if worker else self.chance.sample(mine, self.chance.randint(0, len(mine)))
        early = not worker and self.chance.random() < 0.1
        answers = self.both(lambda twin: self._arm(twin, pairs, early)) if pairs else []
        if isinstance(answers, Exception):
            return 0
        for pair, answer in zip(pairs, answers, strict=True):
            if not early or isinstance(answer, Armed):
                self.held.remove(pair)
            if isinstance(answer, Armed):
                self.running.append(pair)
        return sum(isinstance(answer, Armed) for answer in answers)

    async def _arm(self, twin: Twin, pairs: list[Pair], early: bool) -> Any:
        leases = [self.of(twin, pair) for pair in pairs]
        asks = {}
        for lease in leases:
            passing = policy.gates_of(lease.record, target="", arguments=arguments_of(lease))
            answer = policy.on_busy(lease, now=self.now)
            self.gates[twin.names[lease.run_id]] = passing
            asks[lease.lease_id] = GateAsk(passing, None if early else answer)
        return await twin.store.arm(leases, gates=asks, now=self.now)

    def work(self) -> int:
        """Reserve and arm, as a worker does most of the time."""
        return self.arm(self.reserve())

    def finish(self) -> None:
        if not self.running:
            return
        pair = self.running.pop(self.chance.randrange(len(self.running)))

        async def work(twin: Twin) -> Any:
            run_id = self.of(twin, pair).run_id
            [lease] = [one for one in await twin.store.recover(pair[0].incarnation) if one.run_id == run_id]
            return await twin.store.finish([Finish(replace(lease), SUCCESS, self.now, self.now)], now=self.now)

        self.both(work)

    def recount(self) -> None:
        assert self.both(lambda twin: twin.store.recount_gates(now=self.now)) == 0

    def turn(self) -> None:
        self.twins.turn_to(self.now + self.chance.choice([0, 1, 2]) * SECOND)

    # ── checks ───────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        self.twins.compare()
        held, waiting = self.twins.sql.gates()
        for key, holders in held.items():
            assert len(holders) <= max(self.gate(name, key).capacity for name in holders), (
                f"{key}: expected at most as many holders as its capacity"
            )
            for name in holders & waiting.keys():
                assert self.gate(name, key).until_end, f"{name} waits and holds a limit"
        for name, key in waiting.items():
            assert len(held.get(key, ())) >= self.gate(name, key).capacity, f"{name} waits at an open gate"

    def gate(self, name: str, key: str) -> Gate:
        [gate] = [one for one in self.gates[name] if one.key == key]
        return gate

    def steps(self, count: int) -> None:
        moves = {
            self.submit: 8, self.work: 8, self.reserve: 1, self.arm: 1, self.finish: 8,
            self.recount: 2, self.turn: 1, self.join: 5, self.leave: 8,
        }  # fmt: skip
        for _ in range(count):
            self.chance.choices(list(moves), list(moves.values()))[0]()
            self.check()

    def end(self) -> None:
        """Replace all workers by one for all tasks, and check that it can complete every run."""
        for worker in self.workers:
            self.both(partial(self._leave, worker=worker))
        self.workers.clear()
        self.join(ALL)
        self.both(self._reap)
        self.held.clear()
        self.running.clear()
        while self.twins.sql.rows("SELECT id FROM runs"):
            started = 0
            self.recount()
            for _ in range(5):
                started += self.work()
            assert started or self.running, "expected a run to start in each round"
            while self.running:
                self.finish()
            self.check()

    async def _reap(self, twin: Twin) -> Any:
        found = await twin.store.orphans(limit=100, now=self.now)
        found.sort(key=lambda lease: twin.names[lease.run_id])
        return await twin.store.reap([(lease, SUCCESS) for lease in found], now=self.now)


async def _define(twin: Twin, name: str, options: dict[str, Any]) -> JobRecord:
    return await twin.bench.define(name, **options)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sql_and_redis_behave_the_same_at_full_limits(valkey: ValkeyServer):
    """A soak makes more walks, with new seeds."""
    first = random.randrange(10**6) if THOROUGH > 1 else 0
    for seed in range(first, first + 5 * THOROUGH):
        twins = Twins(valkey)
        try:
            walk = Crowd(twins, seed)
            walk.steps(120)
            walk.end()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        finally:
            twins.close()
