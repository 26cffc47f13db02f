"""Checks of places in concurrency limits: a waiting run holds none, and an unused one goes to a run that can start."""

from __future__ import annotations

from dataclasses import replace

from onthedot.model.job import Call, JobRecord, Limit, Overlap
from onthedot.model.run import ArmAnswer, Armed, Blocked, Busy, Gate, GateAsk, Lease, RunState, Skipped
from onthedot.stores.values import Placement
from onthedot_verify.contract.gates import SKIP, WAIT, ask, gated_job, overlap, pass_gate, reserved
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import TASK, Workbench, retry


async def ask_all(bench: Workbench, *asks: tuple[Lease, list[Gate]]) -> list[ArmAnswer]:
    """Arm all of these in one call. Each run waits at a closed gate."""
    wanted = {lease.lease_id: GateAsk(tuple(gates), WAIT) for lease, gates in asks}
    return await bench.store.arm([replace(lease) for lease, _ in asks], gates=wanted, now=bench.now)


async def kinds(bench: Workbench, *asks: tuple[Lease, list[Gate]], one_by_one: bool = False) -> list[type[ArmAnswer]]:
    """The kinds of the answers, from one call or from one call each."""
    if one_by_one:
        return [type(await ask(bench, lease, gates, WAIT)) for lease, gates in asks]
    return [type(answer) for answer in await ask_all(bench, *asks)]


@check
async def check_a_waiting_run_holds_no_place_in_another_limit(bench: Workbench) -> None:
    """There is `max_running` and a limit for each tenant. One run starts, the next of its tenant waits, and another
    tenant's run can start."""
    for number, one_by_one in enumerate((False, True)):
        at_most = Overlap("allow", max_running=2)
        record = await bench.define(f"job{number}", overlap=at_most, concurrency=Limit(1, key="t"))
        node, running = await bench.node(), Gate(f"running:{record.id}:", 2)
        big, small = Gate(f"limit:{record.id}:1", 1), Gate(f"limit:{record.id}:2", 1)
        for _ in range(3):
            await bench.submit(record)
        one, two, three = await reserved(bench, node, 3)
        asks = (one, [running, big]), (two, [running, big]), (three, [running, small])
        assert await kinds(bench, *asks, one_by_one=one_by_one) == [Armed, Blocked, Armed]


@check
async def check_a_run_gives_its_place_back_at_a_second_closed_limit(bench: Workbench) -> None:
    """A limit passes to a run, and the run finds its other limit closed. It holds nothing while it waits, so the next
    run in line starts. Later it asks for both again."""
    record, node = await bench.define(overlap=Overlap("allow", max_running=1), concurrency=Limit(1)), await bench.node()
    running, limit = Gate("running:x", 1), Gate("limit:x", 1)
    other = await bench.define("other", concurrency=Limit(1))
    for job in (other, record, other, record):
        await bench.submit(job)
    one, two, three, four = await reserved(bench, node, 4)
    one = await pass_gate(bench, one, limit)
    assert await ask(bench, two, [running, limit], WAIT) == Blocked("limit:x", one.run_id)
    assert await ask(bench, three, [limit], WAIT) == Blocked("limit:x", one.run_id)
    four = await pass_gate(bench, four, running)
    assert await bench.finish(one)  # the limit passes to the second
    [two] = await reserved(bench, node, 9)
    assert await ask(bench, two, [running, limit], WAIT) == Blocked("running:x", four.run_id)
    [three] = await reserved(bench, node, 9)
    three = await pass_gate(bench, three, limit)
    assert await bench.finish(three)
    assert await bench.finish(four)
    [two] = await reserved(bench, node, 9)
    await pass_gate(bench, two, running, limit)
    assert await bench.store.recount_gates(now=bench.now) == 0


@check
async def check_an_unused_place_goes_to_an_older_run(bench: Workbench) -> None:
    """The place passed to a run that is not armed yet. An older run that can start now takes it, and the younger one
    waits."""
    for number, one_by_one in enumerate((False, True)):
        record, gate = await bench.define(f"job{number}", concurrency=Limit(2)), Gate(f"limit:{number}", 2)
        node = await bench.node()
        bench.turn(9)
        running = [await bench.submit(record, due) for due in (0, 0)]
        passed = [await bench.submit(record, due) for due in (5, 6)]
        leases = {lease.run_id: lease for lease in await reserved(bench, node, 4)}
        held = [await pass_gate(bench, leases[run_id], gate) for run_id in running]
        for run_id in passed:
            assert isinstance(await ask(bench, leases[run_id], [gate], WAIT), Blocked)
        for lease in held:
            assert await bench.finish(lease)  # both places have passed on, and are not used yet
        older, newer = await bench.submit(record, 1), await bench.submit(record, 8)
        leases = {lease.run_id: lease for lease in await reserved(bench, node, 4)}
        order = [older, newer, *passed]
        asks = [(leases[run_id], [gate]) for run_id in order]
        assert await kinds(bench, *asks, one_by_one=one_by_one) == [Armed, Blocked, Armed, Blocked]
        assert await bench.store.recount_gates(now=bench.now) == 0


@check
async def check_two_limits_cause_no_deadlock(bench: Workbench) -> None:
    """Each of two limits has passed to another run, and each line has one more. The oldest run starts, whichever is
    armed first."""
    for number, order in enumerate(((0, 1), (1, 0))):
        record = await bench.define(f"job{number}", overlap=Overlap("allow", max_running=1), concurrency=Limit(1))
        node, gates = await bench.node(), [Gate(f"running:{number}", 1), Gate(f"limit:{number}", 1)]
        first = [await bench.submit(record) for _ in range(2)]
        runs = [await bench.submit(record) for _ in range(4)]
        leases = {lease.run_id: lease for lease in await reserved(bench, node, 6)}
        held = [await pass_gate(bench, leases[run], gate) for run, gate in zip(first, gates, strict=True)]
        for place, run_id in enumerate(runs):
            assert isinstance(await ask(bench, leases[run_id], [gates[place % 2]], WAIT), Blocked)
        for lease in held:
            assert await bench.finish(lease)
        started = 0
        for _ in range(9):
            free = await reserved(bench, node, 9)
            asks = [(free[place], gates) for place in order if place < len(free)]
            answers = await kinds(bench, *asks)
            assert Armed in answers or not asks
            for (lease, _), answer in zip(asks, answers, strict=True):
                if answer is Armed:
                    [running] = [one for one in await bench.store.recover(node) if one.lease_id == lease.lease_id]
                    assert await bench.finish(running)
                    started += 1
        assert started == 4


# ── places of runs that no worker can start ──────────────────────────────────────────────────────────────────────

X = Gate("limit:name:x:", 1)
ELSEWHERE = "call:elsewhere"  # a task of the workers that are gone


class Orphaned:
    """Two jobs share a limit of one. A run of `others` executes, and run `orphan` waits behind it. Only the worker
    `gone` can start `orphan`, and that worker dies. The worker `stays` can run the others' runs."""

    others: JobRecord
    stays: str
    running: Lease
    orphan: int

    @classmethod
    async def at(cls, bench: Workbench, *, waits: int = 1) -> Orphaned:
        self = cls()
        mine = await bench.define("mine", concurrency=Limit(1, name="x"), task=Call(handler="elsewhere"))
        self.others = await bench.define("others", concurrency=Limit(1, name="x"))
        self.stays, gone = await bench.node("stays"), await bench.node("gone", ttl=5, tasks=[TASK, ELSEWHERE])
        await bench.submit(self.others, 0)
        runs = [await bench.submit(mine, 1) for _ in range(waits)]
        bench.turn(2)
        leases = (await bench.reserve(gone, seats=9, lapse=1, tasks=frozenset({TASK, ELSEWHERE}))).held
        self.running = await pass_gate(bench, leases[0], X)
        for lease in leases[1:]:
            assert isinstance(await ask(bench, lease, [X], WAIT), Blocked)
        self.orphan = runs[0]
        bench.turn(6)
        return self

    async def submit(self, bench: Workbench, due: float) -> Lease:
        """Submit another run of `others` and reserve it."""
        await bench.submit(self.others, due)
        [lease] = await reserved(bench, self.stays)
        return lease


async def holder_of(bench: Workbench, gate: Gate) -> int | None:
    """The run that holds a gate of capacity one, or None if the gate is open. A probe run asks, and leaves the gate as
    it was."""
    probe = await bench.define("probe", concurrency=Limit(1, name="x"), queue="probe")
    await bench.submit(probe)
    node = await bench.node("probe", queues=["probe"])
    [lease] = (await bench.reserve(node, seats=1, queues=["probe"], lapse=1000)).held
    answer = await ask(bench, lease, [gate])
    await bench.store.cancel([lease.run_id], why="", now=bench.now)
    if isinstance(answer, Busy):
        return answer.holder
    assert isinstance(answer, Armed)
    assert await bench.finish(replace(lease, fence=answer.fence, armed_at=answer.armed_at, attempt=answer.attempt))
    return None


@check
async def check_a_place_of_an_orphan_goes_to_a_run_that_asks(bench: Workbench) -> None:
    """No living worker can start the next in line, so a run that asks takes its place. The orphan asks again when a
    worker is back."""
    made = await Orphaned.at(bench, waits=3)
    assert await bench.finish(made.running)  # the gate passes to the orphan
    assert await holder_of(bench, X) == made.orphan
    lease = await made.submit(bench, 3)
    taken = await pass_gate(bench, lease, X)
    assert (await bench.run(made.orphan)).reason == ""
    back = await bench.node("back", tasks=[ELSEWHERE])
    again = (await bench.reserve(back, seats=9, lapse=1000, tasks=frozenset({ELSEWHERE}))).held
    assert again[0].run_id == made.orphan
    assert len(again) == 3
    for lease in again:
        assert await ask(bench, lease, [X], WAIT) == Blocked(X.key, taken.run_id)
    later = await made.submit(bench, 4)
    assert isinstance(await ask(bench, later, [X], WAIT), Blocked)
    assert await bench.finish(taken)
    assert await holder_of(bench, X) == made.orphan  # it has waited longest
    assert await bench.store.recount_gates(now=bench.now) == 0
    assert await holder_of(bench, X) == made.orphan  # and a worker can start it


@check
async def check_a_recount_passes_on_a_place_of_an_orphan(bench: Workbench) -> None:
    """Other runs wait in the line, and none asks. The recount passes the place to the one that has waited longest and
    can start."""
    made = await Orphaned.at(bench, waits=2)
    second, third = await made.submit(bench, 3), await made.submit(bench, 4)
    for lease in (third, second):
        assert isinstance(await ask(bench, lease, [X], WAIT), Blocked)
    assert await bench.finish(made.running)
    assert await holder_of(bench, X) == made.orphan
    assert await bench.store.recount_gates(now=bench.now) == 0  # no gate was left closed by mistake
    [lease] = await reserved(bench, made.stays, 9)
    assert lease.run_id == second.run_id
    lease = await pass_gate(bench, lease, X)
    assert await bench.finish(lease)
    [lease] = await reserved(bench, made.stays, 9)  # the other orphan has left the line
    assert lease.run_id == third.run_id
    await pass_gate(bench, lease, X)


@check
async def check_a_place_that_is_taken_back_goes_to_the_longest_waiting_run(bench: Workbench) -> None:
    """A run's ask takes back an orphan's place. If another run has waited longer, that one gets it."""
    made = await Orphaned.at(bench)
    waiting = await made.submit(bench, 3)
    assert isinstance(await ask(bench, waiting, [X], WAIT), Blocked)
    assert await bench.finish(made.running)
    newer = await made.submit(bench, 5)
    assert await ask(bench, newer, [X], WAIT) == Blocked(X.key, waiting.run_id)
    [lease] = await reserved(bench, made.stays, 9)
    assert lease.run_id == waiting.run_id
    older = await made.submit(bench, 2)
    await pass_gate(bench, older, X)  # it has waited longest of those that can start
    assert isinstance(await ask(bench, lease, [X], WAIT), Blocked)


@check
async def check_a_place_that_was_just_used_is_not_taken_back(bench: Workbench) -> None:
    """In one call a run starts with the place that passed to it. A later run of that call has waited longer, and is too
    late."""
    record, other = await bench.define("limited", concurrency=Limit(1)), await gated_job(bench, name="other")
    node, limit, gate = await bench.node(), Gate("limit:x", 1), overlap(other)
    for job in (record, record, record, record, other, other):
        await bench.submit(job)
    older, first, second, third, holder, skipped = await reserved(bench, node, 6)
    first = await pass_gate(bench, first, limit)
    await pass_gate(bench, holder, gate)
    assert isinstance(await ask(bench, second, [limit], WAIT), Blocked)
    assert await bench.finish(first)  # the limit passes to the second
    [second] = await reserved(bench, node, 9)
    leases = [second, third, skipped, older]
    wanted = {lease.lease_id: GateAsk((limit,), WAIT) for lease in leases}
    wanted[skipped.lease_id] = GateAsk((gate,), SKIP)  # the store writes this decision before the next one
    answers = await bench.store.arm([replace(lease) for lease in leases], gates=wanted, now=bench.now)
    assert [type(answer) for answer in answers] == [Armed, Blocked, Skipped, Blocked]


@check
async def check_orphans_keep_their_places_while_no_run_can_start(bench: Workbench) -> None:
    """All waiting runs are orphans, or all workers are away for a moment."""
    made = await Orphaned.at(bench, waits=3)
    assert await bench.finish(made.running)
    async with bench.nothing_written():
        assert await bench.store.recount_gates(now=bench.now) == 0
    assert await holder_of(bench, X) == made.orphan
    waiting = await made.submit(bench, 3)
    bench.turn(7)
    await bench.node("back", tasks=[ELSEWHERE])
    async with bench.nothing_written():
        assert await ask(bench, waiting, [X]) == Busy(X.key, made.orphan)
        assert await bench.store.recount_gates(now=bench.now) == 0
    assert isinstance(await ask(bench, waiting, [X], WAIT), Blocked)  # the orphan is first, and a worker is back
    assert await holder_of(bench, X) == made.orphan


@check
async def check_a_place_is_kept_for_a_run_that_some_worker_can_start(bench: Workbench) -> None:
    """A worker can start it if it serves its queue and labels, if it is its target, if the leader placed it there, or
    if it has reserved it."""
    tasks, queues = frozenset({TASK, ELSEWHERE}), ("default", "far")
    jobs = [
        await bench.define("plain", concurrency=Limit(1, name="x"), task=Call(handler="elsewhere"), queue="far"),
        await bench.define("placed", concurrency=Limit(1, name="x"), assignment="leader", queue="far"),
    ]
    others = await bench.define("others", concurrency=Limit(1, name="x"))
    node, far = await bench.node(), await bench.node("far", tasks=tasks, queues=queues)
    for job in jobs:
        first, second = await bench.submit(others), await bench.submit(job)
        [lease] = await reserved(bench, node)
        assert lease.run_id == first
        running = await pass_gate(bench, lease, X)
        if job.job.assignment == "leader":
            term = await bench.term(far)
            await bench.store.assign(term, [Placement(second, far)], now=bench.now)
        [waits] = (await bench.reserve(far, seats=1, lapse=1000, tasks=tasks, queues=queues)).held
        assert isinstance(await ask(bench, waits, [X], WAIT), Blocked)
        assert await bench.finish(running)
        await bench.submit(others)
        [lease] = await reserved(bench, node)
        assert await ask(bench, lease, [X], WAIT) == Blocked(X.key, second)
        assert await bench.store.recount_gates(now=bench.now) == 0
        assert await holder_of(bench, X) == second
        [waits] = (await bench.reserve(far, seats=1, lapse=1000, tasks=tasks, queues=queues)).held
        assert await bench.finish(await pass_gate(bench, waits, X))
        [lease] = await reserved(bench, node)
        assert await bench.finish(await pass_gate(bench, lease, X))


@check
async def check_a_place_is_not_kept_for_a_node_that_drains_or_is_gone(bench: Workbench) -> None:
    """A node that died, left or drains starts nothing more, whatever it has reserved."""
    for number, how in enumerate(("dies", "leaves", "drains")):
        gate = Gate(f"limit:name:{number}:", 1)
        mine = await bench.define(f"mine{number}", concurrency=Limit(1), task=Call(handler="elsewhere"))
        others = await bench.define(f"others{number}", concurrency=Limit(1))
        name = f"gone{number}"
        stays, gone = await bench.node("stays"), await bench.node(name, ttl=5, tasks=[TASK, ELSEWHERE])
        await bench.submit(others)
        run = await bench.submit(mine)
        both = frozenset({TASK, ELSEWHERE})
        one, two = (await bench.reserve(gone, seats=2, lapse=1000, tasks=both)).held
        one = await pass_gate(bench, one, gate)
        assert isinstance(await ask(bench, two, [gate], WAIT), Blocked)
        assert await bench.finish(one)
        [two] = (await bench.reserve(gone, seats=1, lapse=1000, tasks=both)).held  # the node does not arm it
        assert two.run_id == run
        await bench.submit(others)
        [lease] = await reserved(bench, stays)
        assert isinstance(await ask(bench, lease, [gate], WAIT), Blocked)
        bench.turn(10 * number + 1)
        async with bench.nothing_written():
            assert await bench.store.recount_gates(now=bench.now) == 0  # the run is reserved, and its worker lives
        if how == "leaves":
            await bench.store.leave(gone, now=bench.now)
        elif how == "drains":
            await bench.release(two)
            await bench.store.drain(name, now=bench.now)
        else:
            bench.turn(10 * number + 6)
        assert await bench.store.recount_gates(now=bench.now) == 0
        [lease] = await reserved(bench, stays)
        assert await bench.finish(await pass_gate(bench, lease, gate))
        await bench.store.cancel([run], why="", now=bench.now)
        bench.turn(10 * number + 10)


@check
async def check_a_limit_is_not_exceeded_when_places_are_taken_back(bench: Workbench) -> None:
    """The limit is 2. One run executes, and one place is an orphan's. One of the waiting runs starts, and no second
    one."""
    gate = Gate("limit:name:x:", 2)
    mine = await bench.define("mine", concurrency=Limit(2, name="x"), task=Call(handler="elsewhere"))
    others = await bench.define("others", concurrency=Limit(2, name="x"))
    stays, gone = await bench.node("stays"), await bench.node("gone", ttl=5, tasks=[TASK, ELSEWHERE])
    for job in (others, others, mine):
        await bench.submit(job)
    leases = (await bench.reserve(gone, seats=9, lapse=1, tasks=frozenset({TASK, ELSEWHERE}))).held
    first, second = [await pass_gate(bench, lease, gate) for lease in leases[:2]]
    assert isinstance(await ask(bench, leases[2], [gate], WAIT), Blocked)
    assert await bench.finish(first)
    bench.turn(6)
    for _ in range(3):
        await bench.submit(others, 1)
    asks = [(lease, [gate]) for lease in await reserved(bench, stays, 9)]
    assert await kinds(bench, *asks) == [Armed, Blocked, Blocked]
    assert await bench.store.recount_gates(now=bench.now) == 0
    assert await reserved(bench, stays, 9) == []
    assert await bench.reap(second, retry(7))
    assert len(await reserved(bench, stays, 9)) == 1
    assert await bench.state(leases[2].run_id) is RunState.SCHEDULED
