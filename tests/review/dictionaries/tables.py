"""What the store of dictionaries remembers, and the few moves that several slices share.

A run that may be taken sits in its queue's heap under `ready_at`: its due instant while scheduled, the instant
at which the reservation lapses while reserved. Entries are not removed when a run moves on; one that no longer
matches its run is dropped when it comes up. So it is with schedules, in one heap under `next_at`.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onthedot.clock import NEVER, Clock, Micros, SystemClock
from onthedot.errors import NodeExpired, StateError, TermLost
from onthedot.job import JobRecord, JobState, ability_of, route_of, share_of
from onthedot.policy.placement import Need, Serving
from onthedot.rate import Tat
from onthedot.route import PRIORITIES, is_shared, level_of, next_turn, ranked, unranked
from onthedot.run import (
    MOVES,
    TERMINAL,
    AttemptRecord,
    Checkpoint,
    Gate,
    Lease,
    Progress,
    RunRecord,
    RunState,
    SkipRecord,
    after_trigger,
    is_slot,
    slot_trigger,
)
from onthedot.shards import bucket_of, shard_of
from onthedot.stores.documents import Document, Entry, Places
from onthedot.stores.hints import Hint, Hints
from onthedot.stores.queries import Revision
from onthedot.stores.values import Layout, Node, Note, Queue, Term
from onthedot.verdict import Finish, Verdict
from onthedot.window import FateAhead, ScheduleState
from tests.review.dictionaries.dependencies import Dependencies

_AFTER_RUNNING = MOVES[RunState.RUNNING]


class RunKey(NamedTuple):
    """What makes a run itself and no other: asking for the same key twice gives the same run."""

    job_id: int
    trigger: str
    slot_at: Micros
    target: str = ""


@dataclass(slots=True)
class Run:
    """A live run."""

    id: int
    key: RunKey
    route: str
    level: int
    queue: str
    due_at: Micros
    ready_at: Micros
    expires_at: Micros | None  # None once armed: who was asked for is not missed
    args: str | None
    created_at: Micros
    state: RunState = RunState.SCHEDULED
    reason: str = ""
    attempt: int = 0
    failures: int = 0
    recoveries: int = 0
    lease: Lease | None = None  # of the present attempt, while reserved or running
    gates: list[Gate] = field(default_factory=list)  # held
    blocked_on: Gate | None = None
    caught_up_at: Micros | None = None  # when it came to its overlap gate, overdue together with other slots
    granted_at: Micros | None = None  # the instant that a rate has handed out, until an attempt has used it
    granted_by: str = ""  # the key of that rate
    delayed_under: str = ""  # the lease id of the arm that was answered with it, until the run is reserved again
    cancel_wanted: str | None = None  # why the running attempt is asked to stop
    share: str = ""
    rank: int | None = None  # in a queue that is shared fairly, once it is due


@dataclass(slots=True)
class NodeRow:
    """An incarnation. `ended` for good: its runs were taken, or it left."""

    node: Node
    ttl: Micros
    ended: bool = False
    void_below: int = 0  # asks with a smaller number give nothing out


@dataclass(slots=True)
class Skip:
    """A recorded range of skipped slots."""

    id: int
    job_id: int
    shown: SkipRecord


class Tables:
    """The state behind every slice."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.hints = Hints()
        self.jobs: dict[int, JobRecord] = {}
        self.revisions: dict[int, list[Revision]] = defaultdict(list)  # by job, every definition that it had
        self.names: dict[tuple[str, str], int] = {}
        self.schedules: dict[int, dict[str, ScheduleState]] = {}
        self.coming: list[tuple[Micros, int, str]] = []  # a heap: next slot, job and schedule
        self.dropped_ahead: dict[tuple[int, str], tuple[FateAhead, ...]] = {}  # exceptions of schedules that are gone
        self.delays: dict[tuple[int, str], Micros] = {}  # of schedules with a fixed delay
        self.dependencies = Dependencies()
        self.runs: dict[int, Run] = {}
        self.of_job: dict[int, dict[int, Run]] = defaultdict(dict)  # the same, by job
        self.keys: dict[RunKey, int] = {}
        self.submit_keys: dict[tuple[int, str], tuple[int, str | None]] = {}  # run id and arguments, by job and key
        self.waiting: dict[tuple[str, int], list[tuple[Micros, int]]] = defaultdict(list)  # by route and level
        self.queues: dict[str, Queue] = {}  # those that somebody has changed
        self.ranked: dict[str, list[tuple[int, int]]] = defaultdict(list)  # rank and run, by route
        self.turns: dict[tuple[str, str, int], int] = {}  # by queue, share and level: where the last turn ends
        self.virtual_time: Counter[str] = Counter()  # by queue
        self.holders: dict[str, set[int]] = defaultdict(set)  # of gates, by key
        self.blocked: dict[str, list[tuple[Micros, int]]] = defaultdict(list)  # who waits at them, by due instant
        self.widest: dict[str, int] = {}  # the largest capacity that anyone who waits there goes by
        self.rates: dict[str, Tat] = {}  # by key; one that is not here has been idle
        self.finished: dict[int, RunRecord] = {}  # in the order in which they ended
        self.finished_keys: dict[int, RunKey] = {}
        self.attempts: dict[int, list[AttemptRecord]] = {}
        self.checkpoints: dict[int, Checkpoint] = {}
        self.notes: dict[int, dict[int, Note]] = {}  # by run and attempt
        self.skips: list[Skip] = []  # by id
        self.last_skip = 0
        self.nodes: dict[str, NodeRow] = {}
        self.terms: dict[int, Term] = {}
        self.term_ttls: dict[int, Micros] = {}
        self.current_layout = Layout()
        self.daily_counts: Counter[tuple[int, int, RunState]] = Counter()  # of what was pruned, by job and day
        self.armed_to: dict[tuple[int, str], Micros] = {}  # by job and trigger: see `hold_edge`
        self.documents: dict[tuple[str, str], Document] = {}  # by kind and id
        self.entries: dict[str, list[Entry]] = defaultdict(list)  # by kind: lists that only grow
        self.entry_keys: dict[str, dict[str, int]] = defaultdict(dict)  # by kind and key
        self.last_version = 0
        self.last_run = 0
        self.last_fence = 0

    def append(self, kind: str, bodies: Sequence[str], keys: Sequence[str], now: Micros) -> list[int]:
        """Add texts to a list, each key once; their numbers."""
        entries, known = self.entries[kind], self.entry_keys[kind]
        last = entries[-1].number if entries else 0
        places = Places(keys or [""] * len(bodies), known, last)
        for place, number, key in places.fresh:
            entries.append(Entry(kind, number, bodies[place], now))
            if key is not None:
                known[key] = number
        return places.numbers

    def hold_edge(self, schedule: tuple[int, str], slot_at: Micros) -> None:
        """Plan nothing anew up to this slot: it was skipped ahead, or armed, and is pruned."""
        self.armed_to[schedule] = max(self.armed_to.get(schedule, slot_at), slot_at)

    def read_clock(self, now: Micros | None) -> Micros:
        return self.clock.now() if now is None else now

    async def tell_time(self) -> Micros:
        return self.clock.now()

    def check_lease(self, incarnation: str, now: Micros) -> None:
        """`NodeExpired` unless the incarnation's lease is alive."""
        row = self.nodes.get(incarnation)
        if row is None or row.ended or row.node.lease_until <= now:
            raise NodeExpired(f"incarnation {incarnation}: its lease has ended; register a new one to go on")

    def check_term(self, term: Term, now: Micros) -> None:
        """`TermLost` unless this is its shard's current term."""
        if not self.is_current(term, now):
            raise TermLost(f"term {term.number} of shard {term.shard} is over; campaign again before planning")

    def is_current(self, term: Term, now: Micros) -> bool:
        """Whether this is its shard's term, in this layout, and has not ended."""
        current = self.terms.get(term.shard)
        if current is None or (current.number, current.layout) != (term.number, term.layout):
            return False
        return current.until > now

    def check_layout(self, layout: int | None, shard: int) -> None:
        """`TermLost` for a version that is not the current one, or a shard that it does not have."""
        now = self.current_layout
        if layout not in (None, now.version) or not 0 <= shard < now.shards:
            raise TermLost(f"shard {shard}, layout {layout}: the layout is {now.version}, of {now.shards} by now")

    def jobs_of(self, shard: int) -> list[int]:
        """The jobs in a shard's buckets."""
        return [job_id for job_id in self.schedules if self.is_in_shard(job_id, shard)]

    def is_in_shard(self, job_id: int, shard: int) -> bool:
        """Whether a job is in a shard's buckets."""
        shards = self.current_layout.shards
        return shards == 1 or shard_of(bucket_of(job_id), shards) == shard

    def expect(self, state: ScheduleState, next_at: Micros | None) -> None:
        """A schedule's next slot is at this instant: from there on planners find it."""
        state.next_at = next_at
        if next_at is not None:
            heapq.heappush(self.coming, (next_at, state.record.id, state.schedule_id))

    def insert(self, key: RunKey, *, due_at: Micros, now: Micros, expires_at: Micros | None, args: str | None) -> int:
        """A new run, or the one that has this key already, live or ended."""
        known = self.keys.get(key)
        if known is not None:
            return known
        self.last_run += 1
        job = self.jobs[key.job_id].job
        run = Run(
            self.last_run, key, route_of(job, key.target), level_of(job.priority), job.queue, due_at, due_at,
            expires_at, args, now, share=share_of(job, args),
        )  # fmt: skip
        self.runs[run.id] = self.of_job[key.job_id][run.id] = run
        self.keys[key] = run.id
        if self.jobs[key.job_id].state is JobState.PAUSED:
            run.ready_at, run.expires_at = NEVER, None  # held until the job is resumed, and not expiring
        else:
            self.wait(run, due_at)
        return run.id

    def wait(self, run: Run, ready_at: Micros) -> None:
        """Let the run be found from `ready_at` on."""
        run.ready_at = ready_at
        self.line_up(run)

    def give_rank(self, run: Run) -> None:
        """A run is due: if its queue is shared fairly, it gets its turn."""
        queue = self.queues.get(run.queue)
        if queue is None or queue.weights is None or run.rank is not None or not is_shared(run.route):
            return
        share = (queue.name, run.share, run.level)
        weight = queue.weights.get(run.share, 1)
        turn = next_turn(self.virtual_time[queue.name], self.turns.get(share, 0), weight, run.level)
        self.turns[share] = turn.end
        run.rank, run.route = turn.start, ranked(run.route)

    def line_up(self, run: Run) -> None:
        """Put a run where workers look for it."""
        if run.rank is None:
            heapq.heappush(self.waiting[run.route, run.level], (run.ready_at, run.id))
        else:
            heapq.heappush(self.ranked[run.route], (run.rank, run.id))

    def reroute(self, job_id: int) -> None:
        """A job was edited: its runs go on where and how it says now."""
        job = self.jobs[job_id].job
        for run in self.runs.values():
            if run.key.job_id == job_id:
                run.rank = None
                run.route, run.level, run.queue = route_of(job, run.key.target), level_of(job.priority), job.queue
                if run.state is not RunState.RUNNING and run.ready_at != NEVER:
                    self.wait(run, run.ready_at)

    def is_paused(self, queue: str) -> bool:
        """Whether somebody has stopped this queue."""
        return queue in self.queues and self.queues[queue].paused_at is not None

    def runs_of(self, job_id: int, trigger: str) -> list[Run]:
        """The live runs of one schedule."""
        return [run for run in self.of_job[job_id].values() if run.key.trigger == trigger]

    def withdraw(self, run: Run) -> None:
        """Remove a live run as if it had never been planned. Its gates open."""
        del self.runs[run.id], self.of_job[run.key.job_id][run.id]
        del self.keys[run.key]
        self.open_gates(list(run.gates), run)

    def check_move(self, verdict: Verdict) -> None:
        """`StateError` for a verdict that no running run can get."""
        if verdict.state not in _AFTER_RUNNING:
            legal = ", ".join(sorted(_AFTER_RUNNING))
            raise StateError(f"verdict: expected a state that may follow running ({legal}), got {verdict.state}")

    def end_attempt(self, run: Run, finish: Finish) -> None:
        """Record the attempt and move the run to its verdict's state: the one way out of `running`."""
        lease, verdict, started_at, ended_at = finish
        lease = run.lease or lease  # the row's own: the holder's copy need not know what `arm` answered
        record = AttemptRecord(
            run.id, lease.attempt, lease.lease_id, lease.fence, self.nodes[lease.incarnation].node.id,
            lease.record.revision, verdict.outcome, verdict.error, lease.due_at, lease.reserved_at, lease.armed_at,
            started_at or None, ended_at,
        )  # fmt: skip
        self.attempts.setdefault(run.id, []).append(record)
        run.failures += verdict.failed
        run.recoveries += verdict.recovered
        run.lease = None
        run.granted_at, run.granted_by = None, ""
        job_state = self.jobs[run.key.job_id].state
        unwanted = "deleted" if job_state is JobState.DELETED else run.cancel_wanted
        if verdict.state not in TERMINAL and unwanted is not None:
            verdict = verdict._replace(state=RunState.CANCELLED, reason=unwanted)
        run.reason = verdict.reason
        run.cancel_wanted = None
        if verdict.state in TERMINAL:
            self.end_run(run, verdict.state, ended_at, finish=finish._replace(lease=lease, verdict=verdict))
            return
        self.open_gates([gate for gate in run.gates if not gate.until_end], run)
        run.state = RunState.SCHEDULED
        run.due_at = verdict.due_at
        run.route, run.rank = unranked(run.route), None
        if job_state is JobState.PAUSED:
            run.ready_at = NEVER
            return
        self.wait(run, verdict.due_at)
        self.hints.send(Hint("runs", verdict.due_at))

    def end_run(
        self, run: Run, state: RunState, ended_at: Micros, *, finish: Finish | None = None, error: str | None = None
    ) -> None:
        """Move a run to history: the one way into a terminal state. Its key stays taken, its gates open."""
        del self.runs[run.id], self.of_job[run.key.job_id][run.id]
        self.open_gates(list(run.gates), run)
        job = self.jobs[run.key.job_id].job
        lease, verdict, started_at = (finish.lease, finish.verdict, finish.started_at) if finish else (None, None, 0)
        node, revision = self._last_attempt(run.id)
        self.finished_keys[run.id] = run.key
        self.finished[run.id] = RunRecord(
            run.id, job.name, job.namespace, run.key.trigger, run.key.slot_at, run.due_at, state, run.reason,
            run.attempt, run.failures, run.recoveries, run.created_at, lease.armed_at if lease else None,
            started_at or None, ended_at, verdict.error if verdict else error, verdict.result if verdict else None,
            run.queue, PRIORITIES[run.level], run.key.target, self.progress_of(run.id), run.args,
            owner=job.owner, node=node, revision=revision, job_id=run.key.job_id,
        )  # fmt: skip
        self.hints.send(Hint("ends", ended_at))
        if self.delays:
            self._reopen(run, ended_at)
        if self.dependencies.children:
            self._follow(job.namespace, job.name, run.id, state, ended_at)

    def _follow(self, namespace: str, name: str, run_id: int, state: RunState, ended_at: Micros) -> None:
        """Jobs run after the run that has just ended."""
        for child_id in self.dependencies.ended(namespace, name, run_id, state, ended_at):
            key = RunKey(child_id, after_trigger(run_id), ended_at)
            self.insert(key, due_at=ended_at, now=ended_at, expires_at=None, args=None)
            self.hints.send(Hint("runs", ended_at))

    def last_tried(self, run: Run) -> tuple[str, int]:
        """Who holds a run and under which revision of its job, or had it last; nobody, and 0."""
        if run.lease is not None:
            return self.nodes[run.lease.incarnation].node.id, run.lease.record.revision
        return self._last_attempt(run.id)

    def _last_attempt(self, run_id: int) -> tuple[str, int]:
        tried = self.attempts.get(run_id)
        return (tried[-1].node, tried[-1].revision) if tried else ("", 0)

    def progress_of(self, run_id: int) -> Progress | None:
        """What the newest attempt that told anything has told last."""
        notes = self.notes.get(run_id)
        told = [note.progress for _, note in sorted(notes.items()) if note.progress is not None] if notes else []
        return told[-1] if told else None

    def skip(self, run: Run, reason: str, now: Micros, *, error: str | None = None) -> None:
        """Move a run that never began to skipped; `error` names the run that was in its way."""
        run.reason = reason
        self.end_run(run, RunState.SKIPPED, now, error=error)

    def ask_to_stop(self, run: Run, why: str, now: Micros) -> None:
        """Let the running attempt know with its node's next beat; who asked first tells why."""
        run.cancel_wanted = why if run.cancel_wanted is None else run.cancel_wanted
        self.hints.send(Hint("beats", now))

    # ── gates ────────────────────────────────────────────────────────────────────────────────────────────────

    def waiters(self, key: str) -> list[tuple[Run, Gate]]:
        """Who waits at a gate, and how each wants to hold it, in the order in which it will pass to them."""
        entries = sorted(set(self.blocked.get(key, ())))  # who was freed and waits again is in it twice
        runs = [self.runs[run_id] for _, run_id in entries if run_id in self.runs]
        return [(run, run.blocked_on) for run in runs if run.blocked_on is not None and run.blocked_on.key == key]

    def block(self, run: Run, gate: Gate) -> None:
        """Let a run wait at a gate: nobody finds it until the gate has passed to it."""
        run.blocked_on = gate
        run.ready_at = NEVER
        heapq.heappush(self.blocked[gate.key], (run.due_at, run.id))
        self.widest[gate.key] = max(gate.capacity, self.widest.get(gate.key, 0))

    def stand_aside(self, runs: Iterable[Run]) -> None:
        """Those of them that wait at gates are ready again, and places that others could use are given up: what they
        may hold, and where they have to wait, is decided anew when they are armed."""
        waiting = [run for run in runs if run.state is not RunState.RUNNING]
        for run in waiting:
            if run.blocked_on is not None:
                run.blocked_on = None
                run.reason = ""
                self.wait(run, run.due_at)
        for run in waiting:
            self.open_gates([gate for gate in run.gates if not gate.until_end], run)

    def open_gates(self, gates: list[Gate], run: Run) -> None:
        """Give up gates; each passes to who has waited longest."""
        for gate in gates:
            self.drop_place(gate.key, run)
            self.pass_on(gate.key)

    def drop_place(self, key: str, run: Run) -> None:
        """Give up one gate, without passing it on."""
        run.gates = [gate for gate in run.gates if gate.key != key]
        self.holders[key].discard(run.id)

    def first_older(self, run: Run, now: Micros) -> Run | None:
        """The first slot of the job that is due before this one, has not asked for its overlap gate, and can still
        start: whoever has reserved it."""
        older = [
            other
            for other in self.of_job[run.key.job_id].values()
            if other.due_at < run.due_at
            and other.key.target == run.key.target
            and other.state is not RunState.RUNNING
            and other.blocked_on is None
            and is_slot(other.key.trigger)
            and (
                other.expires_at is None or other.expires_at > now or (other.lease is not None and other.ready_at > now)
            )
            and not any(gate.until_end for gate in other.gates)
        ]
        return min(older, key=lambda one: (one.due_at, one.id), default=None)

    def put_first(self, run: Run, gate: Gate, now: Micros) -> None:
        """A slot holds its overlap gate before it has asked for it."""
        run.caught_up_at = now
        run.gates.append(gate)
        self.holders[gate.key].add(run.id)
        self.hints.send(Hint("runs", run.due_at))

    def pass_on(self, key: str) -> int:
        """An open gate passes to those who have waited longest, as far as there is room by their own capacity: they
        hold it from now on, and are ready. How many. Slots are caught up in order: an older one comes first."""
        holders, line, passed = self.holders[key], self.blocked[key], 0
        aside: list[tuple[Micros, int]] = []
        while line and len(holders) < self.widest.get(key, 0):
            entry = heapq.heappop(line)
            heir = self.runs.get(entry[1])
            if heir is None or heir.blocked_on is None or heir.blocked_on.key != key:
                continue  # it waits here no more
            if len(holders) >= heir.blocked_on.capacity:
                aside.append(entry)
                continue
            in_order = heir.blocked_on.until_end and heir.caught_up_at is not None
            older = self.first_older(heir, heir.caught_up_at or 0) if in_order else None
            if older is not None and heir.caught_up_at is not None:
                self.put_first(older, heir.blocked_on, heir.caught_up_at)
                aside.append(entry)
                continue
            holders.add(heir.id)
            heir.gates.append(heir.blocked_on)
            heir.blocked_on = None
            heir.reason = ""
            self.wait(heir, heir.due_at)
            self.hints.send(Hint("runs", heir.due_at))
            passed += 1
        for entry in aside:
            heapq.heappush(line, entry)
        self._tidy(key)
        return passed

    def take_back(self, key: str, now: Micros, *, wanted: bool) -> None:
        """A limit's places that passed to runs which no living worker can start go to others, if any can use them:
        `wanted` says that somebody asks for one. Those runs, and all like them that wait there, are ready, hold no
        place, and ask again when a worker for them is back."""
        stuck = self._unable(self.idle_holders(key), now)
        if not stuck:
            return
        waiting = [run for run, _ in self.waiters(key)]
        unable = self._unable(waiting, now)
        if not wanted and len(unable) == len(waiting):
            return
        for run in unable:
            run.blocked_on = None
            run.reason = ""
            self.wait(run, run.due_at)
        for run in stuck:
            self.drop_place(key, run)
        self.pass_on(key)

    def idle_holders(self, key: str) -> list[Run]:
        """Holders that were passed a place in a limit and have not started."""
        holders = [self.runs[run_id] for run_id in self.holders.get(key, ()) if run_id in self.runs]
        idle = [run for run in holders if run.state is not RunState.RUNNING]
        return [run for run in idle if not any(gate.until_end for gate in run.gates if gate.key == key)]

    def _unable(self, runs: Sequence[Run], now: Micros) -> list[Run]:
        """Those that no living worker can start."""
        if not runs:
            return []
        nodes = [row.node for row in self.nodes.values() if not row.ended and row.node.lease_until > now]
        serving = Serving(nodes)
        return [run for run in runs if not serving.can_start(*self._need(run, now))]

    def _need(self, run: Run, now: Micros) -> tuple[Need, str | None]:
        job = self.jobs[run.key.job_id].job
        is_reserved = run.state is RunState.RESERVED and run.lease is not None and run.ready_at > now
        holder = run.lease.incarnation if is_reserved and run.lease else None
        return Need(ability_of(job), route_of(job), run.key.target), holder

    def _tidy(self, key: str) -> None:
        """Forget gates that nobody holds or waits for: there may be one for every value of an argument."""
        if not self.blocked[key]:
            del self.blocked[key]
            self.widest.pop(key, None)
        if not self.holders[key]:
            del self.holders[key]

    def _reopen(self, run: Run, ended_at: Micros) -> None:
        """The next slot of a fixed delay counts from the end of its run."""
        schedule_id = run.key.trigger.partition(":")[2]
        delay = self.delays.get((run.key.job_id, schedule_id))
        state = self.schedules[run.key.job_id].get(schedule_id)
        if delay is None or state is None or run.key.trigger != slot_trigger(schedule_id):
            return
        state.last_end = ended_at
        self.expect(state, ended_at + delay)
        self.hints.send(Hint("schedules", ended_at + delay))
