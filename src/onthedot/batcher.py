"""Joins calls that come at the same time into batches.

    callers ──▶ waiting ──▶ one call for all that wait ──▶ store, thread, …
                   ▲                                          │
                   └───── while a call runs, more wait ───────┘

A call costs about as much for twenty items as for one: a hand-over to a thread and a commit, or a round trip. No item
waits for others: if no call runs, its call starts at once. No item joins a call that has begun, so no caller gets an
answer that was read before it asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")

MOST = 200
"""The most items of one call."""


class Batcher(Generic[A, B]):
    """Calls `call` with a batch of items. It returns for each item an answer or an error, in order; an error that it
    raises is the answer for every item of the batch. Used on one event loop.

    >>> async def double(numbers: Sequence[int]) -> list[int | Exception]:
    ...     return [2 * number for number in numbers]
    >>> await Batcher(double).one(21)
    42
    """

    def __init__(self, call: Callable[[Sequence[A]], Awaitable[Sequence[B | Exception]]]) -> None:
        self._call = call
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._is_calling = False
        self._task: asyncio.Task[None] | None = None  # a reference, so that it is not collected

    async def one(self, item: A) -> B:
        """Return the answer for one item. If its caller is cancelled while it waits, no call is made for it."""
        if self._is_calling:
            return await self.submit(item)
        self._is_calling = True
        try:
            [answer] = await self._answers([item])  # most items are alone: this saves the 20 µs of a task
        finally:
            if self._waiting:
                self._task = asyncio.create_task(self._call_for_all())
            else:
                self._is_calling = False
        if isinstance(answer, Exception):
            raise answer
        return answer

    def submit(self, item: A) -> asyncio.Future[B]:
        """Return the answer for one item as a future. Its call is made by a task of the batcher, so cancelling the
        caller does not stop it; cancelling the future takes the item back if no call has begun for it."""
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if not self._is_calling:
            self._is_calling = True
            self._task = asyncio.create_task(self._call_for_all())
        return future

    async def _answers(self, items: Sequence[A]) -> Sequence[B | Exception]:
        answers = await self._call(items)
        if len(answers) != len(items):
            raise RuntimeError(f"batcher: expected {len(items)} answers, got {len(answers)}")
        return answers

    async def _call_for_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            batch = [(item, future) for item, future in batch if not future.done()]
            if batch:
                await self._call_for(batch)
        self._is_calling = False

    async def _call_for(self, batch: Sequence[tuple[A, asyncio.Future[B]]]) -> None:
        answers: Sequence[B | Exception]
        try:
            answers = await self._answers([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - every caller of the batch gets it
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue  # its caller was cancelled
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
