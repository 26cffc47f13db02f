"""The way of a run, in SQLite: submitted, armed, released, finished. Taking it is in `reserve.py`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from onthedot.clock import NEVER, Micros
from onthedot.errors import KeyConflict, StoreUnusable, UnknownJob
from onthedot.run import ArmAnswer, Armed, GateAsk, Lease, NewRun
from onthedot.stores.arming import Stored, arm_answer, may_arm
from onthedot.stores.base import Hint
from onthedot.stores.documents import Noting, check_noting
from onthedot.stores.planned import Insert
from onthedot.stores.sqlite.documents import append_entries
from onthedot.stores.sqlite.finish import check_moves, move_runs, record_attempts
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.passing import pass_gates
from onthedot.stores.sqlite.plan import HOLD_NEW, insert_runs
from onthedot.stores.sqlite.reserve import Reserve
from onthedot.stores.sqlite.tables import check_lease, find_checkpoint, take_numbers
from onthedot.stores.sqlite.triggers import with_slots
from onthedot.stores.staleness import check_revision
from onthedot.verdict import Finish

LIST_KNOWN_JOBS = """
SELECT j.id, j.state, j.revision
FROM json_each(:ids) wanted JOIN jobs j ON j.id = wanted.value WHERE j.state <> 'deleted'
"""

FIND_RUN = "SELECT id FROM runs WHERE job_id = ? AND slot_at = ? AND trigger = ? AND target = ''"

# Submitted before, and ended since: the answer got lost, or somebody asks for the same thing twice.
LIST_ENDED = with_slots("""
SELECT wanted.key, h.id
FROM json_each(:runs) wanted CROSS JOIN history h INDEXED BY history_submitted
  ON h.job_id = json_extract(wanted.value, '$[0]') AND h.slot_at = json_extract(wanted.value, '$[1]')
 AND h.trigger = json_extract(wanted.value, '$[2]')
WHERE {is_no_slot}
""")

FIND_KEY = "SELECT run_id, args FROM submit_keys WHERE job_id = ? AND key = ?"

INSERT_KEY = "INSERT INTO submit_keys (job_id, key, run_id, args, created_at) VALUES (?, ?, ?, ?, ?)"

LEASES = """
{with_}
SELECT r.lease_id, r.id, r.job_id, r.revision, j.state, r.trigger, r.slot_at, r.due_at, r.args,
       r.attempt + (r.state = 'reserved'), r.failures, r.recoveries, r.incarnation, r.created_at, r.reserved_at,
       coalesce(r.armed_at, 0), coalesce(r.fence, 0), r.target, r.queue,
       r.priority
FROM {source}
WHERE {wanted}
"""

LIST_HELD = LEASES.format(
    with_="",
    source="runs r INDEXED BY runs_held JOIN jobs j ON j.id = r.job_id",
    wanted="r.incarnation = ? ORDER BY r.id",
)

VOID = "UPDATE nodes SET void_below = max(void_below, :below) WHERE incarnation = :incarnation"

FIND_ARMABLE = """
SELECT r.id, r.lease_id, r.state, r.fence, r.attempt, r.armed_at, j.revision,
       j.state = 'active' AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = r.queue AND q.paused_at IS NOT NULL),
       r.granted_by, r.granted_at
FROM json_each(:ids) wanted CROSS JOIN runs r ON r.id = wanted.value JOIN jobs j ON j.id = r.job_id
"""

ARM = """
UPDATE runs SET state = 'running', fence = ?, armed_at = ?, attempt = attempt + 1, expires_at = NULL
WHERE id = ? AND lease_id = ? AND state = 'reserved'
"""

RELEASE = """
UPDATE runs
SET state = 'scheduled', ready_at = due_at, lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE id = ? AND lease_id = ? AND state = 'reserved'
"""

FIND_ARMED = "SELECT fence, armed_at FROM runs WHERE id = ? AND lease_id = ? AND state = 'running'"

FIND_ATTEMPT = "SELECT 1 FROM attempts WHERE run_id = ? AND lease_id = ? AND outcome = ?"


class Runs(Reserve):
    """See `RunsSlice`."""

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        check_noting(noting, runs)

        def work(tx: Transaction) -> list[int]:
            at = self.read_clock(now)
            ids = submit_runs(tx, runs, at)
            if noting is not None:
                append_entries(tx.db, noting.kind, noting.of(ids), noting.keys, at)
            return ids

        return await self.write(work)

    async def held(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        def work(tx: Transaction) -> list[Lease]:
            if void_below:
                tx.db.execute(VOID, {"below": void_below, "incarnation": incarnation})
            return self.leases(tx.db, tx.db.execute(LIST_HELD, (incarnation,)).fetchall())

        return await (self.write(work) if void_below else self.look(work))

    def leases(self, db: sqlite3.Connection, rows: Iterable[Sequence[Any]]) -> list[Lease]:
        """Leases from rows of `LEASES`, but for jobs that this version cannot read: theirs wait for one that can."""
        leases = []
        for lease_id, run_id, job_id, revision, state, *rest in rows:
            with suppress(StoreUnusable):
                record = self.records.find(db, job_id, revision, state)
                lease = Lease(lease_id, run_id, record, *rest)
                lease.checkpoint = find_checkpoint(db, run_id)
                leases.append(lease)
        return leases

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        answers = await self.write(lambda tx: _arm(tx, leases, gates or {}, self.read_clock(now)))
        for lease, answer in zip(leases, answers, strict=True):
            if isinstance(answer, Armed):  # the lease goes into history as the holder has it
                lease.fence, lease.armed_at = answer.fence, answer.armed_at
        return answers

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        del now
        return await self.write(lambda tx: [_release(tx, lease) for lease in leases])

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        del now  # the worker's own instants are recorded
        return await self.write(lambda tx: _finish(tx, finishes))


def submit_runs(tx: Transaction, runs: Sequence[NewRun], now: Micros) -> list[int]:
    """Insert runs, or find those that have these keys; their ids."""
    db = tx.db
    wanted = {run.job_id for run in runs}
    rows = db.execute(LIST_KNOWN_JOBS, {"ids": json.dumps(list(wanted))}).fetchall()
    known = {job_id: (state, revision) for job_id, state, revision in rows}
    for job_id in sorted(wanted - known.keys()):
        raise UnknownJob(f"job {job_id} does not exist; define it before you submit runs of it")
    for run in runs:
        check_revision(run.job_id, run.revision, known[run.job_id][1])
    if not runs:
        return []
    if any(run.key for run in runs):
        return [_submit_keyed(tx, run, now) for run in runs]
    keys = json.dumps([(run.job_id, run.instant, run.trigger) for run in runs])
    ended: dict[int, int] = dict(db.execute(LIST_ENDED, {"runs": keys}).fetchall())
    new = [run for number, run in enumerate(runs) if number not in ended]
    tx.hints.append(Hint("runs", min(run.due_at for run in runs)))
    fresh = iter(_insert(db, new, now))
    for job_id in [job_id for job_id, (state, _) in known.items() if state == "paused"]:
        db.execute(HOLD_NEW, (NEVER, job_id))
    return [ended[number] if number in ended else next(fresh) for number in range(len(runs))]


def _submit_keyed(tx: Transaction, run: NewRun, now: Micros) -> int:
    """One run, which may have been submitted before under its key."""
    if not run.key:
        return submit_runs(tx, [run], now)[0]
    known = tx.db.execute(FIND_KEY, (run.job_id, run.key)).fetchone()
    if known is None:
        [run_id] = submit_runs(tx, [replace(run, key="")], now)
        tx.db.execute(INSERT_KEY, (run.job_id, run.key, run_id, run.args, now))
        return run_id
    run_id, args = known
    if args != run.args:
        raise KeyConflict(f"key {run.key!r}: used before by run {run_id}, with other arguments")
    return int(run_id)


def _insert(db: sqlite3.Connection, runs: Sequence[NewRun], now: Micros) -> Sequence[int]:
    if not runs:
        return []
    rows = [
        Insert(run.job_id, run.trigger, run.due_at, run.expires_at, run.args, False, "", run.instant) for run in runs
    ]
    ids, inserted = insert_runs(db, rows, now)
    if inserted == len(rows):
        return ids
    return [db.execute(FIND_RUN, (run.job_id, run.instant, run.trigger)).fetchone()[0] for run in runs]


def _arm(tx: Transaction, leases: Sequence[Lease], gates: Mapping[str, GateAsk], now: Micros) -> list[ArmAnswer]:
    for incarnation in {lease.incarnation for lease in leases}:
        check_lease(tx.db, incarnation, now)
    if not gates:
        return _arm_together(tx.db, leases, now)
    return [_arm_one(tx, lease, gates.get(lease.lease_id), now) for lease in leases]


def _arm_one(tx: Transaction, lease: Lease, ask: GateAsk | None, now: Micros) -> ArmAnswer:
    """One after the other: what is decided at a gate for one run changes what the next one finds there."""
    closed = None
    if ask is not None and may_arm(lease, _find_stored(tx.db, [lease]).get(lease.run_id)):
        closed = pass_gates(tx, lease, ask, now)
    return closed or _arm_together(tx.db, [lease], now)[0]


def _arm_together(db: sqlite3.Connection, leases: Sequence[Lease], now: Micros) -> list[ArmAnswer]:
    """Arm what may be armed, whatever its gates."""
    stored = _find_stored(db, leases)
    ready = {lease.run_id: lease for lease in leases if may_arm(lease, stored.get(lease.run_id))}
    fences = take_numbers(db, "fence", len(ready)) if ready else ()
    db.executemany(ARM, [(fence, now, *of) for fence, of in zip(fences, _keys(ready.values()), strict=True)])
    for fence, lease in zip(fences, ready.values(), strict=True):
        stored[lease.run_id] = Stored.armed(lease, fence, now)
    return [arm_answer(lease, stored.get(lease.run_id)) for lease in leases]


def _find_stored(db: sqlite3.Connection, leases: Sequence[Lease]) -> dict[int, Stored]:
    ids = json.dumps([lease.run_id for lease in leases])
    return {row[0]: Stored(*row[1:]) for row in db.execute(FIND_ARMABLE, {"ids": ids})}


def _keys(leases: Iterable[Lease]) -> list[tuple[int, str]]:
    return [(lease.run_id, lease.lease_id) for lease in leases]


def _release(tx: Transaction, lease: Lease) -> bool:
    if not tx.db.execute(RELEASE, (lease.run_id, lease.lease_id)).rowcount:
        return False
    tx.hints.append(Hint("runs", lease.due_at))
    return True


def _finish(tx: Transaction, finishes: Sequence[Finish]) -> list[bool]:
    """All at once; only if a lease was lost or this is a repetition, one by one."""
    check_moves(finish.verdict for finish in finishes)
    if not all(finish.lease.fence for finish in finishes):
        finishes = [completed(tx.db, finish) for finish in finishes]
    if _finish_together(tx, finishes):
        return [True] * len(finishes)
    return [_finish_together(tx, [finish]) or _was_recorded(tx.db, finish) for finish in finishes]


def completed(db: sqlite3.Connection, finish: Finish) -> Finish:
    """A finish by somebody who was never told what `arm` answered: the row knows."""
    lease = finish.lease
    row = None if lease.fence else db.execute(FIND_ARMED, (lease.run_id, lease.lease_id)).fetchone()
    if row is None:
        return finish
    return finish._replace(lease=replace(lease, fence=row[0], armed_at=row[1]))


def _finish_together(tx: Transaction, finishes: Sequence[Finish]) -> bool:
    tx.db.execute("SAVEPOINT finish")
    accepted = move_runs(tx, finishes)
    if accepted:
        record_attempts(tx.db, finishes)
    else:
        tx.db.execute("ROLLBACK TO finish")
    tx.db.execute("RELEASE finish")
    return accepted


def _was_recorded(db: sqlite3.Connection, finish: Finish) -> bool:
    """Whether this very attempt was accepted before, and only the answer got lost."""
    key = (finish.lease.run_id, finish.lease.lease_id, finish.verdict.outcome.value)
    return db.execute(FIND_ATTEMPT, key).fetchone() is not None
