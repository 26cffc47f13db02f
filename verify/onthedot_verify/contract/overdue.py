"""Checks of overdue slots of one schedule: which of them run, in which order, and which are skipped.

The table is in docs/guarantees.md. The checks arm as workers do, with `onthedot.rules.gates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.job import CatchUp, JobRecord, Limit, Overlap
from onthedot.model.run import ArmAnswer, Armed, Blocked, GateAsk, Lease, RunState, Skipped
from onthedot.rules.gates import gates_of, on_busy
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import START, Workbench, every, recover, window

SLOTS = (10, 20, 30, 40)
LAST, NONE, ALL = CatchUp("last"), CatchUp("none"), CatchUp("all")


def second(lease: Lease) -> float:
    """The slot of a lease, in seconds after the start."""
    return (lease.slot_at - START) / SECOND


async def reserved(bench: Workbench, node: str, seats: int = 9) -> list[Lease]:
    got = await bench.reserve(node, seats=seats, lapse=1000)
    return [*got.held, *got.armed]


async def ask(bench: Workbench, *leases: Lease) -> list[ArmAnswer]:
    """Arm due runs, as a worker does."""
    asks = {
        lease.lease_id: GateAsk(
            gates_of(lease.record, target=lease.target, arguments={}),
            on_busy(lease, now=bench.now),
        )
        for lease in leases
    }
    return await bench.store.arm([replace(lease) for lease in leases], gates=asks, now=bench.now)


def held(lease: Lease, answer: ArmAnswer) -> Lease:
    """The lease of an armed attempt."""
    assert isinstance(answer, Armed), answer
    return replace(lease, fence=answer.fence, attempt=answer.attempt, armed_at=answer.armed_at)


async def work(bench: Workbench, node: str) -> list[list[float]]:
    """Run everything that can run. Returns the slots of each round: those in one round ran side by side."""
    rounds: list[list[float]] = []
    while leases := await reserved(bench, node):
        gated = [lease for lease in leases if not lease.fence]
        answers = await ask(bench, *gated) if gated else []
        pairs = zip(gated, answers, strict=True)
        running = [held(lease, answer) for lease, answer in pairs if isinstance(answer, Armed)]
        running += [lease for lease in leases if lease.fence]
        if running:
            rounds.append([second(lease) for lease in running])
        for lease in running:
            assert await bench.finish(lease)
    return rounds


async def skipped(bench: Workbench, record: JobRecord) -> dict[float, tuple[str, str | None]]:
    """The skipped slots, each with its reason and error text."""
    page = await bench.store.queries.list_runs(job=record.job.name, states=[RunState.SKIPPED])
    return {(run.slot_at - START) / SECOND: (run.reason, run.error) for run in page}


async def overdue(bench: Workbench, overlap: Overlap, catch_up: CatchUp, slots: Sequence[float] = SLOTS) -> JobRecord:
    """A job whose slots were all due before a worker looked, the last one two seconds ago."""
    record = await bench.define(slots=slots, overlap=overlap, catch_up=catch_up)
    bench.turn(slots[-1] + 2)
    return record


@check
async def check_wait_runs_all_overdue_slots_in_order(bench: Workbench) -> None:
    """They run one after the other. They do not count for `max_waiting`."""
    for number, catch_up in enumerate((LAST, NONE, ALL)):
        for most in (0, 1):
            bench.turn(0)
            overlap, node = Overlap("wait", max_waiting=most), await bench.node(f"node{number}{most}")
            record = await bench.define(f"job{number}{most}", SLOTS, overlap=overlap, catch_up=catch_up)
            bench.turn(42)
            assert await work(bench, node) == [[10], [20], [30], [40]]
            assert await skipped(bench, record) == {}


@check
async def check_overdue_slots_run_in_order_whichever_node_asks_first(bench: Workbench) -> None:
    """The node with the newer slots asks before the one with the older slots."""
    await overdue(bench, Overlap("wait"), LAST)
    slow, quick = await bench.node("slow"), await bench.node("quick")
    older = await reserved(bench, slow, 2)
    newer = await reserved(bench, quick, 2)
    assert [second(lease) for lease in (*older, *newer)] == [10, 20, 30, 40]
    assert [type(answer) for answer in await ask(bench, *newer)] == [Blocked, Blocked]
    first, after = await ask(bench, *older)
    assert isinstance(after, Blocked)
    assert await bench.finish(held(older[0], first))
    assert await work(bench, quick) == [[20], [30], [40]]


@check
async def check_a_slot_on_time_waits_behind_an_older_one(bench: Workbench) -> None:
    """No worker had a seat for the older one. Both run, in order."""
    record = await bench.define(slots=(10, 20), overlap=Overlap("wait", max_waiting=0))
    bench.turn(20)
    busy, free = await bench.node("busy"), await bench.node("free")
    [older] = await reserved(bench, busy, 1)
    [newer] = await reserved(bench, free, 1)
    [answer] = await ask(bench, newer)
    assert isinstance(answer, Blocked)
    assert answer.holder == older.run_id
    assert (await bench.run(older.run_id)).state is RunState.RESERVED
    [answer] = await ask(bench, older)
    assert await bench.finish(held(older, answer))
    assert await work(bench, free) == [[20]]
    assert await skipped(bench, record) == {}


@check
async def check_an_open_gate_passes_to_older_slots_that_have_not_asked(bench: Workbench) -> None:
    """A frozen node has reserved them. After that reservation has lapsed, the gate passes to them before newer
    slots."""
    await bench.define(slots=(10, 20, 30, 40), overlap=Overlap("wait"))
    frozen, awake = await bench.node("frozen"), await bench.node("awake")
    bench.turn(10)
    [before] = await reserved(bench, awake)
    [answer] = await ask(bench, before)
    bench.turn(32)
    assert [second(lease) for lease in (await bench.reserve(frozen, seats=2, lapse=0.5)).held] == [20, 30]
    bench.turn(32.4)
    assert await bench.hold(awake, ahead=1, lapse=100)  # the newest slot, due at 40
    bench.turn(42)
    [newest] = [lease for lease in await bench.store.recover(awake) if not lease.fence]
    assert [type(one) for one in await ask(bench, newest)] == [Blocked]
    assert await bench.finish(held(before, answer))
    assert await work(bench, awake) == [[20], [30], [40]]


@check
async def check_an_expired_slot_blocks_no_other(bench: Workbench) -> None:
    """It will be skipped(missed), so the next slot starts."""
    record, node = await bench.define(slots=(10, 20), overlap=Overlap("wait"), late=5), await bench.node()
    bench.turn(22)
    assert await work(bench, node) == [[20]]
    assert await bench.expire() == [(await bench.slot_run(record, 10)).id]


@check
async def check_allow_runs_overdue_slots_side_by_side(bench: Workbench) -> None:
    """`max_running` is the limit, if there is one."""
    await overdue(bench, Overlap("allow"), LAST)
    node = await bench.node()
    assert await work(bench, node) == [[10, 20, 30, 40]]
    bench.turn(0)
    await bench.define("two", SLOTS, overlap=Overlap("allow", max_running=2))
    bench.turn(42)
    assert await work(bench, node) == [[10, 20], [30, 40]]


@check
async def check_skip_runs_the_newest_only(bench: Workbench) -> None:
    """The older ones are missed, and their error names the run of the newer slot."""
    for catch_up in (LAST, NONE):
        bench.turn(0)
        record = await bench.define(f"job-{catch_up.mode}", SLOTS, overlap=Overlap("skip"), catch_up=catch_up)
        node = await bench.node(catch_up.mode)
        bench.turn(42)
        assert await work(bench, node) == [[40]]
        [newest] = await bench.store.queries.list_runs(job=record.job.name, states=[RunState.SUCCEEDED])
        why = ("missed", f"run {newest.id} is for a newer slot")
        assert await skipped(bench, record) == {10: why, 20: why, 30: why}


@check
async def check_replace_runs_the_newest_only(bench: Workbench) -> None:
    """The older ones are skipped(replaced), and their error names the run that replaced them."""
    record, node = await overdue(bench, Overlap("replace"), LAST), await bench.node()
    assert await work(bench, node) == [[40]]
    [newest] = await bench.store.queries.list_runs(job="job", states=[RunState.SUCCEEDED])
    why = ("replaced", f"run {newest.id} replaced it")
    assert await skipped(bench, record) == {10: why, 20: why, 30: why}


@check
async def check_a_late_slot_replaces_no_newer_slot_of_another_schedule(bench: Workbench) -> None:
    """The newer slot waits for an attempt that is asked to stop, or runs already. The older slot asks later."""
    node = await bench.node()
    for waits in (True, False):
        bench.turn(0)
        job = bench.job(every(), every(15, name="t"), name=f"job-{waits}", overlap=Overlap("replace"))
        slots = [5, 30] if waits else [30]
        record = (
            await bench.put(job, window(0, 60, slots, next_at=70), window(0, 60, [20], name="t", next_at=80))
        ).record
        running: list[Lease] = []
        if waits:
            bench.turn(5)
            [first] = await reserved(bench, node)
            [answer] = await ask(bench, first)
            running = [held(first, answer)]
        bench.turn(32)
        older, newer = await reserved(bench, node)
        assert [second(older), second(newer)] == [20, 30]
        [answer] = await ask(bench, newer)
        gate = gates_of(record, target="", arguments={})[0].key
        assert await ask(bench, older) == [Skipped(gate, newer.run_id, "replaced")]
        assert await skipped(bench, record) == {20: ("replaced", f"run {newer.run_id} replaced it")}
        if running:
            assert await bench.finish(running[0])
            assert await work(bench, node) == [[30]]
        else:
            assert await bench.finish(held(newer, answer))


@check
async def check_skip_and_replace_run_all_with_catch_up_all(bench: Workbench) -> None:
    """With `catch_up="all"` the slots run in order, one after the other, and no attempt is asked to stop."""
    node = await bench.node()
    for overlap in (Overlap("skip"), Overlap("replace")):
        bench.turn(0)
        record = await bench.define(f"job-{overlap.mode}", SLOTS, overlap=overlap, catch_up=ALL)
        bench.turn(42)
        leases = await reserved(bench, node)
        first, *others = await ask(bench, *leases)
        assert [type(answer) for answer in others] == [Blocked] * 3
        assert (await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)).cancels == ()
        assert await bench.finish(held(leases[0], first))
        assert await work(bench, node) == [[20], [30], [40]]
        assert await skipped(bench, record) == {}


@check
async def check_an_unplanned_newer_slot_counts(bench: Workbench) -> None:
    """The planner works in steps from the oldest slot. The newest slot of the first step does not run."""
    record = await bench.define(slots=(50, 60), overlap=Overlap("skip"))  # the next one is due at 70
    node = await bench.node()
    bench.turn(71)
    assert await work(bench, node) == []
    assert (await skipped(bench, record))[60] == ("missed", "a newer slot was due")


@check
async def check_max_waiting_counts_only_slots_on_time(bench: Workbench) -> None:
    """Caught-up slots wait too and do not count. The next slot waits, and the one after it is skipped with the holder's
    id."""
    record = await bench.define(slots=(10, 20, 30, 40, 50, 60), overlap=Overlap("wait", max_waiting=1))
    node = await bench.node()
    bench.turn(42)
    leases = await reserved(bench, node)
    first, *others = await ask(bench, *leases)
    assert [type(answer) for answer in others] == [Blocked] * 3
    bench.turn(50)
    [on_time] = await reserved(bench, node)
    assert [type(answer) for answer in await ask(bench, on_time)] == [Blocked]
    bench.turn(60)
    [too_many] = await reserved(bench, node)
    gate = gates_of(record, target="", arguments={})[0].key
    assert await ask(bench, too_many) == [Skipped(gate, leases[0].run_id)]
    assert await skipped(bench, record) == {60: ("overlap", f"run {leases[0].run_id} of this job had not ended")}
    assert await bench.finish(held(leases[0], first))
    assert await work(bench, node) == [[20], [30], [40], [50]]


@check
async def check_a_slot_on_time_follows_overlap_during_a_catch_up(bench: Workbench) -> None:
    """Under `skip` it is skipped because a run executes. Under `replace` it waits, and the next slot on time replaces
    it. Caught-up slots stay."""
    node = await bench.node()
    for overlap in (Overlap("skip"), Overlap("replace")):
        bench.turn(0)
        record = await bench.define(f"job-{overlap.mode}", (30, 40, 50, 60), overlap=overlap, catch_up=ALL)
        bench.turn(42)
        leases = await reserved(bench, node)
        first, _ = await ask(bench, *leases)
        for now in (50, 60):
            bench.turn(now)
            await ask(bench, *await reserved(bench, node))
        assert (await bench.store.beat(node, ttl=10_000_000_000, now=bench.now)).cancels == ()
        busy = ("overlap", f"run {leases[0].run_id} of this job had not ended")
        replaced = ("replaced", f"run {(await bench.slot_run(record, 60)).id} replaced it")
        wanted = {50: busy, 60: busy} if overlap.mode == "skip" else {50: replaced}
        assert await skipped(bench, record) == wanted
        assert await bench.finish(held(leases[0], first))
        assert await work(bench, node) == ([[40]] if overlap.mode == "skip" else [[40], [60]])


@check
async def check_a_run_from_before_the_outage_counts_as_running(bench: Workbench) -> None:
    """Until it is recovered, overdue slots wait for it. Under `skip` the newest is skipped and names it."""
    for number, mode in enumerate(("wait", "skip")):
        bench.turn(0)
        record = await bench.define(f"job-{mode}", SLOTS, overlap=Overlap("wait") if not number else Overlap("skip"))
        dying, living = await bench.node(f"dying{number}", ttl=20), await bench.node(f"living{number}")
        bench.turn(10)
        [before] = await reserved(bench, dying)
        [answer] = await ask(bench, before)
        before = held(before, answer)
        bench.turn(42)
        leases = await reserved(bench, living)
        answers = await ask(bench, *leases)
        newest = leases[-1].run_id
        if mode == "wait":
            assert [type(answer) for answer in answers] == [Blocked] * 3
            assert await skipped(bench, record) == {}
        else:
            missed = ("missed", f"run {newest} is for a newer slot")
            busy = ("overlap", f"run {before.run_id} of this job had not ended")
            assert await skipped(bench, record) == {20: missed, 30: missed, 40: busy}
        assert await bench.reap(before, recover(42))
        assert await work(bench, living) == ([[10], [20], [30], [40]] if mode == "wait" else [[10]])


@check
async def check_a_single_late_slot_does_not_count_for_max_waiting(bench: Workbench) -> None:
    """It is the newest one after an outage, however late. A slot on time waits behind it."""
    await bench.define(slots=(10, 20, 60), overlap=Overlap("wait", max_waiting=1))
    node = await bench.node()
    bench.turn(10)
    [before] = await reserved(bench, node)
    [answer] = await ask(bench, before)
    bench.turn(55)
    assert [type(one) for one in await ask(bench, *await reserved(bench, node))] == [Blocked]
    bench.turn(60)
    assert [type(one) for one in await ask(bench, *await reserved(bench, node))] == [Blocked]
    assert await bench.finish(held(before, answer))
    assert await work(bench, node) == [[20], [60]]


@check
async def check_a_retry_is_not_a_catch_up(bench: Workbench) -> None:
    """A run that is retried holds its gate. Newer slots do not make it missed."""
    record, node = await bench.define(slots=SLOTS, overlap=Overlap("skip")), await bench.node()
    bench.turn(10)
    [lease] = await reserved(bench, node)
    [answer] = await ask(bench, lease)
    assert await bench.finish(held(lease, answer), recover(25))
    bench.turn(25)
    leases = await reserved(bench, node)
    assert {second(one) for one in leases} == {10, 20}
    answers = dict(zip(map(second, leases), await ask(bench, *leases), strict=True))
    assert isinstance(answers[10], Armed)
    assert isinstance(answers[20], Skipped)
    assert await skipped(bench, record) == {20: ("overlap", f"run {lease.run_id} of this job had not ended")}


@check
async def check_an_older_slot_is_skipped_after_the_newest_has_ended(bench: Workbench) -> None:
    """Its node was slow to ask. `skip` and `replace` run the newest only, and the error names it."""
    for overlap in (Overlap("skip"), Overlap("replace")):
        bench.turn(0)
        record = await bench.define(f"job-{overlap.mode}", SLOTS, overlap=overlap, catch_up=LAST)
        slow, quick = await bench.node(f"slow-{overlap.mode}"), await bench.node(f"quick-{overlap.mode}")
        bench.turn(42)
        older, [newest] = await reserved(bench, slow, 3), await reserved(bench, quick)
        [answer] = await ask(bench, newest)
        assert await bench.finish(held(newest, answer))
        assert [type(one) for one in await ask(bench, *older)] == [Skipped] * 3
        told = f"run {newest.run_id} " + ("is for a newer slot" if overlap.mode == "skip" else "replaced it")
        why = ("missed" if overlap.mode == "skip" else "replaced", told)
        assert await skipped(bench, record) == {10: why, 20: why, 30: why}


@check
async def check_a_skipped_newer_slot_does_not_count(bench: Workbench) -> None:
    """The slot before it is then the newest, and runs."""
    record, node = await bench.define(slots=SLOTS, overlap=Overlap("skip")), await bench.node()
    bench.turn(5)
    assert await bench.store.move_slot(record.id, "s", START + 40 * SECOND, reason="cancelled", now=bench.now)
    bench.turn(42)
    assert await work(bench, node) == [[30]]


@check
async def check_a_released_older_slot_still_comes_first(bench: Workbench) -> None:
    """Its node had reserved it when newer ones asked. After a release or lapse it keeps its place in the order."""
    for number, lapse in enumerate((0.5, 1000)):
        bench.turn(0)
        await bench.define(f"job{number}", SLOTS, overlap=Overlap("wait"))
        slow, quick = await bench.node(f"slow{number}"), await bench.node(f"quick{number}")
        bench.turn(42)
        older = (await bench.reserve(slow, seats=2, lapse=lapse)).held
        newer = await reserved(bench, quick)
        assert [second(lease) for lease in (*older, *newer)] == [10, 20, 30, 40]
        assert [type(answer) for answer in await ask(bench, *newer)] == [Blocked, Blocked]
        [first] = await ask(bench, older[0])
        if lapse == 1000:
            assert await bench.release(older[1]) == [True]
        bench.turn(43)
        assert await bench.finish(held(older[0], first))
        assert await work(bench, quick) == [[20], [30], [40]]


@check
async def check_an_older_slot_that_asks_last_comes_first(bench: Workbench) -> None:
    """The gate passes to it while its node has it reserved."""
    await overdue(bench, Overlap("wait"), ALL)
    slow, quick = await bench.node("slow"), await bench.node("quick")
    older, newer = await reserved(bench, slow, 2), await reserved(bench, quick)
    await ask(bench, *newer)
    [first] = await ask(bench, older[0])
    assert await bench.finish(held(older[0], first))
    assert await reserved(bench, quick) == []
    [then] = await ask(bench, older[1])
    assert await bench.finish(held(older[1], then))
    assert await work(bench, quick) == [[30], [40]]


@check
async def check_an_older_slot_that_is_not_started_expires(bench: Workbench) -> None:
    """It comes first as long as it can still start. Then the next one starts."""
    record = await bench.define(slots=(10, 20), overlap=Overlap("wait"), late=30)
    gone, here = await bench.node("gone"), await bench.node("here")
    bench.turn(22)
    [older] = (await bench.reserve(gone, seats=1, lapse=0.5)).held
    [newer] = await reserved(bench, here)
    assert [type(answer) for answer in await ask(bench, newer)] == [Blocked]
    bench.turn(41)
    assert await bench.expire() == [older.run_id]
    assert (await skipped(bench, record))[10][0] == "missed"
    assert await work(bench, here) == [[20]]


@check
async def check_an_open_limit_passes_to_a_slot_that_waits_at_it(bench: Workbench) -> None:
    """An older slot of the job comes first at the overlap gate, not at a limit: it waits for the slot that waits
    there."""
    shared = Limit(1, name="shared")
    job = bench.job(every(name="a"), every(name="b"), name="job", overlap=Overlap("wait"), concurrency=shared)
    windows = window(0, 0, name="a", next_at=10), window(0, 0, name="b", next_at=10)
    record, other = (await bench.put(job, *windows)).record, await bench.define("other", concurrency=shared)
    node = await bench.node()
    term = await bench.term(node)
    await bench.submit(other, due=1)
    bench.turn(2)
    [before] = await reserved(bench, node)
    [answer] = await ask(bench, before)
    bench.turn(42)
    await bench.plan(term, record, window(0, 40, [30, 40], name="a", next_at=50))
    assert [type(one) for one in await ask(bench, *await reserved(bench, node))] == [Blocked, Blocked]
    await bench.plan(term, record, window(0, 40, [10, 20], name="b", next_at=50))
    assert await bench.finish(held(before, answer))
    assert await work(bench, node) == [[30], [10], [20], [40]]


@check
async def check_a_cancelled_newest_slot_does_not_count(bench: Workbench) -> None:
    """It never started. The slot before it is then the newest, and runs."""
    record, node = await bench.define(slots=SLOTS, overlap=Overlap("skip")), await bench.node()
    bench.turn(42)
    await bench.store.cancel([(await bench.slot_run(record, 40)).id], why="no need", now=bench.now)
    assert await work(bench, node) == [[30]]


@check
async def check_a_retry_without_its_gate_is_not_a_catch_up(bench: Workbench) -> None:
    """It failed under `allow`. Then its job was edited to `skip`, and a newer slot has ended."""
    await bench.define(slots=(10, 20), overlap=Overlap("allow"))
    node = await bench.node()
    bench.turn(10)
    [first] = (await bench.reserve(node, seats=1)).armed
    assert await bench.finish(first, recover(25))
    bench.turn(11)
    await bench.put(bench.job(every(), overlap=Overlap("skip")), window(11, 60, [20], next_at=70))
    bench.turn(20)
    [newer] = await reserved(bench, node)
    [answer] = await ask(bench, newer)
    bench.turn(26)
    assert await bench.finish(held(newer, answer))
    assert await work(bench, node) == [[10]]


@check
async def check_a_slot_that_expires_while_it_is_reserved_keeps_its_turn(bench: Workbench) -> None:
    """Its node reserved it in time, and may still start it."""
    await bench.define(slots=(10, 20, 30), overlap=Overlap("wait"), late=20)
    slow, quick = await bench.node("slow"), await bench.node("quick")
    bench.turn(29.9)
    [older] = await reserved(bench, slow, 1)
    bench.turn(30.1)
    newer = await reserved(bench, quick)
    assert [second(lease) for lease in (older, *newer)] == [10, 20, 30]
    assert [type(one) for one in await ask(bench, *newer)] == [Blocked, Blocked]
    [answer] = await ask(bench, older)
    assert await bench.finish(held(older, answer))
    assert await work(bench, quick) == [[20], [30]]
