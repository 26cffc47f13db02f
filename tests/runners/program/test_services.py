"""File operations of many attempts run as one batch on a thread, and each caller gets its own result."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from onthedot.runners.program.services import FileBatcher


async def test_waiting_operations_run_as_one_batch():
    files, begun, go_on = FileBatcher(), threading.Event(), threading.Event()
    threads: list[int] = []

    def hold() -> str:
        begun.set()
        assert go_on.wait(10)
        return "first"

    def note(number: int) -> int:
        threads.append(threading.get_ident())
        return number

    first = asyncio.create_task(files.do(hold))
    await asyncio.to_thread(begun.wait, 10)
    others = [asyncio.create_task(files.do(partial(note, number))) for number in range(20)]
    await asyncio.sleep(0)
    assert not threads
    go_on.set()
    assert await first == "first"
    assert await asyncio.gather(*others) == list(range(20))
    assert len(set(threads)) == 1
    assert threading.get_ident() not in threads


async def test_a_failed_operation_does_not_affect_others():
    def trouble() -> None:
        raise OSError("no room")

    files = FileBatcher()
    answers = await asyncio.gather(files.do(trouble), files.do(lambda: 1), files.do(trouble), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["no room", "1", "no room"]


async def test_a_cancelled_caller_does_not_delay_others():
    files, begun, go_on, done = FileBatcher(), threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go_on.wait(10)

    held = asyncio.create_task(files.do(hold))
    await asyncio.to_thread(begun.wait, 10)
    waiting = asyncio.create_task(files.do(done.set))
    await asyncio.sleep(0)
    for task in (held, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    go_on.set()
    assert await files.do(lambda: 7) == 7
    assert done.is_set()  # the operation ran although its caller was cancelled
