"""Answers the reads of `stores/queries.py` from Redis.

A list is read from the sorted set that has its order, one page of records for each script. Finished runs have an index
for each job and one for all jobs. Other filters are checked run by run, in several steps. Attempts are stored with
their runs, and have no index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from onthedot.clock import Micros
from onthedot.model.errors import DefinitionError
from onthedot.model.job import JobRecord, JobState
from onthedot.model.retention import Crowded, DailyCount, Mark
from onthedot.model.route import placed_incarnation, waits_for_leader
from onthedot.model.run import (
    AttemptRecord,
    Checkpoint,
    RunRecord,
    RunState,
    SkipRecord,
    WaitReason,
)
from onthedot.model.window import ScheduleState
from onthedot.stores.queries import (
    FIRST,
    LAST,
    SCANNED,
    AttemptCursor,
    AttemptFilter,
    AttemptScan,
    JobCursor,
    JobFilter,
    JobScan,
    Queries,
    Revision,
    RunCursor,
    RunFilter,
    RunScan,
    Scan,
    SkipCursor,
    SkipFilter,
    SkipScan,
    attempt_cursor,
)
from onthedot.stores.redis.rows import (
    read_node,
    read_parent,
    read_queue,
    read_run,
    read_schedule,
    read_term,
    term_fields,
)
from onthedot.stores.redis.server import RedisServer
from onthedot.stores.values import (
    LAST_MARK,
    Held,
    Layout,
    LogRecord,
    NextSchedules,
    Node,
    Owned,
    Parent,
    Queue,
    ScheduleCursor,
    Term,
    Unplaced,
    most,
)

ROWS = 500
"""How many records one script reads: some milliseconds of the server's time."""

JOBS = 1000
"""How many jobs one script counts."""


class LiveRun(NamedTuple):
    """The fields of a live run that are counted. `holder` is the incarnation that has it, or that the leader chose."""

    run_id: int
    queue: str
    state: str
    due_at: Micros
    holder: str | None
    is_held: int


class RedisQueries(Queries):
    """See `stores.queries.Queries`."""

    def __init__(self, redis: RedisServer) -> None:
        self.redis = redis

    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan:
        states = None if wanted.states is None else sorted(wanted.states)
        request = {
            "namespaces": wanted.namespaces, "owner": wanted.owner, "label": wanted.label, "queue": wanted.queue,
            "name_contains": wanted.name_contains, "states": states,
        }  # fmt: skip
        rows, reached = await self._read_in_steps("find_jobs", request, "\t".join(after), limit)
        return Scan(await self.redis.records(rows), None if reached is None else JobCursor(*reached.split("\t")))

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        start = max((after.at, after.id), (FIRST if wanted.since is None else wanted.since, 0))
        until = LAST if wanted.until is None else wanted.until
        request = _filter_fields(wanted) | {"states": sorted(wanted.live_states), "until_": until}
        rows, reached = await self._read_in_steps("list_live", request, list(start), limit)
        return Scan([read_run(row) for row in rows], None if reached is None else RunCursor(False, *reached))

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        start = min((after.at, after.id), (LAST if wanted.until is None else wanted.until, 0))
        since = FIRST if wanted.since is None else wanted.since
        request = _filter_fields(wanted) | {"states": sorted(wanted.ended_states), "since": since}
        rows, reached = await self._read_in_steps("list_ended", request, list(start), limit)
        return Scan([read_run(row) for row in rows], None if reached is None else RunCursor(True, *reached))

    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan:
        if wanted.run_id is None:
            raise DefinitionError(
                "attempts: expected the run that they are of, because Redis keeps them with their runs, and has no "
                "index of them by node or time; name a run, or look for runs by their node"
            )
        run = await self.get_run(wanted.run_id)
        if run is None or wanted.owner not in (None, run.owner):
            return Scan([])
        if wanted.namespaces is not None and run.namespace not in wanted.namespaces:
            return Scan([])
        since, until = (FIRST if wanted.since is None else wanted.since), LAST if wanted.until is None else wanted.until
        found = [
            attempt
            for attempt in await self.list_attempts(run.id)
            if wanted.node in (None, attempt.node) and since <= attempt.ended_at < until
            and attempt_cursor(attempt) < after
        ]  # fmt: skip
        return Scan(sorted(found, key=attempt_cursor, reverse=True)[:limit])

    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        request = {
            "namespaces": wanted.namespaces, "owner": wanted.owner, "job": wanted.job, "since": wanted.since,
            "until_": wanted.until,
        }  # fmt: skip
        rows, reached = await self._read_in_steps("list_skips", request, after.id, limit)
        found = [(number, SkipRecord(name, *row)) for number, name, row in rows]
        return Scan(found, None if reached is None else SkipCursor(reached))

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        jobs = await self.redis.read("get_jobs_by_id", job_ids=[job_id])
        newest = max((row[1] for row in jobs), default=0)
        first = newest if before is None else min(newest, before - 1)
        wanted = range(first, max(0, first - most(limit)), -1)
        records = await self.redis.records((job_id, one, JobState.ACTIVE, 0, 0, None, None) for one in wanted)
        return [Revision(record.revision, record.job, record.updated_at) for record in records]

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        return await self.redis.records(await self.redis.read("get_jobs_by_id", job_ids=sorted(set(job_ids))))

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        found = await self.redis.read("get_jobs", names=[f"{namespace}\t{name}"])
        return await self.redis.record(found[0]) if found else None

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        found = await self.redis.read("schedules_of", job_id=job_id)
        states = [read_schedule(row, await self.redis.record(row[0])) for row in found]
        return sorted(states, key=lambda state: state.schedule_id)

    async def parents_of(self, job_id: int) -> list[Parent]:
        found = await self.redis.read("parents_of", job_id=job_id)
        return [read_parent(name, noted) for name, noted in found]

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        return await self.redis.records(await self.redis.read("due_resumes", now=now))

    async def next_schedules(
        self,
        *,
        until: Micros,
        limit: int,
        namespaces: Sequence[str] | None = None,
        owner: str | None = None,
        after: ScheduleCursor | None = None,
    ) -> NextSchedules:
        found: list[ScheduleState] = []
        request: dict[str, Any] = {"until_": until, "namespaces": namespaces, "owner": owner, "rows": ROWS}
        place = after
        for _ in range(max(1, SCANNED // ROWS)):
            rows, reached = await self.redis.read("next_schedules", **request, after=place, limit=limit - len(found))
            found += await self.read_schedules(rows)
            place = None if reached is None else ScheduleCursor(*reached)
            if place is None or len(found) >= limit:
                break
        return NextSchedules(found, place)

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        found: list[ScheduleState] = []
        request = term_fields(term)
        while len(found) < limit:
            rows = await self.redis.read("zoned_schedules", term=request, after=list(after), limit=limit)
            found += await self.read_schedules(rows)
            if len(rows) < limit:
                break
            [job_id, *_], schedule_id, *_ = rows[-1]
            after = (job_id, schedule_id)
        return found[:limit]

    async def get_run(self, run_id: int) -> RunRecord | None:
        found = await self.get_runs([run_id])
        return found[0] if found else None

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        return [read_run(row) for row in await self.redis.read("get_runs", run_ids=sorted(set(run_ids)))]

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        found = await self.redis.read("runs_of_slots", job_id=job_id, trigger=trigger, first=first, last=last)
        return sorted((slot_at, RunState(state)) for slot_at, state in found)

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        return [AttemptRecord(run_id, *row) for row in await self.redis.read("list_attempts", run_id=run_id)]

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        found = await self.redis.read("get_checkpoint", run_id=run_id)
        return None if found is None else Checkpoint(*found)

    async def list_logs(self, run_id: int) -> list[LogRecord]:
        found = await self.redis.read("list_logs", run_id=run_id)
        return sorted(LogRecord(attempt, text) for attempt, text in found)

    async def count_runs(self) -> dict[RunState, int]:
        counts = Counter(RunState(run.state) for run in await self.live_runs())
        ended = await self.redis.read("count_ended")
        for state, count in zip(ended[::2], ended[1::2], strict=True):
            counts[RunState(state)] += count
        return {state: counts[state] for state in RunState if counts[state]}

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> Owned:
        jobs = runs = 0
        after: str | None = ""
        while after is not None:
            some, live, after = await self.redis.read(
                "count_owned", owner=owner, namespace=namespace, after=after, rows=JOBS
            )
            jobs, runs = jobs + some, runs + live
        return Owned(jobs, runs)

    async def list_dead(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        since: Micros = 0,
        before: Mark = LAST_MARK,
        limit: int | None = None,
    ) -> list[RunRecord]:
        found: list[Any] = []
        mark: Sequence[int] | None = before
        while mark is not None and len(found) < most(limit):
            rows, mark = await self.redis.read(
                "list_dead",
                job=job,
                namespace=namespace,
                since=since,
                before=list(mark),
                limit=most(limit) - len(found),
            )
            found += rows
        return [read_run(row) for row in found]

    async def why_waiting(self, run_id: int) -> WaitReason | None:
        found = await self.redis.read("why_waiting", run_id=run_id)
        if found is None:
            return None
        expires, node, incarnation, reserved, fence, gate, holders, granted, route, cancel = found
        return WaitReason(
            run_id, expires, node, incarnation, reserved, fence, gate, tuple(holders), granted,
            waits_for_leader(route), placed_incarnation(route) or "", cancel,
        )  # fmt: skip

    async def list_queues(self, *, now: Micros | None = None) -> list[Queue]:
        read_at, rows = await self.redis.read_with_time("list_queues", now=now)
        changed = {queue.name: queue for queue in map(read_queue, rows)}
        runs = await self.live_runs()
        names = sorted({*changed, *(run.queue for run in runs)})
        return [_counted(changed.get(name, Queue(name)), runs, read_at) for name in names]

    async def list_unassigned(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[Unplaced]:
        rows = await self.redis.read("list_unassigned", now=now, until_=until, limit=limit)
        records = await self.redis.load(row[1] for row in rows)
        return [
            Unplaced(run_id, record, due_at, place)
            for (run_id, _, due_at, place), record in zip(rows, records, strict=True)
            if isinstance(record, JobRecord)
        ]

    async def count_loads(self) -> dict[str, int]:
        return dict(Counter(run.holder for run in await self.live_runs() if run.holder))

    async def count_held(self) -> dict[str, Held]:
        counts = Counter((run.holder, run.state) for run in await self.live_runs() if run.is_held and run.holder)
        return {
            holder: Held(counts[holder, RunState.RESERVED], counts[holder, RunState.RUNNING])
            for holder, _ in counts
            if holder
        }

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[Node]:
        rows = await self.redis.read("list_nodes", now=now, limit=most(limit), living=living or None)
        return [read_node(row) for row in rows]

    async def get_layout(self) -> Layout:
        return Layout(*await self.redis.read("get_layout"))

    async def list_terms(self) -> list[Term]:
        found = [read_term(row) for row in await self.redis.read("list_terms")]
        return [term for term in found if term is not None]

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        rows, passed = await self.redis.read("find_crowded", keep=keep, after=after, limit=limit)
        return Crowded([(job_id, Mark(ended_at, run_id)) for job_id, ended_at, run_id in rows], passed)

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        counts: Counter[tuple[int, str, RunState]] = Counter()
        for name, day, state, count in await self.redis.read("list_daily_counts", job=job, namespace=namespace):
            counts[-day, name, RunState(state)] += count
        return [DailyCount(name, -day, state, count) for (day, name, state), count in sorted(counts.items())][:limit]

    async def _read_in_steps(self, name: str, request: dict[str, Any], after: Any, limit: int) -> tuple[list[Any], Any]:
        """Read with several scripts until there are `limit` rows, or about `SCANNED` records were read. Returns the
        rows, and the position after them (None: there are no more)."""
        found: list[Any] = []
        for _ in range(max(1, SCANNED // ROWS)):
            rows, after = await self.redis.read(name, **request, after=after, rows=ROWS, limit=limit - len(found))
            found += rows
            if after is None or len(found) == limit:
                break
        return found, after

    async def live_runs(self) -> list[LiveRun]:
        """Every live run, read page by page. Each is as it was when its page was read."""
        found: dict[int, LiveRun] = {}
        cursor = "0"
        while True:
            cursor, rows = await self.redis.read("scan_runs", cursor=cursor)
            found.update((row[0], LiveRun(*row)) for row in rows)
            if cursor == "0":
                return list(found.values())

    async def read_schedules(self, rows: Sequence[Sequence[Any]]) -> list[ScheduleState]:
        """The states of schedules, except of jobs whose definitions cannot be read."""
        records = await self.redis.load(row[0] for row in rows)
        pairs = zip(rows, records, strict=True)
        return [read_schedule(row, record) for row, record in pairs if isinstance(record, JobRecord)]


def _filter_fields(wanted: RunFilter) -> dict[str, Any]:
    return {
        "namespaces": wanted.namespaces, "owner": wanted.owner, "job": wanted.job, "job_id": wanted.job_id,
        "queue": wanted.queue, "label": wanted.label, "node": wanted.node,
    }  # fmt: skip


def _counted(queue: Queue, runs: Sequence[LiveRun], now: Micros) -> Queue:
    mine = [run for run in runs if run.queue == queue.name]
    waiting = [run for run in mine if run.state != RunState.RUNNING]
    due = [run.due_at for run in waiting if run.due_at <= now]
    return replace(
        queue,
        waiting=len(waiting), due=len(due), running=len(mine) - len(waiting), oldest_due=min(due, default=None),
    )  # fmt: skip
