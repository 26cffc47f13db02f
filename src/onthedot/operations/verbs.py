"""Defines the verbs that every front door offers: the signature, the promise and an example of each.

Verbs (protocol)
 ├ StoreVerbs ── Scheduler, OpenVerbs     run the operations of this package on an open store (`store_verbs.py`)
 ├ Client                                 offers the same verbs over HTTP
 └ BlockingVerbs ── BlockingScheduler, BlockingClient: offer the same names, and each call returns when it is done
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
    """The operations of onthedot. Jobs are given by name. Runs are given by id or by handle.

    In the examples, `sched` is the scheduler from the example of `Scheduler`, with its job `report`.

    >>> async def nightly(onthedot: Verbs) -> int:
    ...     return len(await onthedot.list_runs("report"))
    """

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, job: Job, *, revision: int | None = None) -> PutJob:
        """Store a definition while the scheduler runs. The answer is created, changed (a new revision) or unchanged.

        `revision` protects against lost edits. Give the revision that you have read, or 0 if the job must not exist
        yet. If another revision is stored, `RevisionConflict` is raised and nothing is written. A scheduler accepts a
        job with a handler only if that handler is registered.

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
        """Store all jobs of a source, such as a file. Return the changed definitions and the changed start times.

        `prune` also removes the jobs that came from this source earlier and are no longer in it. It never removes other
        jobs. If a job is stored from another source, `SourceConflict` is raised and nothing is written, unless
        `take_over` is set. A paused job stays paused, unless its `Job.paused` says otherwise. All jobs are checked
        before anything is written. Then each job is written separately. If one write fails, the earlier jobs stay
        stored; call again to store the rest. `dry_run` returns the changes and writes nothing.

        >>> from datetime import timedelta
        >>> nap = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), schedules=(otd.every("1h"),))
        >>> async with sched:
        ...     applied = await sched.apply([nap], source="jobs.yaml")
        ...     print([(one.name, one.kind, len(one.appear)) for one in applied.differences])
        [('nap', 'created', 720)]
        """
        ...

    async def remove(self, job: str) -> int:
        """Delete a job and return how many waiting runs were cancelled. Running attempts continue, and are not retried.

        >>> async with sched:
        ...     later = await sched.submit("report", delay="1h")
        ...     print(await sched.remove("report"), await later.state())
        1 cancelled
        """
        ...

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        """Pause a job: none of its runs is planned or started until the job is resumed. Running attempts continue.

        With `until`, the job resumes by itself at that time.

        >>> async with sched:
        ...     paused = await sched.pause("report", reason="stocktaking")
        ...     print(paused.record.state, paused.record.pause_reason)
        paused stocktaking
        """
        ...

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        """Resume a paused job. `missed` selects which slots of the pause run now: 'none', the 'last' one, or 'all'.

        `dry_run` returns the same answer and changes nothing.

        >>> async with sched:
        ...     _ = await sched.pause("report")
        ...     resumed = await sched.resume("report", missed="last")
        ...     print(resumed.record.state, "slots to run now:", len(resumed.slots))
        active slots to run now: 0
        """
        ...

    async def get_job(self, job: str) -> JobRecord | None:
        """Return a job as it is stored, or None.

        >>> async with sched:
        ...     stored = await sched.get_job("report")
        ...     print(stored.job.name, stored.revision, stored.state, await sched.get_job("reprot"))
        report 1 active None
        """
        ...

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        """Return the stored jobs, ordered by namespace and name: all jobs, or the first `limit`.

        >>> async with sched:
        ...     print([stored.job.name for stored in await sched.list_jobs()])
        ['report']
        """
        ...

    async def skip_next(self, job: str, *, slot: datetime | None = None, schedule: str | None = None) -> MovedSlot:
        """Skip the next slot of a job. `schedule` selects one schedule by its id. `slot` selects another slot.

        The slot is recorded as skipped(cancelled), even if the job is edited or paused before it. All other slots stay.
        If the slot has begun, `SlotSettled` is raised. A second call skips one more slot; with `slot`, it changes
        nothing.

        >>> async with sched:
        ...     skipped = await sched.skip_next("report")
        ...     print(f"{skipped.slot:%d %B %H:%M}", skipped.reason, skipped.run_id)
        01 January 09:00 cancelled None
        """
        ...

    async def move_next(
        self, job: str, *, to: To, slot: datetime | None = None, schedule: str | None = None
    ) -> MovedSlot:
        """Move the next slot of a job to another time. Return the slot and the id of the run in its place.

        `schedule` selects one schedule by its id. `slot` selects another slot. `to` is a time, or "now", or a distance
        from the slot: a timedelta or text like "+2h". ISO text without an offset is in the schedule's time zone.

        The slot is recorded as skipped(moved), and the same write adds a manual run in its place. If the slot has
        begun, `SlotSettled` is raised. A fixed-delay schedule continues from the new time. A second call moves one more
        slot; with `slot`, it returns the answer of the first call.

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
        """Run the past slots from `start` up to but without `end`. Each slot gets one run, the oldest slot first.

        `schedule` selects one schedule by its id. Without it, all schedules of the job are used. Local times are in the
        time zone of the schedule. The runs are due at once, and `ctx.scheduled_at` is the slot. A slot that has run
        already runs again. A slot that was backfilled before does not run again while its earlier run is kept. More
        than `limit` slots are refused. `dry_run` returns the numbers and writes nothing. Subscribers receive an event
        after every 500 runs.

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
        """Submit one run of a job, now or after `delay`. The run is stored when this call returns.

        `job` is a name or a function, with `args`. Or it is a call with its arguments (`report.call(region="eu")`),
        which a type checker can check. With a `key`, the run is submitted only once: the same key and arguments return
        the same run (`created` is False), and other arguments raise `KeyConflict`. `expires` counts from the due time.
        A run that has not started by then is skipped.

        With a `connection` to the store's own database, the run is submitted inside the transaction that is open there.
        The run exists only if that transaction is committed, and starts after the commit. Before the commit, no other
        verb can use the run. `connection` is Django's `connection`, a connection of asyncpg or psycopg, or a connection
        or session of SQLAlchemy. `Scheduler` uses it on the caller's event loop. `BlockingScheduler` uses it on another
        thread while the caller waits. None, or a connection without a transaction, is refused. Only PostgreSQL supports
        this.

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
        """Submit many runs and return one handle for each, in order. `keys`, if given, has one key for each run.

        All arguments are checked before anything is written. One write stores 500 runs (on Redis 100), or none of them.
        If a write fails, the runs of the earlier writes stay. With `keys`, you can safely make the same call again.
        With a `connection`, as for `submit`, all runs are part of its transaction.

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
        """Start one run of a job by hand, now. The run is additional to those of the schedules, and replaces none.

        >>> async with sched:
        ...     run = await sched.trigger("report", {"region": "asia"})
        ...     print(await run.result(timeout="10s"))
        all is well in asia
        """
        ...

    async def retry_run(self, run_id: RunHandle | int, *, from_step: str | None = None) -> Run:
        """Run a finished run of a command or of steps again, as a new run. It starts at the step that failed.

        `from_step` names another step to start at. A run that succeeded starts again at its first step, unless
        `from_step` is given. The new run uses the workspace of the earlier run if that still exists, and the values
        that earlier steps have passed on. The retry of a dead run settles its dead letter, as `replay` does. Raises
        `StateError` if the run has not ended. Raises `UnknownJob` if its job was deleted, even if another job has that
        name now.

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
        """Cancel a run. A waiting run is cancelled at once. A running attempt is asked to stop.

        >>> async with sched:
        ...     later = await sched.submit("report", delay="1h")
        ...     print((await sched.cancel(later, why="not needed")).kind, await later.state())
        cancelled cancelled
        """
        ...

    async def get_run(self, run_id: RunHandle | int) -> RunRecord | None:
        """Return a live or finished run, or None.

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
        """Return live runs, ordered by due time, and then finished runs, the latest end first.

        Without `limit`, all runs are returned. Set `limit` or `since` if the history is long. `owner` is the owner of
        the job. `label` is a label that the run needs of its worker. `node` is the node that holds the run or held it
        last. `since` and `until` (exclusive) select live runs by their due time and finished runs by their end.

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
        """Return the slots that were skipped before they became runs, with the reasons. The newest are first.

        Each record is a range of slots of one schedule. Without `limit`, all records are returned. Runs that were
        skipped later are in `list_runs`. `since` and `until` (exclusive) select the ranges that overlap this period.

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
        """Return the finished attempts of a run, in order.

        >>> async with sched:
        ...     run = await sched.submit("report")
        ...     _ = await run.result(timeout="10s")
        ...     print([(tried.attempt, tried.error) for tried in await sched.history(run)])
        [(1, None)]
        """
        ...

    async def logs(self, run_id: RunHandle | int) -> list[LogRecord]:
        """Return the output and the log lines of each attempt of a run, in order.

        The output of an attempt is complete once it is in the output store. Before that, only the part that its node
        has sent is returned.

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
        """Wait until a run has ended, and return the result of its handler.

        Raises `RunFailed` if the run did not succeed, and `UnknownRun` if the run is not stored (any more). Raises
        `TimeoutError` if the run has not ended in time; the run continues.

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
        """Return the dead runs that nobody has replayed or discarded, grouped by error. The latest error is first.

        The `fingerprint` of a group is made of the job, the type of the error, and the text of the error without
        numbers, quotes and paths. A group also has the number of runs, the first and the last end, and the newest run
        as an `example`. If there are more than `limit` dead runs, only the newest are counted.

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
        """Return the dead runs of `dead_letters` one by one, the latest end first.

        They can be limited to a job, to a fingerprint, and to runs that ended from `since` up to but without `until`.

        >>> async with sched:
        ...     print(await sched.dead_runs("report", since="2026-01-01T00:00Z"))
        []
        """
        ...

    async def replay(self, run_id: RunHandle | int) -> Run:
        """Run a dead run again, now, with the same arguments and for the same slot. A second call returns the same run.

        The trigger of the new run is `rerun:<run id>`. The old run stays dead in the history, but is no longer a dead
        letter. Raises `StateError` if the run is not dead or was discarded. Raises `UnknownJob` if its job was deleted,
        even if another job has that name now.

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
        """Replay all dead letters that match, the oldest first. With a `rate`, their due times are spaced at that rate.

        More than `limit` letters are refused. `dry_run` returns the numbers and writes nothing. If the call fails in
        between, the replayed runs stay; call again to replay the rest. Letters of deleted jobs are counted, but not
        replayed. Subscribers receive an event after every 500 runs.

        >>> async with sched:
        ...     print(await sched.replay_many("report", rate=otd.Rate(10, "1s"), dry_run=True))
        no dead letters match
        """
        ...

    async def discard(self, run_ids: RunHandle | int | Iterable[RunHandle | int], *, why: str = "") -> int:
        """Discard dead letters and return how many of these runs were dead letters.

        The runs stay dead in the history, and `run.settled` has the reason.

        >>> async with sched:
        ...     print(await sched.discard([7, 8], why="known, and mended"))
        0
        """
        ...

    # ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        """Return the incarnations of nodes, newest first. Ended incarnations are included until they are removed.

        >>> async with sched:
        ...     print([node.roles for node in await sched.list_nodes()])
        [('planner', 'worker')]
        """
        ...

    async def drain_node(self, node: str, *, draining: bool = True) -> int:
        """Ask the living incarnations of a node to take no more work, or to take work again. Return how many there are.

        >>> async with sched:
        ...     [node] = await sched.list_nodes()
        ...     print(await sched.drain_node(node.id), await sched.drain_node("nobody"))
        1 0
        """
        ...

    async def list_terms(self) -> list[Term]:
        """Return the newest term of each shard. It tells which node plans the shard.

        >>> async with sched:
        ...     print([term.shard for term in await sched.list_terms()])
        [0]
        """
        ...

    async def set_shards(self, shards: int) -> Layout:
        """Divide the planning of all jobs into this number of shards (at most 64). Different nodes can plan different
        shards.

        The number is stored for the whole cluster. One shard is enough unless a single planner is overloaded. The
        change ends all terms, and the next terms begin within seconds. Runs that are planned already stay.

        >>> async with sched:
        ...     print(await sched.set_shards(4))
        Layout(version=2, shards=4)
        """
        ...

    async def list_queues(self) -> list[Queue]:
        """Return the queues that have runs, or that were paused or shared at any time.

        >>> async with sched:
        ...     _ = await sched.submit("report", delay="1h")
        ...     print([(queue.name, queue.waiting) for queue in await sched.list_queues()])
        [('default', 1)]
        """
        ...

    async def pause_queue(self, queue: str, *, reason: str = "") -> Queue:
        """Pause a queue: none of its runs starts until the queue is resumed. Running attempts continue.

        >>> async with sched:
        ...     print((await sched.pause_queue("mail", reason="the server moves")).reason)
        the server moves
        """
        ...

    async def resume_queue(self, queue: str) -> Queue:
        """Resume a paused queue.

        >>> async with sched:
        ...     print((await sched.resume_queue("mail")).paused_at)
        None
        """
        ...

    async def share_queue(self, queue: str, weights: Mapping[str, int] | None) -> Queue:
        """Share a queue fairly, by weight, between the values of an argument. With None, the first run to come starts
        first.

        Each job names this argument as its `share`.

        >>> async with sched:
        ...     print((await sched.share_queue("mail", {"gold": 3})).weights)
        {'gold': 3}
        """
        ...
