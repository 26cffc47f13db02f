"""Measures how late a job starts on a quiet node, above the lateness of bare `loop.call_at`.

Ours is one job every 40 ms (200 ms on servers, where a run of a job with an overlap gate makes ten round trips, too
many for a busy machine). Its handler compares the clock with its scheduled instant. Bare are timers at the same
intervals on an idle loop, in the other half of the round. The first half second does not count, because the node is
still starting. An early start, or a slot that starts twice or never, fails the bench.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import onthedot as otd
from bench import bare
from bench.nodes import Start, Where, check_never_fenced, check_starts, open_store, wall
from bench.results import BenchFailed, Result, above
from bench.rounds import Plan, alternate, percentile
from bench.stores import STORES, places
from onthedot.clock import MILLISECOND, SECOND, Micros, to_micros
from onthedot.model.run import RunState

STEP: Micros = 40 * MILLISECOND
STEPS: dict[str, Micros] = {"postgres": 200 * MILLISECOND, "redis": 200 * MILLISECOND}
SECONDS, LEAST_SECONDS = 5.0, 0.5
SETTLING: Micros = SECOND // 2
BUDGETS = ((0.50, "p50", 1.0, 0.5), (0.99, "p99", 5.0, 2.0))  # share, name, floor and aim in ms


def run(plan: Plan) -> list[Result]:
    """Measure on memory, SQLite, PostgreSQL and Redis."""
    return [line for store in STORES for line in _on(plan, store)]


def _on(plan: Plan, store: str) -> list[Result]:
    seconds, step = plan.seconds(SECONDS, LEAST_SECONDS), STEPS.get(store, STEP)
    with places(plan, store) as place:
        pairs = alternate(
            plan,
            lambda _: asyncio.run(_bare(seconds, step)),
            lambda number: asyncio.run(_ours(f"lateness {store}", place(str(number)), seconds, step)),
        )
    worst = max(max(late) for _, late in pairs) / MILLISECOND
    return [
        above(
            f"lateness {store} {name}",
            [(_ms(late_bare, share), _ms(late_ours, share)) for late_bare, late_ours in pairs],
            unit="ms", floor=floor, aim=aim, note=f"max {worst:.1f} ms" if share > 0.5 else "",
        )
        for share, name, floor, aim in BUDGETS
    ]  # fmt: skip


def _ms(late: Sequence[Micros], share: float) -> float:
    return percentile(late, share) / MILLISECOND


async def _bare(seconds: float, step: Micros) -> list[Micros]:
    first = (wall() + SETTLING) // step * step
    return await bare.timers([first + step * number for number in range(max(1, int(seconds * SECOND / step)))])


async def _ours(what: str, where: Where, seconds: float, step: Micros) -> list[Micros]:
    starts: list[Start] = []
    store = await open_store(where)
    sched = otd.Scheduler(store)

    @sched.job(schedule=otd.every(step / SECOND))
    async def tick(ctx: otd.Context) -> None:
        started_at = wall()
        starts.append(Start(to_micros(ctx.scheduled_at), started_at))

    began = wall()
    async with sched:
        await asyncio.sleep(SETTLING / SECOND + seconds)
    check_starts(what, starts, step)
    counted = (await store.queries.count_runs()).get(RunState.SUCCEEDED, 0)
    if counted != len(starts):
        raise BenchFailed(f"{what}: {len(starts)} starts, but {counted} succeeded runs in history")
    await check_never_fenced(what, store)
    await store.close()
    return [start.started_at - start.slot_at for start in starts if start.slot_at >= began + SETTLING]
