"""A shop on PostgreSQL: an order and its receipt are one commit, and the receipt is written exactly once.

It needs a database `shop` that you may write to: `createdb shop && python receipts.py`. Set the server and the user as
for any program of PostgreSQL (`PGPORT`, `PGUSER`, `PGPASSWORD`). No user of yours should be called `onthedot`, like the
schema of the store: its own tables would be created there.
"""

import asyncio

import asyncpg

import onthedot as otd

sched = otd.Scheduler("postgresql://localhost/shop")  # or "sqlite:///otd.db", "memory:"


@sched.job(
    schedule=otd.cron("30 2 * * *", tz="Europe/Berlin"),
    overlap="skip",
    catch_up="last",
    retry=otd.Retry(5, on=(ConnectionError,)),
    timeout="20m",
)  # or otd.every("1h30m"), otd.at(…), or otd.gap("10m"), which counts from the last end
async def nightly_report(ctx: otd.Context, region: str = "eu") -> dict[str, int]:
    for page in range(ctx.last_checkpoint or 0, 100):
        await ctx.checkpoint(page)  # another node continues here; the fence refuses an older attempt
        ctx.progress(page, of=100)
    return {"pages": 100}


@sched.job(queue="mail", guarantee="exactly_once", concurrency=otd.Limit(10, key="tenant"))
async def send_receipt(ctx: otd.Context, tenant: str, order: int) -> None:
    async with ctx.transaction() as db:  # your write, the check of the fence, and the success: one commit
        await db.execute("update public.orders set receipted = true where id = $1", order)


async def main() -> None:
    async with asyncpg.create_pool("postgresql://localhost/shop", min_size=1) as pool:
        await pool.execute(
            "create table if not exists public.orders (id serial primary key, receipted bool default false)"
        )
        async with sched:  # starts a node; at the end it lets running jobs finish
            async with pool.acquire() as db, db.transaction():
                oid = await db.fetchval("insert into public.orders default values returning id")
                run = await sched.submit(
                    send_receipt.call(tenant="t1", order=oid),
                    connection=db,
                    key=f"receipt:{oid}",
                    delay="100ms",
                    expires="1h",
                )
            await run.result(timeout="30s")
            print("receipted:", await pool.fetchval("select receipted from public.orders where id = $1", oid))
            await (await sched.trigger(nightly_report)).result(timeout="30s")
            print("reported")


if __name__ == "__main__":
    asyncio.run(main())
# prints: receipted: True
# prints: reported
