"""The cluster's loop: dead processes run nothing, and frozen ones run everything later and in order."""

import asyncio
from contextvars import copy_context

import pytest

from onthedot_verify.simulation.chance import Chance
from onthedot_verify.simulation.loop import PROCESS, ClusterLoop, Process


@pytest.fixture
def loop():
    loop = ClusterLoop(Chance("test"))
    yield loop
    loop.bury_all()
    loop.close()


def spawn(loop, process, coroutine):
    context = copy_context()
    context.run(PROCESS.set, process)
    return loop.create_task(coroutine, context=context)


async def count(seen, name, steps):
    try:
        for step in range(steps):
            seen.append((name, step))
            await asyncio.sleep(1)
    finally:
        seen.append((name, "finally"))


def test_a_killed_process_runs_no_finally(loop):
    seen: list = []
    process = Process("a")
    spawn(loop, process, count(seen, "a", 10))
    loop.call_later(2.5, loop.kill, process)
    loop.run_until_complete(asyncio.sleep(20))
    assert seen == [("a", 0), ("a", 1), ("a", 2)]


def test_a_frozen_process_continues_after_the_thaw(loop):
    seen: list = []
    process = Process("a")
    spawn(loop, process, count(seen, "a", 4))
    loop.call_later(1.5, loop.freeze, process)
    loop.call_later(11.5, loop.thaw, process)
    loop.run_until_complete(asyncio.sleep(11))
    assert seen == [("a", 0), ("a", 1)]
    loop.run_until_complete(asyncio.sleep(10))
    assert seen[2:] == [("a", 2), ("a", 3), ("a", "finally")]


def test_only_the_order_between_processes_is_drawn(loop):
    seen: list = []
    for name in "ab":
        context = copy_context()
        context.run(PROCESS.set, Process(name))
        for step in range(20):
            loop.call_soon(seen.append, (name, step), context=context)
    loop.run_until_complete(asyncio.sleep(0))
    for name in "ab":
        assert [step for owner, step in seen if owner == name] == list(range(20))
    assert [owner for owner, _ in seen] != ["a"] * 20 + ["b"] * 20


def test_a_loop_without_timers_is_an_error(loop):
    with pytest.raises(RuntimeError, match="stands still"):
        loop.run_until_complete(asyncio.Event().wait())
