"""A service whose jobs fail: we retry them with growing waits, then keep them as dead letters and call a hook.

Run it with `python dead_letters.py`. A dead run is kept with its error and all its attempts: for 90 days, unless you
choose another time.
"""

import asyncio

import onthedot as otd

sched = otd.Scheduler("sqlite:///dead_letters.db")


class Refused(Exception):
    """The receiver refuses, and would refuse again: do not retry."""


@sched.job(retry=otd.Retry(3, delay="50ms", backoff="exponential", on=(ConnectionError,)))
async def deliver(ctx: otd.Context, to: str) -> str:
    if to == "closed":
        raise Refused("we have moved")
    if to == "away" or ctx.attempt < 3:
        raise ConnectionError("nobody answers")
    return f"{to} has it, at try {ctx.attempt}"


@sched.hooks.on_dead
async def tell(ended: otd.Ended) -> None:  # called after the verdict is stored; send a message here
    print(f"dead: run {ended.run_id} of {ended.job}: {ended.error}")


async def main() -> None:
    async with sched:
        runs = [await sched.submit(deliver.call(to=to), key=f"deliver:{to}") for to in ("here", "away", "closed")]
        for run in runs:
            try:
                print(await run.result(timeout="30s"))
            except otd.RunFailed as failed:
                print(failed)
        dead = await sched.list_runs("deliver", states=[otd.RunState.DEAD])
        print({run.id: len(await sched.history(run.id)) for run in sorted(dead, key=lambda run: run.id)})
        for group in await sched.dead_letters("deliver"):  # grouped by error, the newest first
            print(group.count, group.error, group.example.args)
        # when the cause is mended, call it without dry_run
        print(await sched.replay_many("deliver", rate=otd.Rate(10, "1s"), dry_run=True))


asyncio.run(main())
# prints: here has it, at try 3
# prints: dead: run 2 of deliver: ConnectionError: nobody answers
# prints: dead: run 3 of deliver: Refused: we have moved
# prints: {2: 3, 3: 1}
# prints: 1 ConnectionError: nobody answers {"to":"away"}
# prints: 1 Refused: we have moved {"to":"closed"}
# prints: 2 dead letters: 2 new runs would be made
