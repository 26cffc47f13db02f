"""The verbs that every front door offers: their signatures, what they promise, and an example of each.

Verbs (protocol)
 ├ StoreVerbs ── Scheduler, OpenVerbs     the operations of this package, on an open store (`store_verbs.py`)
 ├ Client                                 the same over HTTP
 └ BlockingVerbs ── BlockingScheduler, BlockingClient: the same names, and each returns when it is done
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from onthedot.model.duration import Duration
from onthedot.model.job import Job, JobRecord, Json
from onthedot.model.policies import Rate
from onthedot.model.run import AttemptRecord, RunRecord, RunState, SkipRecord
from onthedot.operations.move_slot import To
from onthedot.operations.run_handle import Run, RunHandle
from onthedot.operations.run_request import OUTSIDE, Asked
from onthedot.rules.windows import Missed
from onthedot.stores.values import (
    CancelAnswer,
    Layout,
    LogRecord,
    MovedSlot,
    Node,
    Paused,
    PutJob,
    Queue,
    Resumed,
    Term,
)

if TYPE_CHECKING:
    from onthedot.operations.apply import Applied
    from onthedot.operations.backfill import Backfill
    from onthedot.operations.dead_letters import DeadLetters, Replayed


class Verbs(Protocol):
    """What can be asked of onthedot. Jobs are named; runs are given by id, or by their handle.

    In the examples `sched` is the one of `Scheduler`, with its job `report`.

    >>> async def nightly(onthedot: Verbs) -> int:
    ...     return len(await onthedot.list_runs("report"))
    """

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, job: Job, *, revision: int | None = None) -> PutJob:
        """Store a definition while everything runs: created, changed (a new revision) or unchanged.

        With the `revision` that you have read (0: there is no such job yet), nobody else's edit is lost: if another one
        is stored meanwhile, `RevisionConflict`, and nothing is written. Where handlers are registered, the job's own
        must be among them.

        >>> from datetime import timedelta
        >>> nap = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), schedules=(otd.every("1h"),))
        >>> async with sched:
        ...     print((await sched.put(nap)).change, (await sched.put(nap)).change)
        created unchanged
        """
        ...

    async def apply(
        self, jobs: Iterable[Job], *, source: str, prune: bool = False, dry_run: bool = False, take_over: bool = False
    ) -> Applied:
        """Store all jobs of a source, such as a file, and tell what that changes, in text and in time.

        With `prune`, jobs that came from this source before, and that it has no more, are removed; no others ever. If
        a job is stored from another source, nothing is written (`SourceConflict`), unless `take_over` is given. A job
        that is paused stays so, unless its `Job.paused` says otherwise. Everything is checked before anything is
        written; then each job is written by itself, and if one fails, those before it stay: the same call does the
        rest. `dry_run` only tells.

        >>> from datetime import timedelta
        >>> nap = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), schedules=(otd.every("1h"),))
        >>> async with sched:
        ...     applied = await sched.apply([nap], source="jobs.yaml")
        ...     print([(one.name, one.kind, len(one.appear)) for one in applied.differences])
        [('nap', 'created', 720)]
        """
        ...

    async def remove(self, job: str) -> int:
        """End a job; how many waiting runs were cancelled with it. Running attempts end, and are not tried again.

        >>> async with sched:
        ...     later = await sched.submit("report", delay="1h")
        ...     print(await sched.remove("report"), await later.state())
        1 cancelled
        """
        ...

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        """Stop planning and starting runs of a job, until it is resumed (by itself at `until`). Running ones go on.

        >>> async with sched:
        ...     paused = await sched.pause("report", reason="stocktaking")
        ...     print(paused.record.state, paused.record.pause_reason)
        paused stocktaking
        """
        ...

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        """Let a paused job go on. `missed` says what becomes of the slots of the pause; `dry_run` only tells.

        >>> async with sched:
        ...     _ = await sched.pause("report")
        ...     resumed = await sched.resume("report", missed="last")
        ...     print(resumed.record.state, "slots to run now:", len(resumed.slots))
        active slots to run now: 0
        """
        ...

    async def get_job(self, job: str) -> JobRecord | None:
        """A job as it is stored, or None.

        >>> async with sched:
        ...     stored = await sched.get_job("report")
        ...     print(stored.job.name, stored.revision, stored.state, await sched.get_job("reprot"))
        report 1 active None
        """
        ...

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        """The stored jobs, by namespace and name: all of them, or the first `limit`.

        >>> async with sched:
        ...     print([stored.job.name for stored in await sched.list_jobs()])
        ['report']
        """
        ...

    async def skip_next(self, job: str, *, slot: datetime | None = None, schedule: str | None = None) -> MovedSlot:
        """Leave out the next slot of a job, of whichever schedule, or of the one with the id `schedule`; or the slot
        that `slot` names.

        The slot is skipped(cancelled), whatever is edited or paused until then; all others stay as they are. One that
        has begun is left alone: `SlotSettled`. Called twice, it leaves out two; with `slot` it is the same one.

        >>> async with sched:
        ...     skipped = await sched.skip_next("report")
        ...     print(f"{skipped.slot:%d %B %H:%M}", skipped.reason, skipped.run_id)
        01 January 09:00 cancelled None
        """
        ...

    async def move_next(
        self, job: str, *, to: To, slot: datetime | None = None, schedule: str | None = None
    ) -> MovedSlot:
        """Run the next slot of a job at another instant; or the slot that `slot` names. Which one, and the run's id.
        With `schedule` it is a slot of the schedule with this id.

        `to` is an instant; or a timedelta or text like "+2h", counted from the slot; or "now". ISO text without an
        offset is in the schedule's own zone. The slot is skipped(moved), and a run by hand takes its place in the same
        write. A slot that has begun is left alone: `SlotSettled`. A fixed delay goes on from the new instant. Called
        twice, it moves two slots; with `slot` the second call says where the first one went.

        >>> async with sched:
        ...     moved = await sched.move_next("report", to="+2h")
        ...     run = await sched.get_run(moved.run_id)
        ...     print(f"{moved.slot:%H:%M}", moved.reason, (run.due_at - moved.slot_at) // 1_000_000)
        09:00 moved 7200
        """
        ...

    async def backfill(
        self,
        job: str,
        start: datetime | str,
        end: datetime | str,
        *,
        schedule: str | None = None,
        dry_run: bool = False,
        limit: int = 10_000,
    ) -> Backfill:
        """Run the slots of a range in the past, from `start` on and up to but without `end`, one run for each, the
        oldest first: of all schedules of the job, or of the one that `schedule` names by its id.

        The runs are due at once, and `ctx.scheduled_at` is the slot. A slot that has run is run again; a slot that was
        backfilled before is not, for as long as that run is kept. More than `limit` slots are refused. `dry_run` only
        tells. Local times are those of the schedule. Subscribers hear of each 500 runs.

        >>> async with sched:
        ...     print(await sched.backfill("report", "2020-01-01T00:00", "2026-01-01T00:00", dry_run=True))
        report: 6 slots from 2020-01-01T09:00Z to 2025-01-01T09:00Z, 6 new runs would be made
        """
        ...

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def submit(
        self,
        job: Asked,
        args: Mapping[str, Any] | None = None,
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        key: str = "",
        connection: Any = OUTSIDE,
    ) -> Run:
        """Ask for one run of a job, now or after `delay`. Stored when this returns.

        `job` is a name or a function, with `args`; or a call that holds its arguments (`report.call(region="eu")`),
        which a type checker can look at. With a `key` it is asked for once, however often this is called: the same key
        and arguments give the same run (`created` is False), other arguments raise `KeyConflict`. A run that has not
        started when it `expires` (counted from its due instant) is skipped.

        With a `connection` to the store's own database the run is submitted in the transaction that is open there: it
        exists exactly if that is committed, and starts then. Django's `connection`, a connection of asyncpg or psycopg,
        or a connection or session of SQLAlchemy; used where this is called, or if it is not awaited, on another thread
        meanwhile. None, or one without a transaction, is refused. On PostgreSQL only. Nothing else can be asked of the
        run before the commit.

        >>> async with sched:
        ...     run = await sched.submit(report.call("us"), key="report:us", delay="10ms", expires="1h")
        ...     print(run.created, await run.result(timeout="10s"))
        True all is well in us
        """
        ...

    async def submit_many(
        self,
        jobs: Iterable[Asked],
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        keys: Sequence[str] = (),
        connection: Any = OUTSIDE,
    ) -> list[Run]:
        """Ask for many runs, 500 to a write, on Redis 100; one handle each, in order. `keys`, if given, has one for
        each.

        Every argument is checked before anything is written. Each write is whole; if one fails, those before it stay:
        with keys the same call may be made again. With a `connection`, as for `submit`, all of it is in the transaction
        there.

        >>> @sched.job
        ... async def square(n: int) -> int:
        ...     return n * n
        >>> async with sched:
        ...     runs = await sched.submit_many(square.call(n) for n in range(1000))
        ...     print(sum([await run.result(timeout="20s") for run in runs]))
        332833500
        """
        ...

    async def trigger(self, job: Asked, args: Mapping[str, Any] | None = None) -> Run:
        """Ask for one run now, by hand. A run beside the schedule's own, never in place of one.

        >>> async with sched:
        ...     run = await sched.trigger("report", {"region": "asia"})
        ...     print(await run.result(timeout="10s"))
        all is well in asia
        """
        ...

    async def retry_run(self, run_id: RunHandle | int, *, from_step: str | None = None) -> Run:
        """Run again what has ended, of a command or of steps: a new run, which goes on at the step that failed, or at
        the one that `from_step` names, in the workspace of the earlier run where that is still there.

        What earlier steps have handed on is there as well. A run that succeeded begins anew, unless a step is named.
        A dead letter is settled by it, as by `replay`. `StateError` while the run has not ended. `UnknownJob` if its
        job was deleted, also when another job has that name now.

        >>> build = sched.steps("build", [otd.Step(name="make", script="exit 3")])
        >>> async with sched:
        ...     failed = await sched.submit("build", delay="1h")
        ...     _ = await failed.cancel()
        ...     again = await sched.retry_run(failed, from_step="make")
        ...     print((await sched.get_run(again)).trigger[:10])
        rerun:1:0:
        """
        ...

    async def cancel(self, run_id: RunHandle | int, *, why: str = "cancelled") -> CancelAnswer:
        """Cancel a run: at once if it waits; if it runs, it is asked to stop.

        >>> async with sched:
        ...     later = await sched.submit("report", delay="1h")
        ...     print((await sched.cancel(later, why="not needed")).kind, await later.state())
        cancelled cancelled
        """
        ...

    async def get_run(self, run_id: RunHandle | int) -> RunRecord | None:
        """A run, live or finished.

        >>> async with sched:
        ...     later = await sched.submit("report", delay="1h")
        ...     print((await sched.get_run(later)).state, await sched.get_run(99))
        scheduled None
        """
        ...

    async def list_runs(
        self,
        job: str | None = None,
        *,
        states: Iterable[RunState] | None = None,
        owner: str | None = None,
        queue: str | None = None,
        label: str | None = None,
        node: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """Live runs first, by due instant; then finished ones, newest end first: all of them, or the first `limit`.
        Set a limit, or `since`, if the history is long.

        Of a job, in these states, of an owner, in a queue, that need a label of their worker, that a node holds or had
        last; from `since` on and before `until`, by when they are due while they live, and by when they ended.

        >>> async with sched:
        ...     _ = await (await sched.submit("report")).result(timeout="10s")
        ...     print([(run.job, run.attempts) for run in await sched.list_runs(states=[otd.RunState.SUCCEEDED])])
        ...     print(await sched.list_runs(queue="night", since="2026-01-01T00:00Z"))
        [('report', 1)]
        []
        """
        ...

    async def list_skips(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[SkipRecord]:
        """Slots that did not run, of a job or of all, and why: ranges of one schedule each, the newest first: all of
        them, or `limit`. They were skipped before there was a run of them; a run that was skipped is among the runs.
        With `since` and `until` (without it): those that reach into this range.

        >>> from datetime import timedelta
        >>> nap = otd.Sleep(duration=timedelta(0))
        >>> poll = otd.Job(name="poll", task=nap, schedules=(otd.gap("1h"),), labels=frozenset({"gpu"}))
        >>> async with sched:
        ...     _ = await sched.put(poll), await sched.pause("poll"), await sched.skip_next("poll")
        ...     print([(skip.count, skip.reason) for skip in await sched.list_skips("poll")])
        [(1, 'cancelled')]
        """
        ...

    async def history(self, run_id: RunHandle | int) -> list[AttemptRecord]:
        """The ended attempts of a run, in order.

        >>> async with sched:
        ...     run = await sched.submit("report")
        ...     _ = await run.result(timeout="10s")
        ...     print([(tried.attempt, tried.error) for tried in await sched.history(run)])
        [(1, None)]
        """
        ...

    async def logs(self, run_id: RunHandle | int) -> list[LogRecord]:
        """What the attempts of a run have said and logged, in order: in full from the output store once it is there,
        and before that what has been told of it so far.

        >>> @sched.job
        ... def greet(ctx: otd.Context, name: str) -> None:
        ...     ctx.log(f"hello, {name}")
        >>> async with sched:
        ...     run = await sched.submit(greet.call("Ada"))
        ...     await run.result(timeout="10s")
        ...     print(await sched.logs(run))
        [LogRecord(attempt=1, text='hello, Ada\\n')]
        """
        ...

    async def result(self, run_id: RunHandle | int, *, timeout: Duration | None = None) -> Json:
        """Wait until a run has ended, and what its handler has returned.

        `RunFailed` if it did not succeed, `UnknownRun` if there is no such run (any more), `TimeoutError` if it has not
        ended in time: then it goes on.

        >>> async with sched:
        ...     run = await sched.submit("report")
        ...     print(await sched.result(run, timeout="10s"))
        all is well in eu
        """
        ...

    # ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────

    async def dead_letters(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 10_000,
    ) -> list[DeadLetters]:
        """Dead runs that nobody has replayed or discarded, grouped by what they died of: what died last first.

        A group has a `fingerprint`, made of the job, the type of the error, and its text without numbers, quotes and
        paths; how many there are, when the first and the last ended, and the newest as an `example`. Of more than
        `limit`, the newest count.

        >>> from contextlib import suppress
        >>> @sched.job
        ... async def charge(order: int) -> None:
        ...     raise ConnectionError(f"no answer for order {order}")
        >>> async with sched:
        ...     for order in (7, 8):
        ...         with suppress(otd.RunFailed):
        ...             await sched.result(await sched.submit(charge.call(order)), timeout="10s")
        ...     print([(group.count, group.error) for group in await sched.dead_letters()])
        [(2, 'ConnectionError: no answer for order <n>')]
        """
        ...

    async def dead_runs(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """The same runs one by one, newest end first: of a job, of one fingerprint, that ended from `since` on and
        before `until`.

        >>> async with sched:
        ...     print(await sched.dead_runs("report", since="2026-01-01T00:00Z"))
        []
        """
        ...

    async def replay(self, run_id: RunHandle | int) -> Run:
        """Ask for a dead run again, now, with its own arguments, for its own instant. Asked twice, it is one run.

        The new run's trigger is `rerun:<run id>`; the old one stays in history, dead, and is no dead letter any more.
        `StateError` for a run that is not dead, or was discarded. `UnknownJob` if its job was deleted, also when
        another job has that name now.

        >>> from contextlib import suppress
        >>> @sched.job
        ... async def charge(order: int) -> None:
        ...     raise ConnectionError(f"no answer for order {order}")
        >>> async with sched:
        ...     run = await sched.submit(charge.call(order=7))
        ...     with suppress(otd.RunFailed):
        ...         await run.result(timeout="10s")
        ...     new = await sched.replay(run)
        ...     print((await sched.get_run(new)).args, await sched.replay(run) == new)
        {"order":7} True
        """
        ...

    async def replay_many(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        rate: Rate | None = None,
        limit: int = 10_000,
        dry_run: bool = False,
    ) -> Replayed:
        """Replay all dead letters that match, the oldest first; with a `rate`, due at instants that are so far apart.

        More than `limit` are refused. `dry_run` only tells. If it breaks off, those before stay, and the same call does
        the rest. Letters of a job that is gone stay as they are, and are counted. Subscribers hear of each 500 runs.

        >>> async with sched:
        ...     print(await sched.replay_many("report", rate=otd.Rate(10, "1s"), dry_run=True))
        no dead letters match
        """
        ...

    async def discard(self, run_ids: RunHandle | int | Iterable[RunHandle | int], *, why: str = "") -> int:
        """Take dead letters out of the box; how many of these runs were in it. They stay in history, dead, and
        `run.settled` says why.

        >>> async with sched:
        ...     print(await sched.discard([7, 8], why="known, and mended"))
        0
        """
        ...

    # ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        """The incarnations of nodes, newest first; those that have ended, too, until they are forgotten.

        >>> async with sched:
        ...     print([node.roles for node in await sched.list_nodes()])
        [('planner', 'worker')]
        """
        ...

    async def drain_node(self, node: str, *, draining: bool = True) -> int:
        """Ask the living incarnations of a node to take no more work, or to go on; how many there are.

        >>> async with sched:
        ...     [node] = await sched.list_nodes()
        ...     print(await sched.drain_node(node.id), await sched.drain_node("nobody"))
        1 0
        """
        ...

    async def list_terms(self) -> list[Term]:
        """Who plans which shard, by shard: the newest term of each.

        >>> async with sched:
        ...     print([term.shard for term in await sched.list_terms()])
        [0]
        """
        ...

    async def set_shards(self, shards: int) -> Layout:
        """Divide the planning of all jobs among so many nodes (64 at the most), of those that there are.

        State of the cluster, kept in the store: one is enough unless a single planner has too much to do. All terms end
        with the change, and the next ones begin within seconds; what is planned already is not touched.

        >>> async with sched:
        ...     print(await sched.set_shards(4))
        Layout(version=2, shards=4)
        """
        ...

    async def list_queues(self) -> list[Queue]:
        """The queues that have runs, or about which something was said.

        >>> async with sched:
        ...     _ = await sched.submit("report", delay="1h")
        ...     print([(queue.name, queue.waiting) for queue in await sched.list_queues()])
        [('default', 1)]
        """
        ...

    async def pause_queue(self, queue: str, *, reason: str = "") -> Queue:
        """Start no more runs of a queue until it is resumed. Running attempts continue.

        >>> async with sched:
        ...     print((await sched.pause_queue("mail", reason="the server moves")).reason)
        the server moves
        """
        ...

    async def resume_queue(self, queue: str) -> Queue:
        """Let a paused queue go on.

        >>> async with sched:
        ...     print((await sched.resume_queue("mail")).paused_at)
        None
        """
        ...

    async def share_queue(self, queue: str, weights: Mapping[str, int] | None) -> Queue:
        """Share a queue fairly between the values of the argument that its jobs name as their `share`, by weight; None:
        first come, first served again.

        >>> async with sched:
        ...     print((await sched.share_queue("mail", {"gold": 3})).weights)
        {'gold': 3}
        """
        ...
