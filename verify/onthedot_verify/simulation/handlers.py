"""Handlers of the simulated jobs. They record what they see, independently of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import partial
from typing import Any

from onthedot.clock import to_micros
from onthedot.model.errors import LeaseLost, StoreUnavailable
from onthedot.model.job import Guarantee
from onthedot.runners.context import Context
from onthedot.runners.registry import Registry
from onthedot_verify.checker import Journal
from onthedot_verify.simulation.chance import keyed
from onthedot_verify.simulation.workload import Behaviour, Workload

_HIDES = 0.5  # part of the handlers that hide the error of their commit

Handler = Callable[..., Coroutine[Any, Any, None]]


class Failed(Exception):
    """The error of a handler whose draw makes it fail."""


def registry(seed: str, workload: Workload, journal: Journal) -> Registry:
    """A handler for each job of the workload."""
    found = Registry()
    for name, behaviour in workload.behaviours.items():
        exact = workload.jobs[name].guarantee is Guarantee.EXACTLY_ONCE
        found.add(name, _handler(seed, name, behaviour, exact, journal))
    return found


def _handler(seed: str, name: str, behaviour: Behaviour, exact: bool, journal: Journal) -> Handler:
    async def handle(ctx: Context, mark: int, tenant: str = "") -> None:
        del tenant  # only limits use it
        slot = to_micros(ctx.scheduled_at)
        seen: dict[str, Any] = {
            "run": ctx.run_id,
            "job": name,
            "slot": slot,
            "attempt": ctx.attempt,
            "fence": ctx.fence,
            "mark": mark,
        }
        journal.add("job", "start", **seen)
        luck = partial(keyed, seed, name, slot, ctx.attempt)
        try:
            async with ctx.transaction() if exact else nullcontext() as db:
                outcome = "cancelled"
                try:
                    await asyncio.sleep(behaviour.shortest + (behaviour.longest - behaviour.shortest) * luck())
                    if luck("fails") < behaviour.failing:
                        outcome = "failed"
                        raise Failed(f"{name} fails by its seed")
                    if db is not None:
                        await db.execute("effect")
                    outcome = "done"
                finally:
                    seen["outcome"] = outcome
                    journal.add("job", "end", **seen)  # the job's own view, whatever is committed
        except (LeaseLost, StoreUnavailable):
            if luck("hides") >= _HIDES:
                raise  # otherwise hide it: the worker must not believe the handler
        finally:
            if "outcome" not in seen:
                journal.add("job", "end", **seen, outcome="cancelled")
        if exact and luck("fails after") < behaviour.failing:
            raise Failed(f"{name} fails after its commit, by its seed")

    return handle
