"""Calls joined into batches: which items go together, and what each caller gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from onthedot.batcher import MOST, Batcher


class Slow:
    """Doubles numbers, some at a time, when it is told to go on. Those below zero are refused, 13 breaks the call."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.go = asyncio.Event()

    async def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.asked.append(list(numbers))
        await self.go.wait()
        if 13 in numbers:
            raise OSError("broken")
        return [ValueError(number) if number < 0 else 2 * number for number in numbers]


async def asking(batcher: Batcher[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(batcher.one(number)) for number in numbers]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_the_first_goes_at_once_and_who_comes_meanwhile_goes_together():
    slow = Slow()
    batcher = Batcher(slow)
    first = await asking(batcher, 1)
    assert slow.asked == [[1]]
    others = await asking(batcher, 2, 3, 4)
    assert slow.asked == [[1]]
    slow.go.set()
    assert await asyncio.gather(*first, *others) == [2, 4, 6, 8]
    assert slow.asked == [[1], [2, 3, 4]]
    assert await batcher.one(5) == 10
    assert slow.asked[2:] == [[5]]


async def test_an_error_of_one_is_not_the_others():
    slow = Slow()
    batcher = Batcher(slow)
    tasks = await asking(batcher, 0, 1, -2, 3)
    slow.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[1], answers[3]] == [0, 2, 6]
    assert isinstance(answers[2], ValueError)


async def test_what_breaks_the_call_is_told_to_all_of_it_and_to_nobody_else():
    slow = Slow()
    batcher = Batcher(slow)
    tasks = [*await asking(batcher, 0), *await asking(batcher, 1, 13)]
    slow.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[0] == 0
    assert [type(answer) for answer in answers[1:]] == [OSError, OSError]
    assert await batcher.one(4) == 8


async def test_who_goes_away_leaves_the_others_alone():
    slow = Slow()
    batcher = Batcher(slow)
    [first] = await asking(batcher, 0)
    others = await asking(batcher, 1, 2, 3)
    first.cancel()  # on its way
    others[1].cancel()  # waiting: it is not asked for
    await asyncio.sleep(0)
    slow.go.set()
    assert [await others[0], await others[2]] == [2, 6]
    assert slow.asked == [[0], [1, 3]]
    assert first.cancelled()


async def test_when_all_who_wait_are_gone_nothing_is_asked():
    slow = Slow()
    batcher = Batcher(slow)
    [first] = await asking(batcher, 0)
    [gone] = await asking(batcher, 1)
    gone.cancel()
    await asyncio.sleep(0)
    slow.go.set()
    assert await first == 0
    assert await batcher.one(2) == 4
    assert slow.asked == [[0], [2]]


async def test_a_call_is_not_without_bound():
    slow = Slow()
    batcher = Batcher(slow)
    numbers = range(100, 102 + 2 * MOST)
    tasks = await asking(batcher, *numbers)
    slow.go.set()
    assert await asyncio.gather(*tasks) == [2 * number for number in numbers]
    assert [len(some) for some in slow.asked] == [1, MOST, MOST, 1]


async def test_answers_that_do_not_fit_are_nobodys_success():
    async def short(numbers: Sequence[int]) -> Sequence[int | Exception]:
        return [*numbers][1:]

    with pytest.raises(RuntimeError, match="expected 1 answers, got 0"):
        await Batcher(short).one(1)


async def test_what_is_submitted_is_called_for_although_its_caller_is_gone():
    slow = Slow()
    batcher = Batcher(slow)

    async def caller(number: int) -> int:
        return await asyncio.shield(batcher.submit(number))

    callers = [asyncio.create_task(caller(number)) for number in (1, 2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert slow.asked == [[1, 2]]
    third = asyncio.create_task(caller(3))
    await asyncio.sleep(0)
    for one in (callers[0], third):
        one.cancel()
    slow.go.set()
    assert await callers[1] == 4
    assert await batcher.one(5) == 10
    assert slow.asked == [[1, 2], [3], [5]]


async def test_a_future_that_is_cancelled_takes_its_item_back():
    slow = Slow()
    batcher = Batcher(slow)
    first = batcher.submit(1)
    await asyncio.sleep(0)
    second, third = batcher.submit(2), batcher.submit(3)
    second.cancel()
    slow.go.set()
    assert [await first, await third] == [2, 6]
    assert slow.asked == [[1], [3]]
