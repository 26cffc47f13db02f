"""The store in Redis: every move is one script, or one script for each step of a long move."""

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
    entries_asked,
    gates_asked,
    job_asked,
    lease_asked,
    node_asked,
    note_asked,
    read_lease,
    read_queue,
    read_run,
    read_term,
    run_asked,
    term_asked,
    told,
    verdict_asked,
    window_asked,
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

TOGETHER = 200
"""How many verdicts one script takes at the most, up to how many runs beyond a worker's seats it gives out, and how
many it looks at that a worker cannot take: some milliseconds of everybody's time."""

AT_ONCE = ONE_WRITE
"""How many runs one script inserts at the most: with a key each, it takes twice as long as for a verdict."""

MOST_LOOKED_AT = 5_000
"""Of what a worker cannot take, by one reserve: in so many scripts as that takes."""

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

    clock: None = None  # not this machine's: the server tells the time with its answers
    transactions: None = None  # a handler's effects in this server cannot be undone

    def __init__(self, redis: RedisServer) -> None:
        self.redis = redis
        self.hints = redis.hints
        self.queries = RedisQueries(redis)
        self.documents = RedisDocuments(redis)
        self.most_finished = redis.address.history
        self._next_id = 1  # what the next job would get, as far as we know
        self._shares: dict[int, str] = {}  # job → the argument that its runs are shared by, as far as we know

    @property
    def listener(self) -> Listener | None:
        """What hears the hints of other processes."""
        return self.redis.listener

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Self:
        """Connect to the server, and see that it is fit to keep what is acknowledged.

        With `read_only` nothing is written, and only what people ask for is answered. `StoreUnusable` for a server that
        is too old, forgets keys to make room, or does not let the user in; `StoreUnavailable` for one that cannot be
        reached; either says what to do.
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
        """Bring a store of an earlier version up to date. Nobody who comes by here goes on before it is done."""
        if await self.redis.ask("namespace_gates") == "0":
            return
        jobs = await self.queries.list_jobs()
        rates = {(one.job.namespace, one.job.rate.name) for one in jobs if one.job.rate is not None}
        names = sorted((namespace, name) for namespace, name in rates if name and namespace != "default")
        for what in ("rates", "runs"):
            cursor = await self._page_of_gates(what, "0", names)
            while cursor != "0":
                cursor = await self._page_of_gates(what, cursor, names)

    async def _page_of_gates(self, what: str, cursor: str, names: list[tuple[str, str]]) -> str:
        said = await self.redis.ask("namespace_gates", what=what, cursor=cursor, rows=STEP, names=names)
        return str(said)

    async def about(self) -> About:
        info = await self.redis.server_info()
        valkey = info.get("valkey_version")
        version = valkey or info.get("redis_version", "unknown")
        product = "Valkey" if valkey else "Redis"
        return About(product, version, str(self.redis.persistence), self.redis.address.connections)

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> PutJob:
        question = {
            "job": job_asked(job),
            "windows": [window_asked(window, job) for window in windows],
            "schedule_ids": [schedule_id(schedule) for schedule in job.schedules],
            "grids": {schedule_id(schedule): is_grid(schedule) for schedule in job.schedules},
        }
        while True:  # until the id that a new job gets is the one that its bucket was computed for
            bucket = bucket_of(self._next_id)
            said = await self.redis.decide(
                "put_job", now=now, expected=expected, next_id=self._next_id, bucket=bucket, **question
            )
            if said[0] != "again":
                break
            self._next_id = said[1]
        change, row, planned, withdrawn, left = said
        if left is not None:
            await self.redis.sweep(left, now)
        if change == "created":
            self._next_id += 1
        return PutJob(await self.redis.record(row), change, planned, withdrawn)

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        count: int
        count, left = await self.redis.decide("delete_job", now=now, job_id=job_id, expected=expected)
        if left is not None:
            count, _ = await self.redis.sweep(left, now)
        return count

    async def pause_job(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> Paused:
        row, withdrawn, *counts, left = await self.redis.decide(
            "pause_job", now=now, job_id=job_id, reason=reason, until_=until
        )
        if left is not None:
            counts = await self.redis.sweep(left, now)
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
        asked = {"job_id": job_id, "overdue": overdue or None, "dry_run": dry_run or None}
        row, *said = await self._resume(windows, expected, now, asked)
        if not said:
            return Resumed(await self.redis.record(row))
        slots, skips, released, left = said
        if left is not None and dry_run:
            released += await self._count_held(job_id, left)
        elif left is not None:
            released, _ = await self.redis.sweep(left, now)
        return Resumed(await self.redis.record(row), tuple(slots), tuple(SkipRange(*skip) for skip in skips), released)

    async def _resume(
        self, windows: Sequence[Window], expected: int | None, now: Micros | None, asked: dict[str, Any]
    ) -> Any:
        """Whose share a slot's run is taken from follows from the definition: that must be the one we have seen."""
        while True:
            record = await self.current(asked["job_id"])
            seen = record.revision if expected is None else expected
            slots = [window_asked(window, record.job) for window in windows]
            try:
                return await self.redis.decide("resume_job", now=now, expected=seen, windows=slots, **asked)
            except RevisionConflict:
                if expected is not None:
                    raise  # else somebody edited the job while we looked at it

    async def _count_held(self, job_id: int, mark: Sequence[Any] | None) -> int:
        """How many runs of a job are held behind this mark."""
        count = 0
        while mark is not None:
            held, mark = await self.redis.look("count_held", job_id=job_id, mark=list(mark), rows=self.redis.rows)
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
            run_id = await self.sharing(
                "move_slot",
                now=now,
                job_id=job_id,
                schedule_id=schedule_id,
                slot=slot_at,
                reason=reason,
                expected=expected,
                run=None if run is None else lambda: run_asked(run, self.share_by(run.job_id)),
            )
        except Refusal as refusal:
            _explain(refusal, slot_at, reason)
            raise
        return MovedSlot(schedule_id, slot_at, reason, run_id)

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[CancelAnswer]:
        said = await self.redis.ask("cancel", now=now, run_ids=list(run_ids), why=why)
        return [CancelAnswer(kind, None if state is None else RunState(state)) for kind, state in said]

    async def due_schedules(self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> Due:
        asked = limit
        while True:
            rows, more = await self.redis.look("due_schedules", until_=until, limit=asked, shard=shard, layout=layout)
            found = await self.queries.read_schedules(rows)
            if len(found) >= limit or not more:
                return Due(found[:limit], more=bool(more) or len(found) > limit)
            asked += limit - len(found)  # some cannot be read

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        asked = [
            window_asked(window, seen.record.job) | {"job_id": seen.record.id, "revision": seen.record.revision}
            for seen, window in windows
        ]
        said = await self.redis.ask("plan", now=now, term=term_asked(term), windows=asked)
        return _flags(said)

    async def replan(
        self, term: Term, rows: Sequence[Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        asked = [told(**row._asdict()) for row in rows]
        said = await self.redis.ask("replan", now=now, term=term_asked(term), rows=asked, done=done or None)
        return _flags(said)

    async def assign(self, term: Term, placements: Sequence[Placement], *, now: Micros | None = None) -> list[bool]:
        asked = [placement._asdict() for placement in placements]
        said = await self.redis.ask("assign", now=now, term=term_asked(term), placements=asked)
        return _flags(said)

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        _check_batch(runs)
        check_noting(noting, runs)
        if len(runs) > AT_ONCE:  # taken apart: whatever is to be refused is, before the first are written
            await self._submit(_to_check(runs), None, now, only_check=1)
        return await self._submit(runs, noting, now)

    async def _submit(
        self, runs: Sequence[NewRun], noting: Noting | None, now: Micros | None, **only: int
    ) -> list[int]:
        ids: list[int] = []
        for first in range(0, len(runs), AT_ONCE):
            some = runs[first : first + AT_ONCE]
            noted = None if noting is None else _noted(noting, slice(first, first + AT_ONCE))

            def asked(some: Sequence[NewRun] = some) -> list[dict[str, Any]]:
                return [run_asked(run, self.share_by(run.job_id)) for run in some]

            ids += await self.sharing("submit", now=now, runs=asked, noting=noted, **only) or []
        return ids

    async def reserve(self, ask: ReserveRequest, *, now: Micros | None = None) -> Reserved:
        extra = min(ask.extra, max(0, TOGETHER - ask.seats))  # what is left is told: it may ask again at once
        question = told(
            incarnation=ask.incarnation,
            lease_ids=list(ask.lease_ids[: ask.seats + extra + ask.ahead]),
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
            turns=TOGETHER,
            looks=TOGETHER,
        )
        steps = RANK_AT_ONCE // TOGETHER
        read_at, said = await self.redis.ask_at("reserve", now=now, turns_first=1, **question)
        while said == "again":  # turns first, a script for so many of them
            steps -= 1
            read_at, said = await self.redis.ask_at(
                "reserve", now=now, turns_first=1 if steps > 1 else None, **question
            )
        armed, held = await self._given(said[0], now), await self._given(said[1], now)
        looks = MOST_LOOKED_AT // TOGETHER
        while (far := said[-1]) and (looks := looks - 1):  # on, past what this worker cannot take
            read_at, said = await self.redis.ask_at("reserve", now=now, go_on=far, **question)
            armed += await self._given(said[0], now)
            held += await self._given(said[1], now)
        return Reserved(read_at, armed, held, said[2])

    async def recover(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        return await self._given(await self.redis.ask("recover", incarnation=incarnation, void_below=void_below), None)

    async def leases(self, said: Sequence[Any]) -> list[Lease]:
        """Leases and their jobs, as scripts answer them. Leases whose jobs this version cannot read are left out."""
        rows, jobs = said
        if not rows:
            return []
        records = {(record.id, record.revision): record for record in await self.redis.records(jobs)}
        return [lease for row in rows if (lease := read_lease(row, records)) is not None]

    async def _given(self, said: Sequence[Any], now: Micros | None) -> list[Lease]:
        """The leases that a worker gets. Runs whose jobs cannot be read become dead letters: the others can start."""
        leases = await self.leases(said)
        if len(leases) < len(said[0]):
            known = {lease.lease_id for lease in leases}
            lost = [{"run_id": run_id, "lease": lease} for lease, run_id, *_ in said[0] if lease not in known]
            await self.redis.ask("discard", now=now, leases=lost)
        return leases

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        asked_gates = gates or {}
        asked = [
            told(
                run_id=lease.run_id,
                lease=lease.lease_id,
                revision=lease.record.revision,
                gates=gates_asked(asked_gates[lease.lease_id]) if lease.lease_id in asked_gates else None,
            )
            for lease in leases
        ]
        incarnations = sorted({lease.incarnation for lease in leases})
        said = await self.redis.ask("arm", now=now, leases=asked, incarnations=incarnations)
        return [_ANSWERS[kind](*values) for kind, *values in said]

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        return _flags(await self.redis.ask("release", now=now, leases=[lease_asked(lease) for lease in leases]))

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        for finish in finishes:
            check_move(finish.verdict)
        said: list[bool] = []
        for first in range(0, len(finishes), TOGETHER):  # row by row: a batch may be taken apart
            some = finishes[first : first + TOGETHER]
            said += _flags(await self._finish(some, now))
        return said

    async def _finish(self, finishes: Sequence[Finish], now: Micros | None) -> list[int]:
        asked = [verdict_asked(*_parts(finish)) for finish in finishes]
        said: list[int] = await self.redis.ask("finish", now=now, finishes=asked, most=self.most_finished)
        return said

    def share_by(self, job_id: int) -> str:
        """The argument that a job's runs are shared by, as far as we know."""
        return self._shares.get(job_id, "")

    async def sharing(self, name: str, /, *, now: Micros | None, **fields: Any) -> Any:
        """Ask with what is known of shares; a script that knows better says so, before it writes. Fields that are
        functions are computed anew."""
        while True:
            asked = {field: value() if callable(value) else value for field, value in fields.items()}
            try:
                return await self.redis.ask(name, now=now, **asked)
            except Refusal as refusal:
                if refusal.kind != "Share":
                    raise
                job_id, by = refusal.said
                self._shares[int(str(job_id))] = str(by)

    async def current(self, job_id: int) -> JobRecord:
        """A job by its id, as it is now; `UnknownJob` if there is none."""
        row = await self.redis.look("job_by_id", job_id=job_id)
        if row is None:
            raise UnknownJob(f"job {job_id} does not exist, or not any more")
        return await self.redis.record(row)

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        asked = [lease_asked(lease) | {"revision": saved.revision, "value": saved.value} for lease, saved in saves]
        return _flags(await self.redis.ask("checkpoint", now=now, saves=asked))

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        return _flags(await self.redis.ask("note", now=now, notes=[note_asked(note) for note in notes]))

    async def register(self, node: Node, *, ttl: Micros, now: Micros | None = None) -> Beat:
        return await self._beat(node.incarnation, ttl, now, node=node_asked(node))

    async def beat(self, incarnation: str, *, ttl: Micros, now: Micros | None = None) -> Beat:
        return await self._beat(incarnation, ttl, now)

    async def _beat(self, incarnation: str, ttl: Micros, now: Micros | None, **fields: Any) -> Beat:
        read_at, said = await self.redis.ask_at("beat", now=now, incarnation=incarnation, ttl=ttl, **fields)
        lease_until, stops, draining = said
        return Beat(read_at, lease_until, tuple((lease, why) for lease, why in stops), bool(draining))

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        await self.redis.ask("leave", now=now, incarnation=incarnation)

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        count: int = await self.redis.ask("drain", now=now, node_id=node_id, draining=draining or None)
        return count

    async def probe(self, *, now: Micros | None = None) -> None:
        await self.redis.ask("probe", now=now)

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
        row = await self.redis.ask(
            "campaign", now=now, incarnation=incarnation, ttl=ttl, shard=shard, layout=layout, patience=patience
        )
        return read_term(row)

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        return read_term(await self.redis.ask("renew", now=now, term=term_asked(term), ttl=ttl))

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        return bool(await self.redis.ask("resign", now=now, term=term_asked(term)))

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        found: dict[str, Lease] = {}  # a set that grows while it is read may show a run twice
        far: tuple[int, str] | None = (0, "0")
        while far is not None and len(found) < limit:
            after, cursor = far
            said, far = await self.redis.look("orphans", now=now, after=after, cursor=cursor, rows=STEP)
            found.update((lease.lease_id, lease) for lease in await self.leases(said))
        return list(found.values())[:limit]

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        for _, verdict in verdicts:
            check_move(verdict)
        said: list[bool] = []
        for first in range(0, len(verdicts), STEP):  # row by row: a batch may be taken apart
            some = [verdict_asked(lease, verdict) for lease, verdict in verdicts[first : first + STEP]]
            said += _flags(await self.redis.ask("reap", now=now, verdicts=some))
        return said

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        await self.redis.sweep_after_others(now)
        await self.trim_history(now=now)
        freed: int = 0
        cursor = "0"
        while True:
            some, cursor = await self.redis.ask("recount_gates", now=now, cursor=cursor, rows=STEP)
            freed += int(some)
            if cursor == "0":
                return freed

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        return [read_run(row) for row in await self.redis.ask("expire", now=now, limit=limit)]

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        asked = [{"run_id": run_id, "word": word} for run_id, word in settled]
        return _flags(await self.redis.ask("settle_dead", settled=asked))

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        runs, passed, more = await self.redis.ask(
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
        """Forget the oldest finished runs beyond as many as are kept; how many went."""
        count = 0
        while True:
            gone: int = await self.redis.ask("trim_history", now=now, most=self.most_finished, rows=STEP)
            count += gone
            if gone < STEP:
                return count

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        count = 0
        while count < limit:
            some = min(STEP, limit - count)
            gone = await self.redis.ask("prune_skips", until_=until, limit=some)
            count += gone
            if gone < some:
                break
        return count

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        return PrunedNodes(await self.redis.ask("prune_nodes", until_=until, limit=limit), 0)  # past terms are not kept

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> Queue:
        return await self._decide_queue("pause_queue", now, name=name, reason=reason)

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> Queue:
        return await self._decide_queue("resume_queue", now, name=name)

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None) -> Queue:
        asked = None if weights is None else dict(weights)
        return await self._decide_queue("share_queue", now, name=name, weights=asked)

    async def _decide_queue(self, script: str, now: Micros | None, /, **fields: Any) -> Queue:
        row, left = await self.redis.decide(script, now=now, **fields)
        if left is not None:
            await self.redis.sweep(left, now)
        return read_queue(row)

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> Layout:
        check_shards(shards)
        return Layout(*await self.redis.ask("set_shards", now=now, shards=shards, expected=expected))

    async def tell_time(self) -> Micros:
        return await self.redis.tell_time()

    async def close(self) -> None:
        await self.redis.close()


def _explain(refusal: Refusal, slot_at: Micros, reason: str) -> None:
    """Raise what the script has found, in the words of all stores."""
    found = [None if value is False else value for value in refusal.said]
    match refusal.kind, found:
        case "Same", [given, run_id]:
            known = SlotException(slot_at, str(given), run_id=None if run_id is None else int(str(run_id)))
            check_same(known, reason, _ANOTHER)
        case "Waits", [run_id, state, attempts]:
            check_waits(slot_at, int(str(run_id)), RunState(str(state)), int(str(attempts)))
        case "Ahead", [watermark, now]:
            check_ahead(slot_at, int(str(watermark)), int(str(now)))


_ANOTHER = -1  # no run has this id: what was asked for is not what is there


def _parts(finish: Finish) -> tuple[Any, ...]:
    return finish.lease, finish.verdict, finish.started_at, finish.ended_at


def _flags(said: Iterable[int]) -> list[bool]:
    """A script's answers, row by row: whether each was accepted."""
    return [bool(accepted) for accepted in said]


def _to_check(runs: Sequence[NewRun]) -> list[NewRun]:
    """Of these, those that tell whether any would be refused: one of each job, and all that have a key."""
    first = {run.job_id: run for run in reversed(runs)}
    return [run for run in runs if run.key or first[run.job_id] is run]


def _check_batch(runs: Sequence[NewRun]) -> None:
    """Two runs of one call with the same key must ask for the same thing."""
    seen: dict[tuple[int, str], str | None] = {}
    for run in runs:
        if run.key and seen.setdefault((run.job_id, run.key), run.args) != run.args:
            raise KeyConflict(f"key {run.key!r}: given twice in one call, with different arguments")


def _noted(noting: Noting, part: slice) -> dict[str, Any]:
    """What is said of some of the runs, as a script is asked to append it. What is said of all of them together goes
    with the first: then no run is there without it."""
    if not noting.mark:
        part = slice(None) if part.start == 0 else slice(0, 0)
    told = {"kind": noting.kind, "entries": entries_asked(noting.bodies[part], noting.keys[part])}
    return told | ({"mark": noting.mark} if noting.mark else {})
