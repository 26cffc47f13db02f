"""Checks of `prune_runs`: which ended runs are removed, in limited steps, and that they stay counted."""

from __future__ import annotations

from collections import Counter

from onthedot.model.job import JobRecord
from onthedot.model.retention import Cut, DailyCount, Mark, Pruned, day_of
from onthedot.model.run import TERMINAL, NewRun, RunState, submit_trigger
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import START, VERDICTS, Workbench, at, every, retry, window

TODAY = day_of(START)
WEEK = 7 * 86_400


def cut(seconds: float, states: frozenset[RunState] = TERMINAL, *, job: JobRecord | None = None) -> Cut:
    """The cut for all runs that ended up to an instant."""
    return Cut(states, Mark(at(seconds), 2**62), None if job is None else job.id)


async def prune(bench: Workbench, what: Cut, **options: object) -> Pruned:
    return await bench.store.prune_runs(what, now=bench.now, **options)  # type: ignore[arg-type]


async def end(bench: Workbench, record: JobRecord, *states: RunState, key: str = "") -> list[int]:
    """Submit runs that end at once, in these states."""
    node = await bench.node()
    ids = [await bench.submit(record, key=key) for _ in states]
    leases = {lease.run_id: lease for lease in await bench.take(node, seats=len(ids))}
    for run_id, state in zip(ids, states, strict=True):
        assert await bench.finish(leases[run_id], VERDICTS[state])
    return ids


async def remaining(bench: Workbench) -> set[int]:
    return {run.id for run in await bench.runs()}


async def counted(bench: Workbench) -> Counter[RunState]:
    """How many runs were pruned, by state."""
    found: Counter[RunState] = Counter()
    for one in await bench.store.queries.list_daily_counts(limit=100_000):
        found[one.state] += one.count
    return found


@check
async def check_old_runs_are_pruned_and_counted(bench: Workbench) -> None:
    """Runs in the named states up to the cut are removed with their attempts. They are counted by job, day of their
    end, and state."""
    one, two = await bench.define("one"), await bench.define("two")
    [success, dead] = await end(bench, one, RunState.SUCCEEDED, RunState.DEAD)
    await end(bench, two, RunState.SUCCEEDED)
    bench.turn(86_400)
    [next_day] = await end(bench, one, RunState.SUCCEEDED)
    bench.turn(86_401)
    [kept] = await end(bench, one, RunState.SUCCEEDED)
    bench.turn(WEEK)
    pruned = await prune(bench, cut(86_400, frozenset({RunState.SUCCEEDED})))
    assert pruned == Pruned(3, Mark(at(86_400), next_day), more=False)
    assert await remaining(bench) == {dead, kept}
    assert await bench.store.queries.list_attempts(success) == []
    assert await bench.store.queries.get_run(success) is None
    assert len(await bench.store.queries.list_attempts(dead)) == 1
    assert await bench.store.queries.list_daily_counts() == [
        DailyCount("one", TODAY + 1, RunState.SUCCEEDED, 1),
        DailyCount("one", TODAY, RunState.SUCCEEDED, 1),
        DailyCount("two", TODAY, RunState.SUCCEEDED, 1),
    ]


@check
async def check_kept_and_pruned_runs_add_up(bench: Workbench) -> None:
    """In each state, the kept and the counted runs are all that ever ended."""
    record = await bench.define()
    for day in range(4):
        bench.turn(day * 86_400)
        await end(bench, record, *VERDICTS, RunState.SUCCEEDED)
    everything = Counter(run.state for run in await bench.runs())
    for day in range(3):
        await prune(bench, cut(day * 86_400), limit=3)
        await prune(bench, cut(day * 86_400))
        kept = Counter(run.state for run in await bench.runs())
        assert kept + await counted(bench) == everything
    assert everything[RunState.SUCCEEDED] == 8
    assert (await counted(bench))[RunState.SUCCEEDED] == 6
    assert [one.day for one in await bench.store.queries.list_daily_counts(limit=1)] == [TODAY + 2]


@check
async def check_a_repeated_prune_changes_nothing(bench: Workbench) -> None:
    """It is repeated after a lost answer. Nothing is removed or counted twice."""
    await end(bench, await bench.define(), RunState.SUCCEEDED, RunState.LOST)
    assert (await prune(bench, cut(0))).runs == 2
    async with bench.nothing_written():
        assert await prune(bench, cut(0)) == Pruned(0, None, more=False)


@check
async def check_live_runs_are_never_pruned(bench: Workbench) -> None:
    """Scheduled, reserved, running or between two attempts: they stay, with the attempts that they have had."""
    record = await bench.define()
    node = await bench.node()
    await bench.submit(record)
    [tried] = await bench.take(node)
    await bench.finish(tried, retry(5))
    await bench.submit(record)
    await bench.take(node)
    await bench.submit(record, due=2)
    await bench.hold(node)
    await bench.submit(record, due=3)
    bench.turn(WEEK)
    async with bench.nothing_written():
        assert await prune(bench, cut(WEEK)) == Pruned(0, None, more=False)
    assert len(await bench.store.queries.list_attempts(tried.run_id)) == 1


@check
async def check_one_call_looks_at_a_limited_number_of_runs(bench: Workbench) -> None:
    """A call looks at no more than `limit` runs, oldest end first. The next one continues after them, also among runs
    that ended at one instant."""
    record = await bench.define()
    ids = await end(bench, record, *[RunState.DEAD, RunState.SUCCEEDED] * 3)
    ordinary = cut(0, frozenset({RunState.SUCCEEDED}))
    first = await prune(bench, ordinary, limit=4)
    assert first == Pruned(2, Mark(START, ids[3]), more=True)
    second = await prune(bench, ordinary, after=first.passed, limit=4)
    assert second == Pruned(1, Mark(START, ids[5]), more=False)
    assert await remaining(bench) == {ids[0], ids[2], ids[4]}
    bench.turn(1)
    await end(bench, record, RunState.SUCCEEDED)
    third = await prune(bench, cut(5, ordinary.states), after=second.passed, limit=4)
    assert (third.runs, third.more) == (1, False)
    assert (await prune(bench, cut(5), after=third.passed)) == Pruned(0, third.passed, more=False)


@check
async def check_a_cut_stops_at_its_mark(bench: Workbench) -> None:
    """The mark may be between runs that ended at one instant."""
    ids = await end(bench, await bench.define(), *[RunState.SUCCEEDED] * 4)
    assert (await prune(bench, Cut(TERMINAL, Mark(START, ids[1])))).runs == 2
    assert (await prune(bench, Cut(TERMINAL, Mark(START, ids[2])), after=Mark(START, ids[1]))).runs == 1
    assert (await prune(bench, Cut(TERMINAL, Mark(START - 1, 9)), after=Mark(START, ids[2]))).runs == 0
    assert await remaining(bench) == {ids[3]}


# ── slots ────────────────────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_slots_run_is_pruned_up_to_the_watermark(bench: Workbench) -> None:
    """A slot above its schedule's watermark stays, because its run keeps it from running twice."""
    record = await bench.define(slots=[10], late=5)
    bench.turn(20)
    [missed] = await bench.expire()
    bench.turn(5)  # the clock is set back before an edit
    edited = await bench.put(bench.job(every(5)), window(5, 8, next_at=10))
    assert (await bench.schedule(edited.record)).watermark == at(8)
    bench.turn(WEEK)
    async with bench.nothing_written():
        assert (await prune(bench, cut(100))).runs == 0
    term = await bench.term(await bench.node())
    assert await bench.plan(term, record, window(8, 60, next_at=70)) == [True]
    assert (await prune(bench, cut(100))).runs == 1
    assert missed not in await remaining(bench)


@check
async def check_a_future_slots_run_is_kept(bench: Workbench) -> None:
    """Its run was armed long before its instant and has ended. The slot is still to come."""
    await bench.define(slots=[50])
    node = await bench.node()
    [lease] = await bench.hold(node)
    await bench.finish(await bench.armed(lease))
    bench.turn(49)
    assert (await prune(bench, cut(40))).runs == 0
    bench.turn(50)
    assert (await prune(bench, cut(40))).runs == 1


@check
async def check_a_slots_run_of_a_dropped_schedule_is_pruned(bench: Workbench) -> None:
    """It will not be planned again."""
    await bench.define(slots=[10])
    bench.turn(10)
    [lease] = await bench.take(await bench.node())
    await bench.finish(lease)
    await bench.put(bench.job(), window(60, 60))
    assert (await prune(bench, cut(10))).runs == 1


@check
async def check_an_edit_does_not_plan_a_pruned_slot_again(bench: Workbench) -> None:
    """This holds even after the clock was set back: W stays at the newest slot ever armed."""
    record = await bench.define(slots=[10, 20, 30], late=5)
    node = await bench.node(ttl=10 * WEEK)
    for slot in (10, 20):
        bench.turn(slot)
        [lease] = await bench.take(node)
        await bench.finish(lease)
    bench.turn(WEEK)
    assert (await prune(bench, cut(100))).runs == 2
    bench.turn(5)
    edited = await bench.put(bench.job(every(5)), window(5, 60, [10, 15, 20, 25, 30], next_at=65))
    assert edited.planned == 2
    assert await bench.slots(record) == [25, 30]


# ── keys and leases ──────────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_trigger_is_kept_as_long_as_its_run(bench: Workbench) -> None:
    """A submit of the same trigger gives the same run. After pruning it gives a new run, with an id never used
    before."""
    record = await bench.define()
    [first] = await end(bench, record, RunState.SUCCEEDED, key="token")
    assert await bench.submit(record, key="token") == first
    assert (await prune(bench, cut(0))).runs == 1
    second = await bench.submit(record, key="token")
    assert second > first
    assert await bench.state(second) is RunState.SCHEDULED
    assert (await prune(bench, cut(0))).runs == 0


@check
async def check_a_submit_key_is_kept_as_long_as_its_run(bench: Workbench) -> None:
    """The same holds for a key that the caller has chosen. Keys of other runs, live or ended, stay."""
    record = await bench.define()

    async def submit(key: str, due: float, args: str = "{}") -> int:
        new = NewRun(record.id, submit_trigger(bench.ids.token()), at(due), args, key)
        [run_id] = await bench.store.submit([new], now=bench.now)
        return run_id

    first, live = await submit("order-7", 0), await submit("order-8", 100)
    [lease] = await bench.take(await bench.node())
    await bench.finish(lease)
    assert await submit("order-7", 5) == first
    assert (await prune(bench, cut(0))).runs == 1
    assert await submit("order-7", 5, '{"again": true}') > live
    assert await submit("order-8", 5) == live


@check
async def check_a_finish_after_pruning_is_refused(bench: Workbench) -> None:
    """The attempt is not known any more, and nothing is written."""
    await bench.submit(await bench.define())
    [lease] = await bench.take(await bench.node())
    assert await bench.finish(lease)
    await prune(bench, cut(0))
    async with bench.nothing_written():
        assert not await bench.finish(lease)
