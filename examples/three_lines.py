"""The shortest program: a function that runs every second, for three seconds."""

import asyncio

import onthedot as otd

sched = otd.Scheduler("memory:")
sched.job(name="hello", schedule=otd.every("1s"))(lambda: print("hello, on the dot"))


async def main() -> None:
    async with sched:
        await asyncio.sleep(3)


asyncio.run(main())
# prints: hello, on the dot
