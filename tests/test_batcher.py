"""The batcher joins concurrent calls into batches, and each caller gets its own answer or error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from onthedot.batcher import MOST, Batcher


class Slow:
    """Doubles numbers in batches after `go` is set. Negative numbers are refused; 13 makes the whole call fail."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.go = asyncio.Event()

    async def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.asked.append(list(numbers))
        await self.go.wait()
        if 13 in numbers:
            raise OSError("broken")
        return [ValueError(number) if number < 0 else 2 * number for number in numbers]


async def start(batcher: Batcher[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(batcher.one(number)) for number in numbers]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_the_first_item_goes_at_once_and_later_ones_go_together():
    slow = Slow()
    batcher = Batcher(slow)
    first = await start(batcher, 1)
    assert slow.asked == [[1]]
    others = await start(batcher, 2, 3, 4)
    assert slow.asked == [[1]]
    slow.go.set()
    assert await asyncio.gather(*first, *others) == [2, 4, 6, 8]
    assert slow.asked == [[1], [2, 3, 4]]
    assert await batcher.one(5) == 10
    assert slow.asked[2:] == [[5]]


async def test_an_error_of_one_item_does_not_affect_the_others():
    slow = Slow()
    batcher = Batcher(slow)
    tasks = await start(batcher, 0, 1, -2, 3)
    slow.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[1], answers[3]] == [0, 2, 6]
    assert isinstance(answers[2], ValueError)


async def test_a_failed_call_fails_only_the_items_of_its_batch():
    slow = Slow()
    batcher = Batcher(slow)
    tasks = [*await start(batcher, 0), *await start(batcher, 1, 13)]
    slow.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[0] == 0
    assert [type(answer) for answer in answers[1:]] == [OSError, OSError]
    assert await batcher.one(4) == 8


async def test_a_cancelled_caller_does_not_affect_the_others():
    slow = Slow()
    batcher = Batcher(slow)
    [first] = await start(batcher, 0)
    others = await start(batcher, 1, 2, 3)
    first.cancel()  # already called
    others[1].cancel()  # still waiting: it is dropped
    await asyncio.sleep(0)
    slow.go.set()
    assert [await others[0], await others[2]] == [2, 6]
    assert slow.asked == [[0], [1, 3]]
    assert first.cancelled()


async def test_no_call_is_made_if_all_waiting_callers_are_gone():
    slow = Slow()
    batcher = Batcher(slow)
    [first] = await start(batcher, 0)
    [gone] = await start(batcher, 1)
    gone.cancel()
    await asyncio.sleep(0)
    slow.go.set()
    assert await first == 0
    assert await batcher.one(2) == 4
    assert slow.asked == [[0], [2]]


async def test_a_batch_has_a_maximum_size():
    slow = Slow()
    batcher = Batcher(slow)
    numbers = range(100, 102 + 2 * MOST)
    tasks = await start(batcher, *numbers)
    slow.go.set()
    assert await asyncio.gather(*tasks) == [2 * number for number in numbers]
    assert [len(some) for some in slow.asked] == [1, MOST, MOST, 1]


async def test_a_wrong_number_of_answers_is_an_error():
    async def short(numbers: Sequence[int]) -> Sequence[int | Exception]:
        return [*numbers][1:]

    with pytest.raises(RuntimeError, match="expected 1 answers, got 0"):
        await Batcher(short).one(1)


async def test_a_submitted_item_is_called_even_if_its_caller_is_gone():
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


async def test_cancelling_the_future_withdraws_the_item():
    slow = Slow()
    batcher = Batcher(slow)
    first = batcher.submit(1)
    await asyncio.sleep(0)
    second, third = batcher.submit(2), batcher.submit(3)
    second.cancel()
    slow.go.set()
    assert [await first, await third] == [2, 6]
    assert slow.asked == [[1], [3]]
