"""`arm`: decides which runs of a batch start now, and what the others do at a closed gate or rate.

Runs ask for gates only in this module. `gates.py` takes, leaves and passes on places at gates. `rules/gates.py` decides
which gates a run has, and what the run does at a closed gate.

The batch is read once, decided in memory and written with one statement of each kind. A decision that changes other
runs (replace, catch up, give a place to somebody else) first writes the pending decisions and then reads its gates
again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onthedot.clock import NEVER, Micros
from onthedot.model import run as runs
from onthedot.model.rate import RateGate, Tat, next_start, wait_reason
from onthedot.model.run import Gate, GateAsk, Lease, OnBusy, RunState, is_slot, why_skipped
from onthedot.rules.gates import giving_way, kept_while_waiting
from onthedot.rules.placement import Serving
from onthedot.stores.hints import Hint
from onthedot.stores.sql import gates as at_gates
from onthedot.stores.sql.finish import LOCK_JOBS, end_waiting
from onthedot.stores.sql.fragments import HELD_BY, RUN_OF_HOLDER, UNRESERVED, each_run, job_of
from onthedot.stores.sql.gates import OLDER_SLOT, Idle, Place
from onthedot.stores.sql.port import Now, Tx, plain, sql
from onthedot.stores.sql.reserve import hold_node

# The jobs are locked, too: they are not edited or paused before the transaction ends.
LOCK_ARMABLE = sql(f"""
SELECT r.id, r.lease_id, r.state, r.fence, r.attempt, r.armed_at, j.revision,
       j.state = 'active' AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = r.queue AND q.paused_at IS NOT NULL),
       r.granted_by, r.granted_at
FROM runs r CROSS JOIN jobs j WHERE r.id {{in1}} AND {job_of("r")} ORDER BY r.id
[[FOR KEY SHARE OF j FOR UPDATE OF r]]
""")  # noqa: S608 - a constant


class Seen(NamedTuple):
    """A row of `LOOK`: its kind, the gate, the run, and another run or instant."""

    what: str
    key: str
    run_id: int
    other: int | None


# Finds the newest slot of the same schedule whose run ended after this slot was due, or whose run is due now. 0: that
# slot is due, but not planned yet. The last 1,000 ended runs are enough, because runs at an overlap gate follow each
# other.
_NEWER_SLOT = """
SELECT coalesce(
    (SELECT ended.id FROM (SELECT * FROM history WHERE job_id = mine.job_id AND ended_at >= mine.due_at
                           ORDER BY ended_at DESC LIMIT 1000) ended
     WHERE ended.slot_at > mine.slot_at AND ended.trigger = mine.trigger AND ended.target = mine.target
       AND (ended.attempts > 0 OR ended.state = 'skipped' AND ended.reason = 'overlap')
     ORDER BY ended.slot_at DESC LIMIT 1),
    (SELECT newer.id FROM runs newer
     WHERE newer.job_id = mine.job_id AND newer.slot_at > mine.slot_at AND newer.trigger = mine.trigger
       AND newer.target = mine.target AND newer.due_at <= $6
     ORDER BY newer.slot_at DESC LIMIT 1),
    (SELECT 0 FROM schedules s
     WHERE s.job_id = mine.job_id AND {slot_trigger} = mine.trigger AND s.next_at <= $6))
"""

# All that a batch must know, read by one statement:
# held the holders of its gates, and the other gates that its runs hold
# waiting how many slots wait at an overlap gate, without those that are caught up
#   caught_up  when slots at an overlap gate were last caught up
# earlier a run of the same job that is due before one of the batch and has not started
# newer the newest slot (`_NEWER_SLOT`)
#   older      a slot that has to start before one of the batch (`gates.py`)
_HELD = """
SELECT 'held' AS what, g.key AS key, g.run_id AS run_id, 0 AS other FROM gate_holders g WHERE g.key {in1}
"""
_HELD_BY_RUNS = """
SELECT 'held' AS what, g.key AS key, g.run_id AS run_id, 0 AS other
FROM gate_holders g <<INDEXED BY gate_holders_run>> WHERE {held_by} {in2} AND g.key {not_in1}
""".replace("{held_by}", HELD_BY)
LOOK_AGAIN = sql(_HELD, Seen)
LOOK_AT_RUNS = sql(_HELD_BY_RUNS, Seen)  # of a batch without gates, such as runs that only keep a rate
LOOK = sql(
    _HELD
    + """
    UNION ALL {held_by_runs}
    UNION ALL
    SELECT 'waiting', r.blocked_on, count(*), 0 FROM runs r <<INDEXED BY runs_blocked>>
    WHERE r.blocked_on {in3} AND coalesce(r.{is_slot}, false) AND r.caught_up_at IS NULL GROUP BY r.blocked_on
    UNION ALL
    SELECT 'caught_up', r.blocked_on, 0, max(r.caught_up_at) FROM runs r <<INDEXED BY runs_blocked>>
    WHERE r.blocked_on {in3} AND r.caught_up_at IS NOT NULL GROUP BY r.blocked_on
    UNION ALL
    SELECT 'caught_up', g.key, 0, max(r.caught_up_at) FROM gate_holders g {run_of_holder}
    WHERE g.key {in3} AND r.caught_up_at IS NOT NULL GROUP BY g.key
    UNION ALL
    SELECT 'earlier', '', mine.id, (
        SELECT other.id FROM runs other
        WHERE other.job_id = mine.job_id AND other.due_at < mine.due_at AND other.target = mine.target
          AND other.state <> 'running' ORDER BY other.due_at, other.id LIMIT 1)
    FROM runs mine WHERE mine.id {in4}
    UNION ALL
    SELECT 'newer', '', mine.id, ({newer}) FROM runs mine WHERE mine.id {in5}
    UNION ALL
    SELECT 'older', '', mine.id, ({older}) FROM runs mine WHERE mine.id {in5}
    """.replace("{held_by_runs}", _HELD_BY_RUNS)
    .replace("{run_of_holder}", RUN_OF_HOLDER)
    .replace("{newer}", _NEWER_SLOT)
    .replace("{older}", OLDER_SLOT.replace("{at}", "$6")),
    Seen,
)

LIST_RATES = sql("SELECT key, tat, part, parts FROM rates WHERE key {in1}")

SET_RATE = sql("""
INSERT INTO rates (key, tat, part, parts) VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO UPDATE SET tat = excluded.tat, part = excluded.part, parts = excluded.parts
""")

ARM = each_run(
    """
    UPDATE runs SET state = 'running', fence = $3, armed_at = $4, attempt = attempt + 1, expires_at = NULL
    WHERE id = $1 AND lease_id = $2 AND state = 'reserved'
    """,
    "bigint text bigint bigint",
)

# A slot that waits at a gate is not missed and can no longer expire. It is ready only when the gate opens.
BLOCK = each_run(
    f"""
    UPDATE runs
    SET {UNRESERVED}, ready_at = {NEVER}, blocked_on = $3, blocked_capacity = $4, blocked_until_end = $5, reason = $6,
        expires_at = CASE WHEN {{is_slot}} THEN NULL ELSE expires_at END
    WHERE id = $1 AND lease_id = $2 AND state = 'reserved'
    """,  # noqa: S608 - constants
    "bigint text text integer bool text",
)

MARK_CAUGHT_UP = sql("UPDATE runs SET caught_up_at = $2 WHERE id = $1")

# A slot that was granted an instant is not missed and can no longer expire. It keeps its lease id until it is reserved
# again, so that a repeated arm gets the same answer.
DELAY = each_run(
    """
    UPDATE runs
    SET state = 'scheduled', due_at = $3, ready_at = $3, granted_at = $3, granted_by = $4, reason = $5,
        expires_at = CASE WHEN {is_slot} THEN NULL ELSE expires_at END,
        incarnation = NULL, revision = NULL, reserved_at = NULL
    WHERE id = $1 AND lease_id = $2 AND state = 'reserved'
    """,
    "bigint text bigint text text",
)

# Slots that asked at their time.
LIST_WAITING_SLOTS = sql("""
SELECT id FROM runs <<INDEXED BY runs_blocked>>
WHERE blocked_on = $1 AND coalesce({is_slot}, false) AND caught_up_at IS NULL ORDER BY +id
""")

LIST_HOLDING_SLOTS = sql(
    f"""
    SELECT g.run_id, r.state = 'running' FROM gate_holders g {RUN_OF_HOLDER}
    WHERE g.key = $1 AND r.{{is_slot}} AND r.caught_up_at IS NULL ORDER BY g.run_id
    """  # noqa: S608 - a constant
)

# Of any schedule of the job.
FIND_NEWER_AT_GATE = sql(
    f"""
    SELECT slot.id FROM (
        SELECT id, slot_at FROM runs <<INDEXED BY runs_blocked>> WHERE blocked_on = $1 AND coalesce({{is_slot}}, false)
        UNION ALL
        SELECT r.id, r.slot_at FROM gate_holders g {RUN_OF_HOLDER} WHERE g.key = $1 AND r.{{is_slot}}
    ) slot WHERE slot.slot_at > $2 ORDER BY slot.slot_at DESC, slot.id LIMIT 1
    """  # noqa: S608 - a constant
)

# The first request to stop gives the reason.
ASK_TO_STOP = sql("UPDATE runs SET cancel_wanted = coalesce(cancel_wanted, $1) WHERE id = $2 AND state = 'running'")

INHERIT_GRANT = sql("""
UPDATE runs SET (granted_at, granted_by) = (SELECT old.granted_at, old.granted_by FROM runs old WHERE old.id = $1)
WHERE id = $2 AND granted_at IS NULL
""")


# ── decide: plain functions over what was read ───────────────────────────────────────────────────────────────


class Stored(NamedTuple):
    """The stored state of a run that is to be armed. `revision` is the job's current one."""

    lease_id: str | None
    state: str
    fence: int
    attempt: int
    armed_at: Micros
    revision: int
    active: bool = True  # the job, and its queue
    granted_by: str | None = None
    granted_at: Micros | None = None

    @classmethod
    def armed(cls, lease: Lease, fence: int, now: Micros) -> Stored:
        """Return the state of a run that is armed under this lease."""
        return cls(lease.lease_id, "running", fence, lease.attempt, now, lease.record.revision)


def may_arm(lease: Lease, stored: Stored | None) -> bool:
    """Return whether the run is reserved under this lease, and its job is active and has the lease's revision."""
    if stored is None or stored.lease_id != lease.lease_id or stored.state != "reserved":
        return False
    return stored.revision == lease.record.revision and bool(stored.active)


def arm_answer(lease: Lease, stored: Stored | None) -> runs.ArmAnswer:
    """Return the answer for the lease's holder, once the batch is armed. A repeated call returns the same answer."""
    if stored is None or stored.lease_id != lease.lease_id:
        return runs.Gone("taken or withdrawn")
    if stored.state == "scheduled" and stored.granted_by is not None and stored.granted_at is not None:
        return runs.Delayed(stored.granted_by, stored.granted_at)
    if stored.state != "running":
        return runs.Gone(runs.EDITED if stored.active else "paused")
    return runs.Armed(stored.fence, stored.attempt, stored.armed_at)


Wanted = Sequence[tuple[int, GateAsk]]
"""The runs of a batch that ask for gates."""


def to_look_at(wanted: Wanted) -> tuple[list[str], list[int], list[str], list[int], list[int]]:
    """Return the values for `LOOK`: the batch's gates and runs, the gates where slots are counted, runs that may come
    too early, and overdue slots."""
    gates = {gate.key for _, ask in wanted for gate in ask.gates}
    slots = [(run_id, ask, ask.on_busy) for run_id, ask in wanted if ask.on_busy is not None]
    counted = {
        gate.key
        for _, ask, on_busy in slots
        for gate in ask.gates
        if gate.until_end and (on_busy.overdue or on_busy.max_waiting is not None)
    }
    early = [run_id for run_id, ask in wanted if ask.on_busy is None and any(gate.until_end for gate in ask.gates)]
    overdue = [run_id for run_id, _, on_busy in slots if on_busy.overdue]
    return list(gates), [run_id for run_id, _ in wanted], list(counted), early, overdue


class Known:
    """The gates and slots as stored, with the batch's decisions so far applied.

    >>> known = Known([Seen("held", "limit", 7, 0), Seen("waiting", "overlap", 3, 0)])
    >>> known.is_full(Gate("limit", 1)), known.is_full(Gate("limit", 2)), known.waiting["overlap"]
    (True, False, 3)
    """

    def __init__(self, rows: Iterable[Seen] = ()) -> None:
        self.holders: dict[str, set[int]] = defaultdict(set)  # by gate
        self.held: dict[int, set[str]] = defaultdict(set)  # by run
        self.waiting: Counter[str] = Counter()
        self.caught_up: dict[str, Micros] = {}
        self.earlier: dict[int, int] = {}
        self.newer: dict[int, int] = {}
        self.older: dict[int, int] = {}
        for what, key, run_id, other in rows:
            if what == "held":
                self.hold(key, run_id)
            elif what == "waiting":
                self.waiting[key] = run_id
            elif what == "caught_up" and other is not None:
                self.caught_up[key] = max(other, self.caught_up.get(key, 0))
            elif other is not None:
                {"earlier": self.earlier, "newer": self.newer, "older": self.older}[what][run_id] = other

    def hold(self, key: str, run_id: int) -> None:
        self.holders[key].add(run_id)
        self.held[run_id].add(key)

    def leave(self, key: str, run_id: int) -> None:
        self.holders[key].discard(run_id)
        self.held[run_id].discard(key)

    def is_full(self, gate: Gate) -> bool:
        return len(self.holders[gate.key]) >= gate.capacity

    def is_skipped(self, gate: Gate, on_busy: OnBusy) -> bool:
        """Return whether a slot is skipped at a closed gate. Otherwise it waits there."""
        crowded = on_busy.max_waiting is not None and self.waiting[gate.key] >= on_busy.max_waiting
        return gate.until_end and (on_busy.action == "skip" or crowded)

    def is_caught_up(self, lease: Lease, gate: Gate, on_busy: OnBusy, older: int | None) -> bool:
        """Return whether a slot is overdue together with others. Such slots start in the order of their instants."""
        with_others = self.caught_up.get(gate.key, 0) >= lease.due_at
        return on_busy.late or with_others or older is not None or lease.run_id in self.newer

    def giving_way(self, lease: Lease, gate: Gate, idle: Iterable[Idle]) -> list[int] | None:
        """Return the idle runs that leave a gate so that this run fits. None: it does not fit even then."""
        holders = self.holders[gate.key]
        if lease.run_id in holders:
            return []
        ages = [(one.due_at, one.run_id) for one in idle]
        return giving_way((lease.due_at, lease.run_id), ages, holders=len(holders), capacity=gate.capacity)


# ── read, record ─────────────────────────────────────────────────────────────────────────────────────────────


async def arm(
    tx: Tx, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Now = None
) -> list[runs.ArmAnswer]:
    """Arm the runs that may start. Locks are taken in order: queues, nodes, jobs, gates, runs."""
    asks = gates or {}
    at: Micros = 0
    for incarnation in sorted({lease.incarnation for lease in leases}):
        at = (await hold_node(tx, incarnation, now)).now
    wanted = [(lease.run_id, asks[lease.lease_id]) for lease in leases if lease.lease_id in asks]
    if wanted and tx.concurrent:
        await tx.rows(LOCK_JOBS, list({lease.record.id for lease in leases}))
        keys = {gate.key for _, ask in wanted for gate in ask.gates}
        await at_gates.lock_gates(tx, keys | {ask.rate.key for _, ask in wanted if ask.rate is not None})
    batch = Batch(tx, leases, wanted, at)
    await batch.read()
    answers = [await batch.decide(lease, asks.get(lease.lease_id)) for lease in leases]
    await batch.write()
    return [
        answer or arm_answer(lease, batch.stored.get(lease.run_id))
        for lease, answer in zip(leases, answers, strict=True)
    ]


@dataclass(slots=True)
class Pending:
    """The decisions that are not written yet."""

    armed: dict[int, Lease] = field(default_factory=dict)
    taken: list[tuple[str, int, bool]] = field(default_factory=list)
    blocked: list[tuple[object, ...]] = field(default_factory=list)
    caught_up: dict[int, Micros] = field(default_factory=dict)
    delayed: list[tuple[object, ...]] = field(default_factory=list)
    rates: dict[str, Tat] = field(default_factory=dict)


class Batch:
    """The runs of one call. The batch reads their gates, records the decisions, and changes other runs."""

    def __init__(self, tx: Tx, leases: Sequence[Lease], wanted: Wanted, now: Micros) -> None:
        self._tx, self._leases, self._wanted, self._now = tx, leases, wanted, now
        self.stored: dict[int, Stored] = {}
        self._known = Known()
        self._rates: dict[str, Tat] = {}
        self._idle: dict[str, list[Idle]] = {}  # of limits that were full when a run asked
        self._serving = Serving(())
        self._pending = Pending()

    async def read(self) -> None:
        """Read the runs of the batch and their gates."""
        rows = await self._tx.rows(LOCK_ARMABLE, [lease.run_id for lease in self._leases])
        self.stored = {run_id: Stored(*rest) for run_id, *rest in rows}
        if self._wanted:
            gates, ids, *slots = to_look_at(self._wanted)
            look = self._tx.rows(LOOK, gates, ids, *slots, self._now) if gates else self._tx.rows(LOOK_AT_RUNS, [], ids)
            self._known = Known(await look)
            self._idle = {}
            rated = list({ask.rate.key for _, ask in self._wanted if ask.rate is not None})
            self._rates = {key: Tat(*tat) for key, *tat in await self._tx.rows(LIST_RATES, rated)} if rated else {}

    async def _read_holders(self, keys: Iterable[str]) -> None:
        """Read the holders of these gates again, because other runs were given places."""
        again = list(keys)
        for key in again:
            for run_id in list(self._known.holders[key]):
                self._known.leave(key, run_id)
            self._idle.pop(key, None)
        for _, key, run_id, _ in await self._tx.rows(LOOK_AGAIN, again) if again else ():
            self._known.hold(key, run_id)

    async def write(self) -> None:
        """Write the pending decisions."""
        tx, pending, self._pending = self._tx, self._pending, Pending()
        await at_gates.take_gates(tx, pending.taken)
        for statement, rows in (
            (MARK_CAUGHT_UP, list(pending.caught_up.items())),
            (BLOCK, pending.blocked),
            (DELAY, pending.delayed),
            (SET_RATE, [(key, *tat) for key, tat in pending.rates.items()]),
        ):
            if rows:
                await tx.each(statement, rows)
        if pending.armed:
            fences = await tx.numbers("fence", len(pending.armed))
            armed = list(zip(pending.armed.values(), fences, strict=True))
            await tx.each(ARM, [(lease.run_id, lease.lease_id, fence, self._now) for lease, fence in armed])
            for lease, fence in armed:
                self.stored[lease.run_id] = Stored.armed(lease, fence, self._now)
            self._idle.clear()  # these runs use their places now

    # ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def decide(self, lease: Lease, ask: GateAsk | None) -> runs.ArmAnswer | None:
        """Decide about one run. Return None if it is armed, or cannot be armed."""
        if lease.run_id in self._pending.armed or not may_arm(lease, self.stored.get(lease.run_id)):
            return None
        closed = None if ask is None else await self._pass_gates(lease, ask)
        if closed is None:
            self._pending.armed[lease.run_id] = lease
        return closed

    async def _pass_gates(self, lease: Lease, ask: GateAsk) -> runs.ArmAnswer | None:
        """Take the run's gates in order. Return None if it has them all, else the answer for the run."""
        if ask.on_busy is None:  # armed ahead: at a closed gate, nothing changes
            busy: runs.ArmAnswer | None = next(filter(None, (self._is_closed(lease, gate) for gate in ask.gates)), None)
            if busy is None and ask.rate is not None:
                busy = await self._keep_rate(lease, ask, ask.rate)
            if busy is not None:
                return busy
        for place, gate in enumerate(ask.gates):
            if gate.key in self._known.held[lease.run_id]:
                continue
            if ask.on_busy is not None:
                if gate.until_end and ask.on_busy.overdue:
                    skipped, ask = await self._catch_up(lease, gate, ask, ask.on_busy)
                    if skipped is not None:
                        return skipped
                if self._known.is_full(gate):
                    await self._make_way(lease, gate, ask, place)
                if gate.key in self._known.held[lease.run_id]:
                    continue  # it was given another run's place
                if self._known.is_full(gate):
                    return await self._wait_or_skip(lease, ask, place)
            self._known.hold(gate.key, lease.run_id)
            self._pending.taken.append((gate.key, lease.run_id, gate.until_end))
        await self._keep_only(lease.run_id, ask.gates)
        return None if ask.rate is None or ask.on_busy is None else await self._keep_rate(lease, ask, ask.rate)

    def _is_closed(self, lease: Lease, gate: Gate) -> runs.Busy | None:
        """Return the run that holds the gate or comes first, for a run that is armed ahead."""
        if gate.key in self._known.held[lease.run_id]:
            return None
        if gate.until_end and lease.run_id in self._known.earlier:
            return runs.Busy(gate.key, self._known.earlier[lease.run_id])
        return runs.Busy(gate.key, min(self._known.holders[gate.key])) if self._known.is_full(gate) else None

    async def _wait_or_skip(self, lease: Lease, ask: GateAsk, place: int) -> runs.Blocked | runs.Skipped:
        """Let the run wait at a closed gate, or skip its slot."""
        gate = ask.gates[place]
        holder = min(self._known.holders[gate.key])
        if ask.on_busy is not None and self._known.is_skipped(gate, ask.on_busy):
            await self._skip(lease, "overlap", holder)
            return runs.Skipped(gate.key, holder)
        is_counted = is_slot(lease.trigger) and lease.run_id not in self._pending.caught_up
        await self._keep_only(lease.run_id, kept_while_waiting(ask.gates[:place]))
        blocked = (gate.key, gate.capacity, gate.until_end, f"waits for run {holder}")
        self._pending.blocked.append((lease.run_id, lease.lease_id, *blocked))
        self._known.waiting[gate.key] += int(is_counted)
        del self.stored[lease.run_id]
        return runs.Blocked(gate.key, holder)

    async def _skip(self, lease: Lease, reason: str, other: int) -> None:
        await self.write()
        why = why_skipped(reason, other)
        await end_waiting(self._tx, lease.run_id, RunState.SKIPPED, reason, self._now, error=why, late=True)
        del self.stored[lease.run_id]
        await self._read_holders(self._known.held[lease.run_id])

    async def _keep_only(self, run_id: int, gates: Sequence[Gate]) -> None:
        """Give up all other gates: those of another definition, and limits that a waiting run does not use."""
        odd = sorted(self._known.held[run_id] - {gate.key for gate in gates})
        if odd:
            await self.write()
            await at_gates.leave_gates(self._tx, [Place(run_id, key) for key in odd])
            await self._read_holders(odd)

    async def _catch_up(
        self, lease: Lease, gate: Gate, ask: GateAsk, on_busy: OnBusy
    ) -> tuple[runs.Skipped | runs.Busy | None, GateAsk]:
        """Apply the rule for overdue slots: skip the slot, or let it wait until older slots have started."""
        newer = self._known.newer.get(lease.run_id)
        if on_busy.overdue != "wait":
            if newer is None and on_busy.overdue == "replaced" and on_busy.late and self._known.is_full(gate):
                await self.write()
                newer = await self._tx.value(FIND_NEWER_AT_GATE, gate.key, lease.slot_at)
            if newer is None:
                return None, ask
            await self._skip(lease, on_busy.overdue, newer)
            return runs.Skipped(gate.key, newer, on_busy.overdue), ask
        older = None
        if lease.run_id in self._known.older:  # slots that this batch has decided had their turn
            await self.write()
            older = await self._tx.value(at_gates.FIND_OLDER, lease.run_id, self._now)
        if older is not None and not self._known.is_full(gate):
            if not await at_gates.put_first(self._tx, older, gate.key, self._now):
                return runs.Busy(gate.key, older), ask  # another transaction has locked that run: retry soon
            await self._read_holders([gate.key])
        if not self._known.is_caught_up(lease, gate, on_busy, older):
            return None, ask
        self._pending.caught_up[lease.run_id] = self._known.caught_up[gate.key] = self._now
        return None, ask._replace(on_busy=OnBusy("wait"))

    # ── make room ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _make_way(self, lease: Lease, gate: Gate, ask: GateAsk, place: int) -> None:
        """At a full gate: replace slots, or take places from runs that cannot use them or come later."""
        if gate.until_end:
            if ask.on_busy is not None and ask.on_busy.action == "replace":
                await self._replace_holders(lease, gate)
            return
        idle = await self._idle_at(gate)
        stuck = at_gates.stuck_runs(idle, self._serving)
        if stuck:
            await self.write()
            await at_gates.take_back(self._tx, gate.key, stuck, self._serving, wanted=True)
            await self._read_holders([gate.key])
            if not self._known.is_full(gate):
                return
            idle = await self._idle_at(gate)
        if any((one.due_at, one.run_id) > (lease.due_at, lease.run_id) for one in idle):
            await self._displace(lease, ask.gates[place:])

    async def _idle_at(self, gate: Gate) -> list[Idle]:
        """Return the holders of a limit that have not started. All full limits of the batch are read together."""
        if gate.key not in self._idle:
            limits = {one for _, ask in self._wanted for one in ask.gates if not one.until_end}
            full = {one.key for one in limits if one.key not in self._idle and self._known.is_full(one)} | {gate.key}
            self._idle |= {key: [] for key in full}
            idle, serving = await at_gates.find_idle(self._tx, sorted(full), self._now)
            self._serving = serving if idle else self._serving
            for one in idle:
                self._idle[one.key].append(one)
        holders, armed = self._known.holders[gate.key], self._pending.armed
        return [one for one in self._idle[gate.key] if one.run_id in holders and one.run_id not in armed]

    async def _displace(self, lease: Lease, gates: Sequence[Gate]) -> None:
        """Take places at the first of these gates from younger runs that have not started, if the run can then pass all
        the gates. The younger runs become ready, and ask again when they are armed."""
        going = []
        for gate in gates:
            may_leave = not gate.until_end and self._known.is_full(gate)
            idle = await self._idle_at(gate) if may_leave and gate.key not in self._known.held[lease.run_id] else ()
            going.append(self._known.giving_way(lease, gate, idle))
        if not going[0] or None in going:
            return
        first = gates[0]
        await self.write()
        await self._tx.each(at_gates.LEAVE, [Place(run_id, first.key) for run_id in going[0]])
        await at_gates.take_gates(self._tx, [(first.key, lease.run_id, first.until_end)])
        await at_gates.pass_on(self._tx, [first.key])
        await self._read_holders([first.key])

    async def _replace_holders(self, lease: Lease, gate: Gate) -> None:
        """End slots that wait or back off, and ask a running one to stop. Submitted runs stay.

        A replaced run hands its rate grant on. Otherwise slots faster than their rate would replace each other for
        ever.
        """
        await self.write()
        for run_id in await self._tx.values(LIST_WAITING_SLOTS, gate.key):
            why = why_skipped("replaced", lease.run_id)
            await end_waiting(self._tx, run_id, RunState.SKIPPED, "replaced", self._now, error=why, late=True)
        for run_id, is_running in await self._tx.rows(LIST_HOLDING_SLOTS, gate.key):
            if is_running:
                await ask_to_stop(self._tx, run_id, "replaced", self._now)
            else:
                await self._tx.do(INHERIT_GRANT, run_id, lease.run_id)
                await end_waiting(self._tx, run_id, RunState.CANCELLED, "replaced", self._now, late=True)
        await self.read()

    async def _keep_rate(self, lease: Lease, ask: GateAsk, gate: RateGate) -> runs.Busy | runs.Delayed | None:
        """Return None if the run may start at its instant. Otherwise give it a later instant, once it is due. Other
        runs may use its places in limits until then."""
        stored, start = self.stored[lease.run_id], max(self._now, lease.due_at)  # if armed ahead, it starts when due
        granted_at = stored.granted_at if stored.granted_by == gate.key else None
        instant, tat = next_start(gate, self._rates.get(gate.key), start=start, granted_at=granted_at)
        if instant > start and ask.on_busy is None:
            return runs.Busy(gate.key, 0)
        if tat is not None:
            self._rates[gate.key] = self._pending.rates[gate.key] = tat
        if instant <= start:
            return None
        self._pending.delayed.append((lease.run_id, lease.lease_id, instant, gate.key, wait_reason(gate, instant)))
        self._tx.hints.append(Hint("runs", instant))
        # The same lease again in this batch gets the same answer.
        self.stored[lease.run_id] = stored._replace(state="scheduled", granted_by=gate.key, granted_at=instant)
        limits = self._known.held[lease.run_id] - {one.key for one in ask.gates if one.until_end}
        if limits:
            await self.write()
            await at_gates.open_gates(self._tx, [lease.run_id], ended=False)
            await self._read_holders(limits)
        return runs.Delayed(gate.key, instant)


async def ask_to_stop(tx: Tx, run_id: int, why: str, now: Micros) -> None:
    """Ask a running attempt to stop. Its node receives the request with its next heartbeat."""
    await tx.do(ASK_TO_STOP, plain(why), run_id)
    tx.hints.append(Hint("beats", now))
