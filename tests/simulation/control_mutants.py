"""Mutants of gates and control. See `mutants.py`."""

from __future__ import annotations

from onthedot.model.run import RunState
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql import gates
from onthedot.stores.sql.plan import MOVE_WATERMARK
from onthedot.stores.sql.port import Tx, sql
from onthedot.stores.values import CancelAnswer, Due
from tests.contract.sql_mutants import Mutant as Edit
from tests.simulation.store_state import repeated

LEAVE_ALL = sql("DELETE FROM gate_holders WHERE key {in1}")
FORGET_CANCELS = sql("UPDATE runs SET cancel_wanted = NULL WHERE id {in1}")
FORGET_KEYS = sql("DELETE FROM submit_keys WHERE run_id NOT IN (SELECT id FROM runs)")


class GateFreedTwice(MemoryStore):
    """A repeated finish opens its gates again, while another run holds them."""

    def __init__(self, clock=None):
        super().__init__(clock)
        self.once_held = {}

    async def finish(self, finishes, *, now=None):
        for finish in await repeated(self, finishes):
            keys = self.once_held.pop(finish.lease.lease_id, ())
            await self.database.write(self._free, [key for _, key in keys])
        for lease in [finish.lease for finish in finishes]:
            held = await self.database.read(self._places, lease.run_id)
            if held:
                self.once_held.setdefault(lease.lease_id, held)
        return await super().finish(finishes, now=now)

    @staticmethod
    async def _places(tx: Tx, run_id):
        return await tx.rows(gates.LIST_PLACES, [run_id], True)

    @staticmethod
    async def _free(tx: Tx, keys):
        await tx.do(LEAVE_ALL, keys)
        await gates.pass_on(tx, keys)


# The reaper takes the run and leaves its gates closed (dkron#349, oban#862). Its verdicts have no start.
_OPEN = """await open_gates(tx, [one.lease.run_id for one in ending], ended=True)
    await open_gates(tx, [one.lease.run_id for one in trying], ended=False)"""
GATE_KEPT_ON_REAP = (
    Edit(
        "finish.move_runs",
        _OPEN,
        _OPEN.replace("in ending", "in ending if one.started_at").replace("in trying", "in trying if one.started_at"),
    ),
)

# An open gate passes to all waiting runs, not to as many as there is room for.
TWO_LET_THROUGH = (Edit("gates.choose_heirs", "if heir.capacity > count:", "if True:"),)

# A slot is skipped because its gate was held at an earlier look, although it is free now (dkron#1569).
SKIPS_AT_AN_OPEN_GATE = (
    Edit(
        "arm.Batch._pass_gates",
        "    for place, gate in enumerate(ask.gates):\n",
        """    first = ask.gates[0].key
    if ask.on_busy is not None and ask.on_busy.action == "skip" and not self._known.holders[first]:
        await self._skip(lease, "overlap", lease.run_id - 1)
        return runs.Skipped(first, lease.run_id - 1)
    for place, gate in enumerate(ask.gates):
""",
    ),
)

# A replacing slot ends any holder of the gate, also a submitted run.
REPLACES_WHAT_WAS_ASKED_FOR = (Edit("arm.LIST_HOLDING_SLOTS", " AND r.{is_slot}", ""),)


class PlannerIgnoresPauses(MemoryStore):
    """A pause stops the workers, but not the planner."""

    async def due_schedules(self, *, until, limit, shard=0, layout=None):
        states = [
            state for record in await self.queries.list_jobs() for state in await self.queries.schedules_of(record.id)
        ]
        due = [state for state in states if state.next_at is not None and state.next_at <= until]
        return Due(due, more=False)


PLANS_WHAT_IS_PAUSED = (
    Edit("plan.plan", 'state == "active"', 'state != "deleted"'),
    Edit("submit.insert_runs", 'job.state == "paused"', "False"),
)

# A pause does not touch reserved runs, and `arm` does not check whether the job is paused.
PAUSED_RUNS_ARE_ARMED = (
    Edit("jobs.WITHDRAW", "attempt = 0", "attempt = 0 AND state <> 'reserved'"),
    Edit("control.LIST_DUE_SLOTS", "state <> 'running'", "state = 'scheduled'"),
    Edit("control.HOLD_BACK", "WHERE job_id = $1 AND state <> 'running'", "WHERE job_id = $1 AND state = 'scheduled'"),
    Edit("arm.LOCK_ARMABLE", "j.state = 'active' AND NOT EXISTS", "NOT EXISTS"),
)


class CancelForgotten(MemoryStore):
    """A cancel answers that the attempt was asked to stop, but the attempt never hears of it."""

    async def cancel(self, run_ids, *, why, now=None):
        answers = []
        for run_id in run_ids:
            run = await self.queries.get_run(run_id)
            if run is not None and run.state is RunState.RUNNING:
                answers.append(CancelAnswer("asked", run.state))
            else:
                answers += await super().cancel([run_id], why=why, now=now)
        return answers


class CancelLostOnReap(MemoryStore):
    """A run that was asked to stop, and lost its node before it could, is recovered."""

    async def reap(self, verdicts, *, now=None):
        await self.database.write(self._forget_cancels, [lease.run_id for lease, _ in verdicts])
        return await super().reap(verdicts, now=now)

    @staticmethod
    async def _forget_cancels(tx: Tx, run_ids):
        await tx.do(FORGET_CANCELS, run_ids)


class ResumePlansTwice(MemoryStore):
    """A resume plans its slots, and leaves the watermark where the pause has put it."""

    async def resume_job(self, job_id, windows=(), *, expected=None, overdue=False, dry_run=False, now=None):
        marks = {state.schedule_id: state.watermark for state in await self.queries.schedules_of(job_id)}
        resumed = await super().resume_job(
            job_id, windows, expected=expected, overdue=overdue, dry_run=dry_run, now=now
        )
        states = {state.schedule_id: state for state in await self.queries.schedules_of(job_id)}
        for window in windows if not dry_run else ():
            name = window.schedule_id
            coming = window.slots[0].slot_at if window.slots else states[name].next_at
            await self.database.write(self._pull_back, (job_id, name, marks[name], coming))
        return resumed

    @staticmethod
    async def _pull_back(tx: Tx, moved):
        await tx.do(MOVE_WATERMARK, *moved)


class KeyForgotten(MemoryStore):
    """A key is known only while its run is live (bullmq removes its jobs with their ids)."""

    async def submit(self, runs, *, noting=None, now=None):
        await self.database.write(self._forget_keys)
        return await super().submit(runs, noting=noting, now=now)

    @staticmethod
    async def _forget_keys(tx: Tx):
        await tx.do(FORGET_KEYS)


# Pruned runs are not counted.
PRUNE_COUNTS_NOTHING = (Edit("prune._remove", "await _add_to_days(tx, Counter(", "str(Counter("),)


class PrunesTooEarly(MemoryStore):
    """The pruner removes all ended runs, however new."""

    async def prune_runs(self, cut, *, after=None, limit=500, now=None):
        late = cut.until._replace(ended_at=cut.until.ended_at + 60_000_000)
        return await super().prune_runs(cut._replace(until=late), after=after, limit=limit, now=now)
