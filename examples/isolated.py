"""Handlers that may hang or crash: each runs in a child process, which can be killed.

Run it with `python isolated.py`. The functions are at the top level of a module, so that the child can import them.
Because of the last `if`, the child does not start a scheduler of its own.
"""

import asyncio
import ctypes
import os

import onthedot as otd

sched = otd.Scheduler("sqlite:///isolated.db", settings=otd.Settings(processes=2, kill_after=200_000))


@sched.job(isolation="process")
def where() -> int:
    return os.getpid()


@sched.job(isolation="process")
def crash() -> None:
    ctypes.string_at(0)  # an invalid pointer in a C library


@sched.job(isolation="process", timeout="500ms")
def hang() -> None:
    while True:  # it ignores everything: a thread like this could not be stopped
        pass


async def main() -> None:
    async with sched:
        print("elsewhere:", await (await sched.submit(where.call())).result(timeout="30s") != os.getpid())
        for job in (crash, hang):
            try:
                await (await sched.submit(job.call())).result(timeout="30s")
            except otd.RunFailed as failed:
                print(failed)
        print("still here:", await (await sched.submit(where.call())).result(timeout="30s") != os.getpid())


if __name__ == "__main__":
    asyncio.run(main())
# prints: elsewhere: True
# prints: SIGSEGV
# prints: still here: True
