"""Gates and control with one thing left out. See `mutants.py`."""

from __future__ import annotations

from onthedot.model.run import RunState
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql import gates
from onthedot.stores.sql.plan import MOVE_WATERMARK
from onthedot.stores.sql.port import Tx, sql
from onthedot.stores.values import CancelAnswer, Due
from tests.contract.sql_mutants import Mutant as Edit
from tests.simulation.known import repeated

LEAVE_ALL = sql("DELETE FROM gate_holders WHERE key {in1}")
FORGET_CANCELS = sql("UPDATE runs SET cancel_wanted = NULL WHERE id {in1}")
FORGET_KEYS = sql("DELETE FROM submit_keys WHERE run_id NOT IN (SELECT id FROM runs)")


class GateFreedTwice(MemoryStore):
    """A finish that comes again opens its gates again, which another run holds by now."""

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


# The reaper takes the run, and leaves its gates closed (dkron#349, oban#862). Its verdicts have no start.
_OPEN = """await open_gates(tx, [one.lease.run_id for one in ending], ended=True)
    await open_gates(tx, [one.lease.run_id for one in trying], ended=False)"""
GATE_KEPT_ON_REAP = (
    Edit(
        "finish.move_runs",
        _OPEN,
        _OPEN.replace("in ending", "in ending if one.started_at").replace("in trying", "in trying if one.started_at"),
    ),
)

# A gate that opens passes to everybody who waits, not to as many as there is room for.
TWO_LET_THROUGH = (Edit("gates.choose_heirs", "if heir.capacity > count:", "if True:"),)

# A slot is skipped because the gate was held when somebody looked last, not because it is (dkron#1569).
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

# A slot that replaces ends whoever holds the gate, also what somebody has submitted.
REPLACES_WHAT_WAS_ASKED_FOR = (Edit("arm.LIST_HOLDING_SLOTS", " AND r.{is_slot}", ""),)


class PlannerIgnoresPauses(MemoryStore):
    """A pause stops the workers, and lets the planner go on."""

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

# A pause leaves alone what is reserved, and `arm` does not ask whether the job is paused.
PAUSED_RUNS_ARE_ARMED = (
    Edit("jobs.WITHDRAW", "attempt = 0", "attempt = 0 AND state <> 'reserved'"),
    Edit("control.LIST_DUE_SLOTS", "state <> 'running'", "state = 'scheduled'"),
    Edit("control.HOLD_BACK", "WHERE job_id = $1 AND state <> 'running'", "WHERE job_id = $1 AND state = 'scheduled'"),
    Edit("arm.LOCK_ARMABLE", "j.state = 'active' AND NOT EXISTS", "NOT EXISTS"),
)


class CancelForgotten(MemoryStore):
    """Whoever cancels a running run is told that it was asked to stop, and nobody tells the attempt."""

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
    """A run that was asked to stop, and lost its node before it could, begins anew."""

    async def reap(self, verdicts, *, now=None):
        await self.database.write(self._forget_cancels, [lease.run_id for lease, _ in verdicts])
        return await super().reap(verdicts, now=now)

    @staticmethod
    async def _forget_cancels(tx: Tx, run_ids):
        await tx.do(FORGET_CANCELS, run_ids)


class ResumePlansTwice(MemoryStore):
    """A resume plans its slots, and leaves the watermark where the pause had put it."""

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
    """A key is known as long as its run is live (bullmq removes its jobs, and with them their ids)."""

    async def submit(self, runs, *, noting=None, now=None):
        await self.database.write(self._forget_keys)
        return await super().submit(runs, noting=noting, now=now)

    @staticmethod
    async def _forget_keys(tx: Tx):
        await tx.do(FORGET_KEYS)


# What is pruned is gone without a trace.
PRUNE_COUNTS_NOTHING = (Edit("prune._remove", "await _add_to_days(tx, Counter(", "str(Counter("),)


class PrunesTooEarly(MemoryStore):
    """The pruner takes whatever has ended, however short ago."""

    async def prune_runs(self, cut, *, after=None, limit=500, now=None):
        late = cut.until._replace(ended_at=cut.until.ended_at + 60_000_000)
        return await super().prune_runs(cut._replace(until=late), after=after, limit=limit, now=now)
