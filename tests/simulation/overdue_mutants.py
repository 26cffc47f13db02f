"""Mutants of overdue slots and of delayed edits. See `mutants.py`."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.model.job import overlap_of
from onthedot.model.run import Busy, RunState, Skipped, is_slot
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql.arm import Batch
from onthedot.stores.sql.finish import end_waiting
from onthedot.stores.sql.port import Tx, sql
from tests.contract.sql_mutants import Mutant as Edit

PASSED = "passed"

LIST_WAITING_SLOTS = sql("SELECT id FROM runs WHERE blocked_on = $1 AND coalesce({is_slot}, false) ORDER BY id")

EXPIRE_EARLY = sql(f"""
UPDATE runs SET expires_at = min(expires_at, due_at + {3 * SECOND}, max($1, due_at))
WHERE state = 'scheduled' AND expires_at IS NOT NULL AND {{is_slot}}
""")  # noqa: S608 - a constant


class _Overdue(Batch):
    """The base of the mutants below, which change what happens to a slot at its overlap gate."""

    async def _pass_gates(self, lease, ask):
        gate = next((gate for gate in ask.gates if gate.until_end), None)
        if gate is not None and is_slot(lease.trigger) and lease.attempt == 1:
            answer = await self.meddle(lease, ask, gate)
            if answer is not None:
                return None if answer == PASSED else answer
        return await super()._pass_gates(lease, ask)

    async def meddle(self, lease, ask, gate):
        """What happens to the run, or `PASSED`. None: what should happen."""

    def is_late(self, lease):
        return self._now > lease.due_at + 2 * SECOND

    def is_busy(self, gate, lease):
        return bool(self._known.holders[gate.key] - {lease.run_id})

    async def skipped(self, lease, gate):
        holder = min(self._known.holders[gate.key])
        await self._skip(lease, "overlap", holder)
        return Skipped(gate.key, holder)

    def take(self, lease, gate):
        if self.is_busy(gate, lease):
            return None
        if gate.key not in self._known.held[lease.run_id]:
            self._known.hold(gate.key, lease.run_id)
            self._pending.taken.append((gate.key, lease.run_id, gate.until_end))
        return PASSED

    async def waiting_at(self, gate):
        """The slots that wait at the gate, in order."""
        await self.write()
        return await self._tx.values(LIST_WAITING_SLOTS, gate.key)


class CatchUpIsAnOverlap(_Overdue):
    """A caught-up slot is skipped while another one executes."""

    async def meddle(self, lease, ask, gate):
        if self.is_late(lease) and self.is_busy(gate, lease):
            return await self.skipped(lease, gate)
        return None


class CaughtUpSlotsAreCounted(_Overdue):
    """Caught-up slots count for `max_waiting`."""

    async def meddle(self, lease, ask, gate):
        overlap = overlap_of(lease.record.job)
        due = ask.on_busy is not None and not self.is_late(lease)
        if not due or overlap.mode != "wait" or not self.is_busy(gate, lease):
            return None
        is_crowded = len(await self.waiting_at(gate)) >= (overlap.max_waiting or 0)
        return await self.skipped(lease, gate) if is_crowded else None


class OldestRuns(_Overdue):
    """Of several overdue slots of a job that skips or replaces, the first one to ask runs."""

    async def meddle(self, lease, ask, gate):
        job = lease.record.job
        if overlap_of(job).mode in ("skip", "replace") and job.catch_up.mode != "all" and self.is_late(lease):
            return self.take(lease, gate)
        return None


class ArmsBackwards(MemoryStore):
    """Slots are armed in reverse order."""

    async def arm(self, leases, *, gates=None, now=None):
        answers = await super().arm(leases[::-1], gates=gates, now=now)
        return answers[::-1]


class NewestFirst(_Overdue):
    """Caught-up slots take their gate in any order."""

    async def meddle(self, lease, ask, gate):
        job = lease.record.job
        in_order = overlap_of(job).mode == "wait" or job.catch_up.mode == "all"
        return self.take(lease, gate) if in_order and self.is_late(lease) else None


class CaughtUpSlotsAreReplaced(_Overdue):
    """Caught-up slots of a job that catches up on all replace each other."""

    async def meddle(self, lease, ask, gate):
        job = lease.record.job
        if overlap_of(job).mode == "replace" and job.catch_up.mode == "all" and self.is_late(lease):
            for run_id in await self.waiting_at(gate):
                await end_waiting(self._tx, run_id, RunState.SKIPPED, "replaced", self._now, late=True)


class EndedSlotsAreForgotten(_Overdue):
    """A newer slot counts only until its end: an older one that asks again after it runs."""

    async def meddle(self, lease, ask, gate):
        job = lease.record.job
        only_newest = overlap_of(job).mode in ("skip", "replace") and job.catch_up.mode != "all"
        if only_newest and ask.on_busy is not None and self.is_late(lease):
            newer = self._known.newer.get(lease.run_id)
            return Busy(gate.key, newer) if newer else None
        return None


ENDED_SLOTS_ARE_FORGOTTEN = (Edit("arm.LOOK", "ended.slot_at > mine.slot_at AND", "false AND"),)


class HeirsFirst(_Overdue):
    """An open gate passes to a waiting slot, even if an older one has not asked yet because its node is slow."""

    async def meddle(self, lease, ask, gate):
        newer = self._known.newer.get(lease.run_id)
        if ask.on_busy is not None and self.is_late(lease) and self.is_busy(gate, lease) and newer:
            return Busy(gate.key, min(self._known.holders[gate.key]))
        return None


HEIRS_FIRST = (
    Edit(
        "gates._put_older_first", "older = await tx.value(FIND_OLDER, heir.run_id, heir.caught_up_at)", "older = None"
    ),
)


class MissedTooEarly(MemoryStore):
    """A slot that is three seconds late is missed, whatever its catch-up."""

    async def expire(self, *, limit, now=None):
        await self.database.write(self._expire_early, self.clock.now() if now is None else now)
        return await super().expire(limit=limit, now=now)

    @staticmethod
    async def _expire_early(tx: Tx, now):
        await tx.do(EXPIRE_EARLY, now)


class EditByItsCallersClock(MemoryStore):
    """An edit counts from when its windows were computed, however long it waited for its lock."""

    async def put_job(self, job, windows=(), *, expected=None, now=None):
        computed = min((window.start for window in windows), default=None)
        return await super().put_job(job, windows, expected=expected, now=now if computed is None else computed)
