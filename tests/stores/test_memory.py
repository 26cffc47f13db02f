"""The store in memory: what its reading costs."""

from typing import Any

import pytest

from onthedot.ids import SeededIds
from onthedot.job import Call, Job, Limit, ability_of
from onthedot.run import Armed, Gate, GateAsk, NewRun, OnBusy, RunState
from onthedot.stores.base import Ask, Node
from onthedot.stores.memory import MemoryStore
from onthedot.verdict import Finish, OutcomeKind, Verdict

SECOND = 1_000_000


class Counting(dict[int, Any]):
    """A table that counts how often a row is looked up."""

    looks = 0

    def __getitem__(self, key: int) -> Any:
        self.looks += 1
        return super().__getitem__(key)

    def get(self, key: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


@pytest.mark.parametrize("waiting", [10, 2_000])
async def test_passing_a_gate_on_costs_the_same_however_many_wait(waiting):
    store, ids = MemoryStore(), SeededIds(1)
    job = Job(name="job", task=Call(handler="job"), concurrency=Limit(1))
    put = await store.put_job(job)
    await store.submit([NewRun(put.record.id, f"submit:{n}", n) for n in range(waiting + 1)])
    await store.register(Node("n", "inc"), ttl=60 * SECOND)
    ask = Ask("inc", ids.leases(waiting + 1), waiting + 1, lapse=60 * SECOND, tasks=frozenset({ability_of(job)}))
    leases = (await store.reserve(ask)).held
    gates = {lease.lease_id: GateAsk((Gate("gate", 1),), OnBusy("wait")) for lease in leases}
    first, *_ = answers = await store.arm(leases, gates=gates)
    assert [isinstance(answer, Armed) for answer in answers] == [True] + [False] * waiting
    assert isinstance(first, Armed)
    store.runs = Counting(store.runs)
    assert await store.finish([Finish(leases[0], Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED), 1, 2)]) == [True]
    assert store.runs.looks < 20
    assert [run.id for run in store.runs.values() if run.blocked_on is None] == [leases[1].run_id]
