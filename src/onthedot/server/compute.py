"""Runs long computations in threads, so that the event loop can answer other requests meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Given = ParamSpec("Given")
Made = TypeVar("Made")

AT_ONCE = 4
"""Most computations at once. More of them wait."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def in_thread(work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
    """Call a pure function in a thread, and return its result.

    >>> asyncio.run(in_thread(sum, [1, 2]))
    3
    """
    turns = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    async with turns:
        return await asyncio.to_thread(work, *args, **options)
