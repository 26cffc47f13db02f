"""The verbs on an open store: what `Scheduler` and the front doors without an engine share."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onthedot.access.audit_recorder import Counted, Recorder
from onthedot.clock import SECOND, Clock, Micros, to_micros
from onthedot.define.arguments import encode_arguments
from onthedot.define.job_function import BoundCall, JobFunction
from onthedot.ids import Ids
from onthedot.model.duration import Duration, micros, parse_duration
from onthedot.model.errors import DefinitionError, RunFailed, UnknownRun
from onthedot.model.events import Events
from onthedot.model.job import Job, JobRecord, Json
from onthedot.model.policies import Rate
from onthedot.model.run import (
    AttemptRecord,
    NewRun,
    RunRecord,
    RunState,
    SkipRecord,
    manual_trigger,
    stored_number,
    submit_trigger,
)
from onthedot.operations.move_slot import To, except_next
from onthedot.operations.put_job import resume_job
from onthedot.operations.run_handle import Run, run_number
from onthedot.operations.submit import check_arguments, find_job, insert_runs
from onthedot.operations.verbs import OUTSIDE, Asked, Verbs, given_connection
from onthedot.rules.windows import Missed
from onthedot.schedules.instants import read_instant
from onthedot.settings import Settings
from onthedot.stores.documents import Noting
from onthedot.stores.protocol import Store
from onthedot.stores.queries import RunFilter, all_runs
from onthedot.stores.transactions import Joins, run_now
from onthedot.stores.values import CancelAnswer, Layout, MovedSlot, Node, Paused, Queue, Resumed, Term

if TYPE_CHECKING:
    from onthedot.operations.apply import Applied
    from onthedot.operations.backfill import Backfill
    from onthedot.operations.dead_letters import DeadLetters, Replayed

T = TypeVar("T")


class Wanted(NamedTuple):
    """One run that is asked for: of which job, with which arguments (None: the job's own), under which key."""

    job: str
    args: str | None
    trigger: str
    key: str = ""


class StoreVerbs(Verbs):
    """See `Verbs`. What is said there holds; here is how it is done with a store. How one comes to the store, and what
    is known beside it, whoever inherits from this says. `put`, `logs` and the waiting of `result` are left to it, too.
    """

    jobs: Mapping[str, Job]
    """What this program has defined itself, by name."""
    settings: Settings
    _ids: Ids
    _events: Events

    # ── the way to the store ─────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def _on_store(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Do this with the store, where that is used."""

    @abstractmethod
    def _store_clock(self) -> Clock:
        """The store's clock, as it is known here."""

    @abstractmethod
    def _recorder(self) -> Recorder | None:
        """Records changes in the audit; None: whoever calls this does."""

    async def _changed(self, verb: str, what: Job | RunRecord | str, *, after: Any = None, namespace: str = "") -> None:
        recorder = self._recorder()
        if recorder is not None:
            await recorder.changed(verb, what, after=after, namespace=namespace)

    @abstractmethod
    def _namespace_of(self, job: str) -> str:
        """Where a name is looked up."""

    @abstractmethod
    async def _wait_for(self, run_id: int, seconds: float | None) -> RunRecord | None:
        """Wait until a run has ended, and what it is then; None if there is none. `TimeoutError`."""

    def _name_of(self, function: Callable[..., Any]) -> str:
        """The job that calls this function."""
        return function.job.name if isinstance(function, JobFunction) else str(getattr(function, "__name__", ""))

    def _check_signature(self, name: str, args: Mapping[str, Any]) -> None:
        """Refuse what a handler that is known here does not take."""

    async def _stored(self, store: Store, job: str) -> JobRecord:
        return await find_job(store, job, namespace=self._namespace_of(job), known=self.jobs)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def apply(
        self, jobs: Iterable[Job], *, source: str, prune: bool = False, dry_run: bool = False, take_over: bool = False
    ) -> Applied:
        from onthedot.operations.apply import Recorded, apply_jobs  # loaded by who needs it

        given, clock, settings = list(jobs), self._store_clock(), self.settings

        async def work(store: Store) -> Applied:
            review = Recorded(self._recorder())
            return await apply_jobs(
                store,
                given,
                source=source,
                prune=prune,
                dry_run=dry_run,
                take_over=take_over,
                clock=clock,
                settings=settings,
                review=review,
            )

        return await self._on_store(work)

    async def remove(self, job: str) -> int:
        async def work(store: Store) -> int:
            record, recorder = await self._stored(store, job), self._recorder()
            cancelled = await store.delete_job(record.id)
            if recorder is not None:
                await recorder.replaced(record.job, None)
            return cancelled

        return await self._on_store(work)

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        at = None if until is None else to_micros(until)

        async def work(store: Store) -> Paused:
            paused = await store.pause_job((await self._stored(store, job)).id, reason=reason, until=at)
            await self._changed("jobs.pause", paused.record.job)
            return paused

        return await self._on_store(work)

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        if missed not in ("none", "last", "all"):
            raise DefinitionError(f"missed: expected 'none', 'last' or 'all', got {missed!r}")

        async def work(store: Store) -> Resumed:
            record, clock = await self._stored(store, job), self._store_clock()
            resumed = await resume_job(
                store, record.id, missed=missed, clock=clock, settings=self.settings, dry_run=dry_run
            )
            if not dry_run:
                await self._changed("jobs.resume", record.job)
            return resumed

        return await self._on_store(work)

    async def get_job(self, job: str) -> JobRecord | None:
        async def read(store: Store) -> JobRecord | None:
            return await store.queries.get_job(job, namespace=self._namespace_of(job))

        return await self._on_store(read)

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        async def read(store: Store) -> list[JobRecord]:
            return await store.queries.list_jobs(limit=limit)

        return await self._on_store(read)

    async def skip_next(self, job: str, *, slot: datetime | None = None, schedule: str | None = None) -> MovedSlot:
        return await self._except(job, slot, None, schedule)

    async def move_next(
        self, job: str, *, to: To, slot: datetime | None = None, schedule: str | None = None
    ) -> MovedSlot:
        return await self._except(job, slot, to, schedule)

    async def _except(self, job: str, slot: datetime | None, to: To | None, schedule: str | None) -> MovedSlot:
        trigger = manual_trigger(self._ids.token())

        async def work(store: Store) -> MovedSlot:
            record, clock = await self._stored(store, job), self._store_clock()
            done = await except_next(
                store, record.id, slot=slot, to=to, trigger=trigger, clock=clock, schedule=schedule
            )
            await self._changed("jobs.skip-next" if to is None else "jobs.move-next", record.job)
            return done

        return await self._on_store(work)

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
        from onthedot.operations.backfill import Asked as Range  # loaded by who needs it
        from onthedot.operations.backfill import backfill

        asked = Range(start, end, schedule, limit)

        async def work(store: Store) -> Backfill:
            record, clock = await self._stored(store, job), self._store_clock()
            done = await backfill(store, record, asked, dry_run=dry_run, clock=clock, events=self._events)
            if not dry_run:
                await self._changed("jobs.backfill", record.job)
            return done

        return await self._on_store(work)

    # ── asking for runs ──────────────────────────────────────────────────────────────────────────────────────

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
        wanted = self._wanted(job, args, submit_trigger(self._ids.token()), key)
        [run] = await self._ask_for([wanted], delay, expires, connection)
        return run

    async def submit_many(
        self,
        jobs: Iterable[Asked],
        *,
        delay: Duration | None = None,
        expires: Duration | None = None,
        keys: Sequence[str] = (),
        connection: Any = OUTSIDE,
    ) -> list[Run]:
        asked = list(jobs)
        if keys and len(keys) != len(asked):
            raise DefinitionError(f"keys: expected one for each of {len(asked)} runs, got {len(keys)}")
        token = self._ids.token()
        wanted = [
            self._wanted(job, None, submit_trigger(f"{token}-{number}"), keys[number] if keys else "")
            for number, job in enumerate(asked)
        ]
        return await self._ask_for(wanted, delay, expires, connection)

    async def trigger(self, job: Asked, args: Mapping[str, Any] | None = None) -> Run:
        wanted = self._wanted(job, args, manual_trigger(self._ids.token()))

        async def insert(store: Store) -> Run:
            record, recorder = await self._stored(store, wanted.job), self._recorder()
            check_arguments(record, wanted.args)
            noting = None if recorder is None else recorder.noting_run("runs.trigger", record.job)
            [run] = await self._insert(store, [wanted], {wanted.job: record}, 0, None, noting)
            return run

        return await self._on_store(insert)

    def _wanted(self, job: Asked, args: Mapping[str, Any] | None, trigger: str, key: str = "") -> Wanted:
        """Check what is asked for, before anything is written."""
        if len(key) > 200:
            raise DefinitionError(f"key: expected at most 200 characters, got {len(key)}: {key[:40]!r}…")
        if isinstance(job, BoundCall):
            if args is not None:
                raise DefinitionError(f"job {job.job!r}: expected its arguments in the call, got more beside it")
            self._check_signature(job.job, json.loads(job.args))
            return Wanted(job.job, job.args, trigger, key)
        name = job if isinstance(job, str) else self._name_of(job)
        text = None if args is None else encode_arguments(args, subject=f"job {name!r}")
        if name in self.jobs:
            self._check_signature(name, self.jobs[name].args if args is None else args)
        return Wanted(name, text, trigger, key)

    async def _ask_for(
        self,
        wanted: Sequence[Wanted],
        delay: Duration | None = None,
        expires: Duration | None = None,
        connection: Any = OUTSIDE,
    ) -> list[Run]:
        connection = given_connection(connection)
        wait = 0 if delay is None else micros(parse_duration(delay, what="delay"))
        lives = None if expires is None else micros(parse_duration(expires, what="expires"))
        batch = self.settings.batch
        some = [wanted[first : first + batch] for first in range(0, len(wanted), batch)]

        async def records_of(store: Store) -> dict[str, JobRecord]:
            found = {job: await self._stored(store, job) for job in dict.fromkeys(one.job for one in wanted)}
            for one in wanted:
                check_arguments(found[one.job], one.args)
            return found

        async def insert(store: Store) -> list[Run]:
            records = await records_of(store)
            return [run for part in some for run in await self._submit(store, part, records, wait, lives)]

        async def look(store: Store) -> tuple[Joins, dict[str, JobRecord]]:
            joins, records, recorder = joining(store), await records_of(store), self._recorder()
            if recorder is not None:
                await recorder.submit_elsewhere(_counted(wanted, records))
            return joins, records

        if connection is OUTSIDE:
            return await self._on_store(insert)
        store, records = await self._on_store(look)
        return [run for part in some for run in await self._join(store, connection, part, records, wait, lives)]

    def _new_runs(
        self, wanted: Sequence[Wanted], records: Mapping[str, JobRecord], wait: Micros, lives: Micros | None
    ) -> list[NewRun]:
        due_at = self._store_clock().now() + wait
        expires_at = None if lives is None else due_at + lives
        return [NewRun(records[one.job].id, one.trigger, due_at, one.args, one.key, expires_at) for one in wanted]

    async def _submit(
        self,
        store: Store,
        wanted: Sequence[Wanted],
        records: Mapping[str, JobRecord],
        wait: Micros,
        lives: Micros | None,
    ) -> list[Run]:
        recorder = self._recorder()
        if recorder is None:
            return await self._insert(store, wanted, records, wait, lives)
        with recorder.submitting(_counted(wanted, records)) as noting:
            return await self._insert(store, wanted, records, wait, lives, noting)

    async def _insert(
        self,
        store: Store,
        wanted: Sequence[Wanted],
        records: Mapping[str, JobRecord],
        wait: Micros,
        lives: Micros | None,
        noting: Noting | None = None,
    ) -> list[Run]:
        made = await insert_runs(store, self._new_runs(wanted, records, wait, lives), noting=noting)
        return [
            Run(run_id, job=one.job, created=created, verbs=self)
            for (run_id, created), one in zip(made, wanted, strict=True)
        ]

    async def _join(
        self,
        store: Joins,
        connection: Any,
        wanted: Sequence[Wanted],
        records: Mapping[str, JobRecord],
        wait: Micros,
        lives: Micros | None,
    ) -> list[Run]:
        """On the loop that this is called on, which is the connection's, and not on the engine's."""
        blocks = store.blocks(connection)
        jobs = [records[job] for job in {one.job for one in wanted}]
        work = store.submit_within(connection, self._new_runs(wanted, records, wait, lives), jobs)
        joined = await wait_for(work, blocks=blocks)
        return [
            Run(one.id, job=asked.job, created=one.created, verbs=self)
            for one, asked in zip(joined, wanted, strict=True)
        ]

    async def retry_run(self, run_id: Run | int, *, from_step: str | None = None) -> Run:
        from onthedot.operations.rerun import rerun  # loaded by who needs it

        token = self._ids.token()

        async def work(store: Store) -> tuple[int, str]:
            made, job = await rerun(store, _known(run_id), from_step, token=token, now=self._store_clock().now())
            run = await store.queries.get_run(run_number(run_id))
            await self._changed("runs.retry", run or f"run/{run_number(run_id)}", after={"run_id": made})
            return made, job

        made, job = await self._on_store(work)
        return Run(made, job=job, created=True, verbs=self)

    # ── runs that exist ──────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, run_id: Run | int, *, why: str = "cancelled") -> CancelAnswer:
        async def work(store: Store) -> CancelAnswer:
            [answer] = await store.cancel([stored_number(run_number(run_id))], why=why)
            if answer.kind in ("cancelled", "asked"):
                run = await store.queries.get_run(run_number(run_id))
                await self._changed("runs.cancel", run or f"run/{run_number(run_id)}")
            return answer

        return await self._on_store(work)

    async def get_run(self, run_id: Run | int) -> RunRecord | None:
        async def read(store: Store) -> RunRecord | None:
            return await store.queries.get_run(stored_number(run_number(run_id)))

        return await self._on_store(read)

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
        wanted = RunFilter(
            namespaces=(self._namespace_of(job or ""),),
            job=job,
            states=None if states is None else frozenset(states),
            owner=owner,
            queue=queue,
            label=label,
            node=node,
            since=None if since is None else to_micros(read_instant(since, what="since")),
            until=None if until is None else to_micros(read_instant(until, what="until")),
        )
        return await self._on_store(lambda store: all_runs(store.queries, wanted, limit))

    async def list_skips(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[SkipRecord]:
        namespace, most = self._namespace_of(job or ""), None if limit is None else max(0, limit)
        first = None if since is None else to_micros(read_instant(since, what="since"))
        end = None if until is None else to_micros(read_instant(until, what="until"))
        return await self._on_store(
            lambda store: store.queries.list_skips(job=job, namespace=namespace, since=first, until=end, limit=most)
        )

    async def history(self, run_id: Run | int) -> list[AttemptRecord]:
        async def read(store: Store) -> list[AttemptRecord]:
            return await store.queries.list_attempts(stored_number(run_number(run_id)))

        return await self._on_store(read)

    async def result(self, run_id: Run | int, *, timeout: Duration | None = None) -> Json:
        seconds = None if timeout is None else micros(parse_duration(timeout, what="timeout")) / SECOND
        number = _known(run_id)
        run = await self._wait_for(number, seconds)
        if run is None:
            raise _no_run(number)
        if run.state is not RunState.SUCCEEDED:
            raise RunFailed(run.id, state=run.state.value, reason=run.reason, error=run.error)
        return None if run.result is None else json.loads(run.result)

    # ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────

    async def dead_letters(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 10_000,
    ) -> list[DeadLetters]:
        from onthedot.operations.dead_letters import Box, group_letters  # loaded by who needs it

        box = Box(job, self._namespace_of(job or ""), None, since, until, limit)
        return await self._on_store(lambda store: group_letters(store, box))

    async def dead_runs(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        from onthedot.operations.dead_letters import Box, find_letters

        box = Box(job, self._namespace_of(job or ""), fingerprint, since, until, limit)
        return await self._on_store(lambda store: find_letters(store, box))

    async def replay(self, run_id: Run | int) -> Run:
        from onthedot.operations.dead_letters import replay

        async def work(store: Store) -> tuple[RunRecord, int, bool]:
            letter, new_id, made = await replay(store, _known(run_id), clock=self._store_clock())
            if made:
                await self._changed("letters.replay", letter, after={"run_id": new_id})
            return letter, new_id, made

        letter, new_id, made = await self._on_store(work)
        return Run(new_id, job=letter.job, created=made, verbs=self)

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
        from onthedot.operations.dead_letters import Box, replay_many

        box = Box(job, self._namespace_of(job or ""), fingerprint, since, until, limit)

        async def work(store: Store) -> Replayed:
            clock = self._store_clock()
            done = await replay_many(store, box, rate=rate, dry_run=dry_run, clock=clock, events=self._events)
            if done.run_ids:
                told = {"run_ids": list(done.run_ids[:100]), "runs": len(done.run_ids)}
                place = f"namespace/{box.namespace}"
                await self._changed("letters.replay", place, after=told, namespace=box.namespace)
            return done

        return await self._on_store(work)

    async def discard(self, run_ids: Run | int | Iterable[Run | int], *, why: str = "") -> int:
        from onthedot.operations.dead_letters import discard

        ids = [run_number(one) for one in ([run_ids] if isinstance(run_ids, int | Run) else run_ids)]

        async def work(store: Store) -> int:
            done, recorder = await discard(store, ids, why=why), self._recorder()
            if recorder is not None:
                await recorder.all_changed("letters.discard", await store.queries.get_runs(done), after={"why": why})
            return len(done)

        return await self._on_store(work)

    # ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        return await self._on_store(lambda store: store.queries.list_nodes(limit=limit))

    async def drain_node(self, node: str, *, draining: bool = True) -> int:
        async def work(store: Store) -> int:
            count = await store.drain(node, draining=draining)
            if count:
                await self._changed("nodes.drain" if draining else "nodes.undrain", f"node/{node}")
            return count

        return await self._on_store(work)

    async def list_terms(self) -> list[Term]:
        return await self._on_store(lambda store: store.queries.list_terms())

    async def set_shards(self, shards: int) -> Layout:
        async def work(store: Store) -> Layout:
            layout = await store.set_shards(shards)
            await self._changed("shards.set", f"layout/{layout.version}", after={"shards": layout.shards})
            return layout

        return await self._on_store(work)

    async def list_queues(self) -> list[Queue]:
        return await self._on_store(lambda store: store.queries.list_queues())

    async def pause_queue(self, queue: str, *, reason: str = "") -> Queue:
        return await self._queue_changed("pause", lambda store: store.pause_queue(queue, reason=reason))

    async def resume_queue(self, queue: str) -> Queue:
        return await self._queue_changed("resume", lambda store: store.resume_queue(queue))

    async def share_queue(self, queue: str, weights: Mapping[str, int] | None) -> Queue:
        return await self._queue_changed("share", lambda store: store.share_queue(queue, weights))

    async def _queue_changed(self, what: str, change: Callable[[Store], Coroutine[Any, Any, Queue]]) -> Queue:
        async def work(store: Store) -> Queue:
            queue = await change(store)
            await self._changed(f"queues.{what}", f"queue/{queue.name}")
            return queue

        return await self._on_store(work)


def _counted(wanted: Sequence[Wanted], records: Mapping[str, JobRecord]) -> Counted:
    """How many runs of which jobs."""
    if len(wanted) == 1:  # nearly always, and on the way of every submit
        record = records[wanted[0].job]
        return {record.id: (record.job, 1)}
    counts = Counter(one.job for one in wanted)
    return {records[job].id: (records[job].job, count) for job, count in counts.items()}


def _known(run_id: Run | int) -> int:
    """A run's number; `UnknownRun` for one that no store can hold."""
    number = run_number(run_id)
    if not stored_number(number):
        raise _no_run(number)
    return number


def _no_run(number: int) -> UnknownRun:
    return UnknownRun(f"there is no run {number}: expected one that was submitted and not forgotten since")


# ── in a transaction of the caller ───────────────────────────────────────────────────────────────────────────


def joining(store: object) -> Joins:
    """The store, if it can; `DefinitionError` if it cannot."""
    if isinstance(store, Joins):
        return store
    raise DefinitionError(
        "connection: expected a store that can take part in a transaction of yours (PostgreSQL), got one that cannot; "
        "leave 'connection' out, and submit when your transaction is committed"
    )


async def wait_for(work: Coroutine[Any, Any, T], *, blocks: bool) -> T:
    """What comes of it: here, or if it blocks on a thread of its own, so that this loop goes on.

    A thread of its own, not one of a pool: somebody may wait there for as long as another's transaction is open, and
    that one must find a thread to end it. Cancelled, it ends first: nobody else may use the connection before."""
    if not blocks:
        return await work
    answer: Future[T] = Future()

    def go() -> None:
        try:
            answer.set_result(run_now(work))
        except BaseException as error:  # noqa: BLE001 - raised to who waits
            answer.set_exception(error)

    threading.Thread(target=go, name="onthedot submit", daemon=True).start()
    waiting = asyncio.wrap_future(answer)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait([waiting])  # a cancel ends the wait alone
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        waiting.exception()  # nobody asks for it any more
        raise cancelled
    return waiting.result()
