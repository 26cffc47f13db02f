"""A small shop. `test_shop.py` in this folder tests it."""

import onthedot as otd

sched = otd.Scheduler("sqlite:///shop.db")
mails: list[str] = []


class MailServer:
    up = True

    def send(self, text: str) -> None:
        if not self.up:
            raise ConnectionError("the mail server is away")
        mails.append(text)


server = MailServer()


@sched.job(schedule=otd.cron("30 2 * * *", tz="Europe/Berlin"), catch_up="last")
def nightly_report(ctx: otd.Context) -> None:
    server.send(f"report of {ctx.scheduled_at:%Y-%m-%d}")


@sched.job(queue="mail", retry=otd.Retry(4, delay="1m", jitter=False, on=(ConnectionError,)))
async def send_receipt(order: int) -> dict[str, int]:
    server.send(f"receipt {order}")
    return {"order": order}


async def place_order(order: int) -> otd.Run:
    """The web application calls this for each order."""
    return await sched.submit(send_receipt.call(order), key=f"receipt:{order}")


if __name__ == "__main__":
    import asyncio

    async def main() -> None:
        async with sched:
            await sched.broken()

    asyncio.run(main())
