"""The protocol with one thing left out: each mutant is a mistake that real schedulers have made.

A checker that finds nothing means little unless it finds these. `MUTANTS` says which rules must notice each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from onthedot.clock import SECOND
from onthedot.engine import Engine
from onthedot.plan import planner
from onthedot.plan.windows import plan_window
from onthedot.run import RunState
from onthedot.stores.base import Window
from onthedot.stores.memory import MemoryStore
from onthedot.verdict import Finish
from tests.simulation import (
    control_mutants,
    dependent_mutants,
    exact_mutants,
    overdue_mutants,
    place_mutants,
    shard_mutants,
)


class NoFenceOnFinish(MemoryStore):
    """Any finish of a run that is running is accepted, whoever sends it (Oban, APScheduler)."""

    def _finish_one(self, finish):
        run = self.runs.get(finish.lease.run_id)
        if run is not None and run.state is RunState.RUNNING:
            self.end_attempt(run, finish)
            return True
        return super()._finish_one(finish)


class FinishCountsTwice(MemoryStore):
    """A finish that comes again is counted again."""

    def _finish_one(self, finish):
        known = any(a.lease_id == finish.lease.lease_id for a in self.attempts.get(finish.lease.run_id, ()))
        run = self.runs.get(finish.lease.run_id)
        if known and run is not None and run.state is RunState.SCHEDULED:
            run.failures += finish.verdict.failed
            run.due_at = finish.verdict.due_at
            self.wait(run, run.due_at)
        return super()._finish_one(finish)


class WatermarkUnchecked(MemoryStore):
    """A plan goes through from whichever watermark it was computed: no compare-and-set."""

    def _plan_one(self, seen, window, now):
        stored = self.schedules.get(seen.record.id, {}).get(window.schedule_id)
        if stored is not None:
            window = replace(window, start=stored.watermark)
        return super()._plan_one(seen, window, now)


class WatermarkFirst(MemoryStore):
    """The watermark moves in one transaction, the runs are inserted in the next."""

    async def plan(self, term, windows, *, now=None):
        bare = [(seen, replace(window, slots=(), skips=())) for seen, window in windows]
        answers = await super().plan(term, bare, now=now)
        await asyncio.sleep(0.2)
        for (seen, window), written in zip(windows, answers, strict=True):
            stored = self.schedules.get(seen.record.id, {}).get(window.schedule_id)
            if written and stored is not None:
                self.apply_window(stored, window, self.read_clock(now))
        return answers


class ReaperUnguarded(MemoryStore):
    """The reaper takes what it once saw as an orphan, without looking again (river#1302, solid_queue#589)."""

    def _reap_one(self, lease, verdict, now):
        run = self.runs.get(lease.run_id)
        if run is None or run.state is not RunState.RUNNING or run.lease is None:
            return False
        self.nodes[lease.incarnation].ended = True
        self.end_attempt(run, Finish(run.lease, verdict, 0, now))
        return True


class ReapKeepsRunning(MemoryStore):
    """The reaper puts the run back in line, and its old holder may still finish it."""

    def _reap_one(self, lease, verdict, now):
        run = self.runs.get(lease.run_id)
        if run is None or run.lease is None or not self._is_orphan(run, now):
            return False
        old = run.lease
        taken = super()._reap_one(lease, verdict, now)
        if taken and run.state is RunState.SCHEDULED:
            run.lease = old
            self.nodes[old.incarnation].ended = False
        return taken

    def _finish_one(self, finish):
        run = self.runs.get(finish.lease.run_id)
        if run is not None and run.lease and run.lease.lease_id == finish.lease.lease_id:
            run.state = RunState.RUNNING
        return super()._finish_one(finish)


class NodeClockForLeases(MemoryStore):
    """Leases are stamped by the nodes' clocks, which are seconds apart (db-scheduler#433)."""

    async def beat(self, incarnation, *, ttl, now=None):
        row = self.nodes.get(incarnation)
        behind = {"a": 0, "b": 12, "c": 6}[row.node.id] if row else 0
        return await super().beat(incarnation, ttl=ttl, now=self.read_clock(now) - behind * SECOND)


class ArmWithoutLease(MemoryStore):
    """`arm` and `reserve` do not ask whether the node's lease has ended."""

    def check_lease(self, incarnation, now):
        row = self.nodes.get(incarnation)
        if row is None or row.ended:
            super().check_lease(incarnation, now)


class EditForgetsWatermark(MemoryStore):
    """An edit withdraws runs, and leaves the watermark where it was: their slots are never planned again."""

    def _continue(self, state, window, now):
        kept = state.watermark, state.next_at
        planned = super()._continue(state, replace(window, slots=()), now)
        state.watermark = kept[0]
        self.expect(state, kept[1])
        return planned


class EditHidesMisses(MemoryStore):
    """An edit moves the watermark on although the planner was behind: what it owed is gone without a word."""

    def _continue(self, state, window, now):
        if window.delay is None:
            state.next_at = None
        return super()._continue(state, window, now)


class ReservesTheReserved(MemoryStore):
    """`reserve` takes what another worker has reserved, and not only after it lapsed."""

    async def reserve(self, ask, *, now=None):
        for run in list(self.runs.values()):
            if run.state is RunState.RESERVED and run.lease and run.lease.incarnation != ask.incarnation:
                run.state = RunState.SCHEDULED
                self.wait(run, run.due_at)
        return await super().reserve(ask, now=now)


def forgets_the_past(state, *, until, now, late_after):
    """Plan from now on: the slots of an outage are neither run nor skipped (river#791, dkron#998)."""
    window = plan_window(state, until=until, now=now, late_after=late_after)
    if window is None or window.delay is not None:
        return window
    coming = [slot for slot in window.slots if slot.slot_at > now]
    return Window(window.schedule_id, window.start, window.end, window.next_at, slots=coming)


def no_catch_up(*args, **kwargs) -> Engine:
    engine = Engine(*args, **kwargs)
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
    """A mistake, the rules of which at least one must notice it, and the fault file under which it shows."""

    rules: frozenset[str]
    faults: str
    store: Callable = MemoryStore
    build: Callable = Engine


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
    "reaper unguarded": _mutant("S6 S7", "a-reaper-that-slept", store=ReaperUnguarded),
    "reap keeps the run running": _mutant("S5 S7", "frozen-with-an-outcome", store=ReapKeepsRunning),
    "node clock for leases": _mutant("S6", "frozen-on-the-way-to-arm", store=NodeClockForLeases),
    "arm ignores an ended lease": _mutant("S5", "frozen-on-the-way-to-arm", store=ArmWithoutLease),
    "edit forgets the watermark": _mutant("S4", "restarted-with-a-new-program", store=EditForgetsWatermark),
    "edit hides misses": _mutant("S4", "edited-while-all-are-down", store=EditHidesMisses),
    "reserve takes the reserved": _mutant("S5", "frozen-with-an-outcome", store=ReservesTheReserved),
    "no catch-up": _mutant("S4", "edited-while-all-are-down", build=no_catch_up),
    "gate freed twice": _mutant("S5 S11", LOST, store=control_mutants.GateFreedTwice),
    "gate not freed on reap": _mutant("L4", DYING, store=control_mutants.GateKeptOnReap),
    "hand-over lets two through": _mutant("S5 S11", LOST, store=control_mutants.TwoLetThrough),
    "skip although the gate is free": _mutant("S11", DYING, store=control_mutants.SkipsAtAnOpenGate),
    "replaces what was submitted": _mutant("S11", LOST, store=control_mutants.ReplacesWhatWasAskedFor),
    "pause lets the planner go on": _mutant("S14", LOST, store=control_mutants.PlannerIgnoresPauses),
    "pause lets reservations be armed": _mutant("S14", DYING, store=control_mutants.PausedRunsAreArmed),
    "cancel is forgotten": _mutant("S13", LOST, store=control_mutants.CancelForgotten),
    "cancel is lost with its node": _mutant("S13", DYING, store=control_mutants.CancelLostOnReap),
    "resume plans a slot twice": _mutant("S1 S4", LOST, store=control_mutants.ResumePlansTwice),
    "key forgotten after the finish": _mutant("S19", LOST, store=control_mutants.KeyForgotten),
    "prune counts nothing": _mutant("S17", LOST, store=control_mutants.PruneCountsNothing),
    "place ignores the term": _mutant("S22", PLACES, store=place_mutants.PlacesWithoutTerm),
    "a lapsed place is anybody's": _mutant("S22", PLACES, store=place_mutants.LapsedPlaceIsAnybodys),
    "priorities are ignored": _mutant("S25", PLACES, store=place_mutants.LevelIgnored),
    "a paused queue is armed": _mutant("S21", PLACES, store=place_mutants.PausedQueueIsArmed),
    "prune comes too early": _mutant("S17", LOST, store=control_mutants.PrunesTooEarly),
    "plan ignores the layout": _mutant("S12", DIVIDED, store=shard_mutants.LayoutUnchecked),
    "terms outlive their layout": _mutant("S12", DIVIDED, store=shard_mutants.TermsOutliveTheirLayout),
    "effects are not fenced": _mutant("S10", ASLEEP, store=exact_mutants.EffectsUnfenced),
    "effects first, completion later": _mutant("S10", ASLEEP, store=exact_mutants.EffectsFirst),
    "commits are taken for granted": _mutant("S10", UNANSWERED, build=exact_mutants.takes_commits_for_granted),
    "a return is a success": _mutant("S10", UNANSWERED, build=exact_mutants.believes_its_handlers),
    "owners among the dead": _mutant("L7", DIVIDED, build=shard_mutants.owners_among_the_dead),
    "older zone data leads": _mutant("S27", DIFFERING, store=shard_mutants.OlderZonesLead),
    "slots of other zone data are not looked at": _mutant(
        "S27", "restarted-with-a-new-program", build=shard_mutants.plans_on_with_other_zones
    ),
    "a retried parent is forgotten": _mutant("S26 L8", UNHEARD, store=dependent_mutants.RetriedParentForgotten),
    "all is any": _mutant("S26", WIDOWED, store=dependent_mutants.AllIsAny),
    "a finish that comes again is followed again": _mutant("S26", UNHEARD, store=dependent_mutants.FollowedTwice),
    "a lost parent is forgotten": _mutant("S26 L8", WIDOWED, store=dependent_mutants.ReaperForgetsDependents),
    "a set is used twice": _mutant("S26", UNHEARD, store=dependent_mutants.SetKeptWhenUsed),
    "a catch-up is an overlap": _mutant("S28", OUTAGES, store=overdue_mutants.CatchUpIsAnOverlap),
    "caught-up slots are counted": _mutant("S28", OUTAGES, store=overdue_mutants.CaughtUpSlotsAreCounted),
    "the stalest slot runs": _mutant("S28", OUTAGES, store=overdue_mutants.StalestRuns),
    "the newest slot runs first": _mutant("S28", OUTAGES, store=overdue_mutants.NewestFirst),
    "caught-up slots are replaced": _mutant("S28", OUTAGES, store=overdue_mutants.CaughtUpSlotsAreReplaced),
    "ended slots are forgotten": _mutant("S28", OUTAGES, store=overdue_mutants.EndedSlotsAreForgotten),
    "heirs come first": _mutant("S28", OUTAGES, store=overdue_mutants.HeirsFirst),
    "missed too early": _mutant("S28", OUTAGES, store=overdue_mutants.MissedTooEarly),
    "an edit goes by its caller's clock": _mutant("S1 S4", HELD, store=overdue_mutants.EditByItsCallersClock),
}
