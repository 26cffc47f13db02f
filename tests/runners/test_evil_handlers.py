"""Whatever a handler raises, prints or returns is one outcome: every run ends, no seat is lost, no engine stops."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import onthedot as otd
from onthedot.model.events import AttemptEnded
from onthedot.model.run import RunRecord
from tests.watching import Watch


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class LastWords(Exception):
    def __str__(self) -> str:
        raise SystemExit("and goodbye")


class Bolt(BaseException):
    pass


EVIL: dict[str, Callable[[], BaseException]] = {
    "its own text raises": Unspeakable,
    "its own text ends the program": LastWords,
    "a BaseException": Bolt,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError that nobody asked for": asyncio.CancelledError,
    "a group of BaseExceptions": lambda: BaseExceptionGroup("all", [KeyboardInterrupt(), Bolt()]),
    "a lone surrogate in its text": lambda: ValueError("file \udce9.csv"),
    "RecursionError": lambda: RecursionError("maximum recursion depth exceeded"),
}


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_whatever_a_handler_raises_is_a_failure(where, name, kind, tmp_path):
    url = "memory:" if where == "memory" else f"sqlite:///{tmp_path}/evil.db"

    async def evil() -> None:
        raise EVIL[name]()

    def evil_function() -> None:
        raise EVIL[name]()

    run = await run_of(url, evil if kind == "coroutine" else evil_function)
    assert run.state == "dead"
    assert run.error


async def run_of(url: str, handler: Callable[..., Any]) -> RunRecord:
    """Run this handler on a node with one seat. Checks that the next job still runs there. Returns the run of the
    handler."""
    sched = otd.Scheduler(url, settings=otd.Settings(seats=1, grace=1_000_000, result_bytes=1_000))
    sched.job(name="evil")(handler)
    sched.job(name="honest")(honest)
    watch = Watch(sched)
    async with sched:
        first, second = await sched.submit("evil"), await sched.submit("honest")
        await watch.until_count(AttemptEnded, 2)
        run, after = await sched.get_run(first), await sched.get_run(second)
    assert run is not None
    assert after is not None
    assert after.state == "succeeded"
    return run


async def honest() -> str:
    return "done"


async def endless_recursion() -> None:
    await endless_recursion()


def endless_calls() -> None:
    endless_calls()


def returns_a_coroutine() -> Any:
    return honest()


async def awaits_nothing() -> Any:
    return honest()


def generates() -> Iterator[int]:
    yield 1


async def generates_async() -> AsyncIterator[int]:
    yield 1


class Called:
    async def __call__(self) -> None: ...


class Liar(dict[str, int]):
    def items(self) -> Any:
        raise Bolt("no items")


RETURNED: dict[str, tuple[Callable[..., Any], str]] = {
    "endless recursion of coroutines": (endless_recursion, "RecursionError"),
    "endless recursion of calls": (endless_calls, "RecursionError"),
    "a function that returns a coroutine": (returns_a_coroutine, "returned a coroutine that nobody awaits"),
    "a coroutine that returns a coroutine": (awaits_nothing, "returned a coroutine that nobody awaits"),
    "an object with async __call__": (Called(), "returned a coroutine that nobody awaits"),
    "a generator function": (generates, "is a generator, so its body has not run"),
    "an async generator": (generates_async, "is a generator, so its body has not run"),
    "a result that is not JSON": (lambda: {1, 2}, "returned set, which is not JSON"),
    "a result that is not a number": (lambda: float("nan"), "returned float, which is not JSON"),
    "a result that is too large": (lambda: "x" * 2_000, "2002 characters of JSON, more than 1000"),
    "a result that raises when it is read": (lambda: Liar(a=1), "Bolt: no items"),
    "sys.exit": (lambda: sys.exit("enough"), "SystemExit: enough"),
}


@pytest.mark.parametrize("name", RETURNED)
async def test_an_invalid_result_is_a_failure_with_a_reason(name):
    handler, words = RETURNED[name]
    run = await run_of("memory:", handler)
    assert run.state == "dead"
    assert words in (run.error or "")
