"""The store over a SQL database: every operation of the protocol (`stores/protocol.py`) is one move."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from onthedot.clock import Clock, Micros
from onthedot.model.retention import Cut, Mark, Pruned
from onthedot.model.run import ArmAnswer, Armed, GateAsk, Lease, NewRun
from onthedot.model.verdict import Finish
from onthedot.stores.documents import Noting, check_noting
from onthedot.stores.queries import Queries
from onthedot.stores.sql import (
    after,
    arm,
    checkpoints,
    control,
    documents,
    find,
    finish,
    gates,
    history,
    jobs,
    nodes,
    plan,
    prune,
    queues,
    reap,
    reserve,
    submit,
    terms,
)
from onthedot.stores.sql.port import Database, Move, Now
from onthedot.stores.values import About, Beat, Node

T = TypeVar("T")
P = ParamSpec("P")

Method = Callable[Concatenate["_Part", P], Coroutine[Any, Any, T]]
"""A method of the store. It has its move's signature, which is also the protocol's."""

Access = Literal["write", "write_long", "look", "read", "read_short"]
"""The method of `Database` that runs a move."""


def run(access: Access, move: Move[P, T]) -> Method[P, T]:
    """Return a method that runs one move in its own transaction."""

    @wraps(move)
    async def method(store: _Part, /, *args: P.args, **named: P.kwargs) -> T:
        answer: T = await getattr(store.database, access)(move, *args, **named)
        return answer

    return method


class _Part:
    """A part of the store: its methods run moves on the database."""

    def __init__(self, database: Database) -> None:
        self.database = database


class SqlQueries(_Part, Queries):
    """See `stores.queries.Queries`."""

    scan_jobs = run("read", find.scan_jobs)
    scan_live = run("read", find.scan_live)
    scan_ended = run("read", find.scan_ended)
    scan_attempts = run("read", find.scan_attempts)
    scan_skips = run("read", find.scan_skips)
    list_revisions = run("read", find.list_revisions)
    get_jobs_by_id = run("read", find.get_jobs_by_id)
    get_job = run("read", jobs.get_job)
    schedules_of = run("read", jobs.schedules_of)
    parents_of = run("read", after.parents_of)
    due_resumes = run("look", control.due_resumes)
    next_schedules = run("read", plan.next_schedules)
    zoned_schedules = run("look", plan.zoned_schedules)
    get_run = run("read", history.get_run)
    get_runs = run("read", history.get_runs)
    runs_of_slots = run("read", history.runs_of_slots)
    list_attempts = run("read", history.list_attempts)
    get_checkpoint = run("read_short", checkpoints.get_checkpoint)
    list_logs = run("read_short", checkpoints.list_logs)
    count_runs = run("read", history.count_runs)
    count_owned = run("read", history.count_owned)
    list_dead = run("read", history.list_dead)
    why_waiting = run("read", history.why_waiting)
    list_queues = run("read", queues.list_queues)
    list_unassigned = run("look", queues.list_unassigned)
    count_loads = run("look", queues.count_loads)
    count_held = run("read", history.count_held)
    list_nodes = run("read_short", nodes.list_nodes)
    get_layout = run("look", terms.get_layout)
    list_terms = run("read_short", terms.list_terms)
    find_crowded = run("read", prune.find_crowded)
    list_daily_counts = run("read", prune.list_daily_counts)


class SqlDocuments(_Part):
    """See `stores.documents.Documents`."""

    get_document = run("read_short", documents.get_document)
    put_document = run("write", documents.put_document)
    list_documents = run("read_short", documents.list_documents)
    delete_document = run("write", documents.delete_document)
    append_documents = run("write", documents.append_documents)
    list_appended = run("read_short", documents.list_appended)


class SqlStore(_Part):
    """See `stores.protocol.Store`. Each operation is one move, with the move's own signature.

    The methods have the protocol's order. A method with the name of its module comes last, because it hides the module.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.hints = database.hints
        self.any_loop = database.any_loop
        self.queries = SqlQueries(database)
        self.documents = SqlDocuments(database)

    # jobs
    put_job = run("write_long", jobs.put_job)
    delete_job = run("write_long", control.delete_job)
    pause_job = run("write_long", control.pause_job)
    resume_job = run("write_long", control.resume_job)
    move_slot = run("write_long", control.move_slot)
    cancel = run("write_long", control.cancel)

    # plan
    due_schedules = run("look", plan.due_schedules)
    assign = run("write", queues.assign)
    replan = run("write", plan.replan)
    plan = run("write", plan.plan)

    # runs
    async def submit(self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Now = None) -> list[int]:
        check_noting(noting, runs)
        if noting is None and all(run.is_new and not run.key for run in runs):
            ids = await self.database.submit_new(runs, now)
            if ids is not None:
                return ids
        return await self.database.write_many(len(runs), submit.submit, runs, noting=noting, now=now)

    release = run("write", reserve.release)
    recover = run("write", reserve.recover)
    reserve = run("write", reserve.reserve)

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Now = None
    ) -> list[ArmAnswer]:
        answers = await self.database.write(arm.arm, leases, gates=gates, now=now)
        for lease, answer in zip(leases, answers, strict=True):
            if isinstance(answer, Armed):  # history records the holder's copy of the lease
                lease.fence, lease.armed_at = answer.fence, answer.armed_at
        return answers

    async def finish(self, finishes: Sequence[Finish], *, now: Now = None) -> list[bool]:
        del now  # the worker's own instants are recorded
        finish.check_moves(one.verdict for one in finishes)
        simple = finish.plain_ones(finishes)
        accepted = await self.database.finish_plain(simple) if simple else frozenset()
        rest = [one for one in finishes if one.lease.lease_id not in accepted]
        answers = iter(await self.database.write(finish.finish, rest) if rest else ())
        return [one.lease.lease_id in accepted or next(answers) for one in finishes]

    # checkpoints and notes
    checkpoint = run("write", checkpoints.checkpoint)
    note = run("write", checkpoints.note)

    # nodes and terms
    async def register(self, node: Node, *, ttl: Micros, now: Now = None) -> Beat:
        self.database.know_lease(ttl)
        return await self.database.write(nodes.register, node, ttl=ttl, now=now)

    beat = run("write", nodes.beat)
    leave = run("write", nodes.leave)
    drain = run("write", nodes.drain)
    probe = run("write", nodes.probe)
    campaign = run("write", terms.campaign)
    renew = run("write", terms.renew)
    resign = run("write", terms.resign)

    # upkeep
    async def orphans(self, *, limit: int, now: Now = None) -> list[Lease]:
        if not await self.database.look(reap.has_dead, now=now):
            return []
        return await self.database.write(reap.orphans, limit=limit, now=now)

    reap = run("write", reap.reap)
    recount_gates = run("write_long", gates.recount_gates)
    expire = run("write_long", prune.expire)

    settle_dead = run("write_long", history.settle_dead)

    async def prune_runs(self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Now = None) -> Pruned:
        pruned = await self.database.write_long(prune.prune_runs, cut, after=after, limit=limit, now=now)
        if not pruned.more and cut.job_id is None:
            await self.database.drop_room(cut.until.ended_at)
        return pruned

    prune_skips = run("write_long", prune.prune_skips)
    prune_nodes = run("write_long", prune.prune_nodes)

    # queues and shards
    pause_queue = run("write_long", queues.pause_queue)
    resume_queue = run("write_long", queues.resume_queue)
    share_queue = run("write_long", queues.share_queue)
    set_shards = run("write", terms.set_shards)

    # the database
    async def about(self) -> About:
        return await self.database.about()

    @property
    def clock(self) -> Clock | None:
        return self.database.clock

    async def tell_time(self) -> Micros:
        return await self.database.tell_time()

    async def close(self) -> None:
        await self.database.close()
