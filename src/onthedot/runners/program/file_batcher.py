"""Batches short file operations of all attempts of a worker onto a thread.

A hand-over to a thread and back costs more than making a few folders. Operations that come while the thread works are
done together in the next hand-over, so a busy worker pays it once for several attempts, and a lone operation waits for
no other. Nothing long belongs here (a source, artifacts, a large workspace): the others would wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from onthedot.batcher import Batcher

T = TypeVar("T")

_Done = tuple[Any, Exception | None]
"""What an operation returned, or its error."""


class FileBatcher:
    """Used on one event loop."""

    def __init__(self) -> None:
        self._batcher: Batcher[Callable[[], Any], _Done] = Batcher(_in_thread)

    async def do(self, work: Callable[[], T]) -> T:
        """Do one operation, and return its result or raise its error. If the caller is cancelled it is done all the
        same, in its place in the order, and its result is lost.

        >>> await FileBatcher().do(lambda: 6 * 7)
        42
        """
        value, error = await asyncio.shield(self._batcher.submit(work))
        if error is not None:
            raise error
        done: T = value
        return done


def _in_thread(works: Sequence[Callable[[], Any]]) -> Awaitable[Sequence[_Done]]:
    return asyncio.get_running_loop().run_in_executor(None, _do_all, works)


def _do_all(works: Sequence[Callable[[], Any]]) -> list[_Done]:
    return [_do(work) for work in works]


def _do(work: Callable[[], Any]) -> _Done:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - raised for its caller
        return None, error
