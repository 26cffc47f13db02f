"""Where a handler failed is kept with its attempt's log: the user's own frames, bounded, whatever they are."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import ModuleType

import pytest

import onthedot as otd
from onthedot.runners.outcomes import trace_of
from tests.runners.children import handlers


def caught(function, *args: object) -> str:
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001 - whatever it raises
        return trace_of(error)
    raise AssertionError("expected an error")


def outer() -> None:
    inner()


def inner() -> None:
    raise ConnectionError("no line")


def deep(depth: int) -> None:
    if depth:
        deep(depth - 1)
    json.loads("{")


async def logged(sched: otd.Scheduler, job: str) -> str:
    """The log of the one attempt of a run that dies."""
    async with sched:
        run = await sched.submit(job)
        with suppress(otd.RunFailed):
            await run.result(timeout="30s")
        [log] = await sched.logs(run)
        return log.text


def test_the_last_frames_of_the_users_own_code():
    lines = caught(outer).splitlines()
    assert lines[0] == "ConnectionError came from (last frame last):"
    assert lines[-4].endswith("in outer")
    assert lines[-3] == "    inner()"
    assert lines[-2].endswith("in inner")
    assert lines[-1] == '    raise ConnectionError("no line")'
    assert __file__ in lines[-2]


def test_libraries_do_not_push_own_frames_out():
    lines = caught(deep, 100).splitlines()
    assert [line.rpartition(" in ")[2] for line in lines if " in " in line and "File" in line] == [
        *["deep"] * 5, "loads", "decode", "raw_decode",
    ]  # fmt: skip


def test_a_recursion_without_end_is_bounded():
    def forever() -> None:
        forever()

    trace = caught(forever)
    assert trace.startswith("RecursionError came from")
    assert len(trace) <= 4_000


def test_no_frames_no_words():
    assert trace_of(ValueError("never raised")) == ""


def test_a_source_that_cannot_be_read_does_no_harm():
    class Loader:
        def get_source(self, name: str) -> str:
            raise ZeroDivisionError(name)

    module = ModuleType("hostile")
    module.__dict__["__loader__"] = Loader()
    code = compile("def fail():\n    raise ValueError('x')\n", "<hostile>", "exec")
    exec(code, module.__dict__)  # noqa: S102 - our own text
    assert caught(module.fail) == "" or "in fail" in caught(module.fail)


async def test_a_coroutine_without_a_context():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def charge() -> None:
        inner()

    text = await logged(sched, "charge")
    assert "in charge\n    inner()\n" in text
    assert "in inner\n" in text
    assert "onthedot/work" not in text


async def test_a_plain_function_behind_its_own_words():
    sched = otd.Scheduler("memory:")

    @sched.job
    def charge(ctx: otd.Context) -> None:
        ctx.log("begin")
        inner()

    text = await logged(sched, "charge")
    assert text.startswith("begin\nConnectionError came from (last frame last):\n")
    assert text.endswith('in inner\n    raise ConnectionError("no line")\n')


@pytest.mark.slow
async def test_a_child_process():
    sched = otd.Scheduler("memory:")
    sched.job(isolation="process", name="raises")(handlers.raises)
    text = await logged(sched, "raises")
    assert text.startswith("ConnectionResetError came from (last frame last):\n")
    assert text.endswith('in raises\n    raise ConnectionResetError("no line")\n')


async def test_a_time_out_tells_where_it_was():
    sched = otd.Scheduler("memory:")

    @sched.job(timeout="50ms")
    async def slow() -> None:
        await asyncio.sleep(60)

    assert "in slow\n    await asyncio.sleep(60)\n" in await logged(sched, "slow")


async def test_each_attempt_has_its_own():
    sched = otd.Scheduler("memory:")

    @sched.job(retry=otd.Retry(2, delay="1ms"))
    async def twice(ctx: otd.Context) -> None:
        if ctx.attempt == 1:
            inner()
        outer()

    async with sched:
        run = await sched.submit("twice")
        with suppress(otd.RunFailed):
            await run.result(timeout="30s")
        first, second = await sched.logs(run)
    assert "in outer" not in first.text
    assert "in outer" in second.text


async def test_a_run_that_succeeds_has_no_log():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def fine() -> None: ...

    async with sched:
        run = await sched.submit("fine")
        await run.result(timeout="30s")
        assert await sched.logs(run) == []
