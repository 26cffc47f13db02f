"""How instants are computed: at once, or by whoever must not be kept waiting, in another place."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")


class Compute(Protocol):
    """Does a piece of pure work, and gives what came of it."""

    async def __call__(self, work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
        """What the work gives, or raises."""
        ...


async def at_once(work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
    """Here and now: for an engine, whose loop is its own, and whose time may be virtual."""
    return work(*args, **options)
