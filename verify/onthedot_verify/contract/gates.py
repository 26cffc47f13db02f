"""Gates: at most so many runs hold one at a time, and an open one passes to who has waited longest."""

from __future__ import annotations

from dataclasses import replace

from onthedot.model.job import JobRecord, Limit, Overlap
from onthedot.model.run import (
    ArmAnswer,
    Armed,
    Blocked,
    Busy,
    Gate,
    GateAsk,
    Gone,
    Lease,
    NewRun,
    OnBusy,
    RunState,
    Skipped,
    submit_trigger,
)  # fmt: skip
from onthedot_verify.contract.register import check
from onthedot_verify.contract.workbench import DEAD, LOST, Workbench, at, recover, retry

WAIT, WAIT_ONE, SKIP, REPLACE = OnBusy("wait"), OnBusy("wait", 1), OnBusy("skip"), OnBusy("replace")


def overlap(record: JobRecord) -> Gate:
    return Gate(f"overlap:{record.id}:", 1, until_end=True)


async def gated_job(bench: Workbench, slots: tuple[float, ...] = (), name: str = "job") -> JobRecord:
    return await bench.define(name, slots, overlap=Overlap("wait"))


async def reserved(bench: Workbench, node: str, count: int = 1, *, lapse: float = 1000) -> list[Lease]:
    """Due runs of gated jobs: reserved, and not armed yet."""
    got = await bench.reserve(node, seats=count, lapse=lapse)
    assert got.armed == []
    return got.held


async def ask(bench: Workbench, lease: Lease, gates: list[Gate], on_busy: OnBusy | None = None) -> ArmAnswer:
    wanted = {lease.lease_id: GateAsk(tuple(gates), on_busy)}
    [answer] = await bench.store.arm([replace(lease)], gates=wanted, now=bench.now)
    return answer


async def pass_gate(bench: Workbench, lease: Lease, *gates: Gate) -> Lease:
    """Arm through open gates; the lease with what the answer said."""
    answer = await ask(bench, lease, list(gates), WAIT)
    assert isinstance(answer, Armed), answer
    return replace(lease, fence=answer.fence, armed_at=answer.armed_at, attempt=answer.attempt)


@check
async def check_due_runs_with_gates_are_reserved_and_not_armed(bench: Workbench) -> None:
    """Gates are taken in `arm`, and only there."""
    await gated_job(bench)
    record = await bench.store.queries.get_job("job")
    assert record is not None
    run_id = await bench.submit(record)
    [lease] = await reserved(bench, await bench.node())
    assert (lease.run_id, lease.fence, await bench.state(run_id)) == (run_id, 0, RunState.RESERVED)


@check
async def check_a_closed_gate_without_an_answer_changes_nothing(bench: Workbench) -> None:
    """Before its instant a run is only told that the gate is held, and by whom."""
    record, node = await gated_job(bench), await bench.node()
    first, second = [await bench.submit(record), await bench.submit(record)]
    one, two = await reserved(bench, node, 2)
    one = await pass_gate(bench, one, overlap(record))
    async with bench.nothing_written():
        assert await ask(bench, two, [Gate("a", 1), overlap(record)]) == Busy(overlap(record).key, first)
    assert await bench.state(second) is RunState.RESERVED
    other = await gated_job(bench, name="other")
    await bench.submit(other)
    [three] = await reserved(bench, node)
    assert isinstance(await ask(bench, three, [Gate("a", 1)]), Armed)  # what was taken on the way was given back


@check
async def check_who_waits_is_free_when_the_gate_opens_in_the_order_of_due_instants(bench: Workbench) -> None:
    """Blocked runs are given to nobody; an open gate passes to the one that is due first, and to it alone."""
    record, node = await gated_job(bench), await bench.node()
    bench.turn(10)
    ids = [await bench.submit(record, due) for due in (0, 3, 1, 2)]
    leases = {lease.run_id: lease for lease in await reserved(bench, node, 4)}
    holder = await pass_gate(bench, leases[ids[0]], overlap(record))
    for run_id in ids[1:]:
        assert await ask(bench, leases[run_id], [overlap(record)], WAIT) == Blocked(overlap(record).key, ids[0])
    order = [ids[0]]
    for _ in range(3):
        assert await reserved(bench, node, 9) == []
        assert await bench.finish(holder)
        [lease] = await reserved(bench, node, 9)
        order.append(lease.run_id)
        holder = await pass_gate(bench, lease, overlap(record))
    assert order == [ids[0], ids[2], ids[3], ids[1]]
    assert await bench.finish(holder)
    await bench.submit(record, 10)
    [lease] = await reserved(bench, node, 9)
    await pass_gate(bench, lease, overlap(record))


@check
async def check_an_open_gate_has_passed_before_anyone_else_can_take_it(bench: Workbench) -> None:
    """From the moment it opens the next in line holds it: a newcomer finds it closed."""
    record, node = await gated_job(bench), await bench.node()
    first, second, third = [await bench.submit(record, due) for due in (0, 0, 0)]
    one, two, three = await reserved(bench, node, 3)
    one = await pass_gate(bench, one, overlap(record))
    assert isinstance(await ask(bench, two, [overlap(record)], WAIT), Blocked)
    assert await bench.finish(one)
    assert await ask(bench, three, [overlap(record)]) == Busy(overlap(record).key, second)
    assert (await bench.state(first), await bench.state(third)) == (RunState.SUCCEEDED, RunState.RESERVED)


@check
async def check_who_waits_says_for_whom_and_only_as_long_as_it_does(bench: Workbench) -> None:
    """People are shown why a run does not start; once the gate is its own, that is not true any more."""
    record, node = await gated_job(bench), await bench.node()
    first, second = await bench.submit(record), await bench.submit(record)
    one, two = await reserved(bench, node, 2)
    one = await pass_gate(bench, one, overlap(record))
    assert isinstance(await ask(bench, two, [overlap(record)], WAIT), Blocked)
    assert (await bench.run(second)).reason == f"waits for run {first}"
    assert await bench.finish(one)
    assert (await bench.run(second)).reason == ""
    [two] = await reserved(bench, node)
    await pass_gate(bench, two, overlap(record))
    assert (await bench.run(second)).reason == ""


@check
async def check_an_overlap_gate_is_held_through_back_off(bench: Workbench) -> None:
    """A run that will be tried again keeps its overlap gate, and passes it again without asking anyone."""
    record, node = await gated_job(bench), await bench.node()
    await bench.submit(record)
    await bench.submit(record)
    one, two = await reserved(bench, node, 2)
    one = await pass_gate(bench, one, overlap(record))
    assert await bench.finish(one, retry(5))
    assert await ask(bench, two, [overlap(record)]) == Busy(overlap(record).key, one.run_id)
    bench.turn(6)
    [again] = [lease for lease in await reserved(bench, node, 2) if lease.run_id == one.run_id]
    await pass_gate(bench, again, overlap(record))


@check
async def check_other_gates_are_held_only_while_running(bench: Workbench) -> None:
    """A run in back-off gives its place in a limit to others."""
    record, node = await bench.define(concurrency=Limit(1)), await bench.node()
    await bench.submit(record)
    await bench.submit(record)
    one, two = await reserved(bench, node, 2)
    gate = Gate("limit:x", 1)
    one = await pass_gate(bench, one, gate)
    assert await ask(bench, two, [gate]) == Busy("limit:x", one.run_id)
    assert await bench.finish(one, retry(50))
    await pass_gate(bench, two, gate)


@check
async def check_a_limit_lets_so_many_pass(bench: Workbench) -> None:
    """Never more holders than the capacity, and one out lets one in."""
    record, node, gate = await bench.define(concurrency=Limit(3)), await bench.node(), Gate("limit:x", 3)
    for _ in range(6):
        await bench.submit(record)
    leases = await reserved(bench, node, 6)
    running = [await pass_gate(bench, lease, gate) for lease in leases[:3]]
    for lease in leases[3:]:
        assert isinstance(await ask(bench, lease, [gate], WAIT), Blocked)
    for done in (1, 1, 1):
        assert await bench.finish(running.pop(0))
        [lease] = await reserved(bench, node, 9)
        running.append(await pass_gate(bench, lease, gate))
        assert len(running) == 3 * done


@check
async def check_a_gate_passes_over_a_run_that_allows_fewer_holders(bench: Workbench) -> None:
    """Each run has its own capacity. A later run with a larger one does not wait behind a run that has no room yet."""
    record, node = await bench.define(concurrency=Limit(3)), await bench.node()
    for _ in range(5):
        await bench.submit(record)
    leases = await reserved(bench, node, 5)
    narrow, wide = Gate("limit:x", 2), Gate("limit:x", 3)
    running = [await pass_gate(bench, lease, wide) for lease in leases[:3]]
    for lease, gate in zip(leases[3:], (narrow, wide), strict=True):
        assert isinstance(await ask(bench, lease, [gate], WAIT), Blocked)
    assert await bench.finish(running[0])
    [later] = await reserved(bench, node, 9)
    assert later.run_id == leases[4].run_id
    await pass_gate(bench, later, wide)
    assert await bench.finish(running[1])
    assert await reserved(bench, node, 9) == []
    assert await bench.finish(running[2])
    [first] = await reserved(bench, node, 9)
    assert first.run_id == leases[3].run_id
    await pass_gate(bench, first, narrow)


@check
async def check_every_way_out_of_running_opens_the_gate(bench: Workbench) -> None:
    """Dead, recovered by the reaper or lost: who waits does not wait for ever."""
    for number, verdict in enumerate((DEAD, LOST, recover(0))):
        bench.turn(number * 20)
        record = await gated_job(bench, name=f"job{number}")
        dying, living = await bench.node(f"dying{number}", ttl=10), await bench.node(f"living{number}")
        await bench.submit(record)
        [one] = await reserved(bench, dying)
        one = await pass_gate(bench, one, overlap(record))
        second = await bench.submit(record)
        [two] = await reserved(bench, living)
        assert isinstance(await ask(bench, two, [overlap(record)], WAIT), Blocked)
        bench.turn(number * 20 + 11)
        assert await bench.reap(one, verdict)
        free = [lease.run_id for lease in await reserved(bench, living, 9)]
        assert free == ([one.run_id] if verdict.state is RunState.SCHEDULED else [second])


@check
async def check_slots_are_skipped_when_too_many_wait(bench: Workbench) -> None:
    """wait(1): one slot waits, the next is skipped(overlap); submitted runs wait beside it, and are not counted."""
    record = await gated_job(bench, (10, 20, 30))
    node = await bench.node()
    bench.turn(30)
    submitted = await bench.submit(record, 30)
    first, second, third, other = await reserved(bench, node, 4)
    await pass_gate(bench, first, overlap(record))
    assert isinstance(await ask(bench, other, [overlap(record)], WAIT), Blocked)
    assert isinstance(await ask(bench, second, [overlap(record)], WAIT_ONE), Blocked)
    assert await ask(bench, third, [overlap(record)], WAIT_ONE) == Skipped(overlap(record).key, first.run_id)
    run = await bench.run(third.run_id)
    assert (run.state, run.reason, run.attempts) == (RunState.SKIPPED, "overlap", 0)
    assert await bench.state(submitted) is RunState.SCHEDULED
    assert await bench.expire() == []


@check
async def check_skip_skips_at_once_and_only_if_the_gate_is_held(bench: Workbench) -> None:
    """In one write the store takes the gate if it is free by now, or records the answer."""
    record = await gated_job(bench, (10, 20))
    node = await bench.node()
    bench.turn(20)
    first, second = await reserved(bench, node, 2)
    assert isinstance(await ask(bench, first, [overlap(record)], SKIP), Armed)
    assert isinstance(await ask(bench, second, [overlap(record)], SKIP), Skipped)


@check
async def check_replace_asks_the_runner_to_stop_and_lets_the_newest_wait(bench: Workbench) -> None:
    """The running attempt is told with the next beat; slots that waited are skipped(replaced)."""
    record = await gated_job(bench, (10, 20, 30))
    node = await bench.node()
    bench.turn(30)
    first, second, third = await reserved(bench, node, 3)
    first = await pass_gate(bench, first, overlap(record))
    assert isinstance(await ask(bench, second, [overlap(record)], REPLACE), Blocked)
    assert isinstance(await ask(bench, third, [overlap(record)], REPLACE), Blocked)
    run = await bench.run(second.run_id)
    assert (run.state, run.reason) == (RunState.SKIPPED, "replaced")
    beat = await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)
    assert beat.cancels == ((first.lease_id, "replaced"),)
    assert await bench.finish(first)
    assert (await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)).cancels == ()
    [lease] = await reserved(bench, node, 9)
    assert lease.run_id == third.run_id


@check
async def check_replace_ends_who_is_in_back_off_at_once(bench: Workbench) -> None:
    """A run that waits for its next try is cancelled(replaced), and the gate taken in the same write."""
    record = await gated_job(bench, (10, 20))
    node = await bench.node()
    bench.turn(10)
    [first] = await reserved(bench, node)
    first = await pass_gate(bench, first, overlap(record))
    assert await bench.finish(first, retry(500))
    bench.turn(20)
    [second] = await reserved(bench, node)
    assert isinstance(await ask(bench, second, [overlap(record)], REPLACE), Armed)
    run = await bench.run(first.run_id)
    assert (run.state, run.reason) == (RunState.CANCELLED, "replaced")


@check
async def check_leases_of_one_call_meet_at_a_gate_one_after_the_other(bench: Workbench) -> None:
    """What the first of a call did counts for the second: an attempt that was armed is running, and asked to stop."""
    record = await gated_job(bench, (10, 20, 30))
    node = await bench.node()
    bench.turn(30)
    first, second, third = await reserved(bench, node, 3)
    wanted = {lease.lease_id: GateAsk((overlap(record),), REPLACE) for lease in (first, second, third)}
    answers = await bench.store.arm([replace(first), replace(second), replace(third)], gates=wanted, now=bench.now)
    assert [type(answer) for answer in answers] == [Armed, Blocked, Blocked]
    states = [await bench.state(lease.run_id) for lease in (first, second, third)]
    assert states == [RunState.RUNNING, RunState.SKIPPED, RunState.SCHEDULED]
    beat = await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)
    assert beat.cancels == ((first.lease_id, "replaced"),)


@check
async def check_a_run_that_another_of_the_same_call_replaces_is_gone(bench: Workbench) -> None:
    """Reserved for its next try, it is cancelled by the slot before it in the call, and not armed any more."""
    record = await gated_job(bench, (10, 20))
    node = await bench.node()
    bench.turn(10)
    [old] = await reserved(bench, node)
    old = await pass_gate(bench, old, overlap(record))
    assert await bench.finish(old, retry(20))
    bench.turn(20)
    leases = {lease.run_id: lease for lease in await reserved(bench, node, 2)}
    again = leases.pop(old.run_id)
    [new] = leases.values()
    wanted = {lease.lease_id: GateAsk((overlap(record),), REPLACE) for lease in (new, again)}
    answers = await bench.store.arm([replace(new), replace(again)], gates=wanted, now=bench.now)
    assert [type(answer) for answer in answers] == [Armed, Gone]
    assert (await bench.state(new.run_id), await bench.state(old.run_id)) == (RunState.RUNNING, RunState.CANCELLED)


@check
async def check_gates_of_different_keys_do_not_know_each_other(bench: Workbench) -> None:
    """One tenant's limit is not another's."""
    record, node = await bench.define(concurrency=Limit(1, key="tenant")), await bench.node()
    await bench.submit(record)
    await bench.submit(record)
    one, two = await reserved(bench, node, 2)
    await pass_gate(bench, one, Gate("limit:a", 1))
    await pass_gate(bench, two, Gate("limit:b", 1))


@check
async def check_a_run_that_waits_at_a_second_gate_keeps_the_first(bench: Workbench) -> None:
    """Gates are taken in order and kept: the next in line for one is not overtaken while it waits for another."""
    record, node = await gated_job(bench), await bench.node()
    other = await bench.define("other", concurrency=Limit(1))
    limit = Gate("limit:x", 1)
    await bench.submit(other)
    [busy] = await reserved(bench, node)
    busy = await pass_gate(bench, busy, limit)
    await bench.submit(record)
    await bench.submit(record)
    one, two = await reserved(bench, node, 2)
    assert await ask(bench, one, [overlap(record), limit], WAIT) == Blocked("limit:x", busy.run_id)
    assert await ask(bench, two, [overlap(record)]) == Busy(overlap(record).key, one.run_id)
    assert await bench.finish(busy)
    [lease] = await reserved(bench, node, 9)
    assert lease.run_id == one.run_id
    await pass_gate(bench, lease, overlap(record), limit)


@check
async def check_an_armed_lease_asked_again_gives_the_same_answer(bench: Workbench) -> None:
    """An arm whose answer was lost is asked again: it holds its gates already."""
    record, node = await gated_job(bench), await bench.node()
    await bench.submit(record)
    [lease] = await reserved(bench, node)
    first = await ask(bench, lease, [overlap(record)], SKIP)
    assert await ask(bench, lease, [overlap(record)], SKIP) == first


@check
async def check_a_recount_frees_nobody_while_gates_are_in_order(bench: Workbench) -> None:
    """The safety net does nothing as long as every move keeps its promise."""
    record, node = await gated_job(bench), await bench.node()
    await bench.submit(record)
    await bench.submit(record)
    one, two = await reserved(bench, node, 2)
    one = await pass_gate(bench, one, overlap(record))
    assert isinstance(await ask(bench, two, [overlap(record)], WAIT), Blocked)
    async with bench.nothing_written():
        assert await bench.store.recount_gates(now=bench.now) == 0
    assert await bench.finish(one)
    assert await bench.store.recount_gates(now=bench.now) == 0
    [lease] = await reserved(bench, node, 9)
    assert lease.run_id == two.run_id


@check
async def check_a_later_slot_does_not_take_the_gate_before_an_earlier_one(bench: Workbench) -> None:
    """Armed ahead of its instant, a slot leaves the overlap gate to the one that is due before it, on any node."""
    record = await gated_job(bench, (1, 2))
    one, two = await bench.node("one"), await bench.node("two")
    [early] = (await bench.reserve(one, ahead=1, horizon=5, lapse=1000)).held
    [late] = (await bench.reserve(two, ahead=1, horizon=5, lapse=1000)).held
    async with bench.nothing_written():
        assert await ask(bench, late, [overlap(record)]) == Busy(overlap(record).key, early.run_id)
    assert isinstance(await ask(bench, early, [overlap(record)]), Armed)
    assert await ask(bench, late, [overlap(record)]) == Busy(overlap(record).key, early.run_id)


@check
async def check_a_paused_queue_takes_no_place_from_others(bench: Workbench) -> None:
    """Its runs leave the gates at which they wait, and the places in limits that passed to them and that they do not
    use: another queue's run has them meanwhile. Resumed, they are armed anew. Who is running keeps its place."""
    shared = Limit(1, name="shared")
    here = await bench.define("here", queue="here", concurrency=shared)
    there = await bench.define("there", queue="there", concurrency=shared)
    gate, node = Gate("limit:name:shared:", 1, until_end=False), await bench.node()

    async def held(record: JobRecord, count: int = 1) -> list[Lease]:
        for _ in range(count):
            await bench.submit(record, due=0)
        return (await bench.reserve(node, seats=count, queues=(record.job.queue,), lapse=1000)).held

    running, passed, waiting = await held(here, 3)
    running = await pass_gate(bench, running, gate)
    [other] = await held(there)
    for lease in (passed, waiting, other):
        assert isinstance(await ask(bench, lease, [gate], WAIT), Blocked)
    await bench.finish(running)  # it passes to the second, which nobody has reserved yet
    await bench.store.pause_queue("here", reason="", now=bench.now)
    [taken] = (await bench.reserve(node, seats=9, queues=("here", "there"), lapse=1000)).held
    assert taken.run_id == other.run_id
    taken = await pass_gate(bench, taken, gate)
    await bench.store.pause_queue("there", reason="", now=bench.now)
    await bench.store.resume_queue("here", now=bench.now)
    again = (await bench.reserve(node, seats=9, queues=("here", "there"), lapse=1000)).held
    assert {lease.run_id for lease in again} == {passed.run_id, waiting.run_id}
    assert isinstance(await ask(bench, again[0], [gate], WAIT), Blocked)
    await bench.finish(taken)
    [freed] = (await bench.reserve(node, seats=9, queues=("here",), lapse=1000)).held
    assert freed.run_id == again[0].run_id


@check
async def check_an_expiry_that_was_asked_for_counts_at_a_gate(bench: Workbench) -> None:
    """A slot that waits is not missed; a submitted run that was to start by an instant, or not at all, is skipped."""
    record, node = await gated_job(bench), await bench.node()
    await bench.submit(record)
    new = NewRun(record.id, submit_trigger("k"), at(0), expires_at=at(5))
    [told] = await bench.store.submit([new], now=bench.now)
    one, two = await reserved(bench, node, 2)
    await pass_gate(bench, one, overlap(record))
    assert isinstance(await ask(bench, two, [overlap(record)], WAIT), Blocked)
    bench.turn(6)
    assert await bench.expire() == [told]
    assert await bench.state(told) is RunState.SKIPPED
