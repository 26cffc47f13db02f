"""The way of a run, in PostgreSQL: submitted, armed, released, finished. Taking it is in `reserve.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from onthedot.clock import Micros
from onthedot.errors import StoreUnusable
from onthedot.job import is_gated
from onthedot.run import TERMINAL, ArmAnswer, Armed, GateAsk, Lease, NewRun
from onthedot.stores.base import Hint
from onthedot.stores.documents import Noting, check_noting
from onthedot.stores.postgres.arming import arm_runs
from onthedot.stores.postgres.finish import FINISH, check_moves, columns, hold, move_runs
from onthedot.stores.postgres.limits import PER_RUN, SHORT
from onthedot.stores.postgres.partitions import month_of
from onthedot.stores.postgres.reserve import Reserve
from onthedot.stores.postgres.submitting import submit_noted
from onthedot.stores.postgres.tables import LOCK_NODE, find_checkpoints
from onthedot.stores.postgres.transaction import Transaction
from onthedot.verdict import Finish

LEASES = """
SELECT r.lease_id, r.id, r.job_id, r.revision, j.state, r.trigger, r.slot_at, r.due_at, r.args,
       r.attempt + (r.state = 'reserved')::integer, r.failures, r.recoveries, r.incarnation, r.created_at,
       r.reserved_at, coalesce(r.armed_at, 0), coalesce(r.fence, 0), r.target, r.queue, r.priority
FROM runs r JOIN jobs j ON j.id = r.job_id
WHERE {wanted} ORDER BY r.id
"""

LIST_HELD = LEASES.format(wanted="r.incarnation = $1")

VOID = "UPDATE nodes SET void_below = greatest(void_below, $1) WHERE incarnation = $2"

RELEASE = """
UPDATE runs
SET state = 'scheduled', ready_at = due_at, lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
FROM (SELECT r.id FROM runs r JOIN unnest($1::bigint[], $2::text[]) given (id, lease_id)
        ON r.id = given.id AND r.lease_id = given.lease_id
      WHERE r.state = 'reserved' ORDER BY r.id FOR UPDATE OF r) mine
WHERE runs.id = mine.id RETURNING runs.id
"""

FIND_ATTEMPTS = """
SELECT run_id, lease_id, outcome FROM attempts WHERE run_id = ANY($1) AND lease_id = ANY($2)
"""


class Runs(Reserve):
    """See `RunsSlice`."""

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        check_noting(noting, runs)
        limit = SHORT + PER_RUN * len(runs)
        return await self.write(lambda tx: submit_noted(tx, runs, noting, now), limit=limit)

    async def held(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        async def work(tx: Transaction) -> list[Lease]:
            if void_below:
                await tx.rows(LOCK_NODE, incarnation)
                await tx.do(VOID, void_below, incarnation)
            return await self.leases(tx, await tx.rows(LIST_HELD, incarnation))

        return await (self.write(work) if void_below else self.read(work))

    async def leases(self, tx: Transaction, rows: Sequence[Any]) -> list[Lease]:
        """Leases from rows of `LEASES`, but for jobs that this version cannot read: theirs wait for one that can."""
        checkpoints = await find_checkpoints(tx, (row[1] for row in rows))
        await self.records.load(tx, [(row[2], row[3], row[4]) for row in rows])
        leases = []
        for lease_id, run_id, job_id, revision, _, *rest in rows:
            with suppress(StoreUnusable):
                record = self.records.find(job_id, revision)
                lease = Lease(lease_id, run_id, record, *rest)
                lease.checkpoint = checkpoints.get(run_id)
                leases.append(lease)
        return leases

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        answers = await self.write(lambda tx: arm_runs(tx, leases, gates or {}, now))
        for lease, answer in zip(leases, answers, strict=True):
            if isinstance(answer, Armed):  # the lease goes into history as the holder has it
                lease.fence, lease.armed_at = answer.fence, answer.armed_at
        return answers

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        del now

        async def work(tx: Transaction) -> list[bool]:
            ids, names = [lease.run_id for lease in leases], [lease.lease_id for lease in leases]
            released = {run_id for (run_id,) in await tx.rows(RELEASE, ids, names)}
            answers = []
            for lease in leases:
                answers.append(lease.run_id in released)
                if lease.run_id in released:
                    released.discard(lease.run_id)  # asked for twice, it is given back once
                    tx.hints.append(Hint("runs", lease.due_at))
            return answers

        return await self.write(work)

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        del now  # the worker's own instants are recorded
        check_moves(finish.verdict for finish in finishes)
        accepted = await self._finish_at_once(finishes)
        rest = [finish for finish in finishes if finish.lease.lease_id not in accepted]
        if not rest:
            return [True] * len(finishes)
        answers = iter(await self.write(lambda tx: _finish(tx, rest)))
        return [finish.lease.lease_id in accepted or next(answers) for finish in finishes]

    async def _finish_at_once(self, finishes: Sequence[Finish]) -> frozenset[str]:
        """Finish what nothing else hangs on, in one statement; which leases were accepted."""
        simple = [finish for finish in finishes if _is_simple(finish)]
        if not simple or len({finish.lease.run_id for finish in simple}) < len(simple):
            return frozenset()
        ends = [finish.ended_at for finish in simple]
        if not {month_of(min(ends)), month_of(max(ends))} <= self.months:  # a batch takes no month
            return frozenset()
        rows = await self.at_once(FINISH, *columns(simple), hint=Hint("ends", simple[0].ended_at))
        return frozenset(lease_id for (lease_id,) in rows)


def _is_simple(finish: Finish) -> bool:
    if finish.verdict.state not in TERMINAL or finish.lease.slot_at > finish.ended_at:
        return False
    return not is_gated(finish.lease.record.job)  # else it holds gates, most likely


async def _finish(tx: Transaction, finishes: Sequence[Finish]) -> list[bool]:
    """The long way, with gates, sets and next tries; what is repeated is answered as it was before."""
    held = await hold(tx, finishes)
    moving: dict[int, Finish] = {}
    for finish in finishes:
        if held.is_running(finish.lease):
            moving.setdefault(finish.lease.run_id, finish)  # the same twice: the second is a repetition
    await move_runs(tx, list(moving.values()), held)
    if len(moving) == len(finishes):
        return [True] * len(finishes)
    recorded = await _recorded(tx, [finish.lease for finish in finishes])
    return [
        moving.get(finish.lease.run_id) is finish
        or (finish.lease.run_id, finish.lease.lease_id, finish.verdict.outcome.value) in recorded
        for finish in finishes
    ]


async def _recorded(tx: Transaction, leases: Iterable[Lease]) -> set[tuple[int, str, str]]:
    """Attempts that were accepted: now, or before, when only the answer got lost."""
    ids, names = zip(*((lease.run_id, lease.lease_id) for lease in leases), strict=True)
    return {(run_id, lease_id, outcome) for run_id, lease_id, outcome in await tx.rows(FIND_ATTEMPTS, ids, names)}
