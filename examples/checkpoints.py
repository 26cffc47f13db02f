"""A long job that continues where it stopped: it fails at page 60, and its second attempt begins there."""

import asyncio

import onthedot as otd

sched = otd.Scheduler("sqlite:///checkpoints.db")


@sched.job(retry=otd.Retry(3, delay="100ms", on=(ConnectionError,)))
async def import_pages(ctx: otd.Context, pages: int) -> dict[str, int]:
    first = ctx.last_checkpoint or 0
    ctx.log(f"attempt {ctx.attempt} begins at page {first}")
    for page in range(first, pages):
        if page == 60 and ctx.attempt == 1:
            raise ConnectionError("the other side is away")
        await ctx.checkpoint(page + 1)
        ctx.progress(page + 1, of=pages)
    return {"pages": pages, "began_at": first}


async def main() -> None:
    async with sched:
        run = await sched.submit(import_pages.call(pages=100), key="import:2026-11-16")
        print(await run.result(timeout="30s"))
        for log in await sched.logs(run):
            print(log.text, end="")


asyncio.run(main())
# prints: {'pages': 100, 'began_at': 60}
# prints: attempt 1 begins at page 0
# prints: attempt 2 begins at page 60
