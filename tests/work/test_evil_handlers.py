"""Whatever a handler raises or says becomes one outcome: no run without a fate, no seat lost, no engine ended."""

import asyncio
from collections.abc import Callable

import pytest

import onthedot as otd
from onthedot.events import AttemptEnded
from tests.watching import Watch


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Bolt(BaseException):
    pass


EVIL: dict[str, Callable[[], BaseException]] = {
    "its own text raises": Unspeakable,
    "a BaseException": Bolt,
    "a lone surrogate in its text": lambda: ValueError("file \udce9.csv"),
}


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_whatever_is_raised_is_a_failure(where, name, kind, tmp_path):
    url = "memory:" if where == "memory" else f"sqlite:///{tmp_path}/evil.db"
    sched = otd.Scheduler(url, settings=otd.Settings(seats=1, grace=1_000_000))

    async def evil() -> None:
        raise EVIL[name]()

    def evil_function() -> None:
        raise EVIL[name]()

    sched.job(name="evil")(evil if kind == "coroutine" else evil_function)
    watch = Watch(sched)
    async with sched:
        first = await sched.submit("evil")
        async with asyncio.timeout(5):
            await watch.until_count(AttemptEnded, 1)
        run = await sched.get_run(first)
        assert run is not None
        assert run.state == "dead"
