"""Defines the store protocol, the boundary between what onthedot decides and what it remembers.

The store is the only truth. It records atomically, checks every fence in the same write, and decides nothing. The
caller decides what the next state of a run is, which slots exist, and if a run is retried. `onthedot_verify.contract`
checks that every driver behaves in the same way.

Rules for all operations:

* **Atomic.** Either all effects of a call are visible, or none. A batch is atomic as a whole, unless the docstring says
  "row by row". Then each row is checked separately, and the answer tells which rows were accepted.
* **Fenced.** Every write after a reservation carries its lease, every plan its term, and every edit its revision. If
  the fence is not valid, nothing is written, and the answer says so.
* **Repeatable.** A call whose answer was lost may be made again with the same leases or keys.
* **The store's clock** decides what is due and what has ended: `now=None`. Only tests pass another value.
* **Lists** without a limit are complete.

`StoreUnavailable` means that the call may be repeated later. `StoreUnusable` means that a repetition does not help. Any
other error that a docstring names is raised before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from onthedot.clock import Clock, Micros
from onthedot.model.job import Job
from onthedot.model.retention import Cut, Mark, Pruned, PrunedNodes
from onthedot.model.run import ArmAnswer, Checkpoint, GateAsk, Lease, NewRun, RunRecord
from onthedot.model.verdict import Finish, Verdict
from onthedot.model.window import ExceptReason, ScheduleState, Window
from onthedot.stores import values
from onthedot.stores.documents import Documents, Noting
from onthedot.stores.hints import Hints
from onthedot.stores.queries import Queries
from onthedot.stores.transactions import Transactions
from onthedot.stores.values import Term


class Store(Protocol):
    """The operations of a store: everything that writes, and the few reads that services need for their decisions."""

    hints: Hints

    @property
    def queries(self) -> Queries:
        """The reads for people and services (`stores/queries.py`)."""

    @property
    def documents(self) -> Documents:
        """Users, keys, secrets and the audit trail (`stores/documents.py`)."""

    @property
    def clock(self) -> Clock | None:
        """The clock of this machine, if the store uses it. None if the store has its own clock and sends the time with
        its answers."""

    @property
    def any_loop(self) -> bool:
        """True if any event loop may use the store, and not only the one that opened it."""

    async def tell_time(self) -> Micros:
        """Return the time of the store's clock, for a caller that has no other answer of the store yet."""

    async def about(self) -> values.About:
        """Return the product and its version, how it is reached now, and what it keeps after a crash."""

    @property
    def transactions(self) -> Transactions | None:
        """Transactions for jobs under exactly_once (`stores/transactions.py`). None if the store has none."""

    async def close(self) -> None:
        """Close files, threads and connections. Acknowledged writes stay."""

    # ── definitions and their revisions ───────────────────────────────────────────────────────────────────────

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> values.PutJob:
        """Create the job or edit it, in one transaction, and return what was done.

        `windows` has one window for each schedule of the new definition, and one for each schedule that the edit drops.
        docs/design/store-moves.md has the table of cases: "What an edit does to slots". If the definition is equal to
        the stored one, nothing is written ("unchanged"), whatever `expected` is. So a put whose answer was lost may be
        made again. Recorded runs of parents that stay are kept, unless `any` or `on` of `after` changes.

        `expected` is the revision that the caller read (0: no such job; None: any). Raises `RevisionConflict` for
        another revision. Raises `WindowStale`, with the store's clock, for a window that does not fit the stored state.
        Raises `DependencyCycle` for a job that would run after itself, also if two edits close the cycle together."""

    # ── what people do to jobs and runs that exist ────────────────────────────────────────────────────────────

    async def pause_job(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> values.Paused:
        """Stop a job, in one transaction, and return how many runs were withdrawn, skipped and held.

        After the answer, none of its runs is planned or armed until it is resumed. Running attempts continue.
        docs/design/store-moves.md has the cases: "What a pause does to runs". If the job is already paused, only its
        reason and `until` change. Raises `UnknownJob`."""

    async def resume_job(
        self, job_id: int, windows: Sequence[Window] = (), *, expected: int | None = None, overdue: bool = False,
        dry_run: bool = False, now: Micros | None = None,
    ) -> values.Resumed:  # fmt: skip
        """Let a paused job continue, in one transaction, and return its slots, skips and held runs.

        Each window starts at its schedule's watermark, and holds the fates of the slots since then
        (docs/design/store-moves.md, "What a pause does to runs"). `dry_run` returns the same answer and writes nothing.
        A job that is not paused is not changed, and the answer is empty. With `overdue`, the same holds for a pause
        without an end, and for one whose end is in the future.

        `expected` is the revision that the windows were computed for (None: any). Raises `RevisionConflict` for another
        revision, `WindowStale` for a window that does not fit, `UnknownJob`."""

    async def move_slot(
        self, job_id: int, schedule_id: str, slot_at: Micros, *, reason: ExceptReason, run: NewRun | None = None,
        expected: int | None = None, now: Micros | None = None,
    ) -> values.MovedSlot:  # fmt: skip
        """Skip one slot that lies ahead, for this reason, in one transaction. If `run` is given, it takes the place of
        the slot.

        docs/design/store-moves.md has the cases: "What an exception does". The same call again (slot, reason, and the
        run's trigger and instant) returns the same answer. The run's `key` is not compared.

        `expected` is the revision whose rule yields the slot (None: any). Raises `SlotSettled` if the slot was armed,
        has its fate, is past, or has another exception; `RevisionConflict` for another revision; `UnknownJob`;
        `UnknownSlot` if the job has no such schedule."""

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        """Delete a job: cancel its waiting runs as cancelled(deleted), and return how many. Running attempts end
        without a retry: a verdict of scheduled becomes cancelled(deleted). A new job may use the name.

        `expected` is the revision that the caller has read (None: any). Raises `RevisionConflict`, `UnknownJob`."""

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[values.CancelAnswer]:
        """Cancel runs, row by row. A waiting run becomes cancelled in this write. A slot that lies ahead becomes an
        exception, so that no edit plans it again. A running attempt is asked to stop with its node's next heartbeat,
        and is not retried: the verdict scheduled becomes cancelled. If it is asked again, the first reason stays."""

    # ── from schedules to runs ────────────────────────────────────────────────────────────────────────────────

    async def due_schedules(
        self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None
    ) -> values.Due:
        """Return schedules of active jobs in the shard's buckets with `next_at <= until`, earliest first, at most
        `limit`.

        `layout` is the version that the caller uses (None: the current one). Another version raises `TermLost`."""

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        """Insert runs and skips and move watermarks, row by row. Return for each window if it was written.

        False means that nothing of the window was written, because another write was first. Then the job has another
        revision or is not active, the schedule has another watermark, or a range of skips covers an exception
        (docs/design/time.md, "How a window is written"). Raises `TermLost` if the term is not the current one, has
        ended, or is of an earlier layout."""

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> values.Layout:
        """Change the number of shards, in one transaction. The version grows, and every term ends.

        After the answer, no write of an earlier layout is accepted. If the layout already has this number of shards, it
        does not change. `expected` is the version that the caller read (None: any). Another version raises
        `LayoutConflict`."""

    async def replan(
        self, term: Term, rows: Sequence[values.Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        """Move the next slots of schedules, row by row, fenced by the term as in `plan`. Planned runs stay.

        Each row is a compare-and-set on (revision, watermark). False means that another write was first. `done` means
        that all schedules of the shard are now computed with the term's zone data. Later terms see this (`Term.zones`).
        """

    # ── queues as a whole, and runs whose worker the leader chooses (`assignment: leader`) ────────────────────

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> values.Queue:
        """Pause a queue. After the answer, none of its runs is reserved or armed until it is resumed. Armed runs
        continue. Slots that do not start in time are missed as usual. Runs that wait at gates become ready again, and
        give back the places in limits that they do not use."""

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> values.Queue:
        """End the pause of a queue. A queue that is not paused is not changed."""

    async def share_queue(
        self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None
    ) -> values.Queue:
        """Share a queue fairly, with these weights. With None, the first run to come starts first again."""

    async def assign(
        self, term: Term, placements: Sequence[values.Placement], *, now: Micros | None = None
    ) -> list[bool]:
        """Assign runs to workers, row by row. True: the run still waited and was not validly reserved. Raises
        `TermLost` as `plan` does."""

    # ── runs, from submitted to finished ──────────────────────────────────────────────────────────────────────

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        """Insert runs and return their ids, in order. For a key that exists already, live or in history, return the id
        of the existing run.

        The instant in a key is `slot_at`, or else the due instant. The same `key` of the same job also gives the
        existing run, with the instant of that run. Other arguments raise `KeyConflict`. Raises `UnknownJob` if any job
        is missing or deleted, and `RevisionConflict` if it has another revision than `NewRun.revision`.

        `noting` is appended to its list in the same write, so the runs and the note exist together or not at all. More
        than 100 runs may take several writes, after all are checked. If one of these fails, the earlier runs stay. Then
        call again."""

    async def reserve(self, ask: values.ReserveRequest, *, now: Micros | None = None) -> values.Reserved:
        """Take work for a worker: reserve and arm due work in one write, and reserve future work ahead.

        Due are scheduled runs, and runs that other workers reserved but did not arm within `lapse` of the later of the
        due instant and the reservation. Due work comes from the routes that the worker can serve, in the order of
        docs/design/store-moves.md, "Reserve". Future work comes in the order of its due instants. Runs that have
        expired, wait in a paused queue, or are for a draining node are left out. Due runs of jobs with gates
        (`is_gated`) are only reserved and returned in `held`, because only `arm` takes gates.

        `look_again_at` is now if due work was left because there were too few seats. Otherwise it is the earlier of two
        instants: another worker's reservation lapses, or the next run enters the horizon (with no room ahead: is due).
        Raises `NodeExpired` if the incarnation's lease has ended. If the answer is lost, `recover` returns the reserved
        runs."""

    async def recover(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        """Return every run that this incarnation holds, reserved or running.

        `void_below` makes each of its reserve requests with a smaller number void, in the same write. A void request
        that arrives later takes nothing. So the answer to a lost reserve is final."""

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        """Commit "these attempts start now", row by row. Return for each `Armed` with a fence, or why not
        (docs/design/store-moves.md, "What `arm` answers").

        An attempt is armed only if three conditions hold. The run is still reserved under this lease. The job still has
        the revision of the lease (else `Gone`). Every gate that `gates` names for this lease id is free, or held by the
        run itself. Then the run holds these gates, and gives up all others. If a lease is armed already, the same
        answer is returned again. Raises `NodeExpired` if the incarnation's lease has ended.

        Gates are taken in the given order, which must be the same for all callers. The rate is last. At a closed gate
        without `on_busy`, the answer is `Busy` and nothing is changed. With `on_busy`, the write also records the next
        state of the run. It is `Skipped`; or it is scheduled again, and waits at the gate (`Blocked`) or for its
        instant (`Delayed`)."""

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        """Give reservations back, row by row: reserved → scheduled. False: the caller did not hold it any more."""

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        """Record verdicts, row by row. True: accepted.

        A verdict is accepted if the run is running under this lease. In the same write the attempt is recorded, and the
        run moves to its verdict's state. If that state is terminal, the run moves to history. For a fixed delay, the
        write then also records the end from which the next slot counts. If this attempt was already recorded under this
        lease with this outcome, the answer is True again, and nothing is written. Otherwise the answer is False: the
        lease is lost, and nothing is written. Raises `StateError` for a verdict whose state cannot follow `running`."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        """Store checkpoints of runs, row by row. True: accepted.

        A checkpoint is accepted if the run is running under this lease, even if its job was edited. The checkpoint with
        the highest revision stays. The same checkpoint again, or an older one, is accepted and not written. Otherwise
        the answer is False: the lease is lost, and nothing is written. Every later lease of the run has the newest
        checkpoint."""

    async def note(self, notes: Sequence[values.Note], *, now: Micros | None = None) -> list[bool]:
        """Store progress and logs of attempts, row by row. True: accepted.

        A note is accepted if the run is running under this lease. Of several notes of an attempt, the one with the
        highest number stays. `None` keeps the stored value. Otherwise the answer is False, and nothing is written."""

    # ── nodes and leader election ─────────────────────────────────────────────────────────────────────────────

    async def register(self, node: values.Node, *, ttl: Micros, now: Micros | None = None) -> values.Beat:
        """Register a new incarnation with a lease of `ttl`. A repeated call is a heartbeat. Raises `NodeExpired` if the
        lease has ended."""

    async def beat(
        self, incarnation: str, *, ttl: Micros, draining: bool = False, now: Micros | None = None
    ) -> values.Beat:
        """Renew an incarnation's lease. A lease that has ended is also renewed, until the reaper takes the runs and
        ends the incarnation in one write. After that, `NodeExpired` is raised. With `draining`, this incarnation takes
        no more work, as after `drain`.

        If the lease of any node ends later than a lease that starts now, it was written before the clock was set back.
        The same write shortens it to end one lease from now."""

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        """End an incarnation's lease and its terms now. Reserved runs are free at once. The reaper recovers running
        ones."""

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        """Ask the living incarnations of a node to take no more work, or to take work again. Return how many there are.
        After the answer, `reserve` returns no work to them, and their next heartbeat tells them to drain."""

    async def probe(self, *, now: Micros | None = None) -> None:
        """Ask every node to send a heartbeat now, by a hint."""

    async def campaign(
        self, incarnation: str, *, ttl: Micros, shard: int = 0, layout: int | None = None, patience: Micros = 0,
        now: Micros | None = None,
    ) -> Term | None:  # fmt: skip
        """Become the planner of a shard. The holder's term is renewed. Without a current term, the caller receives a
        new one.

        Returns None in three cases: another incarnation holds the term; a living planner that does not drain has newer
        zone data; or the last term ended less than `patience` ago. The last case does not apply to the earliest
        registered of the living planners with the same zone data, leaving out the last holder.

        Raises `NodeExpired` without a living lease. Raises `TermLost` for another layout than the current one (None:
        the current one), or for a shard that it does not have. If a term ends later than a whole term from now, it was
        written before the clock was set back. It then ends a whole term from now."""

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        """Extend a term. Return None if the term is not the current one, is of an earlier layout, or has ended."""

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        """End a term now, so that another node need not wait. Return False if it was not current."""

    # ── upkeep: repair and removal ────────────────────────────────────────────────────────────────────────────

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        """Return running attempts whose incarnation's lease has ended."""

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        """Take runs from dead nodes, row by row. A verdict is accepted as in `finish`, but only if the lease of the
        incarnation has ended. The same write ends that incarnation for good."""

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        """Repair gates: remove holders that no longer exist, and release runs that wait at open gates. Return how many
        runs were released. A number above zero means that a gate had stayed closed by mistake.

        Places of runs that no living worker can start go to other waiting runs, as in `arm`. These are not counted.
        Rates whose time has passed are removed."""

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        """Skip runs that were never armed and whose expiry has passed: slots as missed, others as expired. Return these
        runs in their new state."""

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        """Remove finished runs with their attempts and other data. In the same write, count each run by job, UTC day of
        its end, and state. Two calls at the same time are safe: each run is removed and counted once.

        The call looks at finished runs after `after` up to the cut, in the order in which they ended, and at no more
        than `limit` of them. Runs in the cut's states are removed. A slot's run is removed only if its slot is in the
        past and not after its schedule's watermark (or the schedule no longer exists), because then no planner computes
        it again.

        After the removal, the same key gives a new run, and a `finish` of the run is refused."""

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        """Remove ranges of skipped slots that were recorded by then, oldest first. A range that reaches beyond its
        schedule's watermark stays. In the same write, its slots are counted as skipped, on the day of the record."""

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        """Remove incarnations whose lease had ended by then and that hold no live run. After that, `beat` raises
        `NodeExpired`. Also remove the history of terms that began by then. The newest term of each shard stays, so that
        term numbers only grow."""

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        """Settle dead runs, row by row, each with a text about what was done. True: settled by this call.

        If a run is not dead or was settled before, the answer is False, and nothing is written. The run stays dead in
        history, and `RunRecord.settled` has the text."""
