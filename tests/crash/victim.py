"""A small scheduler that is killed again and again: `python -m tests.crash.victim DATABASE JOURNAL BOOT`.

Its handlers write their own journal, one line per start and end. The tests judge by this journal, not by what the
scheduler reports.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.runners.context import Context

SETTINGS = replace(
    otd.Settings(seats=16, ahead=16, plan_every=SECOND // 2, expire_every=SECOND // 4).with_leases(1 * SECOND),
    lookahead=3 * SECOND,
)
EVERYTHING = otd.CatchUp("all", limit=1000, window="1h")
ALWAYS, CAREFUL, LONG, ERRAND, STUBBORN = "always", "careful", "long", "errand", "stubborn"
FOLLOWER = "follower"


class Journal:
    """An append-only file, one write per line: a line that was written before a kill is present after it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, event: str, **fields: object) -> None:
        os.write(self._file, (json.dumps({"event": event, **fields}) + "\n").encode())

    def attempt(self, event: str, ctx: Context) -> None:
        self.note(
            event,
            job=ctx.job,
            run=ctx.run_id,
            attempt=ctx.attempt,
            fence=ctx.fence,
            slot=round(ctx.scheduled_at.timestamp() * SECOND),
            at=SystemClock().now(),
        )


def program(database: Path, journal: Journal, boot: int) -> otd.Scheduler:
    sched = otd.Scheduler(f"sqlite:///{database}", settings=SETTINGS)

    # Stored before its parents, so that no parent can end before the follower exists.
    @sched.job(name=FOLLOWER, after=otd.After(ALWAYS, CAREFUL, any=True, on="either"))
    async def follower(ctx: Context) -> None:
        journal.attempt("start", ctx)
        journal.attempt("end", ctx)

    @sched.job(name=ALWAYS, schedule=otd.every("100ms"), catch_up=EVERYTHING)
    async def always(ctx: Context) -> None:
        journal.attempt("start", ctx)
        journal.attempt("end", ctx)

    @sched.job(name=CAREFUL, schedule=otd.every("150ms"), catch_up=EVERYTHING, guarantee="at_most_once")
    async def careful(ctx: Context) -> None:
        journal.attempt("start", ctx)
        await asyncio.sleep(0.02)
        journal.attempt("end", ctx)

    @sched.job(name=LONG, schedule=otd.every("300ms"), catch_up=EVERYTHING)
    async def long(ctx: Context) -> None:
        journal.attempt("start", ctx)
        await asyncio.sleep(0.25)
        journal.attempt("end", ctx)

    # Its definition differs at every boot, so each start edits it.
    @sched.job(name=ERRAND, args={"boot": boot}, timeout="10s")
    def errand(ctx: Context, boot: int) -> dict[str, int]:
        journal.attempt("start", ctx)
        journal.attempt("end", ctx)
        return {"boot": boot}

    @sched.job(name=STUBBORN, schedule=otd.every("400ms"), catch_up=EVERYTHING, retry=otd.Retry(2, delay="50ms"))
    async def stubborn(ctx: Context) -> None:
        journal.attempt("start", ctx)
        if ctx.attempt == 1:
            raise ConnectionError("the first try always fails")
        journal.attempt("end", ctx)

    return sched


async def main(database: Path, journal: Journal, boot: int) -> None:
    stop, quiet = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, quiet.set)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    async with program(database, journal, boot) as sched:
        print("ready", flush=True)
        while not (quiet.is_set() or stop.is_set()):
            run_id = (await sched.submit(ERRAND)).id
            journal.note("acknowledged", run=run_id)
            try:
                await asyncio.wait_for(stop.wait(), 0.03)
            except TimeoutError:
                continue
        print("quiet", flush=True)
        await stop.wait()
    print("stopped", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Journal(Path(sys.argv[2])), int(sys.argv[3])))
