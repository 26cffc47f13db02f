"""The frames in which a handler failed are stored with its attempt's log: a limited number, the user's first."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import ModuleType

import pytest

import onthedot as otd
from onthedot.runners.outcomes import trace_of
from tests.runners.children import handlers


def trace_from(function, *args: object) -> str:
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


async def log_of_failed_run(sched: otd.Scheduler, job: str) -> str:
    """Run a job whose run dies. Returns the log of its only attempt."""
    async with sched:
        run = await sched.submit(job)
        with suppress(otd.RunFailed):
            await run.result(timeout="30s")
        [log] = await sched.logs(run)
        return log.text


def test_a_trace_has_the_last_frames_of_the_users_code():
    lines = trace_from(outer).splitlines()
    assert lines[0] == "ConnectionError came from (last frame last):"
    assert lines[-4].endswith("in outer")
    assert lines[-3] == "    inner()"
    assert lines[-2].endswith("in inner")
    assert lines[-1] == '    raise ConnectionError("no line")'
    assert __file__ in lines[-2]


def test_frames_of_libraries_do_not_displace_those_of_the_user():
    lines = trace_from(deep, 100).splitlines()
    assert [line.rpartition(" in ")[2] for line in lines if " in " in line and "File" in line] == [
        *["deep"] * 5, "loads", "decode", "raw_decode",
    ]  # fmt: skip


def test_the_trace_of_an_endless_recursion_is_cut():
    def forever() -> None:
        forever()

    trace = trace_from(forever)
    assert trace.startswith("RecursionError came from")
    assert len(trace) <= 4_000


def test_an_error_without_frames_has_no_trace():
    assert trace_of(ValueError("never raised")) == ""


def test_a_source_that_cannot_be_read_is_left_out():
    class Loader:
        def get_source(self, name: str) -> str:
            raise ZeroDivisionError(name)

    module = ModuleType("hostile")
    module.__dict__["__loader__"] = Loader()
    code = compile("def fail():\n    raise ValueError('x')\n", "<hostile>", "exec")
    exec(code, module.__dict__)  # noqa: S102 - our own text
    assert trace_from(module.fail) == "" or "in fail" in trace_from(module.fail)


async def test_the_trace_of_a_coroutine_is_logged_without_a_context():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def charge() -> None:
        inner()

    text = await log_of_failed_run(sched, "charge")
    assert "in charge\n    inner()\n" in text
    assert "in inner\n" in text
    assert "onthedot/work" not in text


async def test_the_trace_of_a_function_follows_its_own_log_lines():
    sched = otd.Scheduler("memory:")

    @sched.job
    def charge(ctx: otd.Context) -> None:
        ctx.log("begin")
        inner()

    text = await log_of_failed_run(sched, "charge")
    assert text.startswith("begin\nConnectionError came from (last frame last):\n")
    assert text.endswith('in inner\n    raise ConnectionError("no line")\n')


@pytest.mark.slow
async def test_the_trace_of_a_child_process_is_logged():
    sched = otd.Scheduler("memory:")
    sched.job(isolation="process", name="raises")(handlers.raises)
    text = await log_of_failed_run(sched, "raises")
    assert text.startswith("ConnectionResetError came from (last frame last):\n")
    assert text.endswith('in raises\n    raise ConnectionResetError("no line")\n')


async def test_a_time_out_logs_where_the_handler_was():
    sched = otd.Scheduler("memory:")

    @sched.job(timeout="50ms")
    async def slow() -> None:
        await asyncio.sleep(60)

    assert "in slow\n    await asyncio.sleep(60)\n" in await log_of_failed_run(sched, "slow")


async def test_each_attempt_has_its_own_trace():
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
