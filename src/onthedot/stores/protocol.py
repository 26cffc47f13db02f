"""The store protocol: the seam between what onthedot decides and what it remembers.

A store is the only truth. It records atomically, checks every fence in the same write, and decides nothing: what
a run's next state is, which slots exist, whether to retry, all comes from the caller. `onthedot_verify.contract` holds
every driver to the same behaviour.

Rules for all operations:

* **Atomic.** A call's effects are seen together or not at all. Batches are atomic as a whole unless the docstring
  says "row by row", which means that each row is checked on its own and the answer says which were accepted.
* **Fenced.** Every write after a reservation carries its lease, every plan its term, every edit its revision.
  When the fence does not hold, nothing is written and the answer says so; it is never an accident.
* **Repeatable.** A call whose answer was lost may be made again with the same leases or keys.
* **The store's clock** decides what is due and what has ended: `now=None`. A value is a test turning the crank.
* **Lists** have everything without a limit.

`StoreUnavailable` means that the call may be repeated later; `StoreUnusable` that it is pointless. Any other error that
a docstring names is raised before anything is written.
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
    """The moves: everything that writes, and the few reads that a service decides by."""

    hints: Hints

    @property
    def queries(self) -> Queries:
        """What people and services read (`stores/queries.py`)."""

    @property
    def documents(self) -> Documents:
        """Users, keys, secrets and the audit trail (`stores/documents.py`)."""

    @property
    def clock(self) -> Clock | None:
        """This machine's clock if the store uses it; None if the store has its own clock and sends the time with its
        answers."""

    @property
    def any_loop(self) -> bool:
        """Whether any event loop may use the store, and not only the one that opened it."""

    async def tell_time(self) -> Micros:
        """The store's clock, for a caller that has no other answer of the store yet."""

    async def about(self) -> values.About:
        """The product and its version, how it is reached now, and what it keeps after a crash."""

    @property
    def transactions(self) -> Transactions | None:
        """Transactions for jobs under exactly_once (`stores/transactions.py`); None for a store that has none."""

    async def close(self) -> None:
        """Let go of files, threads and connections. Whatever was acknowledged stays."""

    # ── definitions and their revisions ───────────────────────────────────────────────────────────────────────

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> values.PutJob:
        """Create the job or edit it, in one transaction, and return what was done.

        `windows` has one window for each schedule of the new definition, and one for each schedule that the edit drops.
        docs/design/store-moves.md has the table of cases: "What an edit does to slots". A definition equal to the
        stored one writes nothing ("unchanged"), whatever was expected: a put whose answer was lost may be made again.
        What was noted of parents that stay is kept, unless `any` or `on` of `after` change.

        `expected` is the revision that the caller read (0: no such job; None: any). Raises `RevisionConflict` for
        another revision; `WindowStale`, with the store's clock, for a window that does not fit what is stored;
        `DependencyCycle` for a job that would run after itself, also if two edits close the cycle together."""

    # ── what people do to jobs and runs that exist ────────────────────────────────────────────────────────────

    async def pause_job(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> values.Paused:
        """Stop a job, in one transaction, and return how many runs were withdrawn, skipped and held.

        From the answer on nothing of it is planned or armed until it is resumed; running attempts continue.
        docs/design/store-moves.md has the cases: "What a pause does to runs". A job that is paused already only changes
        its reason and `until`. Raises `UnknownJob`."""

    async def resume_job(
        self, job_id: int, windows: Sequence[Window] = (), *, expected: int | None = None, overdue: bool = False,
        dry_run: bool = False, now: Micros | None = None,
    ) -> values.Resumed:  # fmt: skip
        """Let a paused job continue, in one transaction, and return its slots, skips and held runs.

        Each window starts at its schedule's watermark, and holds the fates of the slots since then
        (docs/design/store-moves.md, "What a pause does to runs"). `dry_run` returns the same answer and writes nothing.
        A job that is not paused is left alone, and the answer is empty; with `overdue` also if its pause has no end, or
        one that is still ahead.

        `expected` is the revision that the windows were computed for (None: any). Raises `RevisionConflict` for another
        revision, `WindowStale` for a window that does not fit, `UnknownJob`."""

    async def move_slot(
        self, job_id: int, schedule_id: str, slot_at: Micros, *, reason: ExceptReason, run: NewRun | None = None,
        expected: int | None = None, now: Micros | None = None,
    ) -> values.MovedSlot:  # fmt: skip
        """Decide one slot ahead, in one transaction: it is skipped for this reason, and `run` takes its place; without
        `run` nothing does. docs/design/store-moves.md has the cases: "What an exception does". The same call again
        (slot, reason, and the run's trigger and instant) returns the same answer. The run's `key` is not compared.

        `expected` is the revision whose rule yields the slot (None: any). Raises `SlotSettled` if the slot was armed,
        has its fate, is past, or is excepted in another way; `RevisionConflict` for another revision; `UnknownJob`;
        `UnknownSlot` if the job has no such schedule."""

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        """End a job: cancel its waiting runs as cancelled(deleted), and return how many. Running attempts end without a
        retry: a verdict of scheduled becomes cancelled(deleted). The job's name is free for a new job. `expected` is
        the revision that the caller has read (None: any). Raises `RevisionConflict`, `UnknownJob`."""

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[values.CancelAnswer]:
        """Cancel runs, one by one. A waiting run becomes cancelled in this write; a slot ahead becomes an exception, so
        that no edit plans it again. A running one is asked to stop with its node's next beat (asked again, the first
        reason stays), and its attempt is the last: the verdict scheduled becomes cancelled."""

    # ── from schedules to runs ────────────────────────────────────────────────────────────────────────────────

    async def due_schedules(
        self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None
    ) -> values.Due:
        """Schedules of active jobs in the shard's buckets with `next_at <= until`, earliest first, at most `limit`.

        `layout` is the version that the caller goes by (None: whichever is current); another one raises `TermLost`."""

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        """Insert runs and skips and move watermarks, row by row; of each window whether it was written.

        False, and nothing of that window is written: the job has another revision or is not active, the schedule has
        another watermark, or a range of skips runs over an exception. Somebody else was first (docs/design/time.md,
        "How a window is written"). `TermLost` if the term is not the current one, has ended, or is of an earlier
        layout."""

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> values.Layout:
        """Change the number of shards, in one transaction: the version grows, and every term ends.

        From the answer on no write of an earlier layout is accepted. A layout that has so many shards already stays as
        it is. `expected` is the version that the caller read (None: any); another one raises `LayoutConflict`."""

    async def replan(
        self, term: Term, rows: Sequence[values.Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        """Move the next slots of schedules, row by row, fenced by the term as in `plan`. Runs that are planned stay.

        Each row is a compare-and-set on (revision, watermark): False means that somebody else was first. `done`: all of
        the shard is computed with the term's zone data by now; later terms are told so (`Term.zones`)."""

    # ── queues as a whole, and runs whose worker the leader chooses (`assignment: leader`) ────────────────────

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> values.Queue:
        """Pause a queue: from the answer on, none of its runs is reserved or armed until it is resumed. Armed runs
        continue. Slots that do not start in time are missed as usual. Runs that wait at gates are ready again, and give
        up places in limits that they do not use."""

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> values.Queue:
        """End the pause of a queue. A queue that is not paused is not changed."""

    async def share_queue(
        self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None
    ) -> values.Queue:
        """Share a queue fairly, with these weights; None: first come, first served again."""

    async def assign(
        self, term: Term, placements: Sequence[values.Placement], *, now: Micros | None = None
    ) -> list[bool]:
        """Assign runs to workers, row by row. True if the run still waited and was not validly reserved. Fenced by the
        term, as `plan` is: `TermLost`."""

    # ── runs, from submitted to finished ──────────────────────────────────────────────────────────────────────

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        """Insert runs and return their ids, in order. A key that exists already, live or in history, gives the
        existing run's id; the instant in it is `slot_at`, or else the due instant. So does the same `key` of the same
        job, with the instant of its first run; other arguments raise `KeyConflict`. Raises `UnknownJob` if any job is
        missing or deleted, and `RevisionConflict` if it has another revision than `NewRun.revision`.

        `noting` is appended to its list in the same write: neither is there without the other. More than 100 runs may
        take several writes, after all are checked: an error on the way leaves those before it. Call again then."""

    async def reserve(self, ask: values.ReserveRequest, *, now: Micros | None = None) -> values.Reserved:
        """Take work for a worker: due work reserved and armed in one write, future work reserved ahead.

        Due is what is scheduled, and what others reserved but did not arm within `lapse` of the later of its due
        instant and its reservation. It comes from the routes that the worker can serve, in the order of
        docs/design/store-moves.md, "Reserve"; work ahead in the order of its due instants. Nothing comes that has
        expired, waits in a paused queue, or is for a node that drains. Due runs of jobs with gates (`is_gated`) are
        reserved only, and come back in `held`: only `arm` takes gates.

        `look_again_at` is now if due work was left for want of seats; else the earliest of: another's reservation
        lapses; the next run enters the horizon (with no room ahead: is due). Raises `NodeExpired` if the incarnation's
        lease has ended. If the answer is lost, `recover` tells what it was."""

    async def recover(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        """Every run that this incarnation holds, reserved or running.

        With `void_below` each of its asks with a smaller number is void from now on, in the same write: one that
        arrives later takes nothing. So the answer to a lost reserve is final."""

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        """Commit "these attempts start now", row by row: `Armed` with a fence, or why not (docs/design/store-moves.md,
        "What `arm` answers").

        Armed only if the run is still reserved under this lease and the job's revision is the one the lease was
        given with (else `Gone`), and every gate that `gates` names for this lease id is free or held by the run
        itself; then it holds them, and gives up those that are not named. Repeated for a lease that is armed already,
        it gives the same answer again. `NodeExpired` if the incarnation's lease has ended.

        Gates are taken in the order given, which must be the same for all callers; the rate comes last. At a closed one
        without `on_busy`: `Busy`, and nothing is changed. With it the write also records what becomes of the run:
        `Skipped`; or it is scheduled again, and waits at the gate (`Blocked`) or for its instant (`Delayed`)."""

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        """Give reservations back, row by row: reserved → scheduled. False: the caller no longer held the
        reservation."""

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        """Record verdicts, row by row; True: accepted.

        Accepted if the run is running under this lease. Then in the same write the attempt is recorded, and the run
        moves to its verdict's state: a terminal one goes to history and, for a fixed delay, records the end that the
        next slot counts from. True again, and nothing is written, if this very attempt was recorded before under this
        lease with this outcome. Otherwise False: the lease is lost, and nothing is written. `StateError` for a verdict
        whose state cannot follow `running`."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        """Store checkpoints of runs, row by row; True: accepted.

        Accepted if the run is running under this lease, whatever its job's definition is by now. Of several the one
        with the highest revision stays: the same again, or an older one, is accepted and writes nothing. Otherwise
        False: the lease is lost, and nothing is written. Every later lease of the run has the newest one."""

    async def note(self, notes: Sequence[values.Note], *, now: Micros | None = None) -> list[bool]:
        """Store progress and logs of attempts, row by row; True: accepted.

        Accepted if the run is running under this lease; of several notes of an attempt the one with the highest number
        stays. `None` leaves what is there. Otherwise False, and nothing is written."""

    # ── nodes and leader election ─────────────────────────────────────────────────────────────────────────────

    async def register(self, node: values.Node, *, ttl: Micros, now: Micros | None = None) -> values.Beat:
        """Enter a new incarnation with a lease of `ttl`. Repeated, it is a beat; `NodeExpired` if it has ended."""

    async def beat(
        self, incarnation: str, *, ttl: Micros, draining: bool = False, now: Micros | None = None
    ) -> values.Beat:
        """Renew an incarnation's lease. A lease that has ended is renewed too, until the reaper has acted on its end:
        it takes the runs and ends the incarnation in one write. After that, `NodeExpired`.

        A lease of any node that ends later than one from now was written before the clock was set back: it ends one
        from now, in the same write. With `draining` this incarnation takes no more work, as after `drain`."""

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        """End an incarnation's lease and its terms now. Reserved runs are free at once; running ones are left to the
        reaper."""

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        """Ask the living incarnations of a node to take no more work, or to take work again; return how many there are.
        From the answer on `reserve` gives them nothing, and they learn of it with their next beat."""

    async def probe(self, *, now: Micros | None = None) -> None:
        """Ask every node to beat now, by a hint."""

    async def campaign(
        self, incarnation: str, *, ttl: Micros, shard: int = 0, layout: int | None = None, patience: Micros = 0,
        now: Micros | None = None,
    ) -> Term | None:  # fmt: skip
        """Become the planner of a shard: a new term if there is none or the last has ended; for its holder, the term
        renewed. None if another incarnation holds it; while a living planner that does not drain has newer zone data;
        and for a term that ended less than `patience` ago, unless this is the earliest registered of the living
        planners with the same zone data, the last holder aside.

        `NodeExpired` without a living lease; `TermLost` for another layout than the current one (None: whichever is),
        or for a shard that it does not have. A term that ends later than a whole one from now was written before the
        clock was set back: it ends a whole term from now."""

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        """Extend a term; None if it is no longer the current one, is of an earlier layout, or has ended."""

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        """End a term now, so that another node need not wait; False if it was not current."""

    # ── upkeep: repair and removal ────────────────────────────────────────────────────────────────────────────

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        """Running attempts whose incarnation's lease has ended."""

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        """Take runs from dead nodes, row by row: like `finish`, but accepted only while the run is running
        under this lease and its incarnation's lease has ended. Ends that incarnation for good, in the same write."""

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        """Repair gates: forget holders that are gone, and pass on open gates at which runs still wait. Returns how many
        runs were freed: above zero means that a gate had stayed closed by mistake. Places of runs that no living worker
        can start go to other waiting runs, as in `arm`; these are not counted. Rates whose time has passed are
        forgotten."""

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        """Skip runs that were never armed and whose expiry has passed: slots as missed, others as expired. Returns
        these runs as they are now."""

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        """Remove finished runs with their attempts and other data, and count each by job, UTC day of its end, and
        state, in the same write. Two callers at once do no harm: each run is removed and counted once.

        Looks at finished runs behind `after` up to the cut, in the order in which they ended, and at no more than
        `limit` of them. Those in the cut's states go; but a slot's run only if its slot lies in the past and at or
        below its schedule's watermark (or the schedule is gone): no planner computes it again.

        A removed key gives a new run when it is submitted again, and a `finish` of a removed run is refused."""

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        """Remove ranges of skipped slots that were recorded by then, oldest first, unless they reach beyond their
        schedule's watermark. In the same write their slots are counted as skipped, on the day of the record."""

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        """Remove incarnations whose lease had ended by then and that hold no live run; `beat` then raises
        `NodeExpired`. Also removes the history of terms that began by then, except each shard's newest, so that term
        numbers only grow."""

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        """Settle dead runs, row by row, each with a word on what was done about it; True: settled by this call.

        False, and nothing is written, for what is no dead run, or was settled before. The run stays dead in history,
        and `RunRecord.settled` has the word."""
