"""Where an operation computes instants: on this event loop, or on another thread so that this loop stays free."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")


class Compute(Protocol):
    """Calls a pure function, somewhere."""

    async def __call__(self, work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
        """Return what the function returns, or raise what it raises."""
        ...


async def at_once(work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
    """Call the function here and now: an engine has a loop of its own, and its time may be virtual."""
    return work(*args, **options)
