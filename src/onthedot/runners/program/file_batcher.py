"""Small things to be done with files, for all attempts of a worker: in a thread, as many at a time as wait.

The way to a thread and back costs more than making a few folders. What is asked for while the thread is at work is done
together when it comes back, so a busy worker goes that way once for several attempts, and a lone one waits for nobody.
What may take long (a source, artifacts, a large workspace) is not for here: others would wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Asked(NamedTuple):
    work: Callable[[], Any]
    answer: asyncio.Future[Any]


class Hand:
    """Used on one loop."""

    def __init__(self) -> None:
        self._waiting: list[_Asked] = []
        self._is_busy = False

    async def do(self, work: Callable[[], T]) -> T:
        """Have this done; what it gives or raises. Cancelled: it is done all the same, and its answer lost.

        >>> await Hand().do(lambda: 6 * 7)
        42
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(work, answer))
        if not self._is_busy:
            self._go()
        return await answer

    def _go(self) -> None:
        asked, self._waiting = self._waiting, []
        self._is_busy = True
        going = asyncio.get_running_loop().run_in_executor(None, _do_all, [each.work for each in asked])
        going.add_done_callback(lambda gone: self._come_back(asked, gone))

    def _come_back(self, asked: list[_Asked], gone: asyncio.Future[list[tuple[Any, Exception | None]]]) -> None:
        self._is_busy = False
        if gone.cancelled():  # the loop ends, and everybody with it
            return
        for (_, answer), (value, error) in zip(asked, gone.result(), strict=True):
            if answer.done():
                continue
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)
        if self._waiting:
            self._go()


def _do_all(works: list[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    return [_do(work) for work in works]


def _do(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - whoever asked for it is told
        return None, error
