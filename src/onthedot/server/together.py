"""What many requests ask of the store at once goes there together.

    requests ──▶ waiting ──▶ one call for all that wait ──▶ store
                    ▲                                         │
                    └── while it is on its way, more gather ──┘

A call costs the store about as much for twenty as for one: a hand-over to its thread and a commit, or a round trip.
Nobody waits for company: who comes while nothing is on its way goes at once, alone. Nobody is given what was read
before they asked: they go with the next call, never with the one that is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")

MOST = 200
"""So many go together at the most."""


class Together(Generic[A, B]):
    """Gathers calls with an `A` for each and a `B`, or an error, as the answer. `ask` is given some, and answers each
    in its place; what it raises is everybody's."""

    def __init__(self, ask: Callable[[Sequence[A]], Awaitable[Sequence[B | Exception]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._is_asking = False
        self._task: asyncio.Task[None] | None = None  # held, or it might be collected

    async def one(self, asked: A) -> B:
        """The answer for this one. Who is cancelled while waiting leaves the others alone."""
        if self._is_asking:
            future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
            self._waiting.append((asked, future))
            return await future
        self._is_asking = True
        try:
            [answer] = await self._answers([asked])  # without a task of its own: most are alone
        finally:
            self._go_on()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _answers(self, some: Sequence[A]) -> Sequence[B | Exception]:
        answers = await self._ask(some)
        if len(answers) != len(some):
            raise RuntimeError(f"together: expected {len(some)} answers, got {len(answers)}")
        return answers

    def _go_on(self) -> None:
        if self._waiting:
            self._task = asyncio.create_task(self._ask_all())
        else:
            self._is_asking = False

    async def _ask_all(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            await self._ask_some([(asked, answer) for asked, answer in some if not answer.done()])
        self._is_asking = False

    async def _ask_some(self, some: Sequence[tuple[A, asyncio.Future[B]]]) -> None:
        if not some:
            return  # they are all gone
        answers: Sequence[B | Exception]
        try:
            answers = await self._answers([asked for asked, _ in some])
        except Exception as error:  # noqa: BLE001 - handed to everybody who waits for it
            answers = [error] * len(some)
        for (_, future), answer in zip(some, answers, strict=True):
            if future.done():
                continue  # its request is gone
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
