"""What `arm` does at gates, in SQLite: take those that are open, and record what becomes of the run at a closed one."""

from __future__ import annotations

from onthedot.clock import NEVER, Micros
from onthedot.run import ArmAnswer, Blocked, Busy, Gate, GateAsk, Lease, OnBusy, RunState, Skipped, why_skipped
from onthedot.stores.base import Hint
from onthedot.stores.places import giving_way, kept_while_waiting
from onthedot.stores.sqlite.finish import end_waiting
from onthedot.stores.sqlite.gates import (
    LEAVE_GATE,
    MARK_CAUGHT_UP,
    TAKE_GATE,
    find_older,
    leave_gate,
    list_idle,
    pass_on,
    put_first,
    take_back,
)
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.rates import INHERIT_GRANT, keep_rate
from onthedot.stores.sqlite.triggers import with_slots

LIST_HOLDERS = "SELECT run_id FROM gate_holders WHERE key = ? ORDER BY run_id"

LIST_GATES_OF = "SELECT key FROM gate_holders INDEXED BY gate_holders_run WHERE run_id = ?"

LIST_HOLDING_SLOTS = with_slots("""
SELECT g.run_id, r.state = 'running' FROM gate_holders g JOIN runs r ON r.id = g.run_id
WHERE g.key = ? AND r.{is_slot} AND r.caught_up_at IS NULL
""")

# Who asked first tells why.
ASK_TO_STOP = "UPDATE runs SET cancel_wanted = coalesce(cancel_wanted, ?) WHERE id = ? AND state = 'running'"

# Those that came at their time.
LIST_WAITING_SLOTS = with_slots("""
SELECT id FROM runs INDEXED BY runs_blocked WHERE blocked_on = ? AND {is_slot} AND caught_up_at IS NULL
""")

# A run of the same job that is due before this one, and has not begun: it is first at their gate.
FIND_EARLIER = """
SELECT other.id FROM runs mine JOIN runs other
  ON other.job_id = mine.job_id AND other.due_at < mine.due_at AND other.target = mine.target
 AND other.state <> 'running'
WHERE mine.id = :id ORDER BY other.due_at, other.id LIMIT 1
"""

# The newest slot of the same schedule that had its turn and has ended, or that is due: its run, or 0 if it is not
# planned yet. Of what has ended the last 1,000 are looked at: at an overlap gate they run one after the other.
FIND_NEWER = with_slots("""
SELECT coalesce(
    (SELECT ended.id FROM (SELECT * FROM history WHERE job_id = mine.job_id AND ended_at >= mine.due_at
                           ORDER BY ended_at DESC LIMIT 1000) ended
     WHERE ended.slot_at > mine.slot_at AND ended.trigger = mine.trigger AND ended.target = mine.target
       AND (ended.attempts > 0 OR ended.state = 'skipped' AND ended.reason = 'overlap')
     ORDER BY ended.slot_at DESC LIMIT 1),
    (SELECT newer.id FROM runs newer
     WHERE newer.job_id = mine.job_id AND newer.slot_at > mine.slot_at AND newer.trigger = mine.trigger
       AND newer.target = mine.target AND newer.due_at <= :now
     ORDER BY newer.slot_at DESC LIMIT 1),
    (SELECT 0 FROM schedules s
     WHERE s.job_id = mine.job_id AND {slot_trigger} = mine.trigger AND s.next_at <= :now))
FROM runs mine WHERE mine.id = :id
""")

# Whether a run was due already when slots at this gate were caught up: it is one of them.
IS_CAUGHT_UP = """
SELECT EXISTS (SELECT 1 FROM gate_holders g JOIN runs r ON r.id = g.run_id
               WHERE g.key = :key AND r.caught_up_at >= :due_at)
    OR EXISTS (SELECT 1 FROM runs INDEXED BY runs_blocked WHERE blocked_on = :key AND caught_up_at >= :due_at)
"""

# A slot that waits at a gate is not missed, and does not expire any more. It is never ready: only an open gate helps.
BLOCK = with_slots("""
UPDATE runs
SET state = 'scheduled', ready_at = :never, blocked_on = :key, blocked_capacity = :capacity,
    blocked_until_end = :until_end, reason = :reason,
    expires_at = CASE WHEN {is_slot} THEN NULL ELSE expires_at END,
    lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE id = :id AND lease_id = :lease_id AND state = 'reserved'
""")


def pass_gates(tx: Transaction, lease: Lease, ask: GateAsk, now: Micros) -> ArmAnswer | None:
    """Take the run's gates in order; None if it has them all, or what became of it."""
    taken: list[Gate] = []
    for place, gate in enumerate(ask.gates):
        holders = _holders(tx, gate)
        if lease.run_id in holders:
            continue
        if gate.until_end and ask.on_busy is None:
            earlier = tx.db.execute(FIND_EARLIER, {"id": lease.run_id}).fetchone()
            if earlier is not None:
                _give_back(tx, lease, taken)
                return Busy(gate.key, earlier[0])
        if gate.until_end and ask.on_busy is not None and ask.on_busy.overdue:
            skipped, ask = _catch_up(tx, lease, gate, ask, ask.on_busy, now)
            if skipped is not None:
                return skipped
            holders = _holders(tx, gate)
        if len(holders) >= gate.capacity and gate.until_end and ask.on_busy and ask.on_busy.action == "replace":
            _clear_the_way(tx, lease, gate, now)
            holders = _holders(tx, gate)
        full = len(holders) >= gate.capacity and ask.on_busy is not None and not gate.until_end
        idle = list_idle(tx, gate.key, now) if full else []
        if idle and take_back(tx, gate.key, idle, now, wanted=True):
            holders = _holders(tx, gate)
            idle = list_idle(tx, gate.key, now)
        younger = any((due_at, run_id) > (lease.due_at, lease.run_id) for run_id, due_at, *_ in idle)
        displaced = younger and len(holders) >= gate.capacity and _displace(tx, lease, ask.gates[place:], now)
        if len(holders) < gate.capacity or displaced:
            tx.db.execute(TAKE_GATE, (gate.key, lease.run_id, int(gate.until_end)))
            taken.append(gate)
            if displaced:
                pass_on(tx, gate.key)
        elif ask.on_busy is None:
            _give_back(tx, lease, taken)
            return Busy(gate.key, holders[0])
        else:
            return _wait_or_skip(tx, lease, ask, place, holders[0], now)
    closed = None if ask.rate is None else keep_rate(tx, lease, ask.rate, now, due=ask.on_busy is not None)
    if isinstance(closed, Busy):
        _give_back(tx, lease, taken)
    else:
        _keep_only(tx, lease.run_id, ask.gates)
    return closed


def _catch_up(
    tx: Transaction, lease: Lease, gate: Gate, ask: GateAsk, answer: OnBusy, now: Micros
) -> tuple[Skipped | None, GateAsk]:
    """Apply the rule for overdue slots: skip the run, or let it wait behind the slots that are due before it."""
    mine = {"id": lease.run_id, "now": now}
    [newer] = tx.db.execute(FIND_NEWER, mine).fetchone()
    if answer.overdue != "wait":
        if newer is None:
            return None, ask
        why = why_skipped(answer.overdue, newer)
        end_waiting(tx, lease.run_id, RunState.SKIPPED, answer.overdue, now, error=why)
        return Skipped(gate.key, newer, answer.overdue), ask
    older = find_older(tx, lease.run_id, now)
    if older is not None and len(_holders(tx, gate)) < gate.capacity:
        put_first(tx, older, gate.key, now)
    if not answer.late and newer is None and older is None:
        [caught_up] = tx.db.execute(IS_CAUGHT_UP, {"key": gate.key, "due_at": lease.due_at}).fetchone()
        if not caught_up:
            return None, ask
    tx.db.execute(MARK_CAUGHT_UP, mine)
    return None, ask._replace(on_busy=OnBusy("wait"))


def _displace(tx: Transaction, lease: Lease, gates: tuple[Gate, ...], now: Micros) -> bool:
    """Take places at the first of these gates from younger runs that do not run, if the run can pass them all then.
    Those are ready, and ask again when they are armed."""
    going = [_giving_way(tx, lease, gate, now) for gate in gates]
    if not going[0] or None in going:
        return False
    tx.db.executemany(LEAVE_GATE, [(gates[0].key, run_id) for run_id in going[0]])
    return True


def _giving_way(tx: Transaction, lease: Lease, gate: Gate, now: Micros) -> list[int] | None:
    holders = _holders(tx, gate)
    if lease.run_id in holders:
        return []
    idle = [] if gate.until_end else list_idle(tx, gate.key, now)
    ages = [(due_at, run_id) for run_id, due_at, *_ in idle]
    return giving_way((lease.due_at, lease.run_id), ages, holders=len(holders), capacity=gate.capacity)


def _give_back(tx: Transaction, lease: Lease, taken: list[Gate]) -> None:
    tx.db.executemany(LEAVE_GATE, [(gate.key, lease.run_id) for gate in taken])


def _keep_only(tx: Transaction, run_id: int, gates: tuple[Gate, ...]) -> None:
    """Give up all other gates: those of another definition, and limits that a run which waits does not use."""
    kept = {gate.key for gate in gates}
    for (key,) in tx.db.execute(LIST_GATES_OF, (run_id,)).fetchall():
        if key not in kept:
            leave_gate(tx, key, run_id)


def _holders(tx: Transaction, gate: Gate) -> list[int]:
    return [run_id for (run_id,) in tx.db.execute(LIST_HOLDERS, (gate.key,))]


def _clear_the_way(tx: Transaction, lease: Lease, gate: Gate, now: Micros) -> None:
    """Replace: end slots that wait or back off, and ask one that runs to stop. What somebody asked for stays.

    Who is ended leaves the instant that a rate gave it to the run: slots that come faster than the rate would
    otherwise replace each other for ever, and none would start.
    """
    for (run_id,) in tx.db.execute(LIST_WAITING_SLOTS, (gate.key,)).fetchall():
        why = why_skipped("replaced", lease.run_id)
        end_waiting(tx, run_id, RunState.SKIPPED, "replaced", now, error=why)
    for run_id, is_running in tx.db.execute(LIST_HOLDING_SLOTS, (gate.key,)).fetchall():
        if is_running:
            ask_to_stop(tx, run_id, "replaced", now)
        else:
            tx.db.execute(INHERIT_GRANT, (run_id, lease.run_id))
            end_waiting(tx, run_id, RunState.CANCELLED, "replaced", now)


def ask_to_stop(tx: Transaction, run_id: int, why: str, now: Micros) -> None:
    """Let the running attempt know with its node's next beat."""
    tx.db.execute(ASK_TO_STOP, (why, run_id))
    tx.hints.append(Hint("beats", now))


def _wait_or_skip(tx: Transaction, lease: Lease, ask: GateAsk, place: int, holder: int, now: Micros) -> ArmAnswer:
    gate, answer = ask.gates[place], ask.on_busy
    if gate.until_end and answer is not None:
        waiting = len(tx.db.execute(LIST_WAITING_SLOTS, (gate.key,)).fetchall())
        full = answer.max_waiting is not None and waiting >= answer.max_waiting
        if answer.action == "skip" or full:
            why = why_skipped("overlap", holder)
            end_waiting(tx, lease.run_id, RunState.SKIPPED, "overlap", now, error=why)
            return Skipped(gate.key, holder)
    _keep_only(tx, lease.run_id, kept_while_waiting(ask.gates[:place]))
    values = {
        "never": NEVER, "key": gate.key, "reason": f"waits for run {holder}", "id": lease.run_id,
        "lease_id": lease.lease_id, "capacity": gate.capacity, "until_end": int(gate.until_end),
    }  # fmt: skip
    tx.db.execute(BLOCK, values)
    return Blocked(gate.key, holder)
