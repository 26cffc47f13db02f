"""Handlers that block their loop or the whole interpreter: the engine's own thread keeps the lease while it can."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.events import AttemptEnded, LeaseLost, NodeCutOff, NodeFenced, RunRecovered, ZombieHandler
from tests.watching import Watch

pytestmark = pytest.mark.slow

LEASE = 2 * SECOND
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
async def test_a_handler_that_blocks_its_loop_keeps_its_lease_and_delays_only_its_neighbours(tmp_path):
    """The handler blocks for three leases. The lease is long enough that a busy machine does not end it."""
    lease = 4 * SECOND
    sched = otd.Scheduler(f"sqlite:///{tmp_path}/a.db", settings=otd.Settings().with_leases(lease))
    ran: dict[str, list[float]] = {"coroutine": [], "thread": []}
    interval: list[float] = []

    @sched.job
    async def blocks() -> None:
        interval.append(time.monotonic())
        time.sleep(3 * lease / SECOND)  # noqa: ASYNC251 - the point of it
        interval.append(time.monotonic())

    @sched.job(schedule=otd.every("250ms"), overlap="allow")
    async def neighbour() -> None:
        ran["coroutine"].append(time.monotonic())

    @sched.job(schedule=otd.every("250ms"), overlap="allow")
    def neighbour_in_a_thread() -> None:
        ran["thread"].append(time.monotonic())

    watch = Watch(sched)
    async with sched:
        await sched.submit("blocks")
        await watch.until(lambda: "blocks" in [e.finish.lease.record.job.name for e in watch.of(AttemptEnded)])
    gone = [kind for kind in (LeaseLost, NodeFenced, NodeCutOff, RunRecovered) if watch.of(kind)]
    assert gone == []
    began, ended = interval
    during = {kind: [at for at in times if began < at < ended] for kind, times in ran.items()}
    assert during["coroutine"] == []
    assert len(during["thread"]) >= 10  # of 48 slots: the machine may be busy


VICTIM = """
import asyncio, ctypes, sys
import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.observe.json_fields import json_line
from onthedot.observe.log_lines import Lines, format_line

sched = otd.Scheduler(f"sqlite:///{sys.argv[1]}", settings=otd.Settings().with_leases(2 * SECOND))
lines = Lines(late_after=SECOND, grace=SECOND)

def tell(event):
    now = SystemClock().now()
    said = [format_line(line) for line in lines.of(event, now)]
    print(json_line(event, now), *said, sep="\\t", flush=True)

@sched.job(name="report")
def greedy():
    ctypes.PyDLL(None).sleep(7)  # a foreign call that keeps the interpreter's lock: nothing else runs here

async def main():
    sched.subscribe(tell)
    async with sched:
        await sched.submit("report")
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_handler_that_holds_the_interpreter_loses_its_lease_and_its_finish_is_refused(tmp_path):
    """Without heartbeats another node takes the run over: here a node in another process."""
    path = tmp_path / "a.db"
    reaper = otd.Scheduler(f"sqlite:///{path}", settings=otd.Settings().with_leases(LEASE))
    watch = Watch(reaper)
    async with reaper:
        with start_victim(path) as victim:
            assert victim.stdout is not None
            refused, line = await asyncio.to_thread(first_event, victim.stdout, "LeaseLost")
            victim.kill()
    assert (refused["job"], refused["task"]) == ("report", "call:report")
    assert "handler report succeeded too late: another node has this run; nothing was changed" in line
    assert [e.lease.record.job.name for e in watch.of(RunRecovered)][:1] == ["report"]


def start_victim(path: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", VICTIM, str(path)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_event(lines, wanted: str) -> tuple[dict[str, str], str]:
    """Returns the first event of this name, and its log line."""
    for text in lines:
        event, *shown = text.rstrip("\n").split("\t")
        fields = json.loads(event)
        if fields["event"] == wanted:
            return fields, shown[0]
    raise AssertionError(f"expected an event {wanted}, found none")


@pytest.mark.parametrize("kind", ["a coroutine that ignores it", "a function that cannot be stopped"])
@pytest.mark.parametrize("why", ["time-out", "cancel"])
async def test_a_handler_that_does_not_stop_is_reported_as_a_zombie_and_keeps_its_seat(kind, why):
    sched = otd.Scheduler("memory:", settings=otd.Settings(seats=1))
    began, let_go = threading.Event(), threading.Event()

    async def deaf() -> None:
        began.set()
        while not let_go.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    def deaf_function() -> None:
        began.set()
        let_go.wait(20)

    handler = deaf if kind.startswith("a coroutine") else deaf_function
    sched.job(name="deaf", timeout="50ms" if why == "time-out" else None)(handler)

    @sched.job
    async def after() -> None: ...

    watch = Watch(sched)
    async with sched:
        run_id = (await sched.submit("deaf")).id
        await asyncio.to_thread(began.wait, 10)
        if why == "cancel":
            await sched.cancel(run_id)
        [zombie] = await watch.until_count(ZombieHandler, 1)
        assert (zombie.lease.record.job.name, zombie.zombies) == ("deaf", 1)
        [ended] = await watch.until_count(AttemptEnded, 1)
        assert ended.finish.verdict.outcome == ("timed_out" if why == "time-out" else "cancelled")
        waits = await sched.submit("after")
        run = await sched.get_run(waits)
        assert run is not None
        assert run.state == "scheduled"  # the seat is not free
        let_go.set()
        await watch.until_count(AttemptEnded, 2)
