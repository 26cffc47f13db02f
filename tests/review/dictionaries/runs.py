"""The way of a run, in dictionaries."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from onthedot.clock import NEVER, Micros
from onthedot.errors import KeyConflict, UnknownJob
from onthedot.job import JobState, ability_of, is_gated
from onthedot.policy.window_rules import check_revision
from onthedot.route import BONUS, RANK_AT_ONCE, is_shared, lines_of, read_route
from onthedot.run import EDITED, ArmAnswer, Armed, Delayed, GateAsk, Gone, Lease, NewRun, RunState
from onthedot.stores.documents import Noting, check_noting
from onthedot.stores.hints import Hint
from onthedot.stores.values import Ask, Reserved
from onthedot.verdict import Finish
from tests.review.dictionaries.gates import Gates
from tests.review.dictionaries.tables import Run, RunKey


class Runs(Gates):
    """See `Store`."""

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        check_noting(noting, runs)
        now = self.read_clock(now)
        for run in runs:
            record = self.jobs.get(run.job_id)
            if record is None or record.state is JobState.DELETED:
                raise UnknownJob(f"job {run.job_id} does not exist; define it before you submit runs of it")
            check_revision(run.job_id, run.revision, record.revision)
            known = self.submit_keys.get((run.job_id, run.key))
            if run.key and known is not None and known[1] != run.args:
                raise KeyConflict(f"key {run.key!r}: used before by run {known[0]}, with other arguments")
        self._check_batch(runs)
        ids = [self._submit_one(run, now) for run in runs]
        if runs:
            self.hints.send(Hint("runs", min(run.due_at for run in runs)))
        if noting is not None:
            self.append(noting.kind, noting.of(ids), noting.keys, now)
        return ids

    def _check_batch(self, runs: Sequence[NewRun]) -> None:
        """Two runs of one call with the same key must ask for the same thing."""
        seen: dict[tuple[int, str], str | None] = {}
        for run in runs:
            if run.key and seen.setdefault((run.job_id, run.key), run.args) != run.args:
                raise KeyConflict(f"key {run.key!r}: given twice in one call, with different arguments")

    def _submit_one(self, run: NewRun, now: Micros) -> int:
        known = self.submit_keys.get((run.job_id, run.key)) if run.key else None
        if known is not None:
            return known[0]
        key = RunKey(run.job_id, run.trigger, run.instant)
        run_id = self.insert(key, due_at=run.due_at, now=now, expires_at=run.expires_at, args=run.args)
        if run.key:
            self.submit_keys[run.job_id, run.key] = (run_id, run.args)
        return run_id

    async def reserve(self, ask: Ask, *, now: Micros | None = None) -> Reserved:
        now = self.read_clock(now)
        self.check_lease(ask.incarnation, now)
        reserved = Reserved(now)
        row = self.nodes[ask.incarnation]
        if ask.number < row.void_below or row.node.draining:
            return reserved
        lease_ids = iter(ask.lease_ids)
        passed_over: list[Run] = []
        seats, extra, ahead = ask.seats, ask.extra, ask.ahead
        aside: list[Run] = []
        for run in self._ready(ask, now, aside):
            due, near = run.ready_at <= now, run.ready_at <= now + ask.horizon
            if near and not self._may_take(run, ask, now):
                passed_over.append(run)
            elif not due and near and ahead and run.state is RunState.SCHEDULED:
                ahead -= 1
                reserved.held.append(self._hold(run, next(lease_ids), ask, now))
            elif due and seats and is_gated(self.jobs[run.key.job_id].job):
                seats -= 1
                reserved.held.append(self._hold(run, next(lease_ids), ask, now))
            elif due and seats:
                seats -= 1
                reserved.armed.append(self._hold_and_arm(run, next(lease_ids), ask, now))
            elif due and extra and run.key.job_id in ask.quick and not is_gated(self.jobs[run.key.job_id].job):
                extra -= 1
                reserved.armed.append(self._hold_and_arm(run, next(lease_ids), ask, now))
            else:
                passed_over.append(run)
                lead = ask.horizon if ahead else 0
                look = reserved.look_again_at = self._look_again(reserved.look_again_at, run, ask, lead, now)
                if due and len(passed_over) >= len(ask.lease_ids):
                    break
                if not due and look is not None and run.ready_at - lead >= look:
                    break  # nothing behind it can be had any earlier
        for run in aside:
            if run.ready_at < NEVER:
                reserved.look_again_at = self._look_again(reserved.look_again_at, run, ask, 0, now)
        for run in [*passed_over, *aside]:
            self.line_up(run)
        return reserved

    def _ready(self, ask: Ask, now: Micros, aside: list[Run]) -> Iterator[Run]:
        """Take runs out of the heaps: those that are due, by age and priority; then the others, by instant. What has a
        rank and is reserved is put aside: the caller lines it up again, however far it has looked."""
        self._give_ranks(ask, now)
        lines = self._lines(ask)
        fair = [route for route in self.ranked if read_route(route).queue in ask.queues and self._serves(route, ask)]
        while True:
            heads: list[tuple[tuple[bool, Micros, int], list[tuple[int, int]]]] = [
                (_rank(self.waiting[line][0], line, now), self.waiting[line])
                for line in lines
                if self._drop_stale(line)
            ]
            for route in fair:
                head = self._first_ranked(route, now, aside)
                if head is not None:
                    heads.append(((False, head.ready_at - BONUS[head.level], head.id), self.ranked[route]))
            if not heads:
                return
            _, run_id = heapq.heappop(min(heads)[1])
            yield self.runs[run_id]

    def _first_ranked(self, route: str, now: Micros, aside: list[Run]) -> Run | None:
        """The ready run with the lowest rank; those that somebody has reserved are put aside."""
        heap = self.ranked[route]
        while heap:
            rank, run_id = heap[0]
            run = self.runs.get(run_id)
            if run is not None and run.rank == rank and run.state is not RunState.RUNNING:
                if run.ready_at <= now:
                    return run
                aside.append(run)
            heapq.heappop(heap)
        return None

    def _give_ranks(self, ask: Ask, now: Micros) -> None:
        """Runs that are due in queues that are shared fairly get their turns, earliest due first."""
        for route, level in self._lines(ask):
            queue = self.queues.get(read_route(route).queue)
            if queue is None or queue.weights is None or not is_shared(route):
                continue
            heap = self.waiting[route, level]
            for _ in range(RANK_AT_ONCE):
                if not self._drop_stale((route, level)) or heap[0][0] > now:
                    break
                run = self.runs[heapq.heappop(heap)[1]]
                self.give_rank(run)
                self.line_up(run)

    def _lines(self, ask: Ask) -> list[tuple[str, int]]:
        """The heaps that this worker may look into."""
        ranges = lines_of(ask.queues, self.nodes[ask.incarnation].node.id, ask.incarnation)
        return [
            (route, level)
            for (route, level), heap in self.waiting.items()
            if heap and any(low <= route < high for low, high in ranges) and self._serves(route, ask)
        ]

    def _serves(self, route: str, ask: Ask) -> bool:
        queue, labels = read_route(route)
        return labels <= ask.labels and not self.is_paused(queue)

    def _drop_stale(self, line: tuple[str, int]) -> bool:
        """Whether there is an entry, once those that no longer match their run are gone from the head."""
        heap = self.waiting[line]
        while heap:
            ready_at, run_id = heap[0]
            run = self.runs.get(run_id)
            if (
                run is not None
                and run.ready_at == ready_at
                and run.state is not RunState.RUNNING
                and (run.route, run.level) == line
            ):
                return True
            heapq.heappop(heap)
        return False

    def _may_take(self, run: Run, ask: Ask, now: Micros) -> bool:
        record = self.jobs[run.key.job_id]
        if run.expires_at is not None and run.expires_at <= now:
            return False  # missed: `expire` will say so
        if self.is_paused(run.queue):
            return False
        return ability_of(record.job) in ask.tasks

    def _look_again(self, found: Micros | None, run: Run, ask: Ask, lead: Micros, now: Micros) -> Micros | None:
        """The earlier of what was found and when this run may be had: as another's reservation lapses, as it
        enters the horizon when there is room ahead, or as it is due."""
        if run.state is RunState.SCHEDULED:
            free_at = max(now, run.ready_at - lead)
        elif run.lease and run.lease.incarnation == ask.incarnation and run.ready_at > now:
            return found  # its own reservation
        else:
            free_at = max(now, run.ready_at)
        return free_at if found is None else min(found, free_at)

    def _lease(self, run: Run, lease_id: str, ask: Ask, now: Micros) -> Lease:
        run.delayed_under = ""
        if run.rank is not None:
            self.virtual_time[run.queue] = max(self.virtual_time[run.queue], run.rank)
        run.lease = Lease(
            lease_id, run.id, self.jobs[run.key.job_id], run.key.trigger, run.key.slot_at, run.due_at, run.args,
            run.attempt + 1, run.failures, run.recoveries, ask.incarnation, run.created_at, now, target=run.key.target,
            queue=run.queue, level=run.level, checkpoint=self.checkpoints.get(run.id),
        )  # fmt: skip
        return run.lease

    def _hold(self, run: Run, lease_id: str, ask: Ask, now: Micros) -> Lease:
        run.state = RunState.RESERVED
        self.wait(run, max(run.due_at, now) + ask.lapse)
        return self._lease(run, lease_id, ask, now)

    def _hold_and_arm(self, run: Run, lease_id: str, ask: Ask, now: Micros) -> Lease:
        lease = self._lease(run, lease_id, ask, now)
        self._arm(run, lease, now)
        return lease

    def _arm(self, run: Run, lease: Lease, now: Micros) -> None:
        self.last_fence += 1
        lease.fence = self.last_fence
        lease.armed_at = now
        run.state = RunState.RUNNING
        run.attempt = lease.attempt
        run.expires_at = None

    async def held(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        row = self.nodes.get(incarnation)
        if row is not None:
            row.void_below = max(row.void_below, void_below)
        return [run.lease for run in self.runs.values() if run.lease and run.lease.incarnation == incarnation]

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        now = self.read_clock(now)
        for incarnation in {lease.incarnation for lease in leases}:
            self.check_lease(incarnation, now)
        return [self._arm_one(lease, (gates or {}).get(lease.lease_id), now) for lease in leases]

    def _arm_one(self, lease: Lease, gates: GateAsk | None, now: Micros) -> ArmAnswer:
        run = self.runs.get(lease.run_id)
        if run is not None and run.granted_at is not None and run.delayed_under == lease.lease_id:
            return Delayed(run.granted_by, run.granted_at)
        if run is None or run.lease is None or run.lease.lease_id != lease.lease_id:
            return Gone("taken or withdrawn")
        if run.state is RunState.RESERVED:
            if self.jobs[run.key.job_id].revision != lease.record.revision:
                return Gone(EDITED)
            if self.jobs[run.key.job_id].state is not JobState.ACTIVE or self.is_paused(run.queue):
                return Gone("paused")
            closed = self.pass_gates(run, gates, now) if gates is not None else None
            if closed is not None:
                return closed
            self._arm(run, run.lease, now)
        return Armed(run.lease.fence, run.lease.attempt, run.lease.armed_at)

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        del now
        return [self._release_one(lease) for lease in leases]

    def _release_one(self, lease: Lease) -> bool:
        run = self.runs.get(lease.run_id)
        if run is None or run.state is not RunState.RESERVED or run.lease is None:
            return False
        if run.lease.lease_id != lease.lease_id:
            return False
        run.state = RunState.SCHEDULED
        run.lease = None
        self.wait(run, run.due_at)
        self.hints.send(Hint("runs", run.due_at))
        return True

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        del now  # an attempt's instants come with it
        for finish in finishes:
            self.check_move(finish.verdict)
        return [self._finish_one(finish) for finish in finishes]

    def _finish_one(self, finish: Finish) -> bool:
        lease = finish.lease
        run = self.runs.get(lease.run_id)
        if run is not None and run.state is RunState.RUNNING and run.lease and run.lease.lease_id == lease.lease_id:
            self.end_attempt(run, finish)
            return True
        recorded = self.attempts.get(lease.run_id, ())
        return any(a.lease_id == lease.lease_id and a.outcome == finish.verdict.outcome for a in recorded)


def _rank(entry: tuple[Micros, int], line: tuple[str, int], now: Micros) -> tuple[bool, Micros, int]:
    """Which of the first runs of two lines is taken first."""
    ready_at, run_id = entry
    return (False, ready_at - BONUS[line[1]], run_id) if ready_at <= now else (True, ready_at, run_id)
