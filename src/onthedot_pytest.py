"""The pytest plugin: the fixture `otd_harness`, for tests that are coroutines in virtual time.

It is loaded with every start of pytest, so it imports nothing of onthedot until a test asks for the fixture (70 ms of
CPU, measured); that is why it lies beside the package and not in it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onthedot.testing.fixture import Harnesses


@pytest.fixture
def otd_harness() -> Generator[Harnesses, None, None]:
    """Your scheduler's own jobs, on a memory store and a virtual clock: days pass in seconds.

    async def test_the_night_of_the_change(otd_harness):
        h = await otd_harness(sched, at="2026-03-28T12:00+01:00")
        await h.advance("1 day")
        [run] = await h.runs("nightly_report")
        assert run.state == "succeeded"

    No other plugin is needed for such tests, and none is in the way. What a harness can do: `onthedot.testing.Harness`.
    """
    from onthedot.testing.fixture import Harnesses

    harnesses = Harnesses()
    yield harnesses
    harnesses.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """A coroutine that is a fixture, and uses ours or one that does, runs in the virtual time of its test."""
    function = fixturedef.func
    is_generator = inspect.isasyncgenfunction(function)
    if not (is_generator or inspect.iscoroutinefunction(function)) or "otd_harness" not in request.fixturenames:
        return (yield)
    harnesses: Any = request.getfixturevalue("otd_harness")
    if not harnesses.makes(fixturedef.argname, fixturedef.argnames):
        return (yield)
    if request.instance is not None and hasattr(function, "__func__"):
        function = function.__func__.__get__(request.instance)

    def make(**arguments: object) -> object:
        if not is_generator:
            return harnesses.wait(function(**arguments))
        steps = function(**arguments)
        request.addfinalizer(lambda: harnesses.wait(anext(steps, None)))
        return harnesses.wait(anext(steps))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixturedef, "func", make)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a coroutine that uses the fixture in virtual time, before anybody runs it in real time."""
    harnesses: Any = pyfuncitem.funcargs.get("otd_harness")
    if harnesses is None:
        return None
    test = _coroutine_of(pyfuncitem.obj)
    if test is None:
        return None  # a plain function: the fixture tells it what it needs
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    harnesses.run(test, arguments)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows what its node did, and where handlers failed: their errors are not the test's."""
    report = yield
    harnesses: Any = getattr(item, "funcargs", {}).get("otd_harness")
    if report.when == "call" and report.failed and harnesses is not None and (told := harnesses.report()):
        report.sections.append(("otd_harness", told))
    return report


def _coroutine_of(function: Any) -> Callable[..., Any] | None:
    """The test as it was written, if it is a coroutine: pytest-asyncio puts a plain function around it."""
    if inspect.iscoroutinefunction(function):
        return function  # type: ignore[no-any-return]
    inner = getattr(function, "__wrapped__", None)
    return inner if inspect.iscoroutinefunction(inner) else None
