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
from onthedot.job import Job, JobRecord
from onthedot.retention import Crowded, Cut, DailyCount, Mark, Pruned, PrunedNodes
from onthedot.run import ArmAnswer, AttemptRecord, Checkpoint, GateAsk, Lease, NewRun, RunRecord, RunState
from onthedot.stores import values
from onthedot.stores.documents import DocumentsSlice, Noting
from onthedot.stores.hints import Hints
from onthedot.stores.queries import FindingSlice
from onthedot.stores.transactions import Transactions
from onthedot.stores.values import LAST_MARK, Term
from onthedot.verdict import Finish, Verdict
from onthedot.window import ExceptReason, ScheduleState, Window


class Store(FindingSlice, DocumentsSlice, Protocol):
    """The whole protocol; `stores/queries.py` has lists and pages, and `stores/documents.py` documents."""

    hints: Hints

    @property
    def clock(self) -> Clock | None:
        """This machine's clock, where that is the store's own; None for a store that has another, and tells the time
        with its answers."""

    async def tell_time(self) -> Micros:
        """What time it is by the store's clock: for whoever has had no other answer of it yet."""

    async def about(self) -> values.About:
        """Which product and version it is, as it is reached now, and what it keeps."""

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
        docs/design.md has the table of cases: "What an edit does to slots". A definition equal to the stored one
        writes nothing ("unchanged"), whatever was expected: a put whose answer was lost may be made again. What was
        noted of parents that stay is kept, unless `any` or `on` of `after` change.

        `expected` is the revision that the caller read (0: no such job; None: any). Raises `RevisionConflict` for
        another revision; `WindowStale`, with the store's clock, for a window that does not fit what is stored;
        `DependencyCycle` for a job that would run after itself, also if two edits close the cycle together."""

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        """The current revision, or None."""

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        """The state of every schedule of a job, by id."""

    async def parents_of(self, job_id: int) -> list[values.Parent]:
        """The parents of a job by name, and what it has of each: what it still waits for is what has no run. Empty for
        a job that runs after nobody, or was deleted.

        No call triggers a job that runs after others (`onthedot.after`): **every write that moves a run to a terminal
        state** inserts the runs that follow it (docs/design.md, "After"). Those of a paused job are held; a deleted job
        gets none. Parents go by name: runs of a deleted job count like those of the one that has its name now."""

    # ── what people do to jobs and runs that exist ────────────────────────────────────────────────────────────

    async def pause(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> values.Paused:
        """Stop a job, in one transaction, and return how many runs were withdrawn, skipped and held.

        From the answer on nothing of it is planned or armed until it is resumed; running attempts continue.
        docs/design.md has the cases: "What a pause does to runs". A job that is paused already only changes its reason
        and `until`. Raises `UnknownJob`."""

    async def resume(
        self, job_id: int, windows: Sequence[Window] = (), *, expected: int | None = None, overdue: bool = False,
        dry_run: bool = False, now: Micros | None = None,
    ) -> values.Resumed:  # fmt: skip
        """Let a paused job continue, in one transaction, and return its slots, skips and held runs.

        Each window starts at its schedule's watermark, and holds the fates of the slots since then (docs/design.md,
        "What a pause does to runs"). `dry_run` returns the same answer and writes nothing. A job that is not paused is
        left alone, and the answer is empty; with `overdue` also if its pause has no end, or one that is still ahead.

        `expected` is the revision that the windows were computed for (None: any). Raises `RevisionConflict` for another
        revision, `WindowStale` for a window that does not fit, `UnknownJob`."""

    async def except_slot(
        self, job_id: int, schedule_id: str, slot_at: Micros, *, reason: ExceptReason, run: NewRun | None = None,
        expected: int | None = None, now: Micros | None = None,
    ) -> values.Excepted:  # fmt: skip
        """Give one slot its fate ahead, in one transaction: it is skipped for this reason, and `run` takes its place;
        without `run` nothing does. docs/design.md has the cases: "What an exception does". The same again (slot,
        reason, and the run's trigger and instant) returns the same answer. The run's `key` is not looked at.

        `expected` is the revision whose rule yields the slot (None: any). Raises `SlotSettled` if the slot was armed,
        has its fate, is past, or is excepted in another way; `RevisionConflict` for another revision; `UnknownJob`;
        `UnknownSlot` if the job has no such schedule."""

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        """End a job: its waiting runs become cancelled(deleted), and how many is the answer. Running attempts end
        and are not tried again: a verdict of scheduled becomes cancelled(deleted). Its name is free for a new job.
        `expected` is the revision that the caller has read (None: any). Raises `RevisionConflict`, `UnknownJob`."""

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[values.CancelAnswer]:
        """Cancel runs, one by one. A waiting one becomes cancelled in this write; a slot that lies ahead becomes an
        exception, so that no edit plans it anew. A running one is asked to stop, with its node's next beat (asked
        again, the first reason stays); the verdict of its attempt is final: scheduled becomes cancelled."""

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        """Paused jobs whose `until` has come."""

    # ── from schedules to runs ────────────────────────────────────────────────────────────────────────────────

    async def due_schedules(
        self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None
    ) -> values.Due:
        """Schedules of active jobs in the shard's buckets with `next_at <= until`, earliest first, at most `limit`.

        `layout` is the version that the caller goes by (None: whichever is current); another one raises `TermLost`."""

    async def next_schedules(
        self, *, until: Micros, limit: int, namespaces: Sequence[str] | None = None, owner: str | None = None,
        after: values.ScheduleCursor | None = None,
    ) -> values.NextSchedules:  # fmt: skip
        """The same of all shards, for people, of jobs of these namespaces and this owner (None: of all). A page may be
        short and have a next one, as in `stores/queries.py`. It delays no planner."""

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        """Insert runs and skips and move watermarks, row by row; of each window whether it was written.

        False, and nothing of that window is written: the job has another revision or is not active, the schedule has
        another watermark, or a range of skips runs over an exception. Somebody else was first (docs/design.md, "How a
        window is written"). `TermLost` if the term is not the current one, has ended, or is of an earlier layout."""

    async def layout(self) -> values.Layout:
        """How the buckets are divided: version 1, with one shard, until somebody changes it."""

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> values.Layout:
        """Change the number of shards, in one transaction: the version grows, and every term ends.

        From the answer on no write of an earlier layout is accepted. A layout that has so many shards already stays as
        it is. `expected` is the version that the caller read (None: any); another one raises `LayoutConflict`."""

    async def list_terms(self) -> list[Term]:
        """The newest term of each shard of the layout that ever had one, over or not, by shard. After a change of the
        layout: one that nobody holds, which ended with the change."""

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        """Schedules of the term's shard that depend on zone data and have a next slot, of active and paused jobs, by
        (job id, schedule id), those behind `after`. `TermLost` for another layout than the current one."""

    async def replan(
        self, term: Term, rows: Sequence[values.Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        """Move the next slots of schedules, row by row, fenced by the term as in `plan`. Runs that are planned stay.

        Each row is a compare-and-set on (revision, watermark): False means that somebody else was first. `done`: all of
        the shard is computed with the term's zone data by now; later terms are told so (`Term.zones`)."""

    # ── queues as a whole, and runs whose worker the leader chooses (`assignment: leader`) ────────────────────

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> values.Queue:
        """From the answer on, nothing of this queue is given out or armed until it is resumed. Runs that are armed go
        on; what is not started in time is missed as ever. Runs that wait at gates are ready again, and give up places
        in limits that they do not use."""

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> values.Queue:
        """Let a queue go on. One that is not paused is left alone."""

    async def share_queue(
        self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None
    ) -> values.Queue:
        """Share a queue fairly, with these weights; None: first come, first served again."""

    async def list_queues(self, *, now: Micros | None = None) -> list[values.Queue]:
        """Every queue that has a live run or was ever changed, by name, with who is in it."""

    async def unplaced(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[values.Unplaced]:
        """Runs due by `until` that have no place; and those whose place is an incarnation that has ended, or that did
        not arm them within a second of the later of their due instant and their placing. Earliest first, and none of a
        paused queue."""

    async def loads(self) -> dict[str, int]:
        """By incarnation: how many runs it holds, reserved or running, and how many wait with it as their place."""

    async def place(
        self, term: Term, placements: Sequence[values.Placement], *, now: Micros | None = None
    ) -> list[bool]:
        """Give runs their places, row by row: True if the run was still waiting, reserved by nobody in time. Fenced by
        the term, as `plan` is: `TermLost`."""

    # ── the way of a run, from submitted to finished ──────────────────────────────────────────────────────────

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        """Insert runs and return their ids, in order. A key that exists already, live or in history, gives the
        existing run's id; the instant in it is `slot_at`, or else the due instant. So does the same `key` of the same
        job, with the instant of its first run; other arguments raise `KeyConflict`. Raises `UnknownJob` if any job is
        missing or deleted, and `RevisionConflict` if it has another revision than `NewRun.revision`.

        `noting` is appended to its list in the same write: neither is there without the other. More than 100 runs may
        take several writes, after all are checked: an error on the way leaves those before it. Call again then."""

    async def reserve(self, ask: values.Ask, *, now: Micros | None = None) -> values.Reserved:
        """Take work for a worker: due work reserved and armed in one write, future work reserved ahead.

        Due is what is scheduled, and what others reserved but did not arm within `lapse` of the later of its due
        instant and its reservation. It comes from the routes that the worker can serve, in the order of
        docs/design.md, "Reserve"; work ahead in the order of its due instants. Nothing comes that has expired, waits in
        a paused queue, or is for a node that drains. Due runs of jobs with gates (`is_gated`) are reserved only, and
        come back in `held`: only `arm` takes gates.

        `look_again_at` is now if due work was left for want of seats; else the earliest of: another's reservation
        lapses; the next run enters the horizon (with no room ahead: is due). Raises `NodeExpired` if the incarnation's
        lease has ended. If the answer is lost, `held` tells what it was."""

    async def held(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        """Every run that this incarnation holds, reserved or running.

        With `void_below` each of its asks with a smaller number is void from now on, in the same write: one that
        arrives later takes nothing. So the answer to a lost reserve is final."""

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        """Commit "these attempts start now", row by row: `Armed` with a fence, or why not (docs/design.md, "What `arm`
        answers").

        Armed only if the run is still reserved under this lease and the job's revision is the one the lease was
        given with (else `Gone`), and every gate that `gates` names for this lease id is free or held by the run
        itself; then it holds them, and gives up those that are not named. Repeated for a lease that is armed already,
        it gives the same answer again. `NodeExpired` if the incarnation's lease has ended.

        Gates are taken in the order given, which must be the same for all callers; the rate comes last. At a closed one
        without `on_busy`: `Busy`, and nothing is changed. With it the write also records what becomes of the run:
        `Skipped`; or it is scheduled again, and waits at the gate (`Blocked`) or for its instant (`Delayed`)."""

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        """Give reservations back, row by row: reserved → scheduled. False: the reservation was not ours any more."""

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        """Record verdicts, row by row; True: accepted.

        Accepted if the run is running under this lease. Then in the same write the attempt is recorded, and the run
        moves to its verdict's state: a terminal one goes to history and, for a fixed delay, records the end that the
        next slot counts from. True again, and nothing is written, if this very attempt was recorded before under this
        lease with this outcome. Otherwise False: the lease is lost, and nothing is written. `StateError` for a verdict
        whose state cannot follow `running`."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        """Record how far runs have come, row by row; True: accepted.

        Accepted if the run is running under this lease, whatever its job's definition is by now. Of several the one
        with the highest revision stays: the same again, or an older one, is accepted and writes nothing. Otherwise
        False: the lease is lost, and nothing is written. Every later lease of the run has the newest one."""

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        """The newest checkpoint of a run, live or finished."""

    async def note(self, notes: Sequence[values.Note], *, now: Micros | None = None) -> list[bool]:
        """Record what attempts tell, row by row; True: accepted.

        Accepted if the run is running under this lease; of several notes of an attempt the one with the highest number
        stays. `None` leaves what is there. Otherwise False, and nothing is written."""

    async def list_logs(self, run_id: int) -> list[values.LogRecord]:
        """What the attempts of a run have logged, in order; those that logged nothing are left out."""

    # ── who lives, and who leads ──────────────────────────────────────────────────────────────────────────────

    async def register(self, node: values.Node, *, ttl: Micros, now: Micros | None = None) -> values.Beat:
        """Enter a new incarnation with a lease of `ttl`. Repeated, it is a beat; `NodeExpired` if it has ended."""

    async def beat(self, incarnation: str, *, ttl: Micros, now: Micros | None = None) -> values.Beat:
        """Renew an incarnation's lease. One that has ended is renewed as well, as long as nobody has acted on
        its end: the reaper takes runs and ends the incarnation in one write. `NodeExpired` after that.

        A lease of any node that ends later than one from now was written before the clock was set back: it ends one
        from now, in the same write."""

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        """End an incarnation's lease and its terms now: reserved runs are free at once, running ones are left
        to the reaper."""

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        """Ask the living incarnations of a node to take no more work, or to go on; how many there are. From the answer
        on `reserve` gives them nothing, and they learn of it with their next beat."""

    async def probe(self, *, now: Micros | None = None) -> None:
        """Ask every node to beat now, by a hint."""

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[values.Node]:
        """Incarnations, newest first; with `living` those whose lease goes on. Ended ones stay for weeks: whoever asks
        often asks for the living."""

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

    # ── putting right what nobody else will, and forgetting what is old ───────────────────────────────────────

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        """Running attempts whose incarnation's lease has ended."""

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        """Take runs from dead nodes, row by row: like `finish`, but accepted only while the run is running
        under this lease and its incarnation's lease has ended. Ends that incarnation for good, in the same write."""

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        """The safety net under gates: forget holders that are gone, and pass gates that are open although somebody
        waits there; how many runs were freed: above zero means that a gate had been left closed by mistake. Places of
        runs that no living worker can start go to others who wait there, as in `arm`; these are not counted. Rates
        whose time has passed are forgotten."""

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        """Runs that were never armed and whose expiry has passed are skipped: slots as missed, others as expired.
        What they are now."""

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        """Remove finished runs with all that is known of them, and count each by job, UTC day of its end, and
        state, in the same write. Two who prune at once do no harm: a row goes, and is counted, once.

        Looks at finished runs behind `after` up to the cut, in the order in which they ended, and at no more than
        `limit` of them. Those in the cut's states go; but a slot's run only if its slot lies in the past and at or
        below its schedule's watermark (or the schedule is gone): no planner will come upon it again.

        A key that goes gives a new run when it is submitted again, and a `finish` of such a run is refused. W of
        `put_job` stays what it was."""

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        """Jobs with more than `keep` finished runs, by id from `after` on, with the newest run beyond those. Looks no
        further when it has counted `limit` runs."""

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        """Remove ranges of skipped slots that were recorded by then, oldest first, unless they reach beyond their
        schedule's watermark. In the same write their slots are counted as skipped, on the day of the record."""

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        """Remove incarnations whose lease had ended by then and who hold no live run; `beat` then says `NodeExpired`.
        And what is kept of terms that began by then, except each shard's newest: their numbers go on growing."""

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        """What was pruned, newest day first, then by job and state: with what is still there, all that ever was."""

    # ── what people ask for: no store decides anything by these answers ───────────────────────────────────────

    async def get_run(self, run_id: int) -> RunRecord | None:
        """One run, live or finished."""

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        """Those of these runs that are there, live or finished, by id."""

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        """Every run with this trigger whose instant lies from `first` to `last`, live or kept in history: its instant
        and its state, in the order of the instants."""

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        """The ended attempts of a run, in order."""

    async def count_runs(self) -> dict[RunState, int]:
        """How many runs are in each state."""

    async def list_dead(
        self, *, job: str | None = None, namespace: str = "default", since: Micros = 0, before: Mark = LAST_MARK,
        limit: int | None = None,
    ) -> list[RunRecord]:  # fmt: skip
        """Dead letters: runs from the write that makes them dead until they are settled or forgotten. Newest end first:
        those that ended at `since` or later, and come before this mark. The last one's mark reads on. Only dead
        letters are read, however long history is."""

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        """Settle dead runs, row by row, each with a word on what was done about it; True: settled by this call.

        False, and nothing is written, for what is no dead run, or was settled before. The run stays dead in history,
        and `RunRecord.settled` has the word."""

    async def count_held(self) -> dict[str, values.Held]:
        """What each incarnation holds, if it is anything."""

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> values.Owned:
        """What an owner has now, in one namespace or in all; deleted jobs and their runs do not count."""

    async def standing(self, run_id: int) -> values.Standing | None:
        """How a live run stands; None if it has ended, or there is none."""
