"""Mutants of the protocol: each leaves one thing out, as real schedulers have done.

The checker is only worth something if it finds them. `MUTANTS` has the rules that must notice each one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from onthedot.clock import SECOND
from onthedot.model.run import RunState
from onthedot.model.verdict import Finish
from onthedot.model.window import Window
from onthedot.node import planner
from onthedot.node.engine import Engine
from onthedot.rules.window_writes import Planned
from onthedot.rules.windows import plan_window
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql import arm
from onthedot.stores.sql.plan import write_windows
from onthedot.stores.sql.port import Tx, sql
from onthedot.stores.sql.reap import END_NODE
from onthedot_verify.simulation.node import SimulatedEngine
from tests.contract.sql_mutants import Mutant as Edit
from tests.contract.sql_mutants import planted as edited
from tests.simulation import (
    control_mutants,
    dependent_mutants,
    overdue_mutants,
    placement_mutants,
    shard_mutants,
    transaction_mutants,
)
from tests.simulation.store_state import current_leases, repeated

COUNT_AGAIN = sql("""
UPDATE runs SET failures = failures + $2, due_at = $3, ready_at = $3 WHERE id = $1 AND state = 'scheduled'
""")

# As before the reap, but with the next attempt number, which the recorded attempt needs.
RUN_ON = sql("""
UPDATE runs
SET state = 'running', lease_id = $2, fence = $3, incarnation = $4, revision = $5, reserved_at = $6, armed_at = $7,
    attempt = attempt + 1
WHERE id = $1 AND state = 'scheduled'
""")
REVIVE = sql("UPDATE nodes SET ended = false WHERE incarnation = $1")

FREE_OTHERS = sql("""
UPDATE runs SET state = 'scheduled', ready_at = due_at WHERE state = 'reserved' AND incarnation <> $1
""")


class NoFenceOnFinish(MemoryStore):
    """Any finish of a running run is accepted, from any node (Oban, APScheduler)."""

    async def finish(self, finishes, *, now=None):
        running = {run_id: lease for run_id, lease in (await current_leases(self)).items() if lease.fence}
        theirs = [one._replace(lease=running.get(one.lease.run_id, one.lease)) for one in finishes]
        return await super().finish(theirs, now=now)


class FinishCountsTwice(MemoryStore):
    """A repeated finish is counted again."""

    async def finish(self, finishes, *, now=None):
        for lease, verdict, *_ in await repeated(self, finishes):
            await self.database.write(self._count_again, lease.run_id, int(verdict.failed), verdict.due_at)
        return await super().finish(finishes, now=now)

    @staticmethod
    async def _count_again(tx: Tx, *values):
        await tx.do(COUNT_AGAIN, *values)


class WatermarkUnchecked(MemoryStore):
    """A plan from any watermark is accepted: there is no compare-and-set."""

    async def plan(self, term, windows, *, now=None):
        answers = []
        for seen, window in windows:
            stored = {state.schedule_id: state.watermark for state in await self.queries.schedules_of(seen.record.id)}
            start = stored.get(window.schedule_id, window.start)
            answers += await super().plan(term, [(seen, replace(window, start=start))], now=now)
        return answers


class WatermarkFirst(MemoryStore):
    """The watermark moves in one transaction, and the runs are inserted in the next."""

    async def plan(self, term, windows, *, now=None):
        bare = [(seen, replace(window, slots=(), skips=())) for seen, window in windows]
        answers = await super().plan(term, bare, now=now)
        await asyncio.sleep(0.2)
        for (seen, window), written in zip(windows, answers, strict=True):
            if written:
                planned = Planned(seen.record.id, window, window.delay is not None)
                await self.database.write(write_windows, [planned], self.clock.now() if now is None else now)
        return answers


class ReaperUnguarded(MemoryStore):
    """The reaper takes a run that it once saw as an orphan, without a second look (river#1302, solid_queue#589)."""

    async def reap(self, verdicts, *, now=None):
        answers = []
        for seen, verdict in verdicts:
            lease = (await current_leases(self)).get(seen.run_id)
            if lease is None or not lease.fence:
                answers.append(False)
                continue
            await self.database.write(self._end, seen.incarnation)
            answers += await self.finish([Finish(lease, verdict, 0, self.clock.now() if now is None else now)])
        return answers

    @staticmethod
    async def _end(tx: Tx, incarnation):
        await tx.do(END_NODE, incarnation, 1)


class ReapKeepsRunning(MemoryStore):
    """The reaper schedules the run again, and its old holder may still finish it."""

    def __init__(self, clock=None):
        super().__init__(clock)
        self.reaped = {}

    async def reap(self, verdicts, *, now=None):
        answers = await super().reap(verdicts, now=now)
        for (lease, verdict), taken in zip(verdicts, answers, strict=True):
            if taken and verdict.state is RunState.SCHEDULED:
                self.reaped[lease.lease_id] = lease
                await self.database.write(self._revive, lease.incarnation)
        return answers

    async def finish(self, finishes, *, now=None):
        for finish in finishes:
            lease = self.reaped.pop(finish.lease.lease_id, None)
            if lease is not None:
                await self.database.write(self._run_on, lease)
        return await super().finish(finishes, now=now)

    @staticmethod
    async def _revive(tx: Tx, incarnation):
        await tx.do(REVIVE, incarnation)

    @staticmethod
    async def _run_on(tx: Tx, lease):
        revision = lease.record.revision
        held = lease.lease_id, lease.fence, lease.incarnation, revision, lease.reserved_at, lease.armed_at
        await tx.do(RUN_ON, lease.run_id, *held)


class NodeClockForLeases(MemoryStore):
    """Leases have the instants of the nodes' clocks, which are seconds apart (db-scheduler#433)."""

    async def beat(self, incarnation, *, ttl, draining=False, now=None):
        at = self.clock.now() if now is None else now
        [name] = [node.id for node in await self.queries.list_nodes() if node.incarnation == incarnation] or ["a"]
        behind = {"a": 0, "b": 12, "c": 6}[name]
        return await super().beat(incarnation, ttl=ttl, draining=draining, now=at - behind * SECOND)


# `arm` and `reserve` do not ask whether the node's lease has ended.
ARM_WITHOUT_LEASE = (Edit("reserve.hold_node", " or node.lease_until <= node.now", ""),)

# An edit withdraws runs and leaves the watermark, so their slots are never planned again.
EDIT_FORGETS_WATERMARK = (Edit("jobs._continue", "return await plan.write_windows(", "return 0 and ("),)

# An edit moves the watermark forward although the planner was behind, so slots get no fate.
EDIT_HIDES_MISSES = (Edit("jobs._continue", "if row.watermark < edge and row.next_at is not None", "if False"),)


class ReservesTheReserved(MemoryStore):
    """`reserve` takes runs that another worker has reserved, even before they lapse."""

    async def reserve(self, ask, *, now=None):
        await self.database.write(self._free_others, ask.incarnation)
        return await super().reserve(ask, now=now)

    @staticmethod
    async def _free_others(tx: Tx, incarnation):
        await tx.do(FREE_OTHERS, incarnation)


def forgets_the_past(state, *, until, now, late_after):
    """Plan from now on: the slots of an outage neither run nor are skipped (river#791, dkron#998)."""
    window = plan_window(state, until=until, now=now, late_after=late_after)
    if window is None or window.delay is not None:
        return window
    coming = [slot for slot in window.slots if slot.slot_at > now]
    return Window(window.schedule_id, window.start, window.end, window.next_at, slots=coming)


def no_catch_up(*args, **kwargs) -> Engine:
    engine = SimulatedEngine(*args, **kwargs)
    windows = engine._planner._windows

    def patched(schedules, until, now, places):
        planner.plan_window = forgets_the_past  # type: ignore[attr-defined]
        try:
            return windows(schedules, until, now, places)
        finally:
            planner.plan_window = plan_window  # type: ignore[attr-defined]

    engine._planner._windows = patched  # type: ignore[method-assign]
    return engine


@dataclass(frozen=True)
class Mutant:
    """A mistake, the rules of which at least one must notice it, and the fault file under which it shows.

    It is a subclass of the store or of the batch of `arm`, a change of the text of moves, or a change of the engine.
    """

    rules: frozenset[str]
    faults: str
    store: Callable = MemoryStore
    batch: type[arm.Batch] = arm.Batch
    moves: tuple[Edit, ...] = ()
    build: Callable = SimulatedEngine

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Inside, the moves have the mistake."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(arm, "Batch", self.batch))
            for edit in self.moves:
                stack.enter_context(edited(edit))
            yield


def _mutant(rules: str, faults: str, **how) -> Mutant:
    return Mutant(frozenset(rules.split()), faults, **how)


PLACES = "places-of-leaders-that-sleep"
DYING, LOST = "gates-whose-holders-die", "gates-whose-answers-are-lost"
DIVIDED, DIFFERING = "shards-whose-nodes-come-and-go", "shards-whose-nodes-differ"
UNHEARD, WIDOWED = "parents-whose-answers-are-lost", "parents-whose-nodes-die"
OUTAGES, HELD = "outages-of-everybody", "outages-and-edits-that-wait"
ASLEEP, UNANSWERED = "commits-of-nodes-that-sleep", "commits-whose-answers-are-lost"

MUTANTS = {
    "no fence on finish": _mutant("S7", "frozen-with-an-outcome", store=NoFenceOnFinish),
    "finish counts twice": _mutant("S16 S18", "answers-of-finish-lost", store=FinishCountsTwice),
    "no compare-and-set on the watermark": _mutant("S1 S4", "plans-done-late", store=WatermarkUnchecked),
    "watermark before insert": _mutant("S4", "killed-while-planning", store=WatermarkFirst),
    "reaper does not look again": _mutant("S6 S7", "a-reaper-that-slept", store=ReaperUnguarded),
    "reap keeps the run running": _mutant("S5 S7", "frozen-with-an-outcome", store=ReapKeepsRunning),
    "node clock for leases": _mutant("S6", "frozen-on-the-way-to-arm", store=NodeClockForLeases),
    "arm ignores an ended lease": _mutant("S5", "frozen-on-the-way-to-arm", moves=ARM_WITHOUT_LEASE),
    "edit forgets the watermark": _mutant("S4", "restarted-with-a-new-program", moves=EDIT_FORGETS_WATERMARK),
    "edit hides misses": _mutant("S4", "edited-while-all-are-down", moves=EDIT_HIDES_MISSES),
    "reserve takes reserved runs": _mutant("S5", "frozen-with-an-outcome", store=ReservesTheReserved),
    "no catch-up": _mutant("S4", "edited-while-all-are-down", build=no_catch_up),
    "gate freed twice": _mutant("S5 S11", LOST, store=control_mutants.GateFreedTwice),
    "gate not freed on reap": _mutant("L4", DYING, moves=control_mutants.GATE_KEPT_ON_REAP),
    "an open gate passes to two runs": _mutant("S5 S11", LOST, moves=control_mutants.TWO_LET_THROUGH),
    "skip although the gate is free": _mutant("S11", DYING, moves=control_mutants.SKIPS_AT_AN_OPEN_GATE),
    "a slot replaces a submitted run": _mutant("S11", LOST, moves=control_mutants.REPLACES_WHAT_WAS_ASKED_FOR),
    "pause does not stop the planner": _mutant(
        "S14", LOST, store=control_mutants.PlannerIgnoresPauses, moves=control_mutants.PLANS_WHAT_IS_PAUSED
    ),
    "pause lets reservations be armed": _mutant("S14", DYING, moves=control_mutants.PAUSED_RUNS_ARE_ARMED),
    "cancel is forgotten": _mutant("S13", LOST, store=control_mutants.CancelForgotten),
    "cancel is lost with its node": _mutant("S13", DYING, store=control_mutants.CancelLostOnReap),
    "resume plans a slot twice": _mutant("S1 S4", LOST, store=control_mutants.ResumePlansTwice),
    "key forgotten after the finish": _mutant("S19", LOST, store=control_mutants.KeyForgotten),
    "prune counts nothing": _mutant("S17", LOST, moves=control_mutants.PRUNE_COUNTS_NOTHING),
    "placement ignores the term": _mutant("S22", PLACES, moves=placement_mutants.PLACES_WITHOUT_TERM),
    "a lapsed placement is free for all": _mutant("S22", PLACES, store=placement_mutants.LapsedPlaceIsFree),
    "priorities are ignored": _mutant("S25", PLACES, moves=placement_mutants.LEVEL_IGNORED),
    "a paused queue is armed": _mutant("S21", PLACES, moves=placement_mutants.PAUSED_QUEUE_IS_ARMED),
    "prune is too early": _mutant("S17", LOST, store=control_mutants.PrunesTooEarly),
    "plan ignores the layout": _mutant("S12", DIVIDED, moves=shard_mutants.LAYOUT_UNCHECKED),
    "terms survive their layout": _mutant("S12", DIVIDED, moves=shard_mutants.TERMS_OUTLIVE_THEIR_LAYOUT),
    "effects are not fenced": _mutant("S10", ASLEEP, store=transaction_mutants.EffectsUnfenced),
    "effects first, completion later": _mutant("S10", ASLEEP, store=transaction_mutants.EffectsFirst),
    "unanswered commits count as successes": _mutant(
        "S10", UNANSWERED, build=transaction_mutants.takes_commits_for_granted
    ),
    "a handler that returns has succeeded": _mutant("S10", UNANSWERED, build=transaction_mutants.believes_its_handlers),
    "dead nodes own shards": _mutant("L7", DIVIDED, build=shard_mutants.owners_among_the_dead),
    "older zone data leads": _mutant("S27", DIFFERING, moves=shard_mutants.OLDER_ZONES_LEAD),
    "slots of other zone data are not computed again": _mutant(
        "S27", "restarted-with-a-new-program", build=shard_mutants.plans_on_with_other_zones
    ),
    "a retried parent is forgotten": _mutant("S26 L8", UNHEARD, moves=dependent_mutants.RETRIED_PARENT_FORGOTTEN),
    "all is any": _mutant("S26", WIDOWED, moves=dependent_mutants.ALL_IS_ANY),
    "a repeated finish is followed again": _mutant("S26", UNHEARD, store=dependent_mutants.FollowedTwice),
    "a lost parent is forgotten": _mutant("S26 L8", WIDOWED, moves=dependent_mutants.REAPER_FORGETS_DEPENDENTS),
    "a set is used twice": _mutant("S26", UNHEARD, moves=dependent_mutants.SET_KEPT_WHEN_USED),
    "a catch-up counts as an overlap": _mutant("S28", OUTAGES, batch=overdue_mutants.CatchUpIsAnOverlap),
    "caught-up slots are counted": _mutant("S28", OUTAGES, batch=overdue_mutants.CaughtUpSlotsAreCounted),
    "the oldest slot runs": _mutant("S28", OUTAGES, batch=overdue_mutants.OldestRuns),
    "the newest slot runs first": _mutant(
        "S28", OUTAGES, store=overdue_mutants.ArmsBackwards, batch=overdue_mutants.NewestFirst
    ),
    "caught-up slots are replaced": _mutant("S28", OUTAGES, batch=overdue_mutants.CaughtUpSlotsAreReplaced),
    "ended slots are forgotten": _mutant(
        "S28", OUTAGES, batch=overdue_mutants.EndedSlotsAreForgotten, moves=overdue_mutants.ENDED_SLOTS_ARE_FORGOTTEN
    ),
    "waiting slots come before older ones": _mutant(
        "S28", OUTAGES, batch=overdue_mutants.HeirsFirst, moves=overdue_mutants.HEIRS_FIRST
    ),
    "missed too early": _mutant("S28", OUTAGES, store=overdue_mutants.MissedTooEarly),
    "an edit uses its caller's clock": _mutant("S1 S4", HELD, store=overdue_mutants.EditByItsCallersClock),
}
