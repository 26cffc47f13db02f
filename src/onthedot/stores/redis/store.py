"""The store in Redis. Each move is one script; a long move is one script for each of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from onthedot.clock import Micros
from onthedot.model.errors import KeyConflict, OnTheDotError, RevisionConflict, UnknownJob
from onthedot.model.job import Job, JobRecord
from onthedot.model.retention import Cut, Mark, Pruned, PrunedNodes
from onthedot.model.route import RANK_AT_ONCE
from onthedot.model.run import (
    ArmAnswer,
    Armed,
    Blocked,
    Busy,
    Checkpoint,
    Delayed,
    GateAsk,
    Gone,
    Lease,
    NewRun,
    RunRecord,
    RunState,
    Skipped,
)
from onthedot.model.verdict import Finish, Verdict
from onthedot.model.window import ExceptReason, ScheduleState, SkipRange, SlotException, Window
from onthedot.rules.moved_slots import check_ahead, check_same, check_waits
from onthedot.rules.shards import bucket_of, check_shards
from onthedot.schedules import is_grid, schedule_id
from onthedot.stores.documents import Noting, check_noting
from onthedot.stores.redis.connections import read_url
from onthedot.stores.redis.documents import RedisDocuments
from onthedot.stores.redis.errors import Refusal
from onthedot.stores.redis.queries import RedisQueries
from onthedot.stores.redis.rows import (
    check_move,
    entry_fields,
    gates_fields,
    job_fields,
    lease_fields,
    node_fields,
    note_fields,
    read_lease,
    read_queue,
    read_run,
    read_term,
    run_fields,
    term_fields,
    verdict_fields,
    window_fields,
    without_none,
)
from onthedot.stores.redis.server import STEP, Listener, RedisServer
from onthedot.stores.values import (
    ONE_WRITE,
    About,
    Beat,
    CancelAnswer,
    Due,
    Layout,
    MovedSlot,
    Node,
    Note,
    Paused,
    Placement,
    PutJob,
    Queue,
    Replanned,
    Reserved,
    ReserveRequest,
    Resumed,
    Term,
)

MAX_BATCH = 200
"""The most verdicts of one script, the most runs that it reserves (or one for each seat, if a worker has more), and the
most that it reads and the worker cannot take. That takes some milliseconds of the server's time."""

MAX_SUBMIT = ONE_WRITE
"""The most runs that one script inserts. A run with a key takes twice as long as a verdict."""

MAX_PASSED_OVER = 5_000
"""The most runs that one reserve reads and the worker cannot take, in several scripts."""

_ANSWERS: dict[str, Callable[..., ArmAnswer]] = {
    "armed": Armed,
    "gone": Gone,
    "busy": Busy,
    "blocked": Blocked,
    "delayed": Delayed,
    "skipped": Skipped,
}


class RedisStore:
    """Everything under one prefix of a server. See `stores.protocol.Store`."""

    clock: None = None  # the server's clock counts: its time comes with each answer
    any_loop = True
    transactions: None = None  # Redis cannot roll back what a handler wrote

    def __init__(self, redis: RedisServer) -> None:
        self.redis = redis
        self.hints = redis.hints
        self.queries = RedisQueries(redis)
        self.documents = RedisDocuments(redis)
        self.most_finished = redis.address.history
        self._next_id = 1  # the id that we expect for the next new job
        self._shares: dict[int, str] = {}  # by job id: the argument by which its runs are shared, as we last knew it

    @property
    def listener(self) -> Listener | None:
        """Receives the hints of other processes."""
        return self.redis.listener

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Self:
        """Connect to the server, and check that it can keep acknowledged writes.

        With `read_only` nothing is written, and every write is refused. Raises `StoreUnusable` if the server is too
        old, evicts keys, or rejects the user; `StoreUnavailable` if it cannot be reached. The message says what to do.
        """
        store = cls(RedisServer(read_url(url), read_only=read_only))
        try:
            await store.redis.connect()
            if not read_only:
                await store.namespace_gates()
        except OnTheDotError:
            await store.close()
            raise
        return store

    async def namespace_gates(self) -> None:
        """Migrate a store of an earlier version. Every process that opens the store finishes the migration first."""
        if await self.redis.write("namespace_gates") == "0":
            return
        jobs = await self.queries.list_jobs()
        rates = {(one.job.namespace, one.job.rate.name) for one in jobs if one.job.rate is not None}
        names = sorted((namespace, name) for namespace, name in rates if name and namespace != "default")
        for what in ("rates", "runs"):
            cursor = await self._migrate_page(what, "0", names)
            while cursor != "0":
                cursor = await self._migrate_page(what, cursor, names)

    async def _migrate_page(self, what: str, cursor: str, names: list[tuple[str, str]]) -> str:
        answer = await self.redis.write("namespace_gates", what=what, cursor=cursor, rows=STEP, names=names)
        return str(answer)

    async def about(self) -> About:
        info = await self.redis.server_info()
        valkey = info.get("valkey_version")
        version = valkey or info.get("redis_version", "unknown")
        product = "Valkey" if valkey else "Redis"
        return About(product, version, str(self.redis.persistence), self.redis.address.connections)

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> PutJob:
        request = {
            "job": job_fields(job),
            "windows": [window_fields(window, job) for window in windows],
            "schedule_ids": [schedule_id(schedule) for schedule in job.schedules],
            "grids": {schedule_id(schedule): is_grid(schedule) for schedule in job.schedules},
        }
        while True:  # until a new job gets the id for which we computed the bucket
            bucket = bucket_of(self._next_id)
            answer = await self.redis.decide(
                "put_job", now=now, expected=expected, next_id=self._next_id, bucket=bucket, **request
            )
            if answer[0] != "again":
                break
            self._next_id = answer[1]
        change, row, planned, withdrawn, left = answer
        if left is not None:
            await self.redis.finish_sweep(left, now)
        if change == "created":
            self._next_id += 1
        return PutJob(await self.redis.record(row), change, planned, withdrawn)

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        count: int
        count, left = await self.redis.decide("delete_job", now=now, job_id=job_id, expected=expected)
        if left is not None:
            count, _ = await self.redis.finish_sweep(left, now)
        return count

    async def pause_job(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> Paused:
        row, withdrawn, *counts, left = await self.redis.decide(
            "pause_job", now=now, job_id=job_id, reason=reason, until_=until
        )
        if left is not None:
            counts = await self.redis.finish_sweep(left, now)
        return Paused(await self.redis.record(row), withdrawn, *counts)

    async def resume_job(
        self,
        job_id: int,
        windows: Sequence[Window] = (),
        *,
        expected: int | None = None,
        overdue: bool = False,
        dry_run: bool = False,
        now: Micros | None = None,
    ) -> Resumed:
        request = {"job_id": job_id, "overdue": overdue or None, "dry_run": dry_run or None}
        row, *answer = await self._resume(windows, expected, now, request)
        if not answer:
            return Resumed(await self.redis.record(row))
        slots, skips, released, left = answer
        if left is not None and dry_run:
            released += await self._count_held(job_id, left)
        elif left is not None:
            released, _ = await self.redis.finish_sweep(left, now)
        return Resumed(await self.redis.record(row), tuple(slots), tuple(SkipRange(*skip) for skip in skips), released)

    async def _resume(
        self, windows: Sequence[Window], expected: int | None, now: Micros | None, request: dict[str, Any]
    ) -> Any:
        """Resume at the revision that we read, because the share of a slot's run depends on the definition."""
        while True:
            record = await self.current_job(request["job_id"])
            revision = record.revision if expected is None else expected
            slots = [window_fields(window, record.job) for window in windows]
            try:
                return await self.redis.decide("resume_job", now=now, expected=revision, windows=slots, **request)
            except RevisionConflict:
                if expected is not None:
                    raise  # without `expected`, the job was edited after we read it: read it again

    async def _count_held(self, job_id: int, mark: Sequence[Any] | None) -> int:
        """How many held runs a job has after this mark."""
        count = 0
        while mark is not None:
            held, mark = await self.redis.read("count_held", job_id=job_id, mark=list(mark), rows=self.redis.rows)
            count += held
        return count

    async def move_slot(
        self,
        job_id: int,
        schedule_id: str,
        slot_at: Micros,
        *,
        reason: ExceptReason,
        run: NewRun | None = None,
        expected: int | None = None,
        now: Micros | None = None,
    ) -> MovedSlot:
        try:
            run_id = await self.write_with_shares(
                "move_slot",
                now=now,
                job_id=job_id,
                schedule_id=schedule_id,
                slot=slot_at,
                reason=reason,
                expected=expected,
                run=None if run is None else lambda: run_fields(run, self.share_by(run.job_id)),
            )
        except Refusal as refusal:
            _raise_slot_error(refusal, slot_at, reason)
            raise
        return MovedSlot(schedule_id, slot_at, reason, run_id)

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[CancelAnswer]:
        answer = await self.redis.write("cancel", now=now, run_ids=list(run_ids), why=why)
        return [CancelAnswer(kind, None if state is None else RunState(state)) for kind, state in answer]

    async def due_schedules(self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> Due:
        wanted = limit
        while True:
            rows, more = await self.redis.read("due_schedules", until_=until, limit=wanted, shard=shard, layout=layout)
            found = await self.queries.read_schedules(rows)
            if len(found) >= limit or not more:
                return Due(found[:limit], more=bool(more) or len(found) > limit)
            wanted += limit - len(found)  # some cannot be read

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        request = [
            window_fields(window, state.record.job) | {"job_id": state.record.id, "revision": state.record.revision}
            for state, window in windows
        ]
        answer = await self.redis.write("plan", now=now, term=term_fields(term), windows=request)
        return _flags(answer)

    async def replan(
        self, term: Term, rows: Sequence[Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        request = [without_none(**row._asdict()) for row in rows]
        answer = await self.redis.write("replan", now=now, term=term_fields(term), rows=request, done=done or None)
        return _flags(answer)

    async def assign(self, term: Term, placements: Sequence[Placement], *, now: Micros | None = None) -> list[bool]:
        request = [placement._asdict() for placement in placements]
        answer = await self.redis.write("assign", now=now, term=term_fields(term), placements=request)
        return _flags(answer)

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        _check_batch(runs)
        check_noting(noting, runs)
        if len(runs) > MAX_SUBMIT:  # several scripts: check all runs before the first write
            await self._submit(_runs_to_check(runs), None, now, only_check=1)
        return await self._submit(runs, noting, now)

    async def _submit(
        self, runs: Sequence[NewRun], noting: Noting | None, now: Micros | None, **only: int
    ) -> list[int]:
        ids: list[int] = []
        for first in range(0, len(runs), MAX_SUBMIT):
            some = runs[first : first + MAX_SUBMIT]
            noted = None if noting is None else _noting_fields(noting, slice(first, first + MAX_SUBMIT))

            def fields(some: Sequence[NewRun] = some) -> list[dict[str, Any]]:
                return [run_fields(run, self.share_by(run.job_id)) for run in some]

            ids += await self.write_with_shares("submit", now=now, runs=fields, noting=noted, **only) or []
        return ids

    async def reserve(self, ask: ReserveRequest, *, now: Micros | None = None) -> Reserved:
        extra = min(ask.extra, max(0, MAX_BATCH - ask.seats))  # if more are due, the worker asks again at once
        request = without_none(
            incarnation=ask.incarnation,
            lease_call=ask.lease_ids.call,
            lease_count=min(len(ask.lease_ids), ask.seats + extra + ask.ahead),
            seats=ask.seats,
            ahead=ask.ahead,
            extra=extra,
            quick=list(ask.quick),
            horizon=ask.horizon,
            lapse=ask.lapse,
            queues=list(ask.queues),
            labels=list(ask.labels),
            tasks=list(ask.tasks),
            number=ask.number,
            turns=MAX_BATCH,
            looks=MAX_BATCH,
        )
        steps = RANK_AT_ONCE // MAX_BATCH
        read_at, answer = await self.redis.write_with_time("reserve", now=now, turns_first=1, **request)
        while answer == "again":  # the turns of a shared queue come first, one script for each `MAX_BATCH`
            steps -= 1
            read_at, answer = await self.redis.write_with_time(
                "reserve", now=now, turns_first=1 if steps > 1 else None, **request
            )
        armed, held = await self._leases_for_worker(answer[0], now), await self._leases_for_worker(answer[1], now)
        scripts = MAX_PASSED_OVER // MAX_BATCH
        while (position := answer[-1]) and (scripts := scripts - 1):  # read on, after runs that this worker cannot take
            read_at, answer = await self.redis.write_with_time("reserve", now=now, go_on=position, **request)
            armed += await self._leases_for_worker(answer[0], now)
            held += await self._leases_for_worker(answer[1], now)
        return Reserved(read_at, armed, held, answer[2])

    async def recover(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        return await self._leases_for_worker(
            await self.redis.write("recover", incarnation=incarnation, void_below=void_below), None
        )

    async def read_leases(self, answer: Sequence[Any]) -> list[Lease]:
        """Leases from a script's answer. A lease is left out if this version cannot read its job."""
        rows, jobs = answer
        if not rows:
            return []
        records = {(record.id, record.revision): record for record in await self.redis.records(jobs)}
        return [lease for row in rows if (lease := read_lease(row, records)) is not None]

    async def _leases_for_worker(self, answer: Sequence[Any], now: Micros | None) -> list[Lease]:
        """The leases that a worker gets. Runs whose jobs cannot be read become dead letters; the others can start."""
        leases = await self.read_leases(answer)
        if len(leases) < len(answer[0]):
            known = {lease.lease_id for lease in leases}
            unreadable = [{"run_id": run_id, "lease": lease} for lease, run_id, *_ in answer[0] if lease not in known]
            await self.redis.write("discard", now=now, leases=unreadable)
        return leases

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        wanted_gates = gates or {}
        request = [
            without_none(
                run_id=lease.run_id,
                lease=lease.lease_id,
                revision=lease.record.revision,
                gates=gates_fields(wanted_gates[lease.lease_id]) if lease.lease_id in wanted_gates else None,
            )
            for lease in leases
        ]
        incarnations = sorted({lease.incarnation for lease in leases})
        answer = await self.redis.write("arm", now=now, leases=request, incarnations=incarnations)
        return [_ANSWERS[kind](*values) for kind, *values in answer]

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        return _flags(await self.redis.write("release", now=now, leases=[lease_fields(lease) for lease in leases]))

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        for finish in finishes:
            check_move(finish.verdict)
        answers: list[bool] = []
        for first in range(0, len(finishes), MAX_BATCH):  # rows are independent, so the batch can be split
            some = finishes[first : first + MAX_BATCH]
            answers += _flags(await self._finish(some, now))
        return answers

    async def _finish(self, finishes: Sequence[Finish], now: Micros | None) -> list[int]:
        request = [verdict_fields(*_verdict_parts(finish)) for finish in finishes]
        answers: list[int] = await self.redis.write("finish", now=now, finishes=request, most=self.most_finished)
        return answers

    def share_by(self, job_id: int) -> str:
        """The argument by which a job's runs are shared, as we last knew it."""
        return self._shares.get(job_id, "")

    async def write_with_shares(self, name: str, /, *, now: Micros | None, **fields: Any) -> Any:
        """Run a script with shares that we computed. If a job is shared by another argument than we knew, the script
        refuses before it writes, and runs again. Fields that are functions are then computed again."""
        while True:
            request = {field: value() if callable(value) else value for field, value in fields.items()}
            try:
                return await self.redis.write(name, now=now, **request)
            except Refusal as refusal:
                if refusal.kind != "Share":
                    raise
                job_id, by = refusal.details
                self._shares[int(str(job_id))] = str(by)

    async def current_job(self, job_id: int) -> JobRecord:
        """The current revision of a job. Raises `UnknownJob` if there is none."""
        row = await self.redis.read("job_by_id", job_id=job_id)
        if row is None:
            raise UnknownJob(f"job {job_id} does not exist, or not any more")
        return await self.redis.record(row)

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        request = [lease_fields(lease) | {"revision": saved.revision, "value": saved.value} for lease, saved in saves]
        return _flags(await self.redis.write("checkpoint", now=now, saves=request))

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        return _flags(await self.redis.write("note", now=now, notes=[note_fields(note) for note in notes]))

    async def register(self, node: Node, *, ttl: Micros, now: Micros | None = None) -> Beat:
        return await self._beat(node.incarnation, ttl, now, node=node_fields(node))

    async def beat(self, incarnation: str, *, ttl: Micros, draining: bool = False, now: Micros | None = None) -> Beat:
        return await self._beat(incarnation, ttl, now, **({"draining": True} if draining else {}))

    async def _beat(self, incarnation: str, ttl: Micros, now: Micros | None, **fields: Any) -> Beat:
        read_at, answer = await self.redis.write_with_time("beat", now=now, incarnation=incarnation, ttl=ttl, **fields)
        lease_until, stops, draining = answer
        return Beat(read_at, lease_until, tuple((lease, why) for lease, why in stops), bool(draining))

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        await self.redis.write("leave", now=now, incarnation=incarnation)

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        count: int = await self.redis.write("drain", now=now, node_id=node_id, draining=draining or None)
        return count

    async def probe(self, *, now: Micros | None = None) -> None:
        await self.redis.write("probe", now=now)

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
        row = await self.redis.write(
            "campaign", now=now, incarnation=incarnation, ttl=ttl, shard=shard, layout=layout, patience=patience
        )
        return read_term(row)

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        return read_term(await self.redis.write("renew", now=now, term=term_fields(term), ttl=ttl))

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        return bool(await self.redis.write("resign", now=now, term=term_fields(term)))

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        found: dict[str, Lease] = {}  # a set that grows during the scan may return a run twice
        position: tuple[int, str] | None = (0, "0")
        while position is not None and len(found) < limit:
            after, cursor = position
            answer, position = await self.redis.read("orphans", now=now, after=after, cursor=cursor, rows=STEP)
            found.update((lease.lease_id, lease) for lease in await self.read_leases(answer))
        return list(found.values())[:limit]

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        for _, verdict in verdicts:
            check_move(verdict)
        answers: list[bool] = []
        for first in range(0, len(verdicts), STEP):  # rows are independent, so the batch can be split
            some = [verdict_fields(lease, verdict) for lease, verdict in verdicts[first : first + STEP]]
            answers += _flags(await self.redis.write("reap", now=now, verdicts=some))
        return answers

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        await self.redis.finish_stalled_sweeps(now)
        await self.trim_history(now=now)
        freed: int = 0
        cursor = "0"
        while True:
            some, cursor = await self.redis.write("recount_gates", now=now, cursor=cursor, rows=STEP)
            freed += int(some)
            if cursor == "0":
                return freed

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        return [read_run(row) for row in await self.redis.write("expire", now=now, limit=limit)]

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        request = [{"run_id": run_id, "word": word} for run_id, word in settled]
        return _flags(await self.redis.write("settle_dead", settled=request))

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        runs, passed, more = await self.redis.write(
            "prune_runs",
            now=now,
            states=sorted(cut.states),
            until_=list(cut.until),
            after=None if after is None else list(after),
            job_id=cut.job_id,
            limit=min(limit, STEP),
        )
        return Pruned(runs, None if passed is None else Mark(*passed), more=bool(more))

    async def trim_history(self, *, now: Micros | None = None) -> int:
        """Delete the oldest finished runs if there are more than are kept. Returns how many."""
        count = 0
        while True:
            gone: int = await self.redis.write("trim_history", now=now, most=self.most_finished, rows=STEP)
            count += gone
            if gone < STEP:
                return count

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        count = 0
        while count < limit:
            some = min(STEP, limit - count)
            gone = await self.redis.write("prune_skips", until_=until, limit=some)
            count += gone
            if gone < some:
                break
        return count

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        nodes = await self.redis.write("prune_nodes", until_=until, limit=limit)
        return PrunedNodes(nodes, 0)  # Redis keeps no past terms

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> Queue:
        return await self._decide_queue("pause_queue", now, name=name, reason=reason)

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> Queue:
        return await self._decide_queue("resume_queue", now, name=name)

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None) -> Queue:
        plain = None if weights is None else dict(weights)
        return await self._decide_queue("share_queue", now, name=name, weights=plain)

    async def _decide_queue(self, script: str, now: Micros | None, /, **fields: Any) -> Queue:
        row, left = await self.redis.decide(script, now=now, **fields)
        if left is not None:
            await self.redis.finish_sweep(left, now)
        return read_queue(row)

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> Layout:
        check_shards(shards)
        return Layout(*await self.redis.write("set_shards", now=now, shards=shards, expected=expected))

    async def tell_time(self) -> Micros:
        return await self.redis.tell_time()

    async def close(self) -> None:
        await self.redis.close()


def _raise_slot_error(refusal: Refusal, slot_at: Micros, reason: str) -> None:
    """Raise the error that other stores raise in this case."""
    found = [None if value is False else value for value in refusal.details]
    match refusal.kind, found:
        case "Same", [given, run_id]:
            known = SlotException(slot_at, str(given), run_id=None if run_id is None else int(str(run_id)))
            check_same(known, reason, _OTHER_RUN)
        case "Waits", [run_id, state, attempts]:
            check_waits(slot_at, int(str(run_id)), RunState(str(state)), int(str(attempts)))
        case "Ahead", [watermark, now]:
            check_ahead(slot_at, int(str(watermark)), int(str(now)))


_OTHER_RUN = -1  # no run has this id, so it differs from the run that the exception has


def _verdict_parts(finish: Finish) -> tuple[Any, ...]:
    return finish.lease, finish.verdict, finish.started_at, finish.ended_at


def _flags(answer: Iterable[int]) -> list[bool]:
    """A script's answers, row by row: whether each was accepted."""
    return [bool(accepted) for accepted in answer]


def _runs_to_check(runs: Sequence[NewRun]) -> list[NewRun]:
    """The runs by which a script knows whether it refuses any: one of each job, and all with a key."""
    first = {run.job_id: run for run in reversed(runs)}
    return [run for run in runs if run.key or first[run.job_id] is run]


def _check_batch(runs: Sequence[NewRun]) -> None:
    """Raises `KeyConflict` if two runs of one call have the same key and different arguments."""
    seen: dict[tuple[int, str], str | None] = {}
    for run in runs:
        if run.key and seen.setdefault((run.job_id, run.key), run.args) != run.args:
            raise KeyConflict(f"key {run.key!r}: given twice in one call, with different arguments")


def _noting_fields(noting: Noting, part: slice) -> dict[str, Any]:
    """The entries for a part of the runs. Entries without a mark are about all runs: they are appended with the first
    part, so that no run is stored without them."""
    if not noting.mark:
        part = slice(None) if part.start == 0 else slice(0, 0)
    fields = {"kind": noting.kind, "entries": entry_fields(noting.bodies[part], noting.keys[part])}
    return fields | ({"mark": noting.mark} if noting.mark else {})
