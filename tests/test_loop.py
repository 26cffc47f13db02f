"""The loop calls each service again when its tick asks for that, and handles errors, in virtual time."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.loop import Loop, Service
from onthedot.model.errors import StoreUnavailable
from onthedot.testing import VirtualClock, VirtualLoop, run_virtual

START = datetime(2026, 1, 1, tzinfo=UTC)


class Recorder(Service):
    """A service that records its calls and returns the given answers."""

    name = "recorder"

    def __init__(self, *answers):
        super().__init__()
        self.calls: list[float] = []
        self.answers = list(answers)

    async def tick(self, now):
        self.calls.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


class Setting:
    def __init__(self, *services):
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.trouble: list[tuple[str, str]] = []
        self.loop = Loop(
            VirtualClock(loop, START), SeededIds(1), lambda name, error, _: self.trouble.append((name, str(error)))
        )
        for service in services:
            self.loop.add(service)
        self.loop.start()


def test_a_tick_decides_when_it_is_called_again():
    async def scenario():
        service = Recorder(2 * SECOND, 500_000, None)
        setting = Setting(service)
        await asyncio.sleep(60)
        await setting.loop.stop()
        return service.calls

    assert run_virtual(scenario()) == [0, 2, 2.5]


def test_a_wake_ends_the_wait():
    async def scenario():
        service = Recorder(None, 100 * SECOND, None)
        setting = Setting(service)
        await asyncio.sleep(5)
        service.wake()
        await asyncio.sleep(5)
        service.wake()
        await asyncio.sleep(500)
        await setting.loop.stop()
        return service.calls

    assert run_virtual(scenario()) == [0, 5, 10]


def test_a_wake_during_a_tick_is_not_lost():
    class Slow(Recorder):
        async def tick(self, now):
            answer = await super().tick(now)
            await asyncio.sleep(3)
            return answer

    async def scenario():
        service = Slow()
        setting = Setting(service)
        await asyncio.sleep(1)
        service.wake()
        await asyncio.sleep(60)
        await setting.loop.stop()
        return service.calls

    assert run_virtual(scenario()) == [0, 3]


def test_a_busy_service_does_not_block_others():
    async def scenario():
        busy, other = Recorder(*[0] * 10_000), Recorder(None)
        setting = Setting(busy, other)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert other.calls == [0]
        await setting.loop.stop()

    run_virtual(scenario())


def test_an_unavailable_store_is_reported_and_retried_with_backoff():
    async def scenario():
        service = Recorder(*[StoreUnavailable("away")] * 12, None)
        setting = Setting(service)
        await asyncio.sleep(600)
        await setting.loop.stop()
        return service.calls, setting.trouble

    calls, trouble = run_virtual(scenario())
    assert trouble == [("recorder", "away")] * 12
    gaps = [after - before for before, after in pairwise(calls)]
    assert all(0.05 <= gap <= 5.05 for gap in gaps)
    assert max(gaps[:2]) < max(gaps[6:])


def test_a_bug_ends_the_loop_and_is_raised():
    async def scenario():
        setting = Setting(Recorder(SECOND, ZeroDivisionError("bug")), Recorder(None))
        error = await setting.loop.broken()
        assert isinstance(error, ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            await setting.loop.stop()

    run_virtual(scenario())


def test_stopping_waits_for_the_end_of_a_tick():
    class Slow(Service):
        name = "slow"
        ended = False

        async def tick(self, now):
            await asyncio.sleep(3)
            self.ended = True
            return 0

    async def scenario():
        slow = Slow()
        setting = Setting(slow)
        await asyncio.sleep(1)
        await setting.loop.stop()
        assert slow.ended

    run_virtual(scenario())
