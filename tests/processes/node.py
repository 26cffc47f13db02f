"""Runs one of several nodes on a file: `python -m tests.processes.node DATABASE JOURNAL NAME PROGRAM LEASE`.

It prints a line for each important event of its engine: kind, instant, details. Its handlers write a journal of their
own, so that the tests need not trust the scheduler.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.model.errors import StoreError
from onthedot.model.events import (
    AttemptEnded,
    DrainBegun,
    Event,
    LeaseLost,
    NodeFenced,
    NodeLeft,
    RunMissed,
    RunRecovered,
    StoreTrouble,
    TermEnded,
    TermWon,
)
from onthedot.model.verdict import OutcomeKind
from onthedot.runners.context import Context
from onthedot.settings import Settings
from tests.crash import victim

STEADY, DEEP, PING, NAP, NAP_ONCE = "steady", "deep", "ping", "nap", "nap_once"
DEEP_SECONDS = 1.5


class Journal(victim.Journal):
    """A journal that adds the name of the node to each line."""

    def __init__(self, path: Path, node: str) -> None:
        super().__init__(path)
        self._node = node

    def note(self, event: str, **fields: object) -> None:
        super().note(event, node=self._node, **fields)


def settings(name: str, lease: float) -> Settings:
    """Return settings with short leases, and with a look-ahead longer than a term."""
    given = Settings(node_id=name, seats=32, ahead=32, plan_every=SECOND // 2, expire_every=SECOND // 4)
    given = given.with_leases(round(lease * SECOND))
    return replace(given, lookahead=max(3 * SECOND, 3 * given.term_ttl))


def busy(database: Path, journal: Journal, name: str, lease: float) -> otd.Scheduler:
    """Return the jobs of the crash tests, which must not overlap themselves, and two that may."""
    sched = victim.program(database, journal, boot=0)
    sched.settings = settings(name, lease)

    @sched.job(name=STEADY, schedule=otd.every("100ms"), catch_up=victim.EVERYTHING, overlap="allow")
    async def steady(ctx: Context) -> None:
        journal.attempt("start", ctx)
        journal.attempt("end", ctx)

    @sched.job(name=DEEP, schedule=otd.every("500ms"), catch_up=victim.EVERYTHING, overlap="allow")
    async def deep(ctx: Context) -> None:
        journal.attempt("start", ctx)
        await asyncio.sleep(DEEP_SECONDS)
        journal.attempt("end", ctx)

    return sched


def quiet(database: Path, journal: Journal, name: str, lease: float) -> otd.Scheduler:
    """Return one job that the test submits, on a node that polls rarely."""
    given = replace(settings(name, lease), poll_every=30 * SECOND, plan_every=30 * SECOND)
    sched = otd.Scheduler(f"sqlite:///{database}", settings=given)

    @sched.job(name=PING)
    async def ping(ctx: Context, sent: int = 0) -> None:
        journal.note("ping", sent=sent, at=SystemClock().now())

    return sched


def naps(database: Path, journal: Journal, name: str, lease: float) -> otd.Scheduler:
    """Return jobs that the test submits. Their first attempt sleeps for the given seconds, later ones do not."""
    sched = otd.Scheduler(f"sqlite:///{database}", settings=settings(name, lease))

    async def nap(ctx: Context, seconds: float) -> None:
        journal.attempt("start", ctx)
        try:
            await asyncio.sleep(seconds if ctx.attempt == 1 else 0)
        except asyncio.CancelledError:
            journal.attempt("stopped", ctx)
            raise
        journal.attempt("end", ctx)

    sched.job(name=NAP, args={"seconds": 0.0})(nap)
    sched.job(name=NAP_ONCE, args={"seconds": 0.0}, guarantee="at_most_once")(nap)
    return sched


def naps_in_a_hurry(database: Path, journal: Journal, name: str, lease: float) -> otd.Scheduler:
    """Return the same jobs as `naps`, on a node whose grace at a stop is one second."""
    sched = naps(database, journal, name, lease)
    sched.settings = replace(sched.settings, grace=SECOND)
    return sched


PROGRAMS: dict[str, Callable[[Path, Journal, str, float], otd.Scheduler]] = {
    "busy": busy,
    "quiet": quiet,
    "naps": naps,
    "naps_in_a_hurry": naps_in_a_hurry,
}


def tell(event: Event) -> None:
    """Print one line for each event that a test may wait for."""
    about: object = ""
    match event:
        case TermWon(number=about) | TermEnded(number=about) | NodeFenced(lost=about) | DrainBegun(running=about):
            pass
        case LeaseLost(finish=finish):
            about = finish.lease.run_id
        case AttemptEnded(finish=finish) if finish.verdict.outcome is OutcomeKind.LOST:
            about = finish.lease.run_id
        case RunRecovered(lease=lease):
            about = lease.run_id
        case RunMissed(run=run):
            about = run.id
        case StoreTrouble(service=service, error=error):
            about = f"{service}: {error}"
        case NodeLeft():
            pass
        case _:
            return
    say(type(event).__name__, about)


def say(kind: str, about: object = "") -> None:
    """Print one line with a single write, because two threads print at the same time."""
    line = " ".join(str(about).splitlines())
    os.write(1, f"{kind} {SystemClock().now()} {line}\n".encode())


async def submit(sched: otd.Scheduler, journal: Journal, stop: asyncio.Event) -> None:
    """Submit errands, and note each that was acknowledged."""
    while not stop.is_set():
        try:
            journal.note("acknowledged", run=(await sched.submit(victim.ERRAND)).id, at=SystemClock().now())
        except StoreError as error:
            say("refused", error)
        try:
            await asyncio.wait_for(stop.wait(), 0.1)
        except TimeoutError:
            continue


async def main(database: Path, journal_at: Path, name: str, program: str, lease: float) -> None:
    stop, quietly = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    journal = Journal(journal_at, name)
    sched = PROGRAMS[program](database, journal, name, lease)
    sched.subscribe(tell)
    loop.add_signal_handler(signal.SIGTERM, lambda: sched.stop_now() if stop.is_set() else stop.set())
    loop.add_signal_handler(signal.SIGUSR1, quietly.set)
    async with sched:
        say("ready")
        errands = asyncio.create_task(submit(sched, journal, quietly)) if program == "busy" else None
        ended = {asyncio.create_task(stop.wait()), asyncio.create_task(sched.broken())}
        done, _ = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        quietly.set()
        if errands is not None:
            await errands
    say("stopped")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5])))
