"""Checks of gates: a gate is never over its capacity, and an open one passes to the run that has waited longest."""

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
from onthedot_verify.contract.registry import check
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
    """Arm through open gates. Returns the lease with fence, attempt and instant."""
    answer = await ask(bench, lease, list(gates), WAIT)
    assert isinstance(answer, Armed), answer
    return replace(lease, fence=answer.fence, armed_at=answer.armed_at, attempt=answer.attempt)


@check
async def check_reserve_arms_no_run_with_gates(bench: Workbench) -> None:
    """Only `arm` takes gates, so a due run with gates is only reserved."""
    await gated_job(bench)
    record = await bench.store.queries.get_job("job")
    assert record is not None
    run_id = await bench.submit(record)
    [lease] = await reserved(bench, await bench.node())
    assert (lease.run_id, lease.fence, await bench.state(run_id)) == (run_id, 0, RunState.RESERVED)


@check
async def check_an_early_ask_at_a_closed_gate_changes_nothing(bench: Workbench) -> None:
    """Without `on_busy` the answer is `Busy` with the gate and its holder. The run stays reserved."""
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
    assert isinstance(await ask(bench, three, [Gate("a", 1)]), Armed)  # the first gate was given back


@check
async def check_an_open_gate_passes_to_the_run_that_is_due_first(bench: Workbench) -> None:
    """Blocked runs cannot be reserved. An open gate passes to the one that is due first, and to that one only."""
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
async def check_a_newcomer_cannot_take_a_gate_that_has_passed_on(bench: Workbench) -> None:
    """When a gate opens, the next in line holds it at once. Another run finds it closed."""
    record, node = await gated_job(bench), await bench.node()
    first, second, third = [await bench.submit(record, due) for due in (0, 0, 0)]
    one, two, three = await reserved(bench, node, 3)
    one = await pass_gate(bench, one, overlap(record))
    assert isinstance(await ask(bench, two, [overlap(record)], WAIT), Blocked)
    assert await bench.finish(one)
    assert await ask(bench, three, [overlap(record)]) == Busy(overlap(record).key, second)
    assert (await bench.state(first), await bench.state(third)) == (RunState.SUCCEEDED, RunState.RESERVED)


@check
async def check_a_waiting_run_names_the_run_it_waits_for(bench: Workbench) -> None:
    """The reason is for users. It is empty once the gate has passed to the run."""
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
    """A run that will be retried keeps its overlap gate, and passes it again."""
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
async def check_a_limit_is_held_only_while_running(bench: Workbench) -> None:
    """A run in back-off frees its place in a limit."""
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
async def check_a_limit_has_no_more_holders_than_its_capacity(bench: Workbench) -> None:
    """When one holder ends, one waiting run passes."""
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
async def check_each_end_of_an_attempt_opens_the_gate(bench: Workbench) -> None:
    """Dead, lost or recovered by the reaper: the waiting run does not wait for ever."""
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
async def check_a_slot_is_skipped_when_too_many_wait(bench: Workbench) -> None:
    """wait(1): one slot waits, and the next is skipped(overlap). Submitted runs wait as well and are not counted."""
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
async def check_skip_skips_only_while_the_gate_is_held(bench: Workbench) -> None:
    """In one write the store takes the gate if it is free now, or records the skip."""
    record = await gated_job(bench, (10, 20))
    node = await bench.node()
    bench.turn(20)
    first, second = await reserved(bench, node, 2)
    assert isinstance(await ask(bench, first, [overlap(record)], SKIP), Armed)
    assert isinstance(await ask(bench, second, [overlap(record)], SKIP), Skipped)


@check
async def check_replace_stops_the_running_attempt_for_the_newest_slot(bench: Workbench) -> None:
    """The running attempt is asked to stop with the next beat. Slots that waited are skipped(replaced)."""
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
async def check_replace_cancels_a_run_in_back_off_at_once(bench: Workbench) -> None:
    """A run between two attempts is cancelled(replaced), and its gate is taken in the same write."""
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
async def check_leases_of_one_call_pass_gates_in_order(bench: Workbench) -> None:
    """The second lease sees what the first did: an attempt that was just armed is running, and is asked to stop."""
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
async def check_a_run_replaced_in_the_same_call_is_gone(bench: Workbench) -> None:
    """A run reserved for its retry is cancelled by the slot before it in the call. It is not armed."""
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
async def check_gates_with_different_keys_are_independent(bench: Workbench) -> None:
    """One tenant's limit does not affect another's."""
    record, node = await bench.define(concurrency=Limit(1, key="tenant")), await bench.node()
    await bench.submit(record)
    await bench.submit(record)
    one, two = await reserved(bench, node, 2)
    await pass_gate(bench, one, Gate("limit:a", 1))
    await pass_gate(bench, two, Gate("limit:b", 1))


@check
async def check_a_run_that_waits_at_a_limit_keeps_its_overlap_gate(bench: Workbench) -> None:
    """Gates are taken in order and kept. No other run overtakes it at the first gate while it waits at the second."""
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
async def check_a_repeated_arm_through_gates_gives_the_same_answer(bench: Workbench) -> None:
    """`arm` is repeated after a lost answer. The run holds its gates already."""
    record, node = await gated_job(bench), await bench.node()
    await bench.submit(record)
    [lease] = await reserved(bench, node)
    first = await ask(bench, lease, [overlap(record)], SKIP)
    assert await ask(bench, lease, [overlap(record)], SKIP) == first


@check
async def check_a_recount_finds_nothing_while_gates_are_right(bench: Workbench) -> None:
    """The recount is a safety net. It changes nothing if every write is right."""
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
    """A slot that is armed early leaves the overlap gate to one that is due before it, on any node."""
    record = await gated_job(bench, (1, 2))
    one, two = await bench.node("one"), await bench.node("two")
    [early] = (await bench.reserve(one, ahead=1, horizon=5, lapse=1000)).held
    [late] = (await bench.reserve(two, ahead=1, horizon=5, lapse=1000)).held
    async with bench.nothing_written():
        assert await ask(bench, late, [overlap(record)]) == Busy(overlap(record).key, early.run_id)
    assert isinstance(await ask(bench, early, [overlap(record)]), Armed)
    assert await ask(bench, late, [overlap(record)]) == Busy(overlap(record).key, early.run_id)


@check
async def check_a_paused_queue_leaves_its_gates(bench: Workbench) -> None:
    """Its waiting runs leave their gates, and unused places in limits that had passed to them. Runs of other queues
    take these. After the resume its runs ask again. A running attempt keeps its place."""
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
    await bench.finish(running)  # the gate passes to the second run, which is not reserved yet
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
async def check_a_submitted_run_may_expire_at_a_gate(bench: Workbench) -> None:
    """A slot that waits does not expire. A submitted run with `expires_at` that waits for too long is skipped."""
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
