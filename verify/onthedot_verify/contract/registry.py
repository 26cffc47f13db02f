"""The registry of checks: the `check` decorator adds a function to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from onthedot_verify.contract.workbench import Workbench

CheckFunction = Callable[[Workbench], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule that every store must keep. Call it with a workbench over an empty store.

    >>> from onthedot.stores.memory import MemoryStore
    >>> from onthedot_verify.contract import Check, Workbench
    >>> async def a_run_that_ended_stays_ended(bench: Workbench) -> None:
    ...     run = await bench.submit(await bench.define("mail"))
    ...     [lease] = await bench.take(await bench.node())
    ...     assert await bench.finish(lease)
    ...     assert await bench.state(run) == "succeeded"
    >>> check = Check("mine", "a_run_that_ended_stays_ended", a_run_that_ended_stays_ended)
    >>> print(check)
    mine.a_run_that_ended_stays_ended
    >>> await check(Workbench(MemoryStore()))  # no error: the store keeps it
    """

    slice: str
    name: str
    function: CheckFunction

    async def __call__(self, bench: Workbench) -> None:
        await self.function(bench)

    def __str__(self) -> str:
        return f"{self.slice}.{self.name}"


registered: list[Check] = []


def check(function: CheckFunction) -> CheckFunction:
    """Register a check under the name of its module (its slice) and its own name."""
    slice_name = function.__module__.rpartition(".")[2]
    own_name = getattr(function, "__name__", "").removeprefix("check_")
    registered.append(Check(slice_name, own_name, function))
    return function
