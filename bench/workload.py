"""Runs one side of `bench.compare`: a child process that works on a store in turns, and prints the usage of each turn.

    prints ready ── reads go ── does one turn of its work ── prints the usage ── reads go ── …

It runs the `onthedot` that is first on PYTHONPATH. So it uses only names that old and new revisions share: public ones,
and the protocol in `stores.protocol`. It imports nothing from inside a driver.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

import bench.revisions  # noqa: F401 - before the names that it gives
import onthedot as otd
from bench import cpu
from bench.nodes import (
    JOB,
    Counter,
    GatedCounter,
    Start,
    check_executions,
    check_never_fenced,
    check_starts,
    fill,
    open_store,
    patiently,
    queries_of,
    submit_all,
    wall,
)
from bench.results import BenchFailed
from bench.rounds import percentile
from onthedot.clock import MILLISECOND, SECOND, Micros, to_datetime, to_micros
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, RunState, submit_trigger

if TYPE_CHECKING:  # older revisions have it elsewhere
    from onthedot.stores.protocol import Store

# A turn takes about 0.1 to 0.3 s of CPU time, because the speed of a shared machine changes every second.
DRAINED = {"sqlite": 1_000, "postgres": 800, "memory": 1_500}
GATED = {
    "overlap": {"sqlite": 300, "postgres": 200, "memory": 500},
    "limit": {"sqlite": 300, "postgres": 200, "memory": 500},
    "one key": {"sqlite": 200, "postgres": 120, "memory": 300},
    "rate": {"sqlite": 400, "postgres": 150, "memory": 600},
}
JOBS, TENANTS, MOST = 100, {"limit": 10}, 10
OPEN = otd.Rate(1_000_000, "1s", burst=1_000_000)  # never full: only the cost of the check is measured
SINGLE, BULK, BATCH = 60, 2_500, 500
# No round numbers: otherwise other timers of the machine would always disturb the same side.
STEPS: dict[str, Micros] = {"sqlite": 23 * MILLISECOND, "postgres": 47 * MILLISECOND, "memory": 19 * MILLISECOND}
WATCHED = 1.5  # seconds of lateness in a turn
FINISHED, AHEAD, HISTORY_JOBS = 5_000, 1_000, 20
PAGE = 100


@dataclass(frozen=True, slots=True)
class Task:
    """The work of this process, from the parent."""

    work: str
    url: str
    size: float
    is_new: bool  # which side this is
    server: int | None = None  # the process of the PostgreSQL server

    @property
    def store(self) -> str:
        return self.url.partition(":")[0].removesuffix("ql")

    @property
    def patient_url(self) -> str:
        """The URL with a long time-out for busy machines: by default a transaction ends after 8 s."""
        return f"{self.url}?timeout=60" if self.store == "postgres" else self.url

    def count(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.size))


@dataclass(slots=True)
class Usage:
    """The CPU and wall time in seconds for `count` items. `late` is in milliseconds and replaces the CPU time."""

    count: int
    client: float = 0.0
    server: float = 0.0
    wall: float = 0.0
    late: float | None = None

    @contextmanager
    def measure(self, task: Task) -> Iterator[None]:
        """Add the usage of the body of the `with` statement."""
        before = _clocks(task)
        yield
        client, server, wall_time = (now - then for now, then in zip(_clocks(task), before, strict=True))
        self.client += client
        self.server += server
        self.wall += wall_time


def _clocks(task: Task) -> tuple[float, float, float]:
    server = 0.0 if task.server is None else cpu.family_of(task.server)
    return time.process_time(), server, time.perf_counter()


Turns = AsyncGenerator[dict[str, Usage], None]
"""Yields the usage of each turn by the names of its rows."""

# ── drain and gates ──────────────────────────────────────────────────────────────────────────────────────────


async def drain(task: Task, store: Store) -> Turns:
    """Drain a full queue of runs without gates."""
    count, turn = task.count(DRAINED[task.store]), 0
    while True:
        turn += 1
        run_ids = await fill(store, count, seed=turn)
        yield {"drain": await _drain(task, store, run_ids, Counter(count), turn)}


async def gated(task: Task, store: Store) -> Turns:
    """Drain a full queue of runs that must pass a gate."""
    kind = task.work.removeprefix("gated ")
    count, ids, turn = task.count(GATED[kind][task.store]), SeededIds(1), 0
    job_ids = [(await store.put_job(job)).record.id for job in _gated_jobs(kind)]
    while True:
        turn += 1
        first = wall() - count - SECOND
        runs = [
            NewRun(
                job_ids[number % len(job_ids)], submit_trigger(ids.token()), first + number,
                json.dumps({"tenant": number % TENANTS.get(kind, len(job_ids))}),
            )
            for number in range(count)
        ]  # fmt: skip
        counter = GatedCounter(count)
        took = await _drain(task, store, await submit_all(store, runs), counter, turn)
        counter.check(task.work, {"overlap": 1, "rate": count}.get(kind, MOST))
        yield {task.work: took}


def _gated_jobs(kind: str) -> list[Job]:
    call = Call(handler=JOB)
    if kind == "overlap":
        return [Job(name=f"{JOB} {number}", task=call, overlap=otd.Overlap("wait")) for number in range(JOBS)]
    if kind == "rate":
        return [Job(name=f"{JOB} {kind}", task=call, rate=OPEN)]
    return [Job(name=f"{JOB} {kind}", task=call, concurrency=otd.Limit(MOST, key="tenant"))]


async def _drain(task: Task, store: Store, run_ids: Sequence[int], counter: Counter, turn: int) -> Usage:
    """Let a scheduler execute these runs, and measure from before its start until after its stop."""
    await _analyze(task)
    sched = counter.scheduler(store)
    took = Usage(len(run_ids))
    with took.measure(task):
        await sched.start()
        try:
            await patiently(counter.all_started.wait(), task.work)
        finally:
            await sched.stop()
    check_executions(task.work, run_ids, counter.run_ids)
    await _check_counts(task, store, {RunState.SUCCEEDED: turn * len(run_ids)})
    await check_never_fenced(task.work, store, nodes=turn)
    return took


async def _check_counts(task: Task, store: Store, wanted: dict[RunState, int]) -> None:
    found = await queries_of(store).count_runs()
    if found != wanted:
        raise BenchFailed(f"{task.work}: expected {wanted} in the store, found {found}")


async def _analyze(task: Task) -> None:
    """On PostgreSQL, do the work of autovacuum, which is off because it would run at random times."""
    if task.store == "postgres":
        import asyncpg

        db = await asyncpg.connect(task.url)
        await db.execute("VACUUM ANALYZE")
        await db.close()


# ── lateness and submits ─────────────────────────────────────────────────────────────────────────────────────


async def lateness(task: Task, store: Store) -> Turns:
    """Measure how late a frequent job starts on a quiet node, as a median.

    Both sides run at the same time, the new one half a step behind the old one. A turn has all starts since the last.
    """
    step = STEPS[task.store]
    starts: list[Start] = []
    sched = otd.Scheduler(store)
    schedule = otd.every(step / SECOND, anchor=to_datetime(step // 2 if task.is_new else 0))

    # Without a gate no slot is skipped on a busy machine, so that every slot must start.
    @sched.job(schedule=schedule, overlap=otd.Overlap("allow"), catch_up="all")
    async def tick(ctx: otd.Context) -> None:
        started_at = wall()
        starts.append(Start(to_micros(ctx.scheduled_at), started_at))
        started.set()

    started, counted = asyncio.Event(), 0
    async with sched:
        while True:
            took = Usage(0)
            with took.measure(task):
                await asyncio.sleep(WATCHED)
                await patiently(started.wait(), task.work)
            check_starts(task.work, starts, step)
            late = [start.started_at - start.slot_at for start in starts[counted:]]
            took.count, took.late = len(late), percentile(late, 0.5) / MILLISECOND
            counted = len(starts)
            started.clear()
            yield {"lateness": took}


async def submit(task: Task, store: Store) -> Turns:
    """Submit runs with one caller, one by one and in bulk."""
    job_id, ids = (await store.put_job(Job(name=JOB, task=Call(handler=JOB)))).record.id, SeededIds(1)
    total = 0
    while True:
        rows = {}
        for name, count, batch in (("submit single", SINGLE, 1), ("submit bulk", BULK, BATCH)):
            runs = [NewRun(job_id, submit_trigger(ids.token()), wall()) for _ in range(task.count(count))]
            rows[name] = took = Usage(len(runs))
            with took.measure(task):
                await submit_all(store, runs, batch=batch)
            total += len(runs)
        await _check_counts(task, store, {RunState.SCHEDULED: total})
        yield rows


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────────


async def history(task: Task, store: Store) -> Turns:
    """Query the history of runs. The first turn also makes that history."""
    await _make_history(task, store)
    queries = queries_of(store)
    (dead, *_), finished = await asyncio.gather(
        queries.list_runs(states=[RunState.DEAD], limit=1),
        queries.list_runs(states=[RunState.SUCCEEDED], limit=PAGE),
    )
    run_ids = [run.id for run in finished]
    runs_like, attempts_like = _filter(queries.find_runs), _filter(queries.find_attempts)
    asks: dict[str, tuple[int, Callable[[], Awaitable[Sequence[object]]]]] = {
        "history list": (8, lambda: queries.list_runs(job="job-3", limit=PAGE)),
        "history find": (10, lambda: _page(queries.find_runs, runs_like(states=frozenset({RunState.DEAD})))),
        "history attempts": (16, lambda: _page(queries.find_attempts, attempts_like())),
        "history one": (80, lambda: queries.list_attempts(dead.id)),
        "history many": (12, lambda: queries.get_runs(run_ids)),
        "history count": (12, lambda: _states(store)),
    }
    while True:
        rows = {}
        for name, (count, ask) in asks.items():
            rows[name] = took = Usage(task.count(count))
            with took.measure(task):
                answers = [await ask() for _ in range(took.count)]
            if not all(answers):
                raise BenchFailed(f"{name}: found nothing")
        yield rows


async def _make_history(task: Task, store: Store) -> None:
    """Make finished runs of twenty jobs, one of which always fails, and runs that are due tomorrow."""
    count, ids = task.count(FINISHED, 10 * HISTORY_JOBS), SeededIds(1)
    jobs = [Job(name=f"job-{number}", task=Call(handler=JOB)) for number in range(HISTORY_JOBS)]
    job_ids = [(await store.put_job(job)).record.id for job in jobs]
    first, ahead = wall() - count - SECOND, wall() + 86_400 * SECOND
    runs = [
        NewRun(
            job_ids[number % HISTORY_JOBS], submit_trigger(ids.token()),
            first + number if number < count else ahead + number,
            json.dumps({"fails": number % HISTORY_JOBS == 1}),
        )
        for number in range(count + task.count(AHEAD))
    ]  # fmt: skip
    await submit_all(store, runs)
    counter = FailingCounter(count)
    async with counter.scheduler(store):
        await patiently(counter.all_started.wait(), task.work)
    await _analyze(task)


class FailingCounter(Counter):
    """A counter whose runs fail if their arguments say so."""

    async def handle(self, ctx: otd.Context, fails: bool = False) -> None:
        await super().handle(ctx)
        if fails:
            raise BenchFailed("as its arguments say")


def _filter(method: object) -> Any:
    """Return the class of a method's filter, wherever the revision defines it."""
    return get_type_hints(method)["wanted"]


async def _page(find: Callable[..., Awaitable[Any]], wanted: object) -> Sequence[object]:
    items: Sequence[object] = (await find(wanted, limit=PAGE)).items
    return items


async def _states(store: Store) -> Sequence[object]:
    return list(await queries_of(store).count_runs())


# ── the process ──────────────────────────────────────────────────────────────────────────────────────────────

WORKS: dict[str, Callable[[Task, Store], Turns]] = {
    "drain": drain,
    **{f"gated {kind}": gated for kind in GATED},
    "lateness": lateness,
    "submit": submit,
    "history": history,
}


async def serve(task: Task) -> None:
    """Do one turn for each line of standard input."""
    store = await open_store(task.patient_url)
    turns = WORKS[task.work](task, store)
    _print({"source": otd.__file__})
    while await asyncio.to_thread(sys.stdin.readline):
        rows = await anext(turns)
        _print({name: asdict(took) for name, took in rows.items()})
    await turns.aclose()
    await store.close()


def _print(message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Task(**json.loads(sys.argv[1]))))
