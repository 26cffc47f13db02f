"""The output of a run: read from the output store, or from the store until the output store has it."""

from __future__ import annotations

from pathlib import Path

import pytest

import onthedot as otd
from onthedot.clock import SystemClock
from onthedot.node.engine import Engine
from onthedot.output.capture import Capture
from onthedot.output.locations import spool_folder
from onthedot.output.output_store import Name
from onthedot.output.records import Record
from onthedot.output.run_output import read_output
from onthedot.output.spool import Spool
from onthedot.settings import Settings
from onthedot.stores.values import LogRecord


async def test_a_node_uploads_finished_output_and_other_nodes_can_read_it(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    settings = Settings(output=str(tmp_path / "output"), spool=str(tmp_path / "spool"))
    first = otd.Scheduler(url, settings=settings)

    @first.job
    async def greet(ctx: otd.Context) -> None:
        ctx.log("as it was told while it ran")

    async with first:
        run = await first.submit("greet")
        await run.result(timeout="10s")
        [ended] = await first.history(run)
        assert await first.logs(run) == [LogRecord(1, "as it was told while it ran\n")]
        spool = Spool(spool_folder(settings.spool, url))
        name = Name(run.id, ended.attempt, ended.lease_id)
        capture = Capture(spool.log_of(name), step="", limit=1_000, secrets=(), clock=lambda: 1)
        capture.feed("out", b"as it was recorded\n")
        capture.close()
        spool.hand_in(name)
    assert spool.waiting(9) == []  # a node that stops uploads the rest first

    second = otd.Scheduler(url, settings=settings)
    second.job(name="greet")(lambda: None)
    async with second:
        assert await second.logs(run.id) == [LogRecord(1, "as it was recorded\n")]


async def test_lines_in_the_store_are_readable_if_the_output_store_is_not(tmp_path: Path):
    (tmp_path / "file").write_text("")
    settings = Settings(output=str(tmp_path / "file"))
    sched = otd.Scheduler("memory:", settings=settings)

    @sched.job
    async def greet(ctx: otd.Context) -> None:
        ctx.log("hello")

    async with sched:
        run = await sched.submit("greet")
        await run.result(timeout="10s")
        assert await sched.logs(run) == [LogRecord(1, "hello\n")]


async def test_lines_and_the_traceback_of_a_handler_have_their_instants():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def greet(ctx: otd.Context) -> None:
        ctx.log("hello %s", "Ada")
        raise ValueError("no more words")

    @sched.job
    async def bare() -> None:
        raise ValueError("nothing logged")

    async def read(engine: Engine) -> list[Record]:
        [said] = await read_output(engine.store, None, run.id)
        assert said.records is not None
        assert not said.kept
        return said.records

    before = SystemClock().now()
    async with sched:
        found = []
        for job in ("greet", "bare"):
            run = await sched.submit(job)
            with pytest.raises(otd.RunFailed):
                await run.result(timeout="10s")
            found.append(await sched._running().on_engine(read))
    (line, trace), [other] = found
    assert line[1:] == ("log", "", "hello Ada\n")
    assert (trace.stream, trace.step, "no more words" in trace.text) == ("err", "", True)
    assert (other.stream, "nothing logged" in other.text) == ("err", True)
    assert before <= line.at <= trace.at <= other.at <= SystemClock().now()
