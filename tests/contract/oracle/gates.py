"""The oracle's `arm`, the only place where gates are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil

from onthedot.model.job import JobState
from onthedot.model.rate import RateGate
from onthedot.model.run import (
    ArmAnswer,
    Armed,
    Blocked,
    Busy,
    Delayed,
    Gate,
    GateAsk,
    Gone,
    Lease,
    OnBusy,
    RunState,
    Skipped,
)
from tests.contract.oracle import ends, runs
from tests.contract.oracle.lines import first_older, holders, is_full, is_reserved, leave, pass_on, waiters
from tests.contract.oracle.world import Run, World

LAST = 253_000_000_000_000_000  # the last instant that a rate grants


def arm(
    world: World, leases: Sequence[Lease], asks: Mapping[str, GateAsk], given: Sequence[ArmAnswer] | None, now: int
) -> list[ArmAnswer]:
    """The answers of a store, lease by lease. Their fences are those that the store gave."""
    for lease in leases:
        world.living(lease.incarnation, now)
    world.past_fence = world.last_fence
    assert given is not None
    assert len(given) == len(leases)
    return [_arm(world, lease, asks.get(lease.lease_id), one, now) for lease, one in zip(leases, given, strict=True)]


def _arm(world: World, lease: Lease, ask: GateAsk | None, given: ArmAnswer, now: int) -> ArmAnswer:
    run = world.run(lease.run_id)
    if run is not None and run.granted_at is not None and run.delayed_under == lease.lease_id:
        return Delayed(run.granted_by, run.granted_at)
    if run is None or run.hold is None or run.hold.lease_id != lease.lease_id:
        return Gone("taken or withdrawn")
    if run.state is RunState.RESERVED:
        reasons = ["edited"] if run.job.revision != lease.record.revision else []
        reasons += ["paused"] if run.job.state is not JobState.ACTIVE or world.is_paused(run.queue) else []
        if reasons:  # of two, either is right
            return given if isinstance(given, Gone) and given.reason in reasons else Gone(reasons[0])
        closed = None if ask is None else _pass_gates(world, run, ask, now)
        if closed is not None:
            return closed
        runs.arm(world, run, given.fence if isinstance(given, Armed) else -1, now)
    return Armed(run.hold.fence, run.attempts, run.hold.armed_at)


def _pass_gates(world: World, run: Run, ask: GateAsk, now: int) -> ArmAnswer | None:
    """Take the gates in order, and the rate last. Returns None if the run may start."""
    on_busy = ask.on_busy
    before = list(run.gates)
    for place, gate in enumerate(ask.gates):
        if run.holds(gate.key):
            continue
        if on_busy is None:
            first = _first_of_job(world, run) if gate.until_end else None
            if first is not None or is_full(world, gate):
                run.gates = before
                return Busy(gate.key, first if first is not None else _first_holder(world, gate))
            run.gates.append(gate)
            continue
        if gate.until_end and on_busy.overdue:
            skipped = _overdue(world, run, gate, on_busy, now)
            if isinstance(skipped, Skipped):
                return skipped
            on_busy = skipped
        if is_full(world, gate):
            _make_way(world, run, ask.gates[place:], on_busy, now)
        if is_full(world, gate) and not run.holds(gate.key):
            return _wait_or_skip(world, run, ask.gates[:place], gate, on_busy, now)
        if not run.holds(gate.key):
            run.gates.append(gate)
    if ask.rate is not None:
        closed = _keep_rate(world, run, ask.rate, now, is_due=on_busy is not None)
        if isinstance(closed, Busy):
            run.gates = before
            return closed
        if closed is not None:
            _keep_only(world, run, [gate for gate in ask.gates if gate.until_end])
            return closed
    _keep_only(world, run, ask.gates)
    return None


def _keep_only(world: World, run: Run, gates: Sequence[Gate]) -> None:
    kept = {gate.key for gate in gates}
    leave(world, run, [gate.key for gate in run.gates if gate.key not in kept])


def _first_of_job(world: World, run: Run) -> int | None:
    """A run of the same job and target that is due earlier and has not started."""
    earlier = [
        other
        for other in world.live_of(run.job)
        if other.due_at < run.due_at and other.target == run.target and not other.is_running
    ]
    return min(earlier, key=lambda other: other.age).id if earlier else None


def _first_holder(world: World, gate: Gate) -> int:
    return min(run.id for run in holders(world, gate.key))


def _wait_or_skip(
    world: World, run: Run, passed: Sequence[Gate], gate: Gate, on_busy: OnBusy, now: int
) -> Blocked | Skipped:
    """What happens to a run at a closed gate."""
    holder = _first_holder(world, gate)
    if gate.until_end:
        is_crowded = on_busy.max_waiting is not None and len(_waiting_slots(world, gate)) >= on_busy.max_waiting
        if on_busy.action == "skip" or is_crowded:
            why = f"run {holder} of this job had not ended"
            ends.end(world, run, RunState.SKIPPED, "overlap", now, error=why)
            return Skipped(gate.key, holder)
    _keep_only(world, run, [one for one in passed if one.until_end])
    run.wait_until(None)
    run.waits_at, run.reason = gate, f"waits for run {holder}"
    _not_missed(run)
    return Blocked(gate.key, holder)


def _waiting_slots(world: World, gate: Gate) -> list[Run]:
    """Slots on time that wait at a gate."""
    return [run for run in waiters(world, gate.key) if run.is_slot and run.caught_up_at is None]


def _not_missed(run: Run) -> None:
    if run.is_slot:
        run.expires_at = None


# ── overdue slots ────────────────────────────────────────────────────────────────────────────────────────────────


def _overdue(world: World, run: Run, gate: Gate, on_busy: OnBusy, now: int) -> Skipped | OnBusy:
    """Skip a slot because a newer one is due, or let it wait behind the older ones."""
    newer = _newer(world, run, now)
    if on_busy.overdue != "wait":
        if newer is None and on_busy.overdue == "replaced" and on_busy.late and is_full(world, gate):
            here = [*holders(world, gate.key), *waiters(world, gate.key)]
            slots = [other for other in here if other.is_slot and other.slot_at > run.slot_at]
            newer = min(slots, key=lambda other: (-other.slot_at, other.id)).id if slots else None
        if newer is None:
            return on_busy
        instead = f"run {newer} replaced it" if on_busy.overdue == "replaced" else f"run {newer} is for a newer slot"
        why = instead if newer else "a newer slot was due"
        ends.end(world, run, RunState.SKIPPED, on_busy.overdue, now, error=why)
        return Skipped(gate.key, newer, on_busy.overdue)
    older = first_older(world, run, now)
    if older is not None and not is_full(world, gate):
        older.gates.append(gate)
        older.caught_up_at = now
    here = [*holders(world, gate.key), *waiters(world, gate.key)]
    with_others = any(other.caught_up_at is not None and other.caught_up_at >= run.due_at for other in here)
    if not (on_busy.late or with_others or older is not None or newer is not None):
        return on_busy
    run.caught_up_at = now
    return OnBusy("wait")


def _newer(world: World, run: Run, now: int) -> int | None:
    """The newest slot of the schedule that has had its turn and ended, or that is due; 0: it is not planned yet."""
    newer = [
        other
        for other in world.runs
        if (other.job, other.trigger, other.target) == (run.job, run.trigger, run.target)
        and other.slot_at > run.slot_at
    ]
    ended = [
        other
        for other in newer
        if other.ended_at is not None
        and other.ended_at >= run.due_at
        and (other.attempts > 0 or (other.state is RunState.SKIPPED and other.reason == "overlap"))
    ]
    due = [other for other in newer if other.is_live and other.due_at <= now]
    found = ended or due
    if found:
        return max(found, key=lambda other: other.slot_at).id
    schedule = run.job.schedules.get(run.trigger.removeprefix("schedule:"))
    return 0 if schedule is not None and schedule.next_at is not None and schedule.next_at <= now else None


# ── making room ──────────────────────────────────────────────────────────────────────────────────────────────────


def _make_way(world: World, run: Run, gates: Sequence[Gate], on_busy: OnBusy, now: int) -> None:
    gate = gates[0]
    if gate.until_end:
        if on_busy.action == "replace":
            _replace(world, run, gate, now)
        return
    take_back(world, gate.key, now, wanted=True)
    if is_full(world, gate):
        _displace(world, run, gates)


def _replace(world: World, run: Run, gate: Gate, now: int) -> None:
    """Skip waiting slots, cancel one in back-off, and ask a running one to stop. A grant is handed on."""
    for waiting in _waiting_slots(world, gate):
        ends.end(world, waiting, RunState.SKIPPED, "replaced", now, error=f"run {run.id} replaced it")
    for holder in [one for one in holders(world, gate.key) if one.is_slot and one.caught_up_at is None]:
        if holder.is_running:
            ask_to_stop(holder, "replaced")
            continue
        if run.granted_at is None:
            run.granted_at, run.granted_by = holder.granted_at, holder.granted_by
        ends.end(world, holder, RunState.CANCELLED, "replaced", now)


def ask_to_stop(run: Run, why: str) -> None:
    """The first caller's reason counts."""
    if run.cancel_wanted is None:
        run.cancel_wanted = why


def idle(world: World, key: str) -> list[Run]:
    """The runs that have a place in a limit and have not started."""
    return [
        run
        for run in holders(world, key)
        if not run.is_running and not any(gate.until_end for gate in run.gates if gate.key == key)
    ]


def _displace(world: World, run: Run, gates: Sequence[Gate]) -> None:
    """Take places from younger runs that have not started, if the run can pass all its gates then."""
    going = [_giving_way(world, run, gate) for gate in gates]
    first = going[0]
    if not first or any(one is None for one in going):
        return
    for other in first:
        other.gates = [gate for gate in other.gates if gate.key != gates[0].key]
    run.gates.append(gates[0])
    pass_on(world, gates[0].key)


def _giving_way(world: World, run: Run, gate: Gate) -> list[Run] | None:
    """The youngest of the runs behind this one, as many as must leave. None if they are too few."""
    if run.holds(gate.key):
        return []
    needed = max(0, len(holders(world, gate.key)) - gate.capacity + 1)
    younger = sorted((other for other in idle(world, gate.key) if other.age > run.age), key=lambda other: other.age)
    return None if len(younger) < needed else younger[len(younger) - needed :]


def take_back(world: World, key: str, now: int, *, wanted: bool) -> None:
    """Pass on places of runs that no living worker can start, if another run can use them."""
    stuck = [run for run in idle(world, key) if not _can_be_started(world, run, now)]
    line = waiters(world, key)
    unable = [run for run in line if not _can_be_started(world, run, now)]
    if not stuck or (not wanted and len(unable) == len(line)):
        return
    for run in unable:
        run.waits_at, run.reason, run.ready_at = None, "", run.due_at
    for run in stuck:
        run.gates = [gate for gate in run.gates if gate.key != key]
    pass_on(world, key)


def _can_be_started(world: World, run: Run, now: int) -> bool:
    """Whether a living worker has reserved it, or serves it."""
    if run.hold is not None and is_reserved(run, now) and world.nodes[run.hold.incarnation].is_alive(now):
        return True
    for row in world.nodes.values():
        node = row.node
        if not row.is_alive(now) or row.draining or "worker" not in node.roles or run.job.task not in node.tasks:
            continue
        definition = run.job.definition
        if run.target == node.id if run.target else _serves(node.queues, node.labels, definition.queue, run):
            return True
    return False


def _serves(queues: Sequence[str], labels: Sequence[str], queue: str, run: Run) -> bool:
    return queue in queues and run.job.definition.labels <= set(labels)


def recount(world: World, now: int) -> int:
    """The safety net: no gate is left closed by mistake, and places that no run can use are passed on."""
    world.rates = {key: tat for key, tat in world.rates.items() if tat // 1 >= now}  # the others are as good as new
    keys = {run.waits_at.key for run in world.live() if run.waits_at is not None}
    passed = sum(pass_on(world, key) for key in sorted(keys))
    for key in sorted(keys):
        take_back(world, key, now, wanted=False)
    return passed


# ── rates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _keep_rate(world: World, run: Run, rate: RateGate, now: int, *, is_due: bool) -> Busy | Delayed | None:
    """None if the run may start at the later of now and its due instant. Otherwise it gets a later instant."""
    start = max(now, run.due_at)
    interval = Fraction(rate.per, rate.most)
    grace = max(1_000_000, ceil(interval))
    granted = run.granted_at if run.granted_by == rate.key else None
    if granted is not None and start <= granted + grace:
        instant, tat = max(start, granted), None
    else:
        last = world.rates.get(rate.key, Fraction(start))
        last = max(Fraction(start), Fraction(ceil(last * rate.most), rate.most))  # of another rate: rounded up
        instant = min(max(start, ceil(last - (rate.burst - 1) * interval)), LAST)
        tat = last + interval
    if instant > start and not is_due:
        return Busy(rate.key, 0)
    if tat is not None:
        world.rates[rate.key] = tat
    if instant <= start:
        return None
    run.delayed_under = "" if run.hold is None else run.hold.lease_id
    run.wait_until(instant)
    run.due_at = run.granted_at = instant
    run.granted_by = rate.key
    starts = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)
    run.reason = f"waits at {rate.key}, starts at {starts.isoformat()}"
    _not_missed(run)
    return Delayed(rate.key, instant)
