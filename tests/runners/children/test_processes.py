"""`isolation="process"`: whatever a handler does to its process is an outcome, and the worker continues."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.events import AttemptEnded, AttemptStarted, ZombieHandler
from onthedot.model.run import RunRecord
from onthedot.stores.protocol import Store
from tests.runners.children import handlers
from tests.watching import Watch

pytestmark = pytest.mark.slow

QUICK = otd.Settings(processes=1, kill_after=SECOND // 5, result_bytes=1_000)


class Node:
    """A scheduler whose jobs run in child processes."""

    def __init__(
        self,
        *functions: Callable[..., Any],
        settings: otd.Settings = QUICK,
        store: str | Store = "memory:",
        **options: Any,
    ) -> None:
        self.sched = otd.Scheduler(store, settings=settings)
        for function in functions:
            self.sched.job(isolation="process", **options)(function)
        self.watch = Watch(self.sched)

    async def __aenter__(self) -> "Node":
        await self.sched.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sched.stop()

    async def run(self, job: str, **arguments: Any) -> RunRecord:
        """Submit a run and wait for its first verdict."""
        run_id = (await self.sched.submit(job, arguments)).id
        await self.watch.until(lambda: run_id in [e.finish.lease.run_id for e in self.watch.of(AttemptEnded)])
        return await self.get_run(run_id)

    async def get_run(self, run_id: int) -> RunRecord:
        run = await self.sched.get_run(run_id)
        assert run is not None
        return run


def pid_of(run: RunRecord) -> int:
    found: int = result_of(run)["pid"]
    return found


def result_of(run: RunRecord) -> Any:
    assert run.state == "succeeded", run
    return json.loads(run.result or "null")


def is_alive(pid: int) -> bool:
    """Whether this process exists and is not a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def look_until(found: Callable[[], bool]) -> None:
    """Poll: there is no event when another process writes a file or dies."""
    give_up_at = time.monotonic() + 20
    while not found():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


async def until_gone(*pids: int) -> None:
    await asyncio.to_thread(look_until, lambda: not any(map(is_alive, pids)))


async def until_written(path: Path) -> str:
    await asyncio.to_thread(look_until, path.exists)
    return await asyncio.to_thread(path.read_text)


async def test_functions_and_coroutines_run_in_one_warm_child():
    async with Node(handlers.where, handlers.where_async) as node:
        first, second = await node.run("where"), await node.run("where_async", word="é")
    assert pid_of(first) == pid_of(second) != os.getpid()
    result = result_of(second)
    assert (result["run_id"], result["attempt"], result["word"]) == (second.id, 1, "é")
    assert result["fence"] > 0
    await until_gone(pid_of(first))  # it ends with the node


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (handlers.segfault, "its process was killed by SIGSEGV"),
        (handlers.exits, "its process ended with exit code 7 before the handler returned"),
        (handlers.killed, "its process was killed by SIGKILL; was it out of memory?"),
        (handlers.closes_all_descriptors, "its process was killed by SIGKILL"),
        (handlers.sends_garbage, "sent an invalid answer"),
        (handlers.sys_exits, "SystemExit: 3"),
        (handlers.interrupts, "KeyboardInterrupt"),
        (handlers.raises, "ConnectionResetError: no line"),
        (handlers.large, "more than 1000"),
        (handlers.not_json, "which is not JSON"),
        (handlers.generates, "is a generator"),
    ],
)
async def test_every_end_of_a_child_is_an_outcome(function, words):
    async with Node(function, handlers.where) as node:
        run, after = await node.run(function.__name__), await node.run("where")
    assert run.state == "dead"
    assert words in (run.error or "")
    assert pid_of(after)


async def test_a_dead_child_is_replaced_and_its_run_is_retried():
    async with Node(handlers.exits, retry=otd.Retry(2, delay="10ms", jitter=False)) as node:
        run_id = (await node.sched.submit("exits")).id
        await node.watch.until_count(AttemptEnded, 2)
        run = await node.get_run(run_id)
    assert (run.state, run.failures) == ("dead", 2)


@pytest.mark.parametrize("function", [handlers.holds_the_lock, handlers.backtracks_for_ever])
async def test_a_time_out_ends_a_handler_that_cannot_be_interrupted(function):
    node = Node(function, timeout="300ms")
    node.sched.job(isolation="process")(handlers.where)  # without a time-out, because the machine may be slow
    async with node:
        began = time.monotonic()
        run, after = await node.run(function.__name__), await node.run("where")
        assert time.monotonic() - began < 40  # not the 60 s that the handler would take
    assert "took longer than its time-out of 0.3 s" in (run.error or "")
    assert pid_of(after)
    assert not node.watch.of(ZombieHandler)  # the child is gone


@pytest.mark.parametrize("function", [handlers.cleans_up, handlers.cleans_up_async])
async def test_a_cancelled_handler_cleans_up(function, tmp_path):
    path = tmp_path / "journal"
    async with Node(function, settings=otd.Settings(processes=1)) as node:
        run_id = (await node.sched.submit(function, {"path": str(path)})).id
        await until_written(path)
        await node.sched.cancel(run_id, why="enough")
        await node.watch.until_count(AttemptEnded, 1)
        run = await node.get_run(run_id)
    assert (run.state, run.reason) == ("cancelled", "enough")
    assert path.read_text() == "cleaned up"


async def test_a_handler_that_ignores_sigterm_is_killed_with_its_children(tmp_path):
    path = tmp_path / "pids"
    async with Node(handlers.ignores_sigterm, handlers.where) as node:
        run_id = (await node.sched.submit("ignores_sigterm", {"path": str(path)})).id
        pids = [int(word) for word in (await until_written(path)).split()]
        assert all(map(is_alive, pids))
        await node.sched.cancel(run_id)
        await node.watch.until_count(AttemptEnded, 1)
        await until_gone(*pids)
        assert (await node.get_run(run_id)).state == "cancelled"
        assert pid_of(await node.run("where")) not in pids


async def test_a_stopping_node_leaves_no_child_behind(tmp_path):
    path = tmp_path / "pids"
    node = Node(handlers.ignores_sigterm)
    await node.sched.start()
    await node.sched.submit("ignores_sigterm", {"path": str(path)})
    pids = [int(word) for word in (await until_written(path)).split()]
    node.sched.stop_now()
    await node.sched.stop()
    await until_gone(*pids)
    [ended] = node.watch.of(AttemptEnded)
    assert ended.finish.verdict.reason == "recovered"


async def test_runs_that_wait_for_a_child_are_released_at_a_stop(tmp_path):
    path = tmp_path / "pids"
    node = Node(handlers.ignores_sigterm, handlers.where)
    await node.sched.start()
    await node.sched.submit("ignores_sigterm", {"path": str(path)})
    await until_written(path)
    waits = await node.sched.submit("where")
    node.sched.stop_now()
    await node.sched.stop()
    fates = {e.finish.lease.run_id: e.finish.verdict.outcome for e in node.watch.of(AttemptEnded)}
    assert fates.get(waits.id, "released") == "released"
    assert [e.lease.record.job.name for e in node.watch.of(AttemptStarted)] == ["ignores_sigterm"]
