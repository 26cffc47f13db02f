"""Helpers that reserve and arm several runs with gates in one call."""

from __future__ import annotations

from dataclasses import replace

from onthedot.model.job import JobRecord
from onthedot.model.run import ArmAnswer, Armed, Gate, GateAsk, Lease, OnBusy
from onthedot_verify.contract.workbench import Workbench

WAIT, SKIP, REPLACE = OnBusy("wait"), OnBusy("skip"), OnBusy("replace")
X = Gate("limit:name:x:", 1)


def overlap(record: JobRecord) -> Gate:
    return Gate(f"overlap:{record.id}:", 1, until_end=True)


async def ask(bench: Workbench, *asks: tuple[Lease, list[Gate], OnBusy | None]) -> list[ArmAnswer]:
    """Arm these leases in one call, each with its gates and its action at a closed gate."""
    wanted = {lease.lease_id: GateAsk(tuple(gates), on_busy) for lease, gates, on_busy in asks}
    return await bench.store.arm([replace(lease) for lease, *_ in asks], gates=wanted, now=bench.now)


async def reserved(bench: Workbench, node: str, count: int = 9) -> list[Lease]:
    return (await bench.reserve(node, seats=count, lapse=1000)).held


def with_answer(lease: Lease, answer: ArmAnswer) -> Lease:
    assert isinstance(answer, Armed), answer
    return replace(lease, fence=answer.fence, attempt=answer.attempt, armed_at=answer.armed_at)
