"""For jobs that run after each other, SQL and Redis behave the same in any order of edits, ends and repetitions.

The test makes seeded random walks over four jobs, and compares sets, runs and cycles after each step.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from onthedot.clock import SECOND
from onthedot.model.after import After, On
from onthedot.model.errors import DependencyCycle
from onthedot.model.run import Lease, NewRun, RunState, submit_trigger
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot_verify.contract.workbench import CANCELLED, DEAD, LOST, SUCCESS
from tests.lanes import SOAK
from tests.review.twins import Twin, Twins
from tests.servers.valkey import ValkeyServer

pytestmark = pytest.mark.slow

NAMES = "abcd"
KINDS: tuple[On, ...] = ("success", "failure", "either", "either")
STEPS = 100
WALKS = 200 if SOAK else 10


class Walk:
    """One random walk with two stores and one worker."""

    def __init__(self, server: ValkeyServer, seed: int) -> None:
        self.chance = random.Random(seed)
        self.twins = Twins(server)
        self.leases: list[tuple[Lease, Lease]] = []
        self.followed = self.refused = self.submitted = 0
        self.worker = self.twins.both(lambda twin: twin.bench.node())[0]

    @property
    def now(self) -> int:
        return self.twins.sql.bench.now

    def job_id(self) -> int | None:
        name = self.chance.choice(NAMES)
        found = self.twins.both(lambda twin: twin.store.queries.get_job(name))[0]
        return None if found is None else int(found.id)

    def put(self) -> None:
        """Store a job that runs after none, one or more of the others, sometimes in a cycle."""
        name = self.chance.choice(NAMES)
        known = NAMES if self.chance.random() < 0.3 else NAMES[: NAMES.index(name)]
        parents = self.chance.sample(known, min(len(known), self.chance.choice([1, 1, 2, 3])))
        on, each = self.chance.choice(KINDS), self.chance.random() < 0.4
        after = After(*parents, any=each, on=on) if parents else None
        answer = self.twins.both(lambda twin: twin.bench.put(twin.bench.job(name=name, after=after)))[0]
        self.refused += isinstance(answer, DependencyCycle)

    def submit(self) -> None:
        job_id = self.job_id()
        if job_id is None:
            return
        self.submitted += 1
        new = NewRun(job_id, submit_trigger(str(self.submitted)), self.now)

        async def work(twin: Twin) -> Any:
            ids = await twin.store.submit([new], now=self.now)
            await twin.learn()
            return [twin.names[one] for one in ids]

        self.twins.both(work)

    def take(self) -> None:
        first, second = self.twins.both(lambda twin: twin.bench.take(self.worker, seats=9))
        self.leases += zip(first, second, strict=True)

    def finish(self) -> None:
        """Finish some leases: mostly running ones, sometimes stale ones, sometimes one twice."""
        live = self.twins.sql.running()
        running = [pair for pair in self.leases if pair[0].lease_id in live]
        known = running if running and self.chance.random() < 0.8 else self.leases[-8:]
        chosen = self.chance.choices(known, k=self.chance.randint(1, 4)) if known else []
        again = Verdict(RunState.SCHEDULED, OutcomeKind.FAILED, "again", self.now, failed=True)
        verdicts = [self.chance.choice([SUCCESS, SUCCESS, DEAD, LOST, CANCELLED, again]) for _ in chosen]

        async def work(twin: Twin) -> Any:
            mine = [pair[self.twins.pair.index(twin)] for pair in chosen]
            ended = [Finish(replace(one), verdict, 0, self.now) for one, verdict in zip(mine, verdicts, strict=True)]
            return await twin.store.finish(ended, now=self.now)

        self.twins.both(work)

    def pause(self) -> None:
        if (job_id := self.job_id()) is not None:
            self.twins.both(lambda twin: twin.store.pause_job(job_id, reason="", now=self.now))

    def resume(self) -> None:
        if (job_id := self.job_id()) is not None:
            self.twins.both(lambda twin: twin.store.resume_job(job_id, now=self.now))

    def delete(self) -> None:
        if (job_id := self.job_id()) is not None:
            self.twins.both(lambda twin: twin.store.delete_job(job_id, now=self.now))

    def turn(self) -> None:
        self.twins.turn_to(self.now + SECOND)

    def go(self) -> None:
        often = {
            self.put: 2, self.submit: 6, self.take: 6, self.finish: 10, self.pause: 1, self.resume: 2, self.delete: 0.5,
            self.turn: 2,
        }  # fmt: skip
        for _ in range(9):
            self.put()
        for step in self.chance.choices(list(often), list(often.values()), k=STEPS):
            step()
            self.twins.compare()
        self.followed = sum("/after:" in name for name in self.twins.sql.names.values())


@pytest.mark.timeout(600)
def test_sql_and_redis_make_the_same_following_runs(valkey: ValkeyServer):
    followed = refused = 0
    for seed in range(WALKS):
        walk = Walk(valkey, seed)
        try:
            walk.go()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            walk.twins.close()
        followed += walk.followed
        refused += walk.refused
    assert followed > 2 * WALKS, "expected more runs that follow others"
    assert refused > WALKS, "expected more refused cycles"
