"""Whatever workers do and whenever: a rate never grants more starts than it allows, and every run starts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import SECOND
from onthedot.model.job import Rate
from onthedot.model.rate import RateGate, grace
from onthedot.model.run import Armed, Busy, Delayed, GateAsk, Lease, OnBusy
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from onthedot_verify.contract.workbench import START, Workbench
from tests.model.test_rate import broken_window

pytestmark = pytest.mark.slow

GATES = [
    RateGate("r", 7, 10 * SECOND),
    RateGate("r", 7, 10 * SECOND, burst=3),
    RateGate("r", 3, SECOND, burst=2),
]
LENGTHS = st.sampled_from([0.05, 0.3, 1, 1.5, 4, 20])
STEPS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 4)),
    st.tuples(st.just("later"), LENGTHS),
    st.tuples(st.just("wait"), LENGTHS),
    st.tuples(st.just("work"), st.integers(1, 5)),
    st.tuples(st.just("ahead"), st.integers(1, 5)),
    st.tuples(st.just("odd"), LENGTHS),
)


class Bench:
    """A worker that arms its runs when it is told to, and records when each run starts."""

    def __init__(self, store: Store, gate: RateGate, *, odd: str) -> None:
        self.bench = Workbench(store)
        self.gate = gate
        self.odd = odd
        self.granted: dict[int, int] = {}
        self.instants: list[int] = []  # as the rate counts them
        self.submitted = 0

    async def run(self, steps: list[tuple[str, float]]) -> None:
        bench = self.bench
        self.record = await bench.define(rate=Rate(self.gate.most, self.gate.per / SECOND, burst=self.gate.burst))
        self.node = await bench.node(ttl=1_000_000)
        for what, value in steps:
            await self.step(what, value)
        await self.drain()

    async def step(self, what: str, value: float) -> None:
        bench = self.bench
        now = (bench.now - START) / SECOND
        match what:
            case "submit":
                for _ in range(int(value)):
                    await bench.submit(self.record, now)
                self.submitted += int(value)
            case "later":
                await bench.submit(self.record, now + value)
                self.submitted += 1
            case "wait":
                bench.turn(now + value)
            case "work":
                await self.arm((await bench.reserve(self.node, seats=int(value), lapse=0.5)).held)
            case "ahead":
                await self.arm((await bench.reserve(self.node, ahead=int(value), horizon=2, lapse=0.5)).held)
            case "odd" if self.odd == "back":
                bench.turn(now - value)
            case _:
                await bench.store.recount_gates(now=bench.now)

    async def arm(self, leases: list[Lease]) -> None:
        """Arm a batch, and repeat the call as if its answers were lost."""
        bench = self.bench
        due = [OnBusy("wait") if lease.due_at <= bench.now else None for lease in leases]
        gates = {lease.lease_id: GateAsk((), on_busy, self.gate) for lease, on_busy in zip(leases, due, strict=True)}
        answers = await bench.store.arm(list(map(replace, leases)), gates=gates, now=bench.now)
        assert await bench.store.arm(list(map(replace, leases)), gates=gates, now=bench.now) == answers
        for lease, answer in zip(leases, answers, strict=True):
            assert isinstance(answer, Armed | Busy | Delayed)
            if isinstance(answer, Delayed):
                assert answer.until > max(bench.now, lease.due_at)
                self.granted[lease.run_id] = answer.until
            elif isinstance(answer, Armed):
                self.note(lease)
                assert await bench.finish(replace(lease, fence=answer.fence, armed_at=answer.armed_at))

    def note(self, lease: Lease) -> None:
        start = max(self.bench.now, lease.due_at)
        granted = self.granted.get(lease.run_id)
        late = granted is not None and start <= granted + grace(self.gate)
        self.instants.append(granted if late and granted is not None else start)

    async def drain(self) -> None:
        """Another node goes from instant to instant until every run has started."""
        self.node = await self.bench.node("another", ttl=1_000_000)
        for _ in range(4 * self.submitted + 10):
            got = await self.bench.reserve(self.node, seats=50, lapse=0.5)
            await self.arm(got.held)
            got = await self.bench.reserve(self.node, lapse=0.5)
            self.bench.now = max(self.bench.now, got.look_again_at or 0)
        assert len(self.instants) == self.submitted


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("odd", ["recount", "back"])
@settings(max_examples=60, deadline=None)
@given(gate=st.sampled_from(GATES), steps=st.lists(STEPS, max_size=25))
def test_instants_are_granted_at_the_rate(kind, odd, gate, steps):
    async def main(path: str) -> Bench:
        store = MemoryStore() if kind == "memory" else await SqliteStore.open(Path(path) / "r.db", inline=True)
        bench = Bench(store, gate, odd=odd)
        try:
            await bench.run(steps)
        finally:
            await store.close()
        return bench

    with TemporaryDirectory() as path:
        bench = asyncio.run(main(path))
    assert broken_window(bench.instants, Fraction(gate.per, gate.most), gate.burst) is None
