"""Stores in which all namespaces shared named limits and rates: an upgrade keeps every holder and every waiting run.

Only the keys differ from those of the earlier version, so this version writes the stores with the earlier keys.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from onthedot.clock import SECOND
from onthedot.model.job import JobRecord, Limit, Rate
from onthedot.model.rate import RateGate
from onthedot.model.run import ArmAnswer, Armed, Blocked, Delayed, Gate, GateAsk, Lease, OnBusy
from onthedot.rules import gates
from onthedot.runners.params import arguments_of
from onthedot.stores import migration
from onthedot.stores.connect import open_store
from onthedot.stores.protocol import Store
from onthedot_verify.contract.workbench import Workbench, at

WAIT = OnBusy("wait")
DB = Gate("limit:name:db:", 2)
MAIL = RateGate("rate:name:mail:", 1, 60 * SECOND)
TENANT = RateGate('rate:name:post:"t"', 1, 60 * SECOND)

Open = Callable[[], Awaitable[Store]]


@pytest.fixture
async def open_functions(any_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Open, Open]]:
    """Two functions: one opens the store as the earlier version did, the other opens it with this version."""
    stores: list[Store] = []

    async def earlier() -> Store:
        steps = migration.load
        monkeypatch.setattr(migration, "load", lambda driver: steps(driver)[:2])
        stores.append(await open_store(any_url))
        monkeypatch.undo()
        return stores[-1]

    async def now() -> Store:
        if any_url.startswith("redis"):
            with Redis.from_url(any_url) as server:
                [epoch] = server.keys("*:epoch")
                assert server.hdel(epoch, "gates") == 1
        stores.append(await open_store(any_url))
        return stores[-1]

    yield earlier, now
    for store in stores:
        await store.close()


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres_url", marks=pytest.mark.slow),
        pytest.param("valkey_url", marks=pytest.mark.slow),
    ]
)
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gates.db'}"
    url: str = request.getfixturevalue(request.param)
    return url


class Scene:
    """Two namespaces that use the same names."""

    def __init__(self, store: Store) -> None:
        self.bench = Workbench(store)
        self.jobs: dict[str, JobRecord] = {}
        self.leases: dict[int, Lease] = {}
        self.node = ""

    async def set_up(self) -> None:
        for namespace in ("default", "qa"):
            for name, policy in (
                ("load", {"concurrency": Limit(2, name="db")}),
                ("mail", {"rate": Rate(1, "1m", name="mail")}),
                ("post", {"rate": Rate(1, "1m", name="post", key="tenant")}),
                ("own", {"rate": Rate(1, "1m")}),
            ):
                record = await self.bench.define(name, namespace=namespace, **policy)
                self.jobs[f"{namespace}/{name}"] = record
        self.node = await self.bench.node()

    async def lease(self, job: str) -> Lease:
        """Submit a run of this job that is due now. Returns its lease."""
        due = (self.bench.now - at(0)) / SECOND
        run_id = await self.bench.submit(self.jobs[job], due, args='{"tenant":"t"}')
        return await self.reserved(run_id)

    async def reserved(self, run_id: int) -> Lease:
        held = (await self.bench.reserve(self.node, seats=99, lapse=1000)).held
        self.leases.update((lease.run_id, lease) for lease in held)
        return self.leases.pop(run_id)

    async def arm(self, lease: Lease, asked: GateAsk) -> ArmAnswer:
        [answer] = await self.bench.store.arm([replace(lease)], gates={lease.lease_id: asked}, now=self.bench.now)
        return answer

    async def arm_with_earlier_keys(self, lease: Lease, *limits: Gate, rate: RateGate | None = None) -> ArmAnswer:
        return await self.arm(lease, GateAsk(limits, WAIT, rate))

    async def arm_as_a_worker(self, lease: Lease) -> ArmAnswer:
        """Arm with the gates that a worker of this version asks for."""
        arguments = arguments_of(lease)
        limits = gates.gates_of(lease.record, target=lease.target, arguments=arguments)
        return await self.arm(lease, GateAsk(limits, WAIT, gates.rate_of(lease.record, arguments=arguments)))

    async def waits_at(self, lease: Lease) -> tuple[str, tuple[int, ...]]:
        stands = await self.bench.store.queries.why_waiting(lease.run_id)
        assert stands is not None
        return stands.gate, stands.holders


async def test_holders_and_waiting_runs_keep_their_limit(open_functions: tuple[Open, Open]):
    earlier, now = open_functions
    scene = Scene(await earlier())
    await scene.set_up()
    ours, theirs = await scene.lease("default/load"), await scene.lease("qa/load")
    for lease in (ours, theirs):
        assert isinstance(await scene.arm_with_earlier_keys(lease, DB), Armed)
    waiting = [await scene.lease(job) for job in ("default/load", "qa/load", "qa/load")]
    for lease in waiting:
        assert isinstance(await scene.arm_with_earlier_keys(lease, DB), Blocked)
    await scene.bench.store.close()

    store = scene.bench.store = await now()
    assert [await scene.waits_at(lease) for lease in waiting] == [
        ("limit:name:db:", (ours.run_id,)),
        ("limit:in:qa:name:db:", (theirs.run_id,)),
        ("limit:in:qa:name:db:", (theirs.run_id,)),
    ]
    assert await store.recount_gates(now=scene.bench.now) == 2  # each namespace has one free place
    third = await scene.lease("qa/load")
    for lease in waiting[:2]:
        assert isinstance(await scene.arm_as_a_worker(await scene.reserved(lease.run_id)), Armed)
    assert isinstance(await scene.arm_as_a_worker(third), Blocked)  # two runs hold it already
    assert await scene.waits_at(waiting[2]) == ("limit:in:qa:name:db:", (theirs.run_id, waiting[1].run_id))
    [armed] = [lease for lease in await store.recover(scene.node) if lease.run_id == theirs.run_id]
    await scene.bench.finish(armed)
    assert isinstance(await scene.arm_as_a_worker(await scene.reserved(waiting[2].run_id)), Armed)


async def test_a_place_that_was_passed_to_a_waiting_run_stays_reserved_for_it(open_functions: tuple[Open, Open]):
    earlier, now = open_functions
    scene = Scene(await earlier())
    await scene.set_up()
    first, second, third = [await scene.lease("qa/load") for _ in range(3)]
    one = DB._replace(capacity=1)
    answer = await scene.arm_with_earlier_keys(first, one)
    assert isinstance(answer, Armed)
    for lease in (second, third):
        assert isinstance(await scene.arm_with_earlier_keys(lease, one), Blocked)
    await scene.bench.finish(replace(first, fence=answer.fence, armed_at=answer.armed_at, attempt=answer.attempt))
    await scene.bench.store.close()

    store = scene.bench.store = await now()
    assert await scene.waits_at(third) == ("limit:in:qa:name:db:", (second.run_id,))
    assert await store.recount_gates(now=scene.bench.now) == 0
    assert isinstance(await scene.arm_as_a_worker(await scene.reserved(second.run_id)), Armed)


async def test_instants_that_a_rate_has_granted_stay_granted(open_functions: tuple[Open, Open]):
    earlier, now = open_functions
    scene = Scene(await earlier())
    await scene.set_up()
    granted = {}
    for job, rate in (("qa/mail", MAIL), ("qa/post", TENANT)):
        assert isinstance(await scene.arm_with_earlier_keys(await scene.lease(job), rate=rate), Armed)
        granted[job] = await scene.lease(job)
        assert await scene.arm_with_earlier_keys(granted[job], rate=rate) == Delayed(rate.key, at(60))
    own = await scene.lease("qa/own")
    assert isinstance(await scene.arm_as_a_worker(own), Armed)
    await scene.bench.store.close()

    store = scene.bench.store = await now()
    run = await store.queries.get_run(granted["qa/mail"].run_id)
    assert run is not None
    assert run.reason == "waits at rate:in:qa:name:mail:, starts at 2026-01-01T00:01:00+00:00"
    for job, key in (("qa/mail", "rate:in:qa:name:mail:"), ("qa/post", 'rate:in:qa:name:post:"t"')):
        # The instants 0 and 60 are granted.
        assert await scene.arm_as_a_worker(await scene.lease(job)) == Delayed(key, at(120))
    assert await scene.arm_as_a_worker(await scene.lease("qa/own")) == Delayed(f"rate:job:{own.record.id}:", at(60))
    assert await scene.arm_as_a_worker(await scene.lease("default/mail")) == Delayed("rate:name:mail:", at(120))
    scene.bench.turn(60)
    for lease in granted.values():
        assert isinstance(await scene.arm_as_a_worker(await scene.reserved(lease.run_id)), Armed)
