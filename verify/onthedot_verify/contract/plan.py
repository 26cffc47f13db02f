"""Checks of `due_schedules` and `plan`: which schedules are due, and which windows are accepted."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.errors import TermLost
from onthedot.model.job import JobRecord
from onthedot.model.run import RunState
from onthedot.stores.values import Term
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, every, raises, skip, window


async def empty_job(bench: Workbench, name: str = "job", *schedules: str) -> JobRecord:
    """A job whose schedules have nothing planned, each with its next slot at 10."""
    names = schedules or ("s",)
    job = bench.job(*(every(name=one) for one in names), name=name)
    return (await bench.put(job, *(window(0, 0, name=one, next_at=10) for one in names))).record


async def ledger(bench: Workbench, name: str = "s") -> list[tuple[int, int, int, str]]:
    """The ranges of skips of one schedule, oldest slots first."""
    shown = [one for one in await bench.store.queries.list_skips() if one.schedule_id == name]
    return sorted((one.first, one.last, one.count, one.reason) for one in shown)


@check
async def check_due_schedules_come_earliest_first(bench: Workbench) -> None:
    """`due_schedules` returns each schedule with its next slot at `until` or before, with its current record."""
    for name, next_at in (("b", 30), ("a", 20), ("c", 40), ("never", None)):
        await bench.put(bench.job(every(), name=name), window(0, 5, next_at=next_at))
    assert await bench.due(until=19) == []
    assert await bench.due(until=30) == ["a/s", "b/s"]
    assert await bench.due(until=10_000) == ["a/s", "b/s", "c/s"]
    found = await bench.store.due_schedules(until=at(20), limit=5)
    record = await bench.store.queries.get_job("a")
    assert record is not None
    assert found.schedules == await bench.store.queries.schedules_of(record.id)


@check
async def check_due_schedules_are_limited(bench: Workbench) -> None:
    """At most `limit` are returned, the earliest ones. `more` tells whether others were left out."""
    for number in range(3):
        await bench.put(bench.job(every(), name=f"job{number}"), window(0, 5, next_at=20 + number))
    assert await bench.due(until=60, limit=2) == ["job0/s", "job1/s"]
    assert (await bench.store.due_schedules(until=at(60), limit=2)).more
    assert not (await bench.store.due_schedules(until=at(60), limit=3)).more
    assert not (await bench.store.due_schedules(until=at(21), limit=2)).more


@check
async def check_a_window_is_planned(bench: Workbench) -> None:
    """Its slots are scheduled runs, its skips are recorded, and watermark and next slot have moved."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    bench.turn(1)
    plan = window(0, 35, [20, 30], next_at=40, skips=[skip(10, 10, 1)])
    assert await bench.plan(term, record, plan) == [True]
    run = await bench.slot_run(record, 20)
    assert (run.state, run.due_at, run.created_at, run.attempts) == (RunState.SCHEDULED, at(20), at(1), 0)
    assert await bench.slots(record) == [20, 30]
    assert await ledger(bench) == [(at(10), at(10), 1, "missed")]
    state = await bench.schedule(record)
    assert (state.origin, state.watermark, state.next_at) == (at(0), at(35), at(40))
    [shown] = await bench.store.queries.list_skips()
    assert (shown.job, shown.schedule_id, shown.recorded_at) == ("job", "s", at(1))


@check
async def check_a_window_may_be_empty(bench: Workbench) -> None:
    """It moves the watermark. Without a next slot the schedule is not due again."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    assert await bench.plan(term, record, window(0, 35)) == [True]
    assert (await bench.schedule(record)).watermark == at(35)
    assert await bench.due(until=10_000) == []


async def lost(bench: Workbench, term: Term, record: JobRecord) -> None:
    """Assert that a plan under this term raises `TermLost` and writes nothing."""
    async with bench.nothing_written():
        with raises(TermLost):
            await bench.plan(term, record, window(0, 35, [10], next_at=40, skips=[skip(20, 30, 2)]))


@check
async def check_an_ended_term_cannot_plan(bench: Workbench) -> None:
    """A term that has ended raises `TermLost`, even if no other node leads."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node(), ttl=5)
    bench.turn(6)
    await lost(bench, term, record)


@check
async def check_an_old_term_cannot_plan(bench: Workbench) -> None:
    """An old or made-up number is refused while another term is current, whatever its `until`."""
    record = await empty_job(bench)
    old = await bench.term(await bench.node("one"), ttl=5)
    bench.turn(6)
    new = await bench.term(await bench.node("two"))
    await lost(bench, old, record)
    await lost(bench, replace(old, until=at(10_000)), record)
    await lost(bench, replace(new, number=new.number + 1), record)
    assert await bench.plan(new, record, window(0, 35, [10], next_at=40)) == [True]


@check
async def check_a_resigned_term_cannot_plan(bench: Workbench) -> None:
    """After `resign` its own holder cannot use the term either."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    assert await bench.store.resign(term, now=bench.now)
    await lost(bench, term, record)


@check
async def check_a_term_ends_at_one_instant(bench: Workbench) -> None:
    """At that instant either it may plan or another node may lead: never both, never neither."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node("one"), ttl=5)
    other = await bench.node("two")
    bench.turn(5)
    try:
        planned = all(await bench.plan(term, record, window(0, 5, next_at=10)))
    except TermLost:
        planned = False
    won = await bench.store.campaign(other, ttl=SECOND, now=bench.now) is not None
    assert planned != won


@check
async def check_an_empty_plan_needs_the_term(bench: Workbench) -> None:
    """A plan without windows answers an empty list, or raises `TermLost`."""
    term = await bench.term(await bench.node(), ttl=5)
    assert await bench.store.plan(term, [], now=bench.now) == []
    bench.turn(6)
    with raises(TermLost):
        await bench.store.plan(term, [], now=bench.now)


@check
async def check_a_window_that_does_not_start_at_the_watermark_is_refused(bench: Workbench) -> None:
    """It is too late: the answer is False, and nothing of it is written."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    seen = await bench.schedule(record)
    assert await bench.plan(term, record, window(0, 30, [10, 20, 30], next_at=40))
    for start in (0, 20, 40):
        async with bench.nothing_written():
            late = window(start, 60, [25, 50], next_at=70, skips=[skip(40, 40, 1)])
            assert await bench.store.plan(term, [(seen, late)], now=bench.now) == [False]


@check
async def check_a_window_of_an_old_revision_is_refused(bench: Workbench) -> None:
    """It was computed from an old definition, although the watermark is the same."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    seen = await bench.schedule(record)
    await bench.put(replace(record.job, owner="ops"), window(0, 0, next_at=10))
    async with bench.nothing_written():
        assert await bench.store.plan(term, [(seen, window(0, 30, [10]))], now=bench.now) == [False]
    assert await bench.plan(term, record, window(0, 30, [10], next_at=40)) == [True]


@check
async def check_a_window_of_a_dropped_schedule_is_refused(bench: Workbench) -> None:
    """The schedule was dropped after the window was computed."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    seen = await bench.schedule(record)
    await bench.put(replace(record.job, schedules=()), window(0, 0))
    async with bench.nothing_written():
        assert await bench.store.plan(term, [(seen, window(0, 30, [10]))], now=bench.now) == [False]


@check
async def check_each_window_has_its_own_answer(bench: Workbench) -> None:
    """In one call some windows are refused and the others are written. The answers are in order."""
    one, two = await empty_job(bench, "one"), await empty_job(bench, "two", "s", "t")
    term = await bench.term(await bench.node())
    pairs = [
        (await bench.schedule(one), window(5, 30, [10], next_at=40)),
        (await bench.schedule(two), window(0, 30, [20], next_at=40)),
        (await bench.schedule(two), window(0, 30, [25], next_at=40)),
        (await bench.schedule(two, "t"), window(0, 30, [15], name="t", next_at=40)),
    ]
    assert await bench.store.plan(term, pairs, now=bench.now) == [False, True, False, True]
    assert await bench.slots(one) == []
    assert (await bench.slots(two), await bench.slots(two, "t")) == ([20], [15])


@check
async def check_a_planned_slot_gets_no_second_run(bench: Workbench) -> None:
    """A slot with a run in any live state is not planned again. Two schedules, and two jobs, may share an instant."""
    record = await empty_job(bench, "job", "s", "t")
    term = await bench.term(await bench.node())
    await bench.plan(term, record, window(0, 30, [10, 20], next_at=40))
    first = await bench.slot_run(record, 10)
    await bench.plan(term, record, window(30, 60, [10, 20, 40], next_at=70))
    assert await bench.slots(record) == [10, 20, 40]
    assert await bench.slot_run(record, 10) == first
    await bench.plan(term, record, window(0, 30, [10], name="t", next_at=40))
    other = await empty_job(bench, "other")
    await bench.plan(term, other, window(0, 30, [10], next_at=40))
    assert (await bench.slots(record, "t"), await bench.slots(other)) == ([10], [10])


@check
async def check_adjacent_skips_are_joined(bench: Workbench) -> None:
    """A range that begins where the last one ended, with the same reason, extends it."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    await bench.plan(term, record, window(0, 20, next_at=30, skips=[skip(10, 20, 2)]))
    bench.turn(3)
    await bench.plan(term, record, window(20, 50, [50], next_at=60, skips=[skip(30, 40, 2)]))
    assert await ledger(bench) == [(at(10), at(40), 4, "missed")]


@check
async def check_skips_with_different_reasons_stay_apart(bench: Workbench) -> None:
    """Another reason makes another range, and separates the ranges on both sides of it."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    await bench.plan(term, record, window(0, 10, next_at=20, skips=[skip(10, 10, 1)]))
    both = [skip(20, 20, 1, "paused"), skip(30, 40, 2)]
    await bench.plan(term, record, window(10, 40, next_at=50, skips=both))
    assert await ledger(bench) == [
        (at(10), at(10), 1, "missed"),
        (at(20), at(20), 1, "paused"),
        (at(30), at(40), 2, "missed"),
    ]


@check
async def check_a_run_keeps_skips_apart(bench: Workbench) -> None:
    """Ranges with a planned slot between them are not joined: no range covers a slot that runs."""
    record = await empty_job(bench)
    term = await bench.term(await bench.node())
    await bench.plan(term, record, window(0, 10, next_at=20, skips=[skip(10, 10, 1)]))
    await bench.plan(term, record, window(10, 30, [20], next_at=40, skips=[skip(30, 30, 1)]))
    assert await ledger(bench) == [(at(10), at(10), 1, "missed"), (at(30), at(30), 1, "missed")]


@check
async def check_each_schedule_has_its_own_skips(bench: Workbench) -> None:
    """Ranges are joined within one schedule only, even if two of them end at the same instant."""
    record = await empty_job(bench, "job", "s", "t")
    term = await bench.term(await bench.node())
    for start, last in ((0, 20), (20, 40)):
        for name in ("s", "t"):
            skips = [skip(start + 10, last, 2)]
            await bench.plan(term, record, window(start, last, name=name, next_at=last + 10, skips=skips))
    for name in ("s", "t"):
        assert await ledger(bench, name) == [(at(10), at(40), 4, "missed")]
