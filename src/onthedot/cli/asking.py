"""Ask what every front door can be asked (`verbs.py`), of the store that the command line names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from onthedot.open_verbs import opened
from onthedot.verbs import Verbs

T = TypeVar("T")


def ask(url: str, work: Callable[[Verbs], Awaitable[T]], *, namespace: str = "default") -> T:
    """What comes of it. The store is made if there is none."""

    async def main() -> T:
        async with opened(url) as there:
            return await work(there.verbs(namespace))

    return asyncio.run(main())
