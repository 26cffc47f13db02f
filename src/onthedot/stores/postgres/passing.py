"""What `arm` does at gates, in PostgreSQL: take those that are open, and say what becomes of a run at a closed one.

The keys of all gates that are asked for are locked before, and so are the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import NEVER, Micros
from onthedot.run import ArmAnswer, Blocked, Busy, Gate, GateAsk, Lease, OnBusy, RunState, Skipped, why_skipped
from onthedot.stores.base import Hint
from onthedot.stores.places import giving_way, kept_while_waiting
from onthedot.stores.postgres.finish import end_waiting
from onthedot.stores.postgres.gates import (
    FIND_OLDER,
    LEAVE_GATES,
    LIST_IDLE,
    MARK_CAUGHT_UP,
    leave_gates,
    pass_on,
    put_first,
    take_back,
    take_gates,
)
from onthedot.stores.postgres.rates import INHERIT_GRANT, keep_rate
from onthedot.stores.postgres.transaction import Transaction, plain
from onthedot.stores.postgres.triggers import with_slots

LIST_HOLDERS = "SELECT run_id FROM gate_holders WHERE key = $1 ORDER BY run_id"

LIST_KEYS_OF = "SELECT key FROM gate_holders WHERE run_id = $1"

LIST_HOLDING_SLOTS = with_slots("""
SELECT g.run_id, r.state = 'running' FROM gate_holders g JOIN runs r ON r.id = g.run_id
WHERE g.key = $1 AND r.{is_slot} AND r.caught_up_at IS NULL ORDER BY g.run_id
""")

# Who asked first tells why.
ASK_TO_STOP = "UPDATE runs SET cancel_wanted = coalesce(cancel_wanted, $1) WHERE id = $2 AND state = 'running'"

# Those that came at their time.
LIST_WAITING_SLOTS = with_slots("""
SELECT id FROM runs WHERE blocked_on = $1 AND {is_slot} AND caught_up_at IS NULL ORDER BY id
""")

# A run of the same job that is due before this one, and has not begun: it is first at their gate.
FIND_EARLIER = """
SELECT other.id FROM runs this JOIN runs other
  ON other.job_id = this.job_id AND other.due_at < this.due_at AND other.target = this.target
 AND other.state <> 'running'
WHERE this.id = {run} ORDER BY other.due_at, other.id LIMIT 1
"""

# The newest slot of the same schedule that had its turn and has ended, or that is due: its run, or 0 if it is not
# planned yet. Of what has ended the last 1,000 are looked at: at an overlap gate they run one after the other.
FIND_NEWER = with_slots(
    """
SELECT coalesce(
    (SELECT ended.id FROM (SELECT * FROM history WHERE job_id = this.job_id AND ended_at >= this.due_at
                           ORDER BY ended_at DESC LIMIT 1000) ended
     WHERE ended.slot_at > this.slot_at AND ended.trigger = this.trigger AND ended.target = this.target
       AND (ended.attempts > 0 OR ended.state = 'skipped' AND ended.reason = 'overlap')
     ORDER BY ended.slot_at DESC LIMIT 1),
    (SELECT newer.id FROM runs newer
     WHERE newer.job_id = this.job_id AND newer.slot_at > this.slot_at AND newer.trigger = this.trigger
       AND newer.target = this.target AND newer.due_at <= {now}
     ORDER BY newer.slot_at DESC LIMIT 1),
    (SELECT 0 FROM schedules s
     WHERE s.job_id = this.job_id AND {slot_trigger} = this.trigger AND s.next_at <= {now})) AS id
FROM runs this WHERE this.id = {run}
""",
    run="{run}",
    now="{now}",
)

# Whether a run was due already when slots at this gate were caught up: it is one of them.
IS_CAUGHT_UP = """
SELECT EXISTS (SELECT 1 FROM gate_holders g JOIN runs r ON r.id = g.run_id
               WHERE g.key = $1 AND r.caught_up_at >= $2)
    OR EXISTS (SELECT 1 FROM runs WHERE blocked_on = $1 AND caught_up_at >= $2)
"""

# A slot that waits at a gate is not missed, and does not expire any more. It is never ready: only an open gate helps.
BLOCK = with_slots("""
UPDATE runs
SET state = 'scheduled', ready_at = $3, blocked_on = given.key, blocked_capacity = given.capacity,
    blocked_until_end = given.until_end, reason = given.reason,
    expires_at = CASE WHEN {is_slot} THEN NULL ELSE expires_at END,
    lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
FROM unnest($1::bigint[], $2::text[], $4::text[], $5::integer[], $6::boolean[], $7::text[])
    given (id, lease_id, key, capacity, until_end, reason)
WHERE runs.id = given.id AND runs.id = ANY($1) AND runs.lease_id = given.lease_id AND state = 'reserved'
""")


async def pass_gates(tx: Transaction, lease: Lease, ask: GateAsk, now: Micros) -> ArmAnswer | None:
    """Take the run's gates in order; None if it has them all, or what became of it."""
    taken: list[Gate] = []
    for place, gate in enumerate(ask.gates):
        holders = await _holders(tx, gate)
        if lease.run_id in holders:
            continue
        if gate.until_end and ask.on_busy is None:
            earlier = await tx.row(FIND_EARLIER.format(run="$1"), lease.run_id)
            if earlier is not None:
                await _give_back(tx, lease, taken)
                return Busy(gate.key, earlier[0])
        if gate.until_end and ask.on_busy is not None and ask.on_busy.overdue:
            answer, ask = await _catch_up(tx, lease, gate, ask, ask.on_busy, now)
            if answer is not None:
                return answer
            holders = await _holders(tx, gate)
        if len(holders) >= gate.capacity and gate.until_end and ask.on_busy and ask.on_busy.action == "replace":
            await _clear_the_way(tx, lease, gate, now)
            holders = await _holders(tx, gate)
        if len(holders) >= gate.capacity and ask.on_busy and not gate.until_end:
            await take_back(tx, gate.key, now, wanted=True)
            holders = await _holders(tx, gate)
        full = len(holders) >= gate.capacity
        displaced = full and ask.on_busy and await _displace(tx, lease, ask.gates[place:], now)
        if not full or displaced:
            await take_gates(tx, [(gate.key, lease.run_id, gate.until_end)])
            taken.append(gate)
            if displaced:
                await pass_on(tx, [gate.key])
        elif ask.on_busy is None:
            await _give_back(tx, lease, taken)
            return Busy(gate.key, holders[0])
        else:
            return await _wait_or_skip(tx, lease, ask, place, holders[0], now)
    closed = None if ask.rate is None else await keep_rate(tx, lease, ask.rate, now, due=ask.on_busy is not None)
    if isinstance(closed, Busy):
        await _give_back(tx, lease, taken)
    else:
        await _keep_only(tx, lease.run_id, ask.gates)
    return closed


async def _catch_up(
    tx: Transaction, lease: Lease, gate: Gate, ask: GateAsk, answer: OnBusy, now: Micros
) -> tuple[Skipped | Busy | None, GateAsk]:
    """Apply the rule for overdue slots: skip the run, or let it wait behind the slots that are due before it."""
    newer = await tx.value(FIND_NEWER.format(run="$1", now="$2"), lease.run_id, now)
    if answer.overdue != "wait":
        if newer is None:
            return None, ask
        why = why_skipped(answer.overdue, newer)
        await end_waiting(tx, lease.run_id, RunState.SKIPPED, answer.overdue, now, error=why)
        return Skipped(gate.key, newer, answer.overdue), ask
    older = await tx.row(FIND_OLDER, lease.run_id, now)
    is_open = older is not None and len(await _holders(tx, gate)) < gate.capacity
    if older is not None and is_open and not await put_first(tx, older, gate.key, now):
        return Busy(gate.key, older[0]), ask  # somebody else is at that run: ask again in a moment
    if not answer.late and newer is None and older is None and not await tx.value(IS_CAUGHT_UP, gate.key, lease.due_at):
        return None, ask
    await tx.do(MARK_CAUGHT_UP, lease.run_id, now)
    return None, ask._replace(on_busy=OnBusy("wait"))


async def _displace(tx: Transaction, lease: Lease, gates: tuple[Gate, ...], now: Micros) -> bool:
    """Take places at the first of these gates from younger runs that do not run, if the run can pass them all then.
    Those are ready, and ask again when they are armed."""
    going = [await _giving_way(tx, lease, gate, now) for gate in gates]
    if not going[0] or None in going:
        return False
    await tx.do(LEAVE_GATES, [gates[0].key] * len(going[0]), going[0])
    return True


async def _giving_way(tx: Transaction, lease: Lease, gate: Gate, now: Micros) -> list[int] | None:
    holders = await _holders(tx, gate)
    if lease.run_id in holders:
        return []
    idle = [] if gate.until_end else await tx.rows(LIST_IDLE, [gate.key], now)
    ages = [(due_at, run_id) for _, run_id, due_at, *_ in idle]
    return giving_way((lease.due_at, lease.run_id), ages, holders=len(holders), capacity=gate.capacity)


async def _give_back(tx: Transaction, lease: Lease, taken: list[Gate]) -> None:
    """Nobody else could wait there meanwhile: there is nobody to pass them on to."""
    if taken:
        await tx.do(LEAVE_GATES, [gate.key for gate in taken], [lease.run_id] * len(taken))


async def _keep_only(tx: Transaction, run_id: int, gates: tuple[Gate, ...]) -> None:
    """Give up all other gates: those of another definition, and limits that a run which waits does not use."""
    kept = {gate.key for gate in gates}
    held = await tx.rows(LIST_KEYS_OF, run_id)
    await leave_gates(tx, [(run_id, key) for (key,) in held if key not in kept])


async def _holders(tx: Transaction, gate: Gate) -> list[int]:
    return [run_id for (run_id,) in await tx.rows(LIST_HOLDERS, gate.key)]


async def _clear_the_way(tx: Transaction, lease: Lease, gate: Gate, now: Micros) -> None:
    """Replace: end slots that wait or back off, and ask one that runs to stop. What somebody asked for stays.

    Who is ended leaves the instant that a rate gave it to the run: slots that come faster than the rate would
    otherwise replace each other for ever, and none would start.
    """
    for (run_id,) in await tx.rows(LIST_WAITING_SLOTS, gate.key):
        why = why_skipped("replaced", lease.run_id)
        await end_waiting(tx, run_id, RunState.SKIPPED, "replaced", now, error=why)
    for run_id, is_running in await tx.rows(LIST_HOLDING_SLOTS, gate.key):
        if is_running:
            await ask_to_stop(tx, run_id, "replaced", now)
        else:
            await tx.do(INHERIT_GRANT, run_id, lease.run_id)
            await end_waiting(tx, run_id, RunState.CANCELLED, "replaced", now)


async def ask_to_stop(tx: Transaction, run_id: int, why: str, now: Micros) -> bool:
    """Let the running attempt know with its node's next beat; False if it does not run."""
    asked = await tx.do(ASK_TO_STOP, plain(why), run_id) == 1
    if asked:
        tx.hints.append(Hint("beats", now))
    return asked


async def _wait_or_skip(tx: Transaction, lease: Lease, ask: GateAsk, place: int, holder: int, now: Micros) -> ArmAnswer:
    gate, answer = ask.gates[place], ask.on_busy
    if gate.until_end and answer is not None:
        waiting = len(await tx.rows(LIST_WAITING_SLOTS, gate.key))
        full = answer.max_waiting is not None and waiting >= answer.max_waiting
        if answer.action == "skip" or full:
            why = why_skipped("overlap", holder)
            await end_waiting(tx, lease.run_id, RunState.SKIPPED, "overlap", now, error=why)
            return Skipped(gate.key, holder)
    await _keep_only(tx, lease.run_id, kept_while_waiting(ask.gates[:place]))
    await block(tx, [(lease, gate, holder)])
    return Blocked(gate.key, holder)


async def block(tx: Transaction, waiting: Sequence[tuple[Lease, Gate, int]]) -> None:
    """Let runs wait at gates, behind those who hold them."""
    if not waiting:
        return
    leases, gates, holders = zip(*waiting, strict=True)
    await tx.do(
        BLOCK, [lease.run_id for lease in leases], [lease.lease_id for lease in leases], NEVER,
        [gate.key for gate in gates], [gate.capacity for gate in gates], [gate.until_end for gate in gates],
        [f"waits for run {holder}" for holder in holders],
    )  # fmt: skip
