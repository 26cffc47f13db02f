"""The jobs' side of the history: handlers that write down what they see. They are the witness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from onthedot.clock import to_micros
from onthedot.tasks.context import Context
from onthedot.tasks.registry import Registry
from onthedot.testing.checker import Journal
from onthedot.testing.simulation.chance import keyed
from onthedot.testing.simulation.workload import Behaviour, Workload

Handler = Callable[..., Coroutine[Any, Any, None]]


class Failed(Exception):
    """What a handler raises that was drawn to fail."""


def registry(seed: str, workload: Workload, journal: Journal) -> Registry:
    """A handler for every job of the workload."""
    found = Registry()
    for name, behaviour in workload.behaviours.items():
        found.add(name, _handler(seed, name, behaviour, journal))
    return found


def _handler(seed: str, name: str, behaviour: Behaviour, journal: Journal) -> Handler:
    async def handle(ctx: Context, mark: int, tenant: str = "") -> None:
        del tenant  # it is for limits by its value
        slot = to_micros(ctx.scheduled_at)
        seen = {"run": ctx.run_id, "job": name, "slot": slot, "attempt": ctx.attempt, "fence": ctx.fence, "mark": mark}
        journal.add("job", "start", **seen)
        outcome = "cancelled"
        try:
            luck = keyed(seed, name, slot, ctx.attempt)
            await asyncio.sleep(behaviour.shortest + (behaviour.longest - behaviour.shortest) * luck)
            if keyed(seed, name, slot, ctx.attempt, "fails") < behaviour.failing:
                outcome = "failed"
                raise Failed(f"{name} was drawn to fail")
            outcome = "done"
        finally:
            journal.add("job", "end", **seen, outcome=outcome)

    return handle
