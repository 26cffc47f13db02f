"""`World`: what a store holds, as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from onthedot.model.errors import NodeExpired, RevisionConflict, TermLost, UnknownJob
from onthedot.model.job import Job as Definition
from onthedot.model.job import JobState
from onthedot.model.route import Priority
from onthedot.model.run import TERMINAL, AttemptRecord, Checkpoint, Gate, RunRecord, RunState
from onthedot.stores.values import Node, Note, Parent, Term

PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high", "critical")
URGENCY = (1, 4, 16, 64)  # by priority: a turn in a fair queue is shorter by this factor
A_TURN = 1 << 24


@dataclass
class Given:
    """A slot with an exception."""

    reason: str
    recorded: bool = False
    run: Run | None = None  # the run that replaces the slot's run


@dataclass
class Schedule:
    """A schedule of a job. Each slot up to its watermark has a fate."""

    id: str
    origin: int
    watermark: int
    next_at: int | None = None
    last_end: int | None = None
    delay: int | None = None  # of a fixed delay
    skipped_to: int = 0  # the newest slot that was skipped ahead, or armed and pruned
    exceptions: dict[int, Given] = field(default_factory=dict)


@dataclass(eq=False)
class Job:
    """A job, and the runs of its parents that are noted for it."""

    id: int
    revision: int
    definition: Definition
    state: JobState
    created_at: int
    updated_at: int
    pause_reason: str = ""
    paused_until: int | None = None
    schedules: dict[str, Schedule] = field(default_factory=dict)
    dropped: dict[str, dict[int, Given]] = field(default_factory=dict)  # exceptions of dropped schedules
    parents: dict[str, Parent] = field(default_factory=dict)  # the newest run that counts, by parent

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def task(self) -> str:
        """The task that a worker must offer."""
        return f"call:{getattr(self.definition.task, 'handler', '')}"

    @property
    def is_gated(self) -> bool:
        """Whether its runs have gates to pass."""
        definition = self.definition
        if definition.concurrency is not None or definition.rate is not None:
            return True
        if definition.overlap is None:
            return bool(definition.schedules)
        return definition.overlap.mode != "allow" or definition.overlap.max_running is not None


@dataclass
class Hold:
    """The lease of a reserved or running run."""

    lease_id: str
    incarnation: str
    node: str
    revision: int
    reserved_at: int
    armed_at: int = 0
    fence: int = 0


@dataclass(eq=False)
class Run:
    """A run, live or ended. Its id is 0 until the store has shown it."""

    job: Job
    trigger: str
    slot_at: int
    target: str
    due_at: int
    expires_at: int | None
    args: str | None
    created_at: int
    id: int = 0
    state: RunState = RunState.SCHEDULED
    reason: str = ""
    ready_at: int | None = None  # when it may be taken; None: not before another event
    queue: str = ""
    level: int = 0
    labels: frozenset[str] = frozenset()
    for_leader: bool = False
    place: str = ""  # the incarnation that the leader chose
    attempts: int = 0
    failures: int = 0
    recoveries: int = 0
    hold: Hold | None = None
    tried: list[AttemptRecord] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)  # the gates that it holds
    waits_at: Gate | None = None
    caught_up_at: int | None = None
    granted_at: int | None = None
    granted_by: str = ""
    delayed_under: str = ""  # the lease whose arm was answered with the grant
    cancel_wanted: str | None = None
    share: str = ""  # by the job's definition when it was inserted
    rank: int | None = None  # its turn in a fair queue
    armed_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None
    result: str | None = None
    settled: str = ""
    checkpoint: Checkpoint | None = None
    notes: dict[int, Note] = field(default_factory=dict)  # by attempt

    @property
    def is_live(self) -> bool:
        return self.state not in TERMINAL

    @property
    def is_running(self) -> bool:
        return self.state is RunState.RUNNING

    @property
    def is_slot(self) -> bool:
        return self.trigger.startswith("schedule:")

    @property
    def age(self) -> tuple[int, int]:
        """Of two waiting runs, the smaller has waited longer."""
        return (self.due_at, self.id)

    def is_held_under(self, lease_id: str, state: RunState) -> bool:
        return self.state is state and self.hold is not None and self.hold.lease_id == lease_id

    def holds(self, key: str) -> bool:
        return any(gate.key == key for gate in self.gates)

    def wait_until(self, ready_at: int | None) -> None:
        """Make it wait without a holder. It may be taken from this instant on."""
        self.state, self.hold, self.ready_at = RunState.SCHEDULED, None, ready_at


@dataclass
class Incarnation:
    """One boot of a node. `ended`: for good."""

    node: Node
    lease_until: int
    ttl: int
    ended: bool = False
    draining: bool = False
    left_at: int | None = None
    void_below: int = 0

    def is_alive(self, now: int) -> bool:
        return not self.ended and now < self.lease_until


@dataclass
class Skip:
    """A range of skipped slots."""

    job: Job
    schedule_id: str
    first: int
    last: int
    count: int
    reason: str
    recorded_at: int


@dataclass
class QueueSet:
    """The settings of a queue."""

    paused_at: int | None = None
    reason: str = ""
    weights: dict[str, int] | None = None
    time: int = 0  # virtual time
    turns: dict[tuple[str, int], int] = field(default_factory=dict)  # by share and level: where the last one ends


@dataclass
class World:
    """Everything that a store holds."""

    jobs: dict[int, Job] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)  # ended ones in the order of their ends
    keys: dict[tuple[int, str], tuple[Run, str | None]] = field(default_factory=dict)  # by job and key
    nodes: dict[str, Incarnation] = field(default_factory=dict)  # in the order in which they registered
    queues: dict[str, QueueSet] = field(default_factory=dict)
    skips: list[Skip] = field(default_factory=list)
    rates: dict[str, Fraction] = field(default_factory=dict)  # when the next start may be
    term: Term | None = None
    term_ttl: int = 0
    pruned: dict[tuple[str, int, RunState], int] = field(default_factory=dict)  # the number, by job and day
    last_fence: int = 0
    past_fence: int = 0  # the last fence of earlier calls: within a call the store chooses the order

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def live(self) -> list[Run]:
        return [run for run in self.runs if run.is_live]

    def ended(self) -> list[Run]:
        return [run for run in self.runs if not run.is_live]

    def live_of(self, job: Job, trigger: str | None = None) -> list[Run]:
        return [run for run in self.live() if run.job is job and trigger in (None, run.trigger)]

    def run(self, run_id: int) -> Run | None:
        return next((run for run in self.runs if run.id == run_id), None)

    def find(self, job: Job, trigger: str, slot_at: int, target: str = "") -> Run | None:
        """The run with this key, live or ended."""
        key = (job, trigger, slot_at, target)
        return next((run for run in self.runs if (run.job, run.trigger, run.slot_at, run.target) == key), None)

    def job_named(self, name: str, namespace: str = "default") -> Job | None:
        """The job that has this name now."""
        named = (job for job in self.jobs.values() if (job.definition.namespace, job.name) == (namespace, name))
        return next((job for job in named if job.state is not JobState.DELETED), None)

    def known_job(self, job_id: int, expected: int | None = None) -> Job:
        """A job that exists, at the revision that the caller has read."""
        job = self.jobs.get(job_id)
        if job is None or job.state is JobState.DELETED:
            raise UnknownJob(f"job {job_id}")
        if expected not in (None, job.revision):
            raise RevisionConflict(f"job {job_id}")
        return job

    def living(self, incarnation: str, now: int) -> Incarnation:
        """An incarnation whose lease has not ended."""
        node = self.nodes.get(incarnation)
        if node is None or not node.is_alive(now):
            raise NodeExpired(incarnation)
        return node

    def check_term(self, term: Term, now: int) -> None:
        current = self.term
        if current is None or current.number != term.number or current.until <= now:
            raise TermLost(f"term {term.number}")

    def is_paused(self, queue: str) -> bool:
        return queue in self.queues and self.queues[queue].paused_at is not None

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────

    def insert(
        self, job: Job, trigger: str, slot_at: int, *, due_at: int, now: int, target: str = "",
        expires_at: int | None = None, args: str | None = None,
    ) -> Run:  # fmt: skip
        """Insert a run, or return the one that has this key. A run of a paused job is held and does not expire."""
        known = self.find(job, trigger, slot_at, target)
        if known is not None:
            return known
        run = Run(job, trigger, slot_at, target, due_at, expires_at, args, now)
        self.route(run)
        run.share = _share_of(run)
        self.runs.append(run)
        if job.state is JobState.PAUSED:
            run.ready_at, run.expires_at = None, None
        else:
            run.ready_at = due_at
        return run

    def give_rank(self, run: Run) -> None:
        """Give a due run of a fair queue the start of its share's next turn.

        The length of a turn is one over the share's weight, and shorter for higher priorities.
        """
        queue = self.queues.get(run.queue)
        if queue is None or queue.weights is None or run.rank is not None or run.target or run.place or run.for_leader:
            return
        run.rank = max(queue.time, queue.turns.get((run.share, run.level), 0))
        length = max(1, A_TURN // (queue.weights.get(run.share, 1) * URGENCY[run.level]))
        queue.turns[run.share, run.level] = run.rank + length

    def route(self, run: Run) -> None:
        """Let a run wait where its job's definition says."""
        definition = run.job.definition
        run.queue, run.level = definition.queue, PRIORITIES.index(definition.priority)
        run.labels = definition.labels
        run.for_leader = definition.assignment == "leader" and not run.target
        run.place, run.rank = "", None

    def learn(self, listed: Iterable[RunRecord]) -> None:
        """Take over the ids of new runs."""
        known = {run.id for run in self.runs}
        found = {(one.job_id, one.trigger, one.slot_at, one.target): one.id for one in listed}
        for run in [run for run in self.runs if run.id == 0]:
            key = (run.job.id, run.trigger, run.slot_at, run.target)
            assert key in found, f"expected a new run {key}"
            assert found[key] not in known, f"run {found[key]} has two keys"
            run.id = found[key]
            known.add(run.id)


def _share_of(run: Run) -> str:
    name = run.job.definition.share
    if not name:
        return ""
    value = (json.loads(run.args) if run.args is not None else run.job.definition.args).get(name)
    return value if isinstance(value, str) else json.dumps(value)
