"""The store protocol: the seam between what onthedot decides and what it remembers.

A store is the only truth. It records atomically, checks every fence in the same write, and decides nothing: what
a run's next state is, which slots exist, whether to retry, all comes from the caller. `memory.py` is the
reference; `onthedot.testing.contract` holds every driver to the same behaviour.

Rules for all operations:

* **Atomic.** A call's effects are seen together or not at all. Batches are atomic as a whole unless the docstring
  says "row by row", which means that each row is checked on its own and the answer says which were accepted.
* **Fenced.** Every write after a reservation carries its lease, every plan its term, every edit its revision.
  When the fence does not hold, nothing is written and the answer says so; it is never an accident.
* **Repeatable.** A call whose answer was lost may be made again with the same leases or keys.
* **The store's clock** decides what is due and what has ended: `now=None`. A value is a test turning the crank.

`StoreUnavailable` means that the call may be repeated later; `StoreUnusable` that it is pointless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from onthedot.clock import Clock, Micros
from onthedot.job import Job, JobRecord
from onthedot.run import ArmAnswer, AttemptRecord, GateAsk, Lease, NewRun, RunRecord, RunState, SkipRecord
from onthedot.stores.about import About as About
from onthedot.stores.about import AboutSlice
from onthedot.stores.checkpoints import CheckpointsSlice
from onthedot.stores.checkpoints import LogRecord as LogRecord
from onthedot.stores.checkpoints import Note as Note
from onthedot.stores.dependencies import DependenciesSlice
from onthedot.stores.dependencies import Parent as Parent
from onthedot.stores.documents import Document as Document
from onthedot.stores.documents import DocumentsSlice
from onthedot.stores.documents import Entry as Entry
from onthedot.stores.documents import Noting as Noting
from onthedot.stores.documents import PutDocument as PutDocument
from onthedot.stores.finding import FindingSlice
from onthedot.stores.hints import Hint as Hint
from onthedot.stores.hints import Hints as Hints
from onthedot.stores.hints import Loss as Loss
from onthedot.stores.letters import LettersSlice
from onthedot.stores.queues import Placement as Placement
from onthedot.stores.queues import PlacementSlice, QueuesSlice
from onthedot.stores.queues import Queue as Queue
from onthedot.stores.queues import Unplaced as Unplaced
from onthedot.stores.retention import RetentionSlice
from onthedot.stores.shards import Layout as Layout
from onthedot.stores.shards import Replanned as Replanned
from onthedot.stores.shards import ShardsSlice
from onthedot.stores.standing import Held as Held
from onthedot.stores.standing import Owned as Owned
from onthedot.stores.standing import Standing as Standing
from onthedot.stores.standing import StandingSlice
from onthedot.stores.transactions import Transaction as Transaction
from onthedot.stores.transactions import Transactions as Transactions
from onthedot.stores.values import Ask as Ask
from onthedot.stores.values import Beat as Beat
from onthedot.stores.values import CancelAnswer as CancelAnswer
from onthedot.stores.values import Due as Due
from onthedot.stores.values import Excepted as Excepted
from onthedot.stores.values import ExceptReason as ExceptReason
from onthedot.stores.values import FateAhead as FateAhead
from onthedot.stores.values import NextSchedules as NextSchedules
from onthedot.stores.values import Node as Node
from onthedot.stores.values import Paused as Paused
from onthedot.stores.values import PutJob as PutJob
from onthedot.stores.values import Reserved as Reserved
from onthedot.stores.values import Resumed as Resumed
from onthedot.stores.values import ScheduleCursor as ScheduleCursor
from onthedot.stores.values import ScheduleState as ScheduleState
from onthedot.stores.values import SkipRange as SkipRange
from onthedot.stores.values import Slot as Slot
from onthedot.stores.values import Term as Term
from onthedot.stores.values import Window as Window
from onthedot.verdict import Finish, Verdict

# ── the slices ───────────────────────────────────────────────────────────────────────────────────────────────


class JobsSlice(Protocol):
    """Definitions and their revisions."""

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> PutJob:
        """Create the job, or edit it, in one transaction.

        A definition equal to the stored one writes nothing ("unchanged"), whatever was expected: a put whose
        answer was lost may be made again. `expected` is the revision that the caller read (0: no such job yet;
        None: whichever is current); another one raises `RevisionConflict` and writes nothing.

        `windows` holds one window for each schedule of the new definition, and for each that it drops:

        * A new job's schedule is created with its window's start as origin and watermark, and takes the whole window.
        * One that an edit adds has no slot up to store-now: the old definition has that time. A grid (`is_grid`) is
          created with store-now as origin and watermark, and takes what of its window lies after it. All others take
          their whole windows, without a slot up to store-now but the first of a fixed delay that begins at once. A slot
          at whose instant a run of a dropped schedule is armed is skipped(edited).
        * A surviving schedule (same id): its slot runs after W that were never armed are withdrawn, where W is
          the later of store-now and the newest slot ever armed. If every slot up to W has its fate (the watermark
          has reached W, or the next slot lies after it), the window's slots and skips after W are recorded and
          the watermark moves to the later of the window's end and W. If not, the planner was behind: the
          watermark and `next_at` stay, and it catches up from there under the new rule. A surviving fixed delay
          takes no slots: its next one follows its last end.
        * A dropped schedule's slot runs after store-now are withdrawn unless they were armed; its window's skips
          are recorded if the window starts at its watermark; its row goes.
        Exceptions (`except_slot`) count as in `plan`. `WindowStale`, which tells the store's clock, and nothing is
        written: if a window of a surviving schedule starts after W, or that of an added grid after store-now; if any
        other added one has slots up to then; if a range of skips runs over an exception, or says of slots ahead that
        they are missed, paused over or edited away; if a dropped schedule (but for a fixed delay) has a slot up to now
        without a fate, by its window's `next_at`, or without a window by its own (not with `expected` None).

        Runs of the job that wait at gates are ready again, and those that have a place in a limit and do not run give
        it up: the new definition says where they wait, and how many there may be. A job that would run after itself
        raises `DependencyCycle`, and nothing is written (`stores/dependencies.py`).
        """
        ...

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        """The current revision, or None."""
        ...

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        """Jobs by namespace and name, page after page (`FindingSlice.find_jobs`). Here as in every list: without a
        limit all of them."""
        ...

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        """The state of every schedule of a job, by id."""
        ...


class ControlSlice(Protocol):
    """What people do to jobs and runs that exist."""

    async def pause(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> Paused:
        """Stop a job, in one transaction: from the answer on nothing of it is planned or armed until it is resumed.

        Slot runs after W that were never armed are withdrawn, and watermarks beyond W go back to it (W as in
        `put_job`); slot runs that are due and were never armed become skipped(paused). All other waiting runs are
        held: given to nobody, not expiring, and in no line: who waits at a gate leaves it, and who has a place in a
        limit gives it up. Running attempts go on. A job that is paused already only changes its reason and `until`.
        Raises `UnknownJob` if there is no such job.
        """
        ...

    async def resume(
        self,
        job_id: int,
        windows: Sequence[Window] = (),
        *,
        expected: int | None = None,
        overdue: bool = False,
        dry_run: bool = False,
        now: Micros | None = None,
    ) -> Resumed:
        """Let a paused job go on, in one transaction: what the windows say is planned, and held runs are free.

        Each window continues from its schedule's watermark (else `WindowStale`, and nothing is written): it holds
        the fates of the slots that came while the job was paused, and of the next moments. Exceptions count as in
        `put_job`, and the answer shows them. With `dry_run` the answer is the same, and nothing is written. A job that
        is not paused is left alone: an empty answer; with `overdue` so is one whose pause has no end, or one to come.
        `expected` is the revision that the windows were computed for (None: whichever is current); another one raises
        `RevisionConflict` and writes nothing.
        """
        ...

    async def except_slot(
        self,
        job_id: int,
        schedule_id: str,
        slot_at: Micros,
        *,
        reason: ExceptReason,
        run: NewRun | None = None,
        expected: int | None = None,
        now: Micros | None = None,
    ) -> Excepted:
        """Give one slot its fate ahead, in one transaction: skipped for this reason, and `run` in its place, if given.

        A run of the slot that waits and was never armed becomes skipped. A slot that is not planned yet becomes an
        exception of its schedule: every window that holds it later, whoever computed it and when, records the skip
        instead of a run. Exceptions survive edits and pauses, and go with their schedule. They are forgotten an hour
        after the watermark and the store's clock have passed them.

        A fixed delay goes on from here: its next slot counts from the instant of `run`, without one from the slot's
        own, but not from before now.

        The same again (slot, reason, and the run's key) gives the same answer. `SlotSettled`, and nothing is written,
        if the slot was armed, has its fate, or is past; or if it is excepted already in another way. `expected` is
        the revision whose rule yields the slot; another one raises `RevisionConflict`. `UnknownJob` if there is no
        such job, `UnknownSlot` if it has no such schedule. The run's `key` is not looked at.
        """
        ...

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        """End a job: its waiting runs become cancelled(deleted), and how many is the answer. Running attempts end
        and are not tried again: a verdict of scheduled becomes cancelled(deleted). Its name is free for a new job.
        `expected` is the revision that the caller has read (None: whichever is current); another one raises
        `RevisionConflict`, and nothing is written. `UnknownJob` if there is no such job.
        """
        ...

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[CancelAnswer]:
        """Cancel runs, one by one. A waiting one becomes cancelled in this write, and is never armed; a slot that lies
        ahead becomes an exception, so that no edit plans it anew. A running one is asked to stop, with its node's next
        beat (asked again, the first reason stays); the verdict of its attempt is final, and there is no other one:
        scheduled becomes cancelled, for the reason given here."""
        ...

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        """Paused jobs whose `until` has come."""
        ...


class PlanSlice(Protocol):
    """From schedules to runs."""

    async def due_schedules(self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> Due:
        """Schedules of active jobs in the shard's buckets with `next_at <= until`, earliest first, at most `limit`.

        `layout` is the version that the caller goes by (None: whichever is current); another one raises `TermLost`.
        """
        ...

    async def next_schedules(
        self,
        *,
        until: Micros,
        limit: int,
        namespaces: Sequence[str] | None = None,
        owner: str | None = None,
        after: ScheduleCursor | None = None,
    ) -> NextSchedules:
        """The same of all shards, for people, of jobs of these namespaces and this owner (None: of all). A page may be
        short and have a next one, as in `stores/finding.py`. It delays no planner."""
        ...

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        """Insert runs and skips and move watermarks; row by row, one answer per window.

        Fenced by the term: if it is not the current one, has ended, or is of an earlier layout, raises `TermLost` and
        writes nothing.
        Each window is a compare-and-set on (revision, watermark): False means that someone else was there
        first, and nothing of that window is written. A run whose key exists already is the same run: a no-op.
        Adjacent ranges of skips with the same reason become one. A slot that is an exception (`except_slot`) is
        recorded as the skip that it is; a window with a range that runs over one was computed without it: False.
        A run has its slot in its key, and is due at the slot or when that says (`Slot.due_at`), with its arguments.
        """
        ...


class RunsSlice(Protocol):
    """The way of a run, from submitted to finished."""

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        """Insert runs and return their ids, in order. A key that exists already, live or in history, gives the
        existing run's id; the instant in it is `slot_at`, or else the due instant. So does the same `key` of the same
        job, whose run is the first that had it, with the instant that was asked for then; with other arguments it
        raises `KeyConflict`, and nothing is written. Raises `UnknownJob` if any job is missing or deleted, and
        `RevisionConflict` if it is at another revision than the caller has read (`NewRun.revision`), and then writes
        nothing.

        `noting` is appended to its list in the same write: neither is there without the other.

        One write; of more than 100 runs a store may make several, after it has checked them all: what fails on the
        way, or is refused because somebody else was quicker, leaves those before it. The same call may be made again.
        """
        ...

    async def reserve(self, ask: Ask, *, now: Micros | None = None) -> Reserved:
        """Take work for a worker: due work reserved and armed in one write, future work reserved ahead.

        Ready is what is scheduled, from its due instant on, and what somebody reserved but did not arm within `lapse`
        of the later of its due instant and its reservation, from then on. It is taken from the routes that the worker
        can serve (`route.py`), in the order of the instant since when it is ready less its priority's `BONUS`; work
        ahead, in the order of its due instants. What has expired is not given out, nor what waits in a paused queue,
        and nothing to a node that drains. Due runs of jobs with gates (`is_gated`) are reserved only, and come back in
        `held`: gates are taken in `arm`, and only there.

        `look_again_at` is now if due work was left for want of seats; else the earliest of: another's
        reservation lapses; the next run enters the horizon (with no room ahead: is due).
        Raises `NodeExpired` if the incarnation's lease has ended. If the answer is lost, `held` tells what it was.
        """
        ...

    async def held(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        """Every run that this incarnation holds, reserved or running.

        With `void_below` every ask of it with a smaller number is void from now on, in the same write: one that is
        still on its way gives nothing out when it arrives. So the answer to a lost reserve is final.
        """
        ...

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        """Commit "these attempts start now", row by row: `Armed` with a fence, or why not.

        Armed only if the run is still reserved under this lease and the job's revision is the one the lease was
        given with (else `Gone`), and every gate that `gates` names for this lease id is free or held by the run
        itself; then it holds them. Repeated for a lease that is armed already, it gives the same answer again.
        Raises `NodeExpired` if the incarnation's lease has ended.

        Gates are taken in the order given, which must be the same for all callers. At one that is held:

        * without `on_busy`: `Busy`, and nothing is changed, gates taken on the way included. Nor is an overlap gate
          taken then while another run of the job and target is due earlier and has not begun: that one is first.
        * at an overlap gate (`until_end`) with action skip, or with wait when `max_waiting` slot runs wait there
          already: the run moves to skipped(overlap), `Skipped`.
        * at an overlap gate with action replace: a slot run that holds it in back-off is cancelled(replaced) at
          once, and the gate is taken; one that runs is asked to stop, as by `cancel`. Slot runs that wait there are
          skipped(replaced). What was submitted is never replaced.
        * at a limit, places of runs that no living worker can start are free, for the line and then for the run; and
          places of younger runs that have not started go to the run, if it can pass all its gates then (`places.py`).
        * otherwise the run is scheduled again and waits at the gate: `Blocked`. It keeps its overlap gate and gives up
          all limits. It does not expire any more (if it is a slot), and is not given out until the gate opens for it.

        The rate comes last, and nobody holds it: it lets the run start at the later of now and its due instant, or
        names the first instant after that (`onthedot.rate`). Then, without `on_busy`: `Busy`, and nothing is changed.
        With it: the run is scheduled again, due at that instant, and does not expire any more; of its gates it keeps
        only the overlap gate: `Delayed`. Armed at its instant or within `rate.grace` of it, it passes without asking
        again, once, and so does a run that replaces it; a cancel or a skip loses it. Every attempt asks anew.

        Every move out of `running` opens the gates that are held only while running, a move to a terminal state
        all of them. An open gate passes, in the same write, to the run that has waited longest by due instant, of
        those whose own capacity leaves room: it holds the gate from then on, and is ready.

        A run that is armed gives up gates that `gates` does not name: those of an earlier definition.
        """
        ...

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        """Give reservations back, row by row: reserved → scheduled. False: the reservation was not ours any more."""
        ...

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        """Record verdicts, row by row; True: accepted.

        Accepted if the run is running under this lease. Then in the same write: the attempt is recorded, and
        the run moves to its verdict's state; a terminal one moves it to history and, for a fixed delay, records
        the end that the next slot counts from. If the lease is not current but this very attempt was recorded
        before under this lease with this outcome, the answer is True again and nothing is written.
        Otherwise False: the lease is lost, and nothing is written. A verdict whose state cannot follow `running`
        is a bug of the caller: `StateError`, and nothing of the batch is written.
        """
        ...


class NodesSlice(Protocol):
    """Who lives, and who leads."""

    async def register(self, node: Node, *, ttl: Micros, now: Micros | None = None) -> Beat:
        """Enter a new incarnation with a lease of `ttl`. Repeated, it is a beat; `NodeExpired` if it has ended."""
        ...

    async def beat(self, incarnation: str, *, ttl: Micros, now: Micros | None = None) -> Beat:
        """Renew an incarnation's lease. One that has ended is renewed as well, as long as nobody has acted on
        its end: the reaper takes runs and ends the incarnation in one write. `NodeExpired` after that.

        A lease of anybody that ends later than a whole lease from now was written before the clock was set back: in
        the same write it is made to end a lease from now. So that costs one lease, not the step.
        """
        ...

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        """End an incarnation's lease and its terms now: reserved runs are free at once, running ones are left
        to the reaper."""
        ...

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        """Ask the living incarnations of a node to take no more work, or to go on; how many there are. From the answer
        on `reserve` gives them nothing, and they learn of it with their next beat."""
        ...

    async def probe(self, *, now: Micros | None = None) -> None:
        """Ask every node to beat now, by a hint."""
        ...

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[Node]:
        """Incarnations, newest first; with `living` those whose lease goes on. Ended ones stay for weeks: whoever asks
        often asks for the living."""
        ...

    async def campaign(
        self,
        incarnation: str,
        *,
        ttl: Micros,
        shard: int = 0,
        layout: int | None = None,
        patience: Micros = 0,
        now: Micros | None = None,
    ) -> Term | None:
        """Become the planner of a shard: a new term if there is none or the last has ended; None if another
        incarnation holds it. For the holder itself, its term renewed. `NodeExpired` without a living lease; `TermLost`
        for another layout than the current one (None: whichever is), or for a shard that it does not have.

        None also while a living planner, not asked to drain, has newer zone data than this one.

        A term that ended less than `patience` ago goes to the earliest registered of the living planners with the same
        zone data, whoever held it last aside: None for the others. A term that ends later than a whole one from now was
        written before the clock was set back: it ends a whole term from now.
        """
        ...

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        """Extend a term; None if it is no longer the current one, is of an earlier layout, or has ended."""
        ...

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        """End a term now, so that another node need not wait; False if it was not current."""
        ...


class UpkeepSlice(RetentionSlice, Protocol):
    """Putting right what nobody else will."""

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        """Running attempts whose incarnation's lease has ended."""
        ...

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        """Take runs from dead nodes, row by row: like `finish`, but accepted only while the run is running
        under this lease and its incarnation's lease has ended. Ends that incarnation for good, in the same write."""
        ...

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        """The safety net under gates: forget holders that are gone, and pass gates that are open although somebody
        waits there. How many runs were freed: above zero means that a gate had been left closed by mistake.
        Places of runs that no living worker can start go to others who wait there, as in `arm`; these are not counted.
        Rates whose tat has passed are forgotten, too: they are as good as new."""
        ...

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        """Runs that were never armed and whose expiry has passed are skipped: slots as missed, others as expired.
        What they are now."""
        ...


class HistorySlice(Protocol):
    """What people ask for."""

    async def list_runs(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        states: Iterable[RunState] | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """Live runs first, by due instant; then finished ones, newest end first: page after page
        (`FindingSlice.find_runs`), and each once, as it was seen last."""
        ...

    async def get_run(self, run_id: int) -> RunRecord | None:
        """One run, live or finished."""
        ...

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        """Those of these runs that are there, live or finished, by id."""
        ...

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        """Every run with this trigger whose instant lies from `first` to `last`, live or kept in history: its instant
        and its state, in the order of the instants."""
        ...

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        """The ended attempts of a run, in order."""
        ...

    async def list_skips(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        since: Micros | None = None,
        until: Micros | None = None,
        limit: int | None = None,
    ) -> list[SkipRecord]:
        """Ranges of slots that were skipped when they were planned, newest first, page after page
        (`FindingSlice.find_skips`). With `since` and `until` (without it): those that have a slot from the one to the
        other, or lie around both."""
        ...

    async def count_runs(self) -> dict[RunState, int]:
        """How many runs are in each state."""
        ...


class Store(
    JobsSlice, DependenciesSlice, ControlSlice, PlanSlice, ShardsSlice, QueuesSlice, PlacementSlice, RunsSlice,
    CheckpointsSlice, NodesSlice, UpkeepSlice, HistorySlice, FindingSlice, LettersSlice, StandingSlice,
    DocumentsSlice, AboutSlice, Protocol,
):  # fmt: skip
    """The whole protocol."""

    hints: Hints

    @property
    def clock(self) -> Clock | None:
        """This machine's clock, where that is the store's own; None for a store that has another, and tells the time
        with its answers."""
        ...

    async def tell_time(self) -> Micros:
        """What time it is by the store's clock: for whoever has had no other answer of it yet."""
        ...

    @property
    def transactions(self) -> Transactions | None:
        """Transactions for jobs under exactly_once (`stores/transactions.py`); None for a store that has none."""
        ...

    async def close(self) -> None:
        """Let go of files, threads and connections. Whatever was acknowledged stays."""
        ...
