"""Runs one node of a chaos test: `python -m tests.chaos.node ORDERS`, with its orders as JSON.

Its handlers write their own journal by this machine's clock, even if the node got a wrong clock, so that the tests
need not trust the scheduler. It prints events of its engine like the nodes of `tests/processes`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import onthedot as otd
from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.model.errors import StoreError
from onthedot.runners.context import Context
from onthedot.settings import Settings
from tests.processes.node import Journal, say, tell

TICK, DEEP, CAREFUL, ERRAND = "tick", "deep", "careful", "errand"
GATED = f"{TICK}-gated"
STEP: Micros = SECOND  # every job that has a schedule has one slot each second
EVERYTHING = otd.CatchUp("all", limit=1000, window="1h")


@dataclass(frozen=True)
class Orders:
    """The configuration of a node."""

    url: str
    journal: str
    name: str
    roles: tuple[str, ...] = ("planner", "worker")
    lease: float = 15.0
    ticks: int = 20  # jobs that only note their start and end
    gated: int = 0  # such jobs that share a concurrency limit, which is never reached
    deep: int = 2  # jobs that take `deep_seconds`
    deep_seconds: float = 1.5
    careful: int = 2  # jobs that must not be executed twice
    ahead: int = 512  # how many runs a node holds before their instants; with 512 one node may take all of them
    errands: float = 0.1  # seconds between two submits; 0: none
    clock_ahead: float = 0.0  # seconds that this node's clock is wrong by

    def settings(self) -> Settings:
        """Return the default settings with leases of this length, matching intervals, and seats for all runs."""
        given = Settings(node_id=self.name, roles=tuple(self.roles), seats=512, ahead=self.ahead)
        given = given.with_leases(round(self.lease * SECOND))
        lookahead = max(3 * SECOND, 3 * given.term_ttl)
        return replace(given, lookahead=lookahead, plan_every=lookahead // 6, expire_every=SECOND // 2)


class WrongClock(SystemClock):
    """A wall clock that is wrong by some seconds. The steady clock is right."""

    def __init__(self, ahead: float) -> None:
        self._ahead = round(ahead * SECOND)

    def now(self) -> Micros:
        return super().now() + self._ahead


def program(orders: Orders, journal: Journal) -> otd.Scheduler:
    """Return jobs with a slot each second, and one that is submitted."""
    clock = WrongClock(orders.clock_ahead) if orders.clock_ahead else None
    sched = otd.Scheduler(orders.url, settings=orders.settings(), clock=clock)

    async def note(ctx: Context) -> None:
        journal.attempt("start", ctx)
        journal.attempt("end", ctx)

    async def note_slowly(ctx: Context) -> None:
        journal.attempt("start", ctx)
        try:
            await asyncio.sleep(orders.deep_seconds)
        except asyncio.CancelledError:
            journal.attempt("stopped", ctx)
            raise
        journal.attempt("end", ctx)

    for number in range(orders.ticks):
        sched.job(name=f"{TICK}-{number:03}", schedule=otd.every("1s"), catch_up=EVERYTHING, overlap="allow")(note)
    for number in range(orders.gated):
        sched.job(
            name=f"{GATED}-{number:03}", schedule=otd.every("1s"), catch_up=EVERYTHING, overlap="allow",
            concurrency=otd.Limit(500, name="all"),
        )(note)  # fmt: skip
    for number in range(orders.deep):
        sched.job(name=f"{DEEP}-{number}", schedule=otd.every("1s"), catch_up=EVERYTHING, overlap="allow")(note_slowly)
    for number in range(orders.careful):
        sched.job(
            name=f"{CAREFUL}-{number}", schedule=otd.every("1s"), catch_up=EVERYTHING, overlap="allow",
            guarantee="at_most_once",
        )(note)  # fmt: skip
    sched.job(name=ERRAND)(note)
    return sched


async def submit(sched: otd.Scheduler, journal: Journal, every: float, stop: asyncio.Event) -> None:
    """Submit errands, and note each that was acknowledged."""
    while not stop.is_set():
        try:
            run = await sched.submit(ERRAND)
            journal.note("acknowledged", run=run.id, at=SystemClock().now())
        except StoreError as error:
            say("refused", error)
        try:
            await asyncio.wait_for(stop.wait(), every)
        except TimeoutError:
            continue


async def main(orders: Orders) -> None:
    stop, quietly = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    journal = Journal(Path(orders.journal), orders.name)
    sched = program(orders, journal)
    sched.subscribe(tell)
    loop.add_signal_handler(signal.SIGTERM, lambda: sched.stop_now() if stop.is_set() else stop.set())
    loop.add_signal_handler(signal.SIGUSR1, quietly.set)
    async with sched:
        say("ready")
        errands = asyncio.create_task(submit(sched, journal, orders.errands, quietly)) if orders.errands else None
        ended = {asyncio.create_task(stop.wait()), asyncio.create_task(sched.broken())}
        done, _ = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        quietly.set()
        if errands is not None:
            await errands
    say("stopped")


def as_json(orders: Orders) -> str:
    """Encode the orders that differ from the defaults, because older versions of a node do not know new ones."""
    usual = asdict(Orders(url="", journal="", name=""))
    return json.dumps({name: value for name, value in asdict(orders).items() if value != usual[name]})


if __name__ == "__main__":
    asyncio.run(main(Orders(**json.loads(sys.argv[1]))))
