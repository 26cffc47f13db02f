"""Queues and placement, in dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from onthedot.clock import NEVER, Micros
from onthedot.policy.placement import is_left_lying
from onthedot.route import placed_incarnation, placed_on, unranked, waits_for_leader
from onthedot.run import RunState
from onthedot.stores.hints import Hint
from onthedot.stores.values import Placement, Queue, Term, Unplaced
from tests.review.dictionaries.tables import Run, Tables


class Queues(Tables):
    """See `Store`."""

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> Queue:
        known = self.queues.get(name, Queue(name))
        paused_at = self.read_clock(now) if known.paused_at is None else known.paused_at
        self.queues[name] = replace(known, paused_at=paused_at, reason=reason)
        self.stand_aside([run for run in self.runs.values() if run.queue == name])
        return self.queues[name]

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> Queue:
        now = self.read_clock(now)
        self.queues[name] = replace(self.queues.get(name, Queue(name)), paused_at=None, reason="")
        self.hints.send(Hint("runs", now))
        return self.queues[name]

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None) -> Queue:
        now = self.read_clock(now)
        self.queues[name] = replace(self.queues.get(name, Queue(name)), weights=weights)
        for run in [run for run in self.runs.values() if run.queue == name and run.rank is not None]:
            run.route, run.rank = unranked(run.route), None  # lined up anew, by the new weights
            if run.state is not RunState.RUNNING and run.ready_at != NEVER:
                self.line_up(run)
        self.turns = {key: end for key, end in self.turns.items() if key[0] != name}
        self.hints.send(Hint("runs", now))
        return self.queues[name]

    async def list_queues(self, *, now: Micros | None = None) -> list[Queue]:
        now = self.read_clock(now)
        names = sorted({*self.queues, *(run.queue for run in self.runs.values())})
        return [self._counted(name, now) for name in names]

    def _counted(self, name: str, now: Micros) -> Queue:
        mine = [run for run in self.runs.values() if run.queue == name]
        waiting = [run for run in mine if run.state is not RunState.RUNNING]
        due = [run.due_at for run in waiting if run.due_at <= now]
        return replace(
            self.queues.get(name, Queue(name)),
            waiting=len(waiting), due=len(due), running=len(mine) - len(waiting), oldest_due=min(due, default=None),
        )  # fmt: skip

    # ── placement ────────────────────────────────────────────────────────────────────────────────────────────

    async def unplaced(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[Unplaced]:
        now = self.read_clock(now)
        near = [run for run in self.runs.values() if run.ready_at <= until and not self.is_paused(run.queue)]
        found = [run for run in near if self._needs_a_place(run, now)]
        found.sort(key=lambda run: (run.ready_at, run.id))
        return [
            Unplaced(run.id, self.jobs[run.key.job_id], run.due_at, placed_incarnation(run.route) or "")
            for run in found[:limit]
        ]

    def _needs_a_place(self, run: Run, now: Micros) -> bool:
        if run.state is RunState.RUNNING or run.ready_at == NEVER:
            return False
        place = placed_incarnation(run.route)
        if place is None:
            return waits_for_leader(run.route)
        row = self.nodes.get(place)
        alive = row is not None and not row.ended and row.node.lease_until > now
        return is_left_lying(run.ready_at, now, alive=alive)

    async def loads(self) -> dict[str, int]:
        holders = [run.lease.incarnation if run.lease else placed_incarnation(run.route) for run in self.runs.values()]
        return dict(Counter(holder for holder in holders if holder))

    async def place(self, term: Term, placements: Sequence[Placement], *, now: Micros | None = None) -> list[bool]:
        now = self.read_clock(now)
        self.check_term(term, now)
        return [self._place_one(placement, now) for placement in placements]

    def _place_one(self, placement: Placement, now: Micros) -> bool:
        run = self.runs.get(placement.run_id)
        if run is None or not self._needs_a_place(run, now):
            return False
        run.state, run.lease = RunState.SCHEDULED, None
        run.route = placed_on(placement.incarnation)
        self.wait(run, max(run.due_at, now))  # from here on it has its time
        self.hints.send(Hint("runs", run.due_at))
        return True
