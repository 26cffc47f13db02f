"""A worker that renews its lease and runs a program: `python -m tests.runners.guard.worker DIR LEASE`."""

from __future__ import annotations

import asyncio
import sys

from onthedot.clock import MILLISECOND, SystemClock
from onthedot.runners.guard.client import GuardClient
from onthedot.runners.guard.protocol import Program

SLEEPS = "trap '' TERM; setsid sh -c 'echo $$ > away; exec sleep 300' & echo $$ > main; while :; do sleep 1; done"


async def work(directory: str, lease: int) -> None:
    guard = GuardClient(offers=frozenset(["none"]))
    clock = SystemClock()
    guard.renew(clock.steady() + lease * MILLISECOND)
    program = Program(
        argv=("sh", "-c", SLEEPS), env={"PATH": "/usr/bin:/bin"}, directory=directory, workspace=directory,
        log=f"{directory}/log", grace=60_000 * MILLISECOND,
    )  # fmt: skip
    run = asyncio.ensure_future(guard.run(program))
    while not run.done():
        guard.renew(clock.steady() + lease * MILLISECOND)
        if guard.pid is not None:
            with open(f"{directory}/guard", "w") as file:  # noqa: ASYNC230
                file.write(f"{guard.pid}\n")
        await asyncio.sleep(lease / 10_000)
    print((await run).error, flush=True)
    await guard.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
