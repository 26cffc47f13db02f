"""Handlers that write effects into PostgreSQL, in a worker that is killed: `python -m tests.crash.payee URL`.

Each effect is one row of a table without a unique constraint. The test judges by this table, not by what the scheduler
reports.
"""

from __future__ import annotations

import asyncio
import sys

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.settings import Settings

CREATE = "CREATE TABLE public.effects (run_id bigint NOT NULL, attempt integer NOT NULL, amount integer NOT NULL)"
WRITE = "INSERT INTO public.effects (run_id, attempt, amount) VALUES ($1, $2, $3)"


def program(url: str, *roles: str) -> otd.Scheduler:
    settings = Settings(roles=roles, seats=4, ahead=4).with_leases(2 * SECOND)
    sched = otd.Scheduler(url, settings=settings)

    # Half of the runs have a concurrency limit, so that they are armed in a separate write.
    @sched.job(guarantee="exactly_once", max_recoveries=1000, concurrency=otd.Limit(3))
    async def pay_in_turn(ctx: otd.Context, amount: int) -> None:
        async with ctx.transaction() as db:
            await db.execute(WRITE, ctx.run_id, ctx.attempt, amount)

    @sched.job(guarantee="exactly_once", max_recoveries=1000)
    def pay(ctx: otd.Context, amount: int) -> None:
        with ctx.transaction_blocking() as db:
            db.execute(WRITE, ctx.run_id, ctx.attempt, amount)

    return sched


async def main(url: str) -> None:
    async with program(url, "worker") as sched:
        await sched.broken()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
