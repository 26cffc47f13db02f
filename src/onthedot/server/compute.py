"""Work that takes a while and waits for nothing: in threads, few at a time, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Given = ParamSpec("Given")
Made = TypeVar("Made")

AT_ONCE = 4
"""How many of them run at a time: the others wait, and the loop does not."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def in_thread(work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
    """What a pure function gives, without keeping the loop from others.

    >>> asyncio.run(in_thread(sum, [1, 2]))
    3
    """
    turns = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    async with turns:
        return await asyncio.to_thread(work, *args, **options)
