"""`arm`, in PostgreSQL: which runs of a batch start now, and what becomes of the others.

Nearly all of a batch find their gates open, or wait in front of one: these are decided together, from one look at all
gates, and written with one statement of each kind. What is left (an overlap to be skipped or replaced, a rate, a gate
to be given up, a place to be taken from a run that does not use it) goes through `passing.py`, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onthedot.clock import NEVER, Micros
from onthedot.run import ArmAnswer, Blocked, Busy, Gate, GateAsk, Lease
from onthedot.stores.arming import Stored, arm_answer, may_arm
from onthedot.stores.places import Age, Need, Serving, kept_while_waiting
from onthedot.stores.postgres.finish import HOLD_JOBS
from onthedot.stores.postgres.gates import LIST_IDLE, lock_gates, take_gates
from onthedot.stores.postgres.nodes import living_nodes
from onthedot.stores.postgres.passing import FIND_EARLIER, FIND_NEWER, block, pass_gates
from onthedot.stores.postgres.reserve import hold_node
from onthedot.stores.postgres.transaction import Transaction

# With their jobs: nobody edits or pauses those before the end of the transaction.
LOCK_ARMABLE = """
SELECT r.id, r.lease_id, r.state, r.fence, r.attempt, r.armed_at, j.revision,
       j.state = 'active' AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = r.queue AND q.paused_at IS NOT NULL),
       r.granted_by, r.granted_at
FROM runs r JOIN jobs j ON j.id = r.job_id WHERE r.id = ANY($1) ORDER BY r.id
FOR KEY SHARE OF j FOR UPDATE OF r
"""

# Fences are drawn in the order of the leases.
ARM = """
UPDATE runs
SET state = 'running', fence = given.fence, armed_at = $2, attempt = attempt + 1, expires_at = NULL
FROM (SELECT id, nextval('fences') AS fence FROM unnest($1::bigint[]) id) given
WHERE runs.id = given.id AND runs.id = ANY($1) RETURNING runs.id, runs.fence
"""

# The gates of a batch: their holders, other gates that its runs hold, runs of the same job that are due earlier and
# have not begun, and slots that may be overdue together with others.
LOOK_AT_GATES = """
SELECT 'held' AS what, g.key, g.run_id, 0 AS other FROM gate_holders g WHERE g.key = ANY($1)
UNION ALL
SELECT 'held', g.key, g.run_id, 0 FROM gate_holders g WHERE g.run_id = ANY($2) AND g.key <> ALL($1)
UNION ALL
SELECT 'behind', '', mine.id, earlier.id FROM unnest($3::bigint[]) mine (id) CROSS JOIN LATERAL ({earlier}) earlier
UNION ALL
SELECT 'overdue', '', mine.id, 0 FROM unnest($4::bigint[]) mine (id)
WHERE ({earlier}) IS NOT NULL OR ({newer}) IS NOT NULL
""".format(
    earlier=FIND_EARLIER.format(run="mine.id"),
    newer=FIND_NEWER.format(run="mine.id", now="$5"),
)


class Gates:
    """The gates of a batch, as they are, and as they will be with what was decided so far."""

    def __init__(self, rows: Sequence[tuple[str, str, int, int]]) -> None:
        self._holders: dict[str, set[int]] = {}
        self._held: dict[int, set[str]] = {}
        self._behind: dict[int, int] = {}
        self._overdue: set[int] = set()
        for what, key, run_id, other in rows:
            if what == "held":
                self._take(key, run_id)
            elif what == "behind":
                self._behind[run_id] = other
            else:
                self._overdue.add(run_id)
        self._idle: dict[str, dict[int, Age]] = {}
        self._in_doubt: set[str] = set()
        self.taken: list[tuple[str, int, bool]] = []
        self.blocked: list[tuple[Lease, Gate, int]] = []
        self.left: list[Lease] = []  # to be decided one by one

    def _take(self, key: str, run_id: int) -> None:
        self._holders.setdefault(key, set()).add(run_id)
        self._held.setdefault(run_id, set()).add(key)

    def contended(self, wanted: Sequence[tuple[int, GateAsk]]) -> list[str]:
        """Limits that others hold, and that have no room for all of these runs."""
        room: dict[str, int] = {}
        for run_id, ask in wanted:
            for gate in ask.gates if ask.on_busy is not None else ():
                holders = self._holders.get(gate.key, set())
                if holders and not gate.until_end and run_id not in holders:
                    free = gate.capacity - len(holders)
                    room[gate.key] = min(room.get(gate.key, free), free) - 1
        return sorted(key for key, left in room.items() if left < 0)

    def note_idle(self, key: str, run_id: int, due_at: Micros, *, stuck: bool) -> None:
        """This holder was passed its place, and has not started; `stuck`: nobody can start it."""
        self._idle.setdefault(key, {})[run_id] = (NEVER if stuck else due_at, run_id)

    def decide(self, lease: Lease, ask: GateAsk) -> ArmAnswer | None:
        """None if the run passes, or was left for later; else the answer."""
        keys = {gate.key for gate in ask.gates}
        overdue = lease.run_id in self._overdue or (ask.on_busy is not None and ask.on_busy.late)
        odd = ask.rate is not None or not self._held.get(lease.run_id, set()) <= keys
        if odd or overdue or keys & self._in_doubt or not self._is_plain(lease, ask):
            self._in_doubt |= keys  # who comes behind finds what it will have left
            self.left.append(lease)
            return None
        for place, gate in enumerate(ask.gates):
            busy = self._busy(lease, gate, ask)
            if busy is None:
                continue
            if ask.on_busy is None:
                return busy
            self._pass(lease, kept_while_waiting(ask.gates[:place]))
            self.blocked.append((lease, gate, busy.holder))
            return Blocked(gate.key, busy.holder)
        self._pass(lease, ask.gates)
        for idle in self._idle.values():
            idle.pop(lease.run_id, None)  # it runs from now on
        return None

    def _busy(self, lease: Lease, gate: Gate, ask: GateAsk) -> Busy | None:
        """Who is in the way at one gate."""
        holders = self._holders.get(gate.key, set())
        if lease.run_id in holders:
            return None
        if gate.until_end and ask.on_busy is None and lease.run_id in self._behind:
            return Busy(gate.key, self._behind[lease.run_id])
        return Busy(gate.key, min(holders)) if len(holders) >= gate.capacity else None

    def _is_plain(self, lease: Lease, ask: GateAsk) -> bool:
        """Whether a closed gate would mean no more than to say so, or to wait there."""
        for place, gate in enumerate(ask.gates):
            if self._busy(lease, gate, ask) is not None:
                if ask.on_busy is None:
                    return True
                kept = {one.key for one in kept_while_waiting(ask.gates[:place])}
                waits = not gate.until_end or (ask.on_busy.action == "wait" and ask.on_busy.max_waiting is None)
                return waits and self._held.get(lease.run_id, set()) <= kept and not self._displaces(lease, gate)
        return True

    def _displaces(self, lease: Lease, gate: Gate) -> bool:
        """Whether a holder may have to give its place to the run: it is younger, or nobody can start it."""
        mine = (lease.due_at, lease.run_id)
        return not gate.until_end and any(age > mine for age in self._idle.get(gate.key, {}).values())

    def _pass(self, lease: Lease, gates: Sequence[Gate]) -> None:
        for gate in gates:
            if lease.run_id not in self._holders.get(gate.key, set()):
                self._take(gate.key, lease.run_id)
                self.taken.append((gate.key, lease.run_id, gate.until_end))


async def arm_runs(
    tx: Transaction, leases: Sequence[Lease], asks: Mapping[str, GateAsk], now: Micros | None
) -> list[ArmAnswer]:
    """All locks first, in order: nodes, queues, jobs, gates, runs."""
    at: Micros = 0
    for incarnation in sorted({lease.incarnation for lease in leases}):
        at = (await hold_node(tx, incarnation, now)).now
    if not asks:
        return await _arm_stored(tx, leases, await _lock_stored(tx, leases), at)
    await tx.rows(HOLD_JOBS, list({lease.record.id for lease in leases}))
    wanted = [ask for lease in leases if (ask := asks.get(lease.lease_id)) is not None]
    keys = {gate.key for ask in wanted for gate in ask.gates}
    await lock_gates(tx, keys | {ask.rate.key for ask in wanted if ask.rate is not None})
    stored = await _lock_stored(tx, leases)
    gates = await _look(tx, leases, asks, at)
    answers: dict[str, ArmAnswer] = {}
    for lease in leases:
        ask = asks.get(lease.lease_id)
        if ask is not None and may_arm(lease, stored.get(lease.run_id)):
            answer = gates.decide(lease, ask)
            if answer is not None:
                answers[lease.lease_id] = answer
    await take_gates(tx, gates.taken)
    await block(tx, gates.blocked)
    left = {lease.lease_id for lease in gates.left}
    together = [lease for lease in leases if lease.lease_id not in answers and lease.lease_id not in left]
    for lease, answer in zip(together, await _arm_stored(tx, together, stored, at), strict=True):
        answers[lease.lease_id] = answer
    for lease in gates.left:
        answers[lease.lease_id] = await _arm_one(tx, lease, asks[lease.lease_id], at)
    return [answers[lease.lease_id] for lease in leases]


async def _look(tx: Transaction, leases: Sequence[Lease], asks: Mapping[str, GateAsk], now: Micros) -> Gates:
    wanted = [(lease.run_id, ask) for lease in leases if (ask := asks.get(lease.lease_id)) is not None]
    keys = sorted({gate.key for _, ask in wanted for gate in ask.gates})
    early = [run_id for run_id, ask in wanted if ask.on_busy is None and any(gate.until_end for gate in ask.gates)]
    late = [run_id for run_id, ask in wanted if ask.on_busy is not None and ask.on_busy.overdue]
    mine = [run_id for run_id, _ in wanted]
    gates = Gates(await tx.rows(LOOK_AT_GATES, keys, mine, early, late, now))
    contended = gates.contended(wanted)
    idle = await tx.rows(LIST_IDLE, contended, now) if contended else []
    others = any(run_id not in mine for _, run_id, *_ in idle)
    serving = Serving(await living_nodes(tx, now) if others else ())
    for key, run_id, due_at, *need, holder in idle:
        stuck = run_id not in mine and not serving.can_start(Need(*need), holder)
        gates.note_idle(key, run_id, due_at, stuck=stuck)
    return gates


async def _arm_one(tx: Transaction, lease: Lease, ask: GateAsk, now: Micros) -> ArmAnswer:
    """One after the other: what is decided at a gate for one run changes what the next one finds there."""
    stored = await _lock_stored(tx, [lease])
    closed = None
    if may_arm(lease, stored.get(lease.run_id)):
        closed = await pass_gates(tx, lease, ask, now)
    return closed or (await _arm_stored(tx, [lease], stored, now))[0]


async def _arm_stored(
    tx: Transaction, leases: Sequence[Lease], stored: dict[int, Stored], now: Micros
) -> list[ArmAnswer]:
    """Arm what may be armed, whatever its gates; all are locked."""
    ready = {lease.run_id: lease for lease in leases if may_arm(lease, stored.get(lease.run_id))}
    rows = await tx.rows(ARM, list(ready), now) if ready else []
    for run_id, fence in rows:
        lease = ready[run_id]
        stored[run_id] = Stored.armed(lease, fence, now)
    return [arm_answer(lease, stored.get(lease.run_id)) for lease in leases]


async def _lock_stored(tx: Transaction, leases: Sequence[Lease]) -> dict[int, Stored]:
    rows = await tx.rows(LOCK_ARMABLE, [lease.run_id for lease in leases])
    return {run_id: Stored(*rest) for run_id, *rest in rows}
