"""The virtual loop jumps to the next timer when every task sleeps, and stops while a thread works."""

import asyncio
import threading

import pytest

from onthedot.simulate.virtual_loop import VirtualLoop, run_virtual


def test_work_in_a_thread_takes_no_virtual_time():
    async def main() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        sleeping = asyncio.create_task(asyncio.sleep(3600))
        here = await asyncio.to_thread(threading.get_ident)
        at = loop.time()
        await sleeping
        return at, here

    at, thread = run_virtual(main())
    assert at == 0
    assert thread != threading.get_ident()


def test_settled_returns_when_only_timers_are_left():
    seen: list[str] = []

    async def chain(length: int) -> None:
        for number in range(length):
            await asyncio.sleep(0)
            seen.append(f"step {number}")
        await asyncio.sleep(1)
        seen.append("a second later")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        task = asyncio.create_task(chain(20))
        await loop.settled()
        assert len(seen) == 20
        assert loop.time() == 0
        await task

    run_virtual(main())
    assert seen[-1] == "a second later"


def test_a_deadlock_raises_an_error():
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="virtual time stands still"):
        run_virtual(main())
