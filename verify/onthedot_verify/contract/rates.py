"""Checks of rates: starts are evenly spaced, and a run that comes too early gets a later instant (a grant)."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.job import JobRecord, Limit, Overlap, Rate
from onthedot.model.rate import RateGate
from onthedot.model.run import ArmAnswer, Armed, Blocked, Busy, Delayed, Gate, GateAsk, Gone, Lease, OnBusy, RunState
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, recover, retry

WAIT, REPLACE = OnBusy("wait"), OnBusy("replace")
TEN = RateGate("rate:ten", 10, SECOND)  # T is 0.1 s
SLOW = RateGate("rate:slow", 1, 10 * SECOND)


async def rated_job(bench: Workbench, name: str = "job", slots: tuple[float, ...] = (), **options: object) -> JobRecord:
    return await bench.define(name, slots, **{"rate": Rate(10, "1s"), **options})


async def due_leases(bench: Workbench, record: JobRecord, node: str, count: int) -> list[Lease]:
    """Reserve `count` new runs that are due now."""
    now = (bench.now - at(0)) / SECOND
    for _ in range(count):
        await bench.submit(record, now)
    return await reserved(bench, node, count)


async def reserved(bench: Workbench, node: str, count: int = 9, *, lapse: float = 1000) -> list[Lease]:
    got = await bench.reserve(node, seats=count, lapse=lapse)
    assert got.armed == []
    return got.held


async def ask(bench: Workbench, lease: Lease, rate: RateGate, *gates: Gate, on_busy: OnBusy | None = WAIT) -> ArmAnswer:
    wanted = {lease.lease_id: GateAsk(gates, on_busy, rate)}
    [answer] = await bench.store.arm([replace(lease)], gates=wanted, now=bench.now)
    return answer


async def start(bench: Workbench, lease: Lease, rate: RateGate, *gates: Gate) -> Lease:
    """Arm a run that may start. Returns the lease with fence, attempt and instant."""
    answer = await ask(bench, lease, rate, *gates)
    assert isinstance(answer, Armed), answer
    return replace(lease, fence=answer.fence, armed_at=answer.armed_at, attempt=answer.attempt)


@check
async def check_runs_of_one_instant_start_evenly_spaced(bench: Workbench) -> None:
    """The first starts now. Each of the others gets its own instant, waits for it, and starts then without a second
    delay."""
    record, node = await rated_job(bench), await bench.node()
    first, *others = await due_leases(bench, record, node, 4)
    await start(bench, first, TEN)
    assert [await ask(bench, lease, TEN) for lease in others] == [
        Delayed("rate:ten", at(0.1)),
        Delayed("rate:ten", at(0.2)),
        Delayed("rate:ten", at(0.3)),
    ]
    run = await bench.run(others[0].run_id)
    assert (run.state, run.due_at, run.slot_at, run.attempts) == (RunState.SCHEDULED, at(0.1), at(0), 0)
    assert run.reason == "waits at rate:ten, starts at 2026-01-01T00:00:00.100000+00:00"
    for number, lease in enumerate(others, 1):
        bench.turn(number / 10 - 0.000_001)
        assert (await bench.reserve(node, seats=9)).look_again_at == at(number / 10)
        bench.turn(number / 10)
        [again] = await reserved(bench, node)
        assert (again.run_id, again.due_at, again.attempt) == (lease.run_id, at(number / 10), 1)
        await start(bench, again, TEN)


@check
async def check_each_lease_of_a_call_gets_its_own_instant(bench: Workbench) -> None:
    """The instants follow the order of the batch."""
    record, node = await rated_job(bench), await bench.node()
    leases = await due_leases(bench, record, node, 3)
    wanted = {lease.lease_id: GateAsk((), WAIT, TEN) for lease in leases}
    answers = await bench.store.arm(list(map(replace, leases)), gates=wanted, now=bench.now)
    assert isinstance(answers[0], Armed)
    assert answers[1:] == [Delayed("rate:ten", at(0.1)), Delayed("rate:ten", at(0.2))]


@check
async def check_a_lease_named_twice_gets_one_instant(bench: Workbench) -> None:
    """The second answer repeats the first."""
    record, node = await rated_job(bench), await bench.node()
    first, second = await due_leases(bench, record, node, 2)
    await start(bench, first, TEN)
    wanted = {second.lease_id: GateAsk((), WAIT, TEN)}
    answers = await bench.store.arm([replace(second), replace(second)], gates=wanted, now=bench.now)
    assert answers == [Delayed("rate:ten", at(0.1)), Delayed("rate:ten", at(0.1))]


@check
async def check_a_burst_may_start_at_once(bench: Workbench) -> None:
    """`burst` runs start at once, and the others at the rate. After a pause without starts the same number may start
    again."""
    record, node = await rated_job(bench), await bench.node()
    burst = TEN._replace(burst=3)
    leases = await due_leases(bench, record, node, 5)
    answers = [await ask(bench, lease, burst) for lease in leases]
    assert [type(answer) for answer in answers] == [Armed, Armed, Armed, Delayed, Delayed]
    assert answers[3:] == [Delayed("rate:ten", at(0.1)), Delayed("rate:ten", at(0.2))]
    bench.turn(50)
    await reserved(bench, node)
    leases = await due_leases(bench, record, node, 4)
    answers = [await ask(bench, lease, burst) for lease in leases]
    assert [type(answer) for answer in answers] == [Armed, Armed, Armed, Delayed]


@check
async def check_a_fractional_rate_loses_no_time(bench: Workbench) -> None:
    """Seven in a second: instants are rounded up to the microsecond, and each seventh start is exactly a second
    later."""
    record, node, seven = await rated_job(bench), await bench.node(), RateGate("rate:seven", 7, SECOND)
    first, *others = await due_leases(bench, record, node, 22)
    await start(bench, first, seven)
    answers = [await ask(bench, lease, seven) for lease in others]
    assert answers[0] == Delayed("rate:seven", at(0) + 142_858)
    assert [answers[place] for place in (6, 13, 20)] == [Delayed("rate:seven", at(second)) for second in (1, 2, 3)]


@check
async def check_rates_with_different_keys_are_independent(bench: Workbench) -> None:
    """One tenant's rate does not affect another's. Jobs with the same rate share it."""
    one, two, node = await rated_job(bench, "one"), await rated_job(bench, "two"), await bench.node()
    first, second = await due_leases(bench, one, node, 2)
    [third] = await due_leases(bench, two, node, 1)
    await start(bench, first, TEN)
    await start(bench, second, TEN._replace(key="rate:other"))
    assert await ask(bench, third, TEN) == Delayed("rate:ten", at(0.1))


@check
async def check_an_early_ask_takes_no_instant(bench: Workbench) -> None:
    """`Busy` takes neither an instant nor a gate. When the run is due and asks again, it gets its instant."""
    record, node, limit = await rated_job(bench), await bench.node(), Gate("limit:x", 1)
    for due in (4.95, 5, 5):
        await bench.submit(record, due)
    first, second, third = await bench.hold(node, 3, lapse=100)
    bench.turn(4.95)
    await start(bench, first, TEN)
    for _ in range(3):
        async with bench.nothing_written():
            assert await ask(bench, second, TEN, limit, on_busy=None) == Busy("rate:ten", 0)
    bench.turn(5)
    assert await ask(bench, third, TEN, limit) == Delayed("rate:ten", at(5.05))
    assert await ask(bench, second, TEN, limit) == Delayed("rate:ten", at(5.15))


@check
async def check_a_run_armed_ahead_counts_from_its_due_instant(bench: Workbench) -> None:
    """User code starts at the due instant, so an early arm does not bring the next start closer."""
    record, node = await rated_job(bench), await bench.node()
    for due in (5, 5.04, 5.1):
        await bench.submit(record, due)
    first, second, third = await bench.hold(node, 3, lapse=100)
    bench.turn(4.5)
    await start(bench, first, TEN)
    assert await ask(bench, second, TEN, on_busy=None) == Busy("rate:ten", 0)
    answer = await ask(bench, third, TEN, on_busy=None)  # 0.1 s after the first: it may start at its instant
    assert isinstance(answer, Armed)


@check
async def check_a_repeated_ask_takes_no_second_instant(bench: Workbench) -> None:
    """Armed or delayed, the answer is repeated."""
    record, node = await rated_job(bench), await bench.node()
    first, second, third = await due_leases(bench, record, node, 3)
    armed, delayed = await ask(bench, first, TEN), await ask(bench, second, TEN)
    async with bench.nothing_written():
        for _ in range(3):
            assert await ask(bench, first, TEN) == armed
            assert await ask(bench, second, TEN) == delayed == Delayed("rate:ten", at(0.1))
    assert await ask(bench, third, TEN) == Delayed("rate:ten", at(0.2))
    bench.turn(0.1)
    [again] = await reserved(bench, node)
    assert isinstance(await ask(bench, second, TEN), Gone)  # another lease has the run now
    await start(bench, again, TEN)


@check
async def check_a_grant_lasts_for_one_interval(bench: Workbench) -> None:
    """Within T, or a second if T is shorter, the run starts at once. The instants of other runs do not change."""
    for key, rate, moment in (("a", TEN, 1), ("b", SLOW, 10)):
        gate, begin = rate._replace(key=key), 100 if key == "b" else 0
        bench.turn(begin)
        record, node = await rated_job(bench, f"job {key}"), await bench.node(key)
        first, second = await due_leases(bench, record, node, 2)
        await start(bench, first, gate)
        answer = await ask(bench, second, gate)
        assert isinstance(answer, Delayed)
        bench.now = answer.until + moment * SECOND
        [again] = await reserved(bench, node)
        await start(bench, again, gate)


@check
async def check_expired_grants_do_not_start_together(bench: Workbench) -> None:
    """After an outage the grants are void. One run starts, and the others get new instants, evenly spaced."""
    record, node = await rated_job(bench), await bench.node()
    first, *others = await due_leases(bench, record, node, 5)
    await start(bench, first, TEN)
    for lease in others:
        await ask(bench, lease, TEN)
    bench.turn(60)
    leases = await reserved(bench, node)
    assert [lease.run_id for lease in leases] == [lease.run_id for lease in others]
    await start(bench, leases[0], TEN)
    assert [await ask(bench, lease, TEN) for lease in leases[1:]] == [
        Delayed("rate:ten", at(60.1)),
        Delayed("rate:ten", at(60.2)),
        Delayed("rate:ten", at(60.3)),
    ]


@check
async def check_a_delayed_run_frees_its_limit(bench: Workbench) -> None:
    """The limit passes on in the same write. The run keeps its overlap gate."""
    record, node = await rated_job(bench), await bench.node()
    other = await bench.define("other", concurrency=Limit(1))
    limit, overlap = Gate("limit:x", 1), Gate("overlap:x", 1, until_end=True)
    first, second, third = await due_leases(bench, record, node, 3)
    await start(bench, first, TEN)
    await bench.submit(other)
    [waiting] = await reserved(bench, node)
    busy = await start(bench, third, TEN._replace(key="rate:other"), limit)
    assert isinstance(await ask(bench, second, TEN, overlap, limit), Blocked)
    assert isinstance(await ask(bench, waiting, TEN._replace(key="rate:none"), limit), Blocked)
    assert await bench.finish(busy)  # the limit passes to the second run, whose rate delays it
    [again] = await reserved(bench, node)
    assert again.run_id == second.run_id
    assert await ask(bench, again, TEN, overlap, limit) == Delayed("rate:ten", at(0.1))
    [heir] = await reserved(bench, node)
    assert heir.run_id == waiting.run_id
    held = [await ask(bench, heir, TEN._replace(key="rate:none"), gate, on_busy=None) for gate in (overlap, limit)]
    assert held[0] == Busy("overlap:x", second.run_id)
    assert isinstance(held[1], Armed)


@check
async def check_each_attempt_asks_its_rate(bench: Workbench) -> None:
    """A retry and a recovery ask like any other run, even directly after an attempt that had a grant."""
    record, dying = await rated_job(bench), await bench.node("dying", ttl=12)
    first, second = await due_leases(bench, record, dying, 2)
    first = await start(bench, first, SLOW)
    assert await ask(bench, second, SLOW) == Delayed("rate:slow", at(10))
    assert await bench.finish(first, retry(1))
    bench.turn(1)
    [again] = await reserved(bench, dying)
    assert (again.run_id, again.attempt) == (first.run_id, 2)
    assert await ask(bench, again, SLOW) == Delayed("rate:slow", at(20))
    bench.turn(10)
    [second] = await reserved(bench, dying)
    second = await start(bench, second, SLOW)
    bench.turn(13)
    assert await bench.reap(second, recover(13))
    living = await bench.node("living")
    [recovered] = await reserved(bench, living)
    assert await ask(bench, recovered, SLOW) == Delayed("rate:slow", at(30))
    bench.turn(20)
    [again] = await reserved(bench, living)
    again = await start(bench, again, SLOW)
    assert await bench.finish(again, retry(21))
    bench.turn(21)
    [third] = await reserved(bench, living)
    assert (third.run_id, third.attempt) == (first.run_id, 3)
    assert await ask(bench, third, SLOW) == Delayed("rate:slow", at(40))


@check
async def check_a_grant_moves_to_another_node(bench: Workbench) -> None:
    """If a reservation lapses with its node, the run keeps its instant."""
    record, dying, living = await rated_job(bench), await bench.node("dying", ttl=3), await bench.node("living")
    first, second, third = await due_leases(bench, record, dying, 3)
    await start(bench, first, TEN)
    await ask(bench, second, TEN)
    bench.turn(0.1)
    [held] = await reserved(bench, dying, lapse=0.5)
    bench.turn(0.6)
    [taken] = await reserved(bench, living)
    assert (taken.run_id, taken.due_at) == (second.run_id, at(0.1))
    await start(bench, taken, TEN)
    assert isinstance(await ask(bench, held, TEN), Gone)
    assert isinstance(await ask(bench, third, TEN), Armed)  # for the rate, the last start was at 0.1


@check
async def check_a_grant_survives_a_short_pause(bench: Workbench) -> None:
    """A held run starts at its instant if it is resumed by then. Long after it, the run asks again. A slot is
    skipped."""
    record, node = await rated_job(bench), await bench.node()
    first, second = await due_leases(bench, record, node, 2)
    await start(bench, first, SLOW)
    assert await ask(bench, second, SLOW) == Delayed("rate:slow", at(10))
    for paused, resumed in ((1, 5), (6, 60)):
        bench.turn(paused)
        assert (await bench.store.pause_job(record.id, reason="", now=bench.now)).held == 1
        assert isinstance(await ask(bench, second, SLOW), Gone)
        bench.turn(resumed)
        assert (await bench.store.resume_job(record.id, now=bench.now)).released == 1
        assert (await bench.run(second.run_id)).due_at == at(10)
    other = await rated_job(bench, "other")
    [third] = await due_leases(bench, other, node, 1)
    await start(bench, third, SLOW)
    [late] = await reserved(bench, node)
    assert await ask(bench, late, SLOW) == Delayed("rate:slow", at(70))
    slotted = await rated_job(bench, "slotted", (20,))
    [slot] = await reserved(bench, node)
    assert await ask(bench, slot, SLOW) == Delayed("rate:slow", at(80))
    assert (await bench.store.pause_job(slotted.id, reason="", now=bench.now)).skipped == 1


@check
async def check_a_slot_with_a_grant_does_not_expire(bench: Workbench) -> None:
    """It asked in time, so it does not expire while it waits for its instant."""
    record, node = await rated_job(bench, slots=(10,), late=5), await bench.node()
    bench.turn(10)
    await bench.submit(record, 10)
    leases = {lease.trigger: lease for lease in await reserved(bench, node)}
    slot = leases.pop("schedule:s")
    [first] = leases.values()
    await start(bench, first, SLOW)
    assert await ask(bench, slot, SLOW) == Delayed("rate:slow", at(20))
    bench.turn(20)
    assert await bench.expire() == []
    [again] = await reserved(bench, node)
    await start(bench, again, SLOW)


@check
async def check_a_cancelled_run_loses_its_instant(bench: Workbench) -> None:
    """No other run moves up: their instants are fixed."""
    record, node = await rated_job(bench), await bench.node()
    first, second, third, fourth = await due_leases(bench, record, node, 4)
    await start(bench, first, TEN)
    await ask(bench, second, TEN)
    await ask(bench, third, TEN)
    await bench.store.cancel([second.run_id], why="no", now=bench.now)
    assert (await bench.run(third.run_id)).due_at == at(0.2)
    assert await ask(bench, fourth, TEN) == Delayed("rate:ten", at(0.3))


@check
async def check_a_replacing_run_takes_over_the_grant(bench: Workbench) -> None:
    """Slots that are faster than the rate replace each other. The newest starts when the first would have."""
    record, node = await rated_job(bench, slots=(10, 20, 30, 40), overlap=Overlap("replace")), await bench.node()
    gate, rate = Gate(f"overlap:{record.id}:", 1, until_end=True), RateGate("rate:x", 1, 25 * SECOND)

    async def next_slot(second: float) -> ArmAnswer:
        bench.turn(second)
        [lease] = await reserved(bench, node)
        answer = await ask(bench, lease, rate, gate, on_busy=REPLACE)
        if isinstance(answer, Armed):
            assert await bench.finish(replace(lease, fence=answer.fence, armed_at=answer.armed_at))
        return answer

    assert isinstance(await next_slot(10), Armed)
    assert await next_slot(20) == Delayed("rate:x", at(35))
    assert await next_slot(30) == Delayed("rate:x", at(35))
    assert isinstance(await next_slot(35), Armed)
    assert await next_slot(40) == Delayed("rate:x", at(60))
    runs = {run.slot_at: run for run in await bench.runs()}
    assert (runs[at(20)].state, runs[at(20)].reason) == (RunState.CANCELLED, "replaced")
    assert runs[at(30)].state is RunState.SUCCEEDED


@check
async def check_an_edited_rate_counts_from_the_next_ask(bench: Workbench) -> None:
    """Instants already granted stay. The next one has the new distance. A grant of another key does not count."""
    record, node = await rated_job(bench), await bench.node()
    first, second, third, fourth = await due_leases(bench, record, node, 4)
    await start(bench, first, TEN)
    await ask(bench, second, TEN)
    slower = TEN._replace(most=3)
    assert await ask(bench, third, slower) == Delayed("rate:ten", at(0.2))
    assert await ask(bench, fourth, slower) == Delayed("rate:ten", at(0.2) + 333_334)
    bench.turn(0.2)
    second, third = await reserved(bench, node)
    await start(bench, second, slower)
    other = RateGate("rate:other", 1, SECOND)
    [busy] = await due_leases(bench, record, node, 1)
    await start(bench, busy, other)
    assert await ask(bench, third, other) == Delayed("rate:other", at(1.2))


@check
async def check_a_clock_set_back_causes_no_burst(bench: Workbench) -> None:
    """The instants already granted pass again before another run starts."""
    record, node = await rated_job(bench), await bench.node()
    bench.turn(100)
    first, second = await due_leases(bench, record, node, 2)
    await start(bench, first, SLOW)
    assert await ask(bench, second, SLOW) == Delayed("rate:slow", at(110))
    bench.turn(50)
    await bench.store.recount_gates(now=bench.now)
    third, fourth = await due_leases(bench, record, node, 2)
    assert [await ask(bench, lease, SLOW) for lease in (third, fourth)] == [
        Delayed("rate:slow", at(120)),
        Delayed("rate:slow", at(130)),
    ]
    assert await reserved(bench, node) == []


@check
async def check_a_recount_keeps_busy_rates(bench: Workbench) -> None:
    """The recount removes a rate only if it is as good as new."""
    record, node = await rated_job(bench), await bench.node()
    [first] = await due_leases(bench, record, node, 1)
    await start(bench, first, SLOW)
    for now in (5, 9.9):
        bench.turn(now)
        await bench.store.recount_gates(now=bench.now)
    [second] = await due_leases(bench, record, node, 1)
    assert await ask(bench, second, SLOW) == Delayed("rate:slow", at(10))
    bench.turn(20)
    await bench.store.recount_gates(now=bench.now)
    [again] = await reserved(bench, node)
    await start(bench, again, SLOW)  # its grant is ten seconds old: the limit
    third, fourth = await due_leases(bench, record, node, 2)
    await start(bench, third, SLOW)
    assert await ask(bench, fourth, SLOW) == Delayed("rate:slow", at(30))


@check
async def check_instants_of_a_slow_rate_stay_in_range(bench: Workbench) -> None:
    """Once in a century, with a hundred runs: instants stay within what a store can keep."""
    record, node, rare = await rated_job(bench), await bench.node(), RateGate("rate:rare", 1, 36_525 * 86_400 * SECOND)
    first, *others = await due_leases(bench, record, node, 100)
    await start(bench, first, rare)
    answers = [await ask(bench, lease, rare) for lease in others]
    assert all(isinstance(answer, Delayed) for answer in answers)
    assert answers[0] == Delayed("rate:rare", at(36_525 * 86_400))
